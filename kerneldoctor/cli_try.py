"""The commands that run a kernel: parse, call the API, render, exit. No logic, nothing heavy imported beforehand."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from . import cli_reports, terminal
from .cli_numbers import GIB, SECONDS, SEED
from .cli_reports import option_group
from .errors import UsageError

if TYPE_CHECKING:
    from .api_try import Bounds, Cases, Listener
    from .hub.issues import KnownIssue
    from .report.checks import Checks
    from .report.redact import Identity
    from .smoke.runner import Progress
    from .smoke.through.order import Through
    from .smoke.trial import Trial

_FORMAT = click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)


_WHAT = option_group(
    click.argument("reference", required=False),
    click.option("--local", metavar="DIR", help="A kernel on disk: a repository, its build folder, or one build."),
    click.option("--module", metavar="NAME", help="An installed package, such as flash_attn."),
    click.option("--python", metavar="PATH", help="The interpreter that has torch and kernels; ours by default."),
    click.option("--device", default="auto", show_default=True, metavar="DEVICE", help="auto, cpu, cuda, N, or all."),
    click.option(
        "--trust-remote-code", "trust", multiple=True, metavar="REPO",
        help="Run this repository's code although the Hub does not mark its publisher as trusted.",
    ),
    click.option("--verify", is_flag=True, help="Demand a signature by a publisher that kernels trusts."),
    click.option(
        "--through", "library", type=click.Choice(["transformers", "trl"]),
        help="Let this library load it into a small random model, and hold that to sdpa and eager.",
    ),
    click.option("--compile", "compiled", is_flag=True, help="Through transformers: under torch.compile as well."),
)  # fmt: skip
CASES = option_group(
    click.option("--cases", "case_set", type=click.Choice(["quick", "full"]), help="Which cases; quick by default."),
    click.option("--case", "only", multiple=True, metavar="ID", help="Only this case. Can be given several times."),
    click.option("--seed", type=SEED, default=0, show_default=True, help="Of the random inputs."),
    click.option("--inference", is_flag=True, help="Leave the backward out; the pin says so."),
    click.option("--model", metavar="NAME", help="Cases of this model: a config.json, its folder, or a Hub name."),
    click.option("--heads", type=click.IntRange(1, 1024), help="Query heads of the workload."),
    click.option("--kv-heads", type=click.IntRange(1, 1024), help="Key and value heads; as many as query heads."),
    click.option("--head-dim", type=click.IntRange(1, 1024), help="Of the workload; 128."),
    click.option("--dtype", type=click.Choice(["bfloat16", "float16"]), help="Of the workload; bfloat16."),
)
BOUNDS = option_group(
    click.option("--timeout", type=SECONDS, default=120.0, show_default=True, help="Seconds for one case."),
    click.option(
        "--total-timeout", type=SECONDS, default=1200.0, show_default=True, help="Seconds for all, per device."
    ),
    click.option("--memory", type=GIB, metavar="GIB", help="Of the host; most of what is free."),
)
_REST = option_group(
    click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules."),
    click.option("--verbose", "-v", is_flag=True, help="Show what failed cases said, and every note."),
    click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same."),
    click.option("--no-redact", is_flag=True, help="Keep user and host names, home paths and secrets."),
    cli_reports.report_options,
)


@click.command(name="try")
@_WHAT
@CASES
@BOUNDS
@_REST
def try_(reference: str | None, local: str | None, module: str | None, python: str | None, **options: Any) -> int:
    """Run a kernel forward and backward in a process that may die, and say whether it is right.

    REFERENCE is owner/name[@revision] or flash_attention_2. Exit code 0: it passed; 1: it did not; 3: that could not be
    told (no torch, no GPU, the Hub not reachable, no contract for such a kernel).
    """
    from . import api_hub, api_try

    environment, identity = api_hub.look(None, python)
    with said_when_interrupted():
        trial = api_try.try_kernel(
            reference, local=local, module=module, python=python, device=options["device"], cases=cases_of(options),
            through=_through_of(options),
            trust_remote_code=options["trust"], verify=options["verify"], bounds=bounds_of(options),
            rules=options["folders"], listener=listener_on_stderr(), environment=environment,
        )  # fmt: skip
    clear_line()
    _deliver(trial, options, identity)
    return trial.exit_code


@click.command()
@click.argument("name", required=False)
@_FORMAT
def contracts(name: str | None, form: str) -> int:
    """List the contracts: the kinds of kernels that can be judged, and what each must export.

    With NAME, the name of a contract or of what it exports, also every case.
    """
    from . import api_try
    from .report.contracts import render, to_json
    from .report.text import json_text

    known = api_try.list_contracts(name)
    whole = name is not None
    text = json_text(to_json(known, whole)) if form == "json" else render(known, terminal.width(), whole)
    terminal.deliver(text, None)
    return 0


@contextlib.contextmanager
def said_when_interrupted() -> Iterator[None]:
    """A run that is broken off says so in a line of its own, and not on top of the one that shows where it is."""
    try:
        yield
    except KeyboardInterrupt:
        clear_line()
        click.echo("interrupted", err=True)
        raise


def cases_of(options: dict[str, Any]) -> Cases:
    """The cases that the options name. Raises UsageError for options that contradict each other."""
    from .api_try import Cases

    workload = {name: options[name] for name in ("heads", "kv_heads", "head_dim", "dtype")}
    if options["case_set"] and (options["model"] or any(workload.values())):
        raise UsageError("--cases names a set, a workload (--model, --heads, …) its own: give one of the two")
    return Cases(
        options["case_set"], options["only"], options["seed"], not options["inference"], options["model"],
        {name: value for name, value in workload.items() if value is not None},
    )  # fmt: skip


def _through_of(options: dict[str, Any]) -> Through | None:
    """The library that the options name. Raises UsageError for a flag that needs one."""
    from .smoke.through.order import Through

    if options["compiled"] and options["library"] != "transformers":
        raise UsageError("--compile goes with --through transformers")
    flags = frozenset({"compile"} if options["compiled"] else ())
    return Through(options["library"], flags) if options["library"] else None


def bounds_of(options: dict[str, Any]) -> Bounds:
    """The limits that the options name."""
    from .api_try import Bounds

    memory = options["memory"]
    return Bounds(
        case=options["timeout"], load=options["timeout"] + 180, total=options["total_timeout"],
        memory=None if memory is None else int(memory * 2**30),
    )  # fmt: skip


def listener_on_stderr() -> Listener:
    """Told of what happens, on stderr: what rules know always, what passes only where a person looks on."""
    from .api_try import Listener

    return Listener(_step, _known, _progress) if sys.stderr.isatty() else Listener(known=_known)


def _known(issues: Sequence[KnownIssue]) -> None:
    from .report.reasons import issue_text
    from .report.text import printable

    clear_line()
    for issue in issues:
        click.echo(printable(f"known of this build: {issue_text(issue)}"), err=True)


def _step(text: str) -> None:
    from .report.text import printable

    clear_line()
    click.echo(f"{printable(text)[: terminal.width() - 5]} ...", err=True, nl=False)


def _progress(seen: Progress) -> None:
    from .report.text import printable
    from .report.trial import progress_text

    text = progress_text(seen.device, seen.number, seen.of, seen.case, seen.stage, seen.seconds)
    click.echo(f"\r\x1b[K{printable(text)[: terminal.width() - 1]}", err=True, nl=False)


def clear_line() -> None:
    """Take the line that passes off the terminal."""
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def _deliver(trial: Trial, options: dict[str, Any], identity: Identity) -> None:
    """The result in the formats asked for, to the files asked for or stdout."""
    from .report.layout import Page
    from .report.redact import Redactor, redact_json
    from .report.trial import render, to_json

    redactor = None if options["no_redact"] else Redactor(identity)
    result = cli_reports.Result(
        lambda color: render(trial, Page(terminal.width(), color, redactor), options["verbose"]),
        lambda: to_json(trial) if redactor is None else redact_json(to_json(trial), redactor),
        lambda: _checks(trial, options["folders"], None if redactor is None else identity),
    )
    cli_reports.deliver(result, options["form"], options["reports"], options["output"], options["no_color"])


def _checks(trial: Trial, folders: Sequence[str], identity: Identity | None) -> Checks:
    import datetime

    from . import __version__
    from .api import list_rules
    from .report.redact import redact_value
    from .report.trial_checks import of_trial

    checks = of_trial(trial, __version__, datetime.date.today().isoformat(), list_rules(folders))
    return checks if identity is None else redact_value(checks, identity)
