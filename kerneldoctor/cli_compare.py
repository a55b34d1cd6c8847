"""The command that measures implementations side by side: parse, call the API, render, exit. No logic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from . import cli_reports, terminal
from .cli_numbers import GIB, SECONDS
from .cli_reports import option_group
from .cli_try import bounds_of, clear_line, listener_on_stderr
from .errors import UsageError

if TYPE_CHECKING:
    from .api_compare import Measures
    from .compare.model import Comparison
    from .report.checks import Checks
    from .report.redact import Identity

_BUILT_IN = ("eager", "sdpa", "sdpa-flash", "sdpa-cudnn", "sdpa-efficient", "sdpa-math", "flex")
_WHAT = option_group(
    click.argument("references", nargs=-1, metavar="[REFERENCE]..."),
    click.option("--local", multiple=True, metavar="DIR", help="A kernel on disk. Can be given several times."),
    click.option(
        "--built-in", "built_in", multiple=True, type=click.Choice(_BUILT_IN),
        help="Which of torch's own; all that there are by default. Can be given several times.",
    ),
    click.option("--python", metavar="PATH", help="The interpreter that has torch and kernels; ours by default."),
    click.option("--device", default="auto", show_default=True, metavar="DEVICE", help="auto, cpu, cuda, or N."),
    click.option(
        "--trust-remote-code", "trust", multiple=True, metavar="REPO",
        help="Run this repository's code although the Hub does not mark its publisher as trusted.",
    ),
)  # fmt: skip
_WORKLOAD = option_group(
    click.option("--lengths", metavar="N,N,…", help="Tokens of a sequence; 1k,2k,4k,8k,16k on a GPU."),
    click.option("--batch", type=click.IntRange(1, 4096), help="Sequences in a batch; 8 on a GPU."),
    click.option("--model", metavar="NAME", help="Shapes of this model: a config.json, its folder, or a Hub name."),
    click.option("--heads", type=click.IntRange(1, 1024), help="Query heads; 32 on a GPU."),
    click.option("--kv-heads", type=click.IntRange(1, 1024), help="Key and value heads; 8, or as many as --heads."),
    click.option("--head-dim", type=click.IntRange(1, 1024), help="128 on a GPU."),
    click.option("--dtype", type=click.Choice(["bfloat16", "float16"]), help="bfloat16."),
    click.option("--causal/--no-causal", default=True, show_default=True, help="Whether a token sees those after it."),
    click.option("--inference", is_flag=True, help="The forward alone."),
    click.option(
        "--repeats", type=click.IntRange(1, 100), default=2, show_default=True, help="Rounds over all of them."
    ),
)
_BOUNDS = option_group(
    click.option("--timeout", type=SECONDS, default=120.0, show_default=True, help="Seconds for one length."),
    click.option("--total-timeout", type=SECONDS, default=3600.0, show_default=True, help="Seconds for everything."),
    click.option("--memory", type=GIB, metavar="GIB", help="Of the host; most of what is free."),
)
_REST = option_group(
    click.option("--chart", metavar="FILE", help="Draw time and memory against length: FILE.png or FILE.svg."),
    click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules."),
    click.option("--verbose", "-v", is_flag=True, help="Every table, with spreads."),
    click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same."),
    click.option("--no-redact", is_flag=True, help="Keep user and host names, home paths and secrets."),
    cli_reports.report_options,
)


@click.command()
@_WHAT
@_WORKLOAD
@_BOUNDS
@_REST
def compare(references: tuple[str, ...], local: tuple[str, ...], python: str | None, **options: Any) -> int:
    """Measure attention side by side: torch's own, flash-attn where it is installed, and Hub kernels.

    REFERENCE is owner/name[@revision] or flash_attention_2, which is also taken when none is named. Each is checked
    before it is timed, and runs in a process that may die.

    \b
    Exit code 0: measured. 1: one that was named is wrong or failed. 2: wrong use.
    3: nothing could be measured, or one that was named could not be had.
    """
    from . import api_compare, api_hub

    if options["chart"]:
        _check_chart(options["chart"])
    environment, identity = api_hub.look(None, python)
    found = api_compare.compare_kernels(
        references, local=local, python=python, device=options["device"], measures=_measures(options),
        trust_remote_code=options["trust"], bounds=bounds_of(options), rules=options["folders"],
        listener=listener_on_stderr(), environment=environment,
    )  # fmt: skip
    clear_line()
    if not options["no_redact"]:
        found = _redacted(found, identity)
    if options["chart"]:
        _draw(found, options["chart"])
    _deliver(found, options)
    return found.exit_code


def _measures(options: dict[str, Any]) -> Measures:
    from .api_compare import Measures
    from .compare.workload import parse_lengths

    shape = {name: options[name] for name in ("batch", "heads", "kv_heads", "head_dim", "dtype")}
    return Measures(
        {name: value for name, value in shape.items() if value is not None},
        parse_lengths(options["lengths"]) if options["lengths"] is not None else None,
        options["causal"], not options["inference"], options["model"], options["repeats"], options["built_in"],
    )  # fmt: skip


def _check_chart(path: str) -> None:
    """Before anything is measured, which takes minutes."""
    from .report import chart

    if not path.lower().endswith((".png", ".svg")):
        raise UsageError(f"--chart {path}: a chart is written as .png or .svg")
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise UsageError(f"--chart {path}: there is no folder to write it to")
    if not chart.is_available():
        raise UsageError(f"--chart {path}: {chart.HOW_TO_GET}")


def _draw(found: Comparison, path: str) -> None:
    from .files import write_bytes
    from .report import chart

    write_bytes(path, chart.png(found) if path.lower().endswith(".png") else chart.svg(found).encode())


def _redacted(found: Comparison, identity: Identity) -> Comparison:
    """As a whole, before it is drawn: marks of what was taken out would break a drawing."""
    from .report.redact import redact_value

    return redact_value(found, identity)


def _deliver(found: Comparison, options: dict[str, Any]) -> None:
    """The result in the formats asked for, to the files asked for or stdout."""
    from .report.compare import render, to_json
    from .report.layout import Page

    result = cli_reports.Result(
        lambda color: render(found, Page(terminal.width(), color), options["verbose"]),
        lambda: to_json(found),
        lambda: _checks(found),
    )
    cli_reports.deliver(result, options["form"], options["reports"], options["output"], options["no_color"])


def _checks(found: Comparison) -> Checks:
    import datetime

    from . import __version__
    from .report import chart
    from .report.compare_checks import of_comparison

    figure = chart.inline_svg(found) if chart.is_available() else ""
    return of_comparison(found, __version__, datetime.date.today().isoformat(), figure)
