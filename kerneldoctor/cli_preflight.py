"""The command of CI and job starts: parse, call the API, render, exit. No logic, nothing heavy imported beforehand."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from . import cli_reports, terminal
from .cli_numbers import SECONDS
from .cli_reports import option_group
from .errors import UsageError

if TYPE_CHECKING:
    from .api_preflight import Preflight
    from .report.checks import Checks

_MINIMUM = re.compile(r"([\w.-]+)\s*>?=\s*([^\s=<>~!]+)")  # "torch=2.10", or as in requirements, "torch>=2.10"


_POLICY = option_group(
    click.option("--config", metavar="FILE", help="A policy; else kerneldoctor.toml or pyproject.toml, here or above."),
    click.option("--kernel", "kernels", multiple=True, metavar="REF", help="A kernel that the job loads."),
    click.option("--lock", metavar="FILE", help="The lock that kernels are held to; kerneldoctor.lock where it is."),
    click.option("--run", type=click.Choice(["scan", "variants", "smoke"]), help="How far to go; smoke runs kernels."),
    click.option("--no-run", is_flag=True, help="Run no kernel: the same as --run variants."),
    click.option(
        "--fail-on", type=click.Choice(["error", "warning", "info", "never"]), help="The mildest finding that fails."
    ),
    click.option("--ignore", multiple=True, metavar="ID=REASON[;until=DATE]", help="Live with a finding."),
    click.option("--allowed-publisher", "publishers", multiple=True, metavar="NAME", help="Whose kernels may load."),
    click.option("--minimum", multiple=True, metavar="NAME=RELEASE", help="torch=2.10, driver=580, or any package."),
    click.option("--require-gpu", metavar="NAME", help='Part of the name of every GPU, "H100".'),
    click.option("--require-capability", metavar="RANGE", help='Of every GPU, ">=9.0".'),
    click.option("--timeout", type=SECONDS, metavar="SECONDS", help="For everything; 600."),
    click.option(
        "--trust-remote-code", "trust", multiple=True, metavar="REPO",
        help="Run this repository's code although the Hub does not mark its publisher as trusted.",
    ),
)  # fmt: skip
_WORKLOAD = option_group(
    click.option("--training/--inference", "training", default=None, help="Whether a backward pass is wanted."),
    click.option("--model", metavar="NAME", help="A config.json, its folder, or a Hub name: heads and sizes."),
    click.option("--heads", type=click.IntRange(1, 1024), help="Query heads of the workload."),
    click.option("--kv-heads", type=click.IntRange(1, 1024), help="Key and value heads; as many as query heads."),
    click.option("--head-dim", type=click.IntRange(1, 1024), help="Of the workload; 128."),
    click.option("--dtype", type=click.Choice(["bfloat16", "float16"]), help="Of the workload; bfloat16."),
)
_MACHINE = option_group(
    click.option("--python", metavar="PATH", help="The interpreter of the job; ours by default."),
    click.option("--env", metavar="FILE", help="Judge saved facts or a saved report; - for stdin. Runs nothing."),
    click.option(
        "--device", metavar="DEVICE", help="auto (under a launcher the GPU of LOCAL_RANK), cpu, cuda, N, all."
    ),
    click.option("--offline", is_flag=True, help="As a job with HF_HUB_OFFLINE=1 would find it."),
    click.option("--rules", multiple=True, metavar="DIR", help="A folder of more rules."),
    click.option("--verbose", "-v", is_flag=True, help="Show every check, and the ranks one by one."),
    click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same."),
    click.option("--no-redact", is_flag=True, help="Keep user and host names, home paths and secrets."),
)


@click.command()
@click.argument("references", nargs=-1, metavar="[REF]...")
@_POLICY
@_WORKLOAD
@_MACHINE
@cli_reports.report_options
def preflight(config: str | None, env: str | None, **options: Any) -> int:
    """Hold this machine, and every rank of a job, to a policy before the job starts. REF is the same as --kernel REF.

    The policy is [tool.kerneldoctor] of pyproject.toml or kerneldoctor.toml; flags win. Under torchrun, accelerate
    launch, srun or mpirun every rank looks at its own GPU, rank 0 prints one report, and all end with the same code.

    \b
    Exit code 0: ready. 1: a finding at or above --fail-on, a kernel that fails, a rank
       that died.
    2: wrong use, a mistake in the policy.
    3: something that the policy asks for could not be told, or a rank was not heard in
       time.
    """
    from . import api_preflight
    from .preflight.policy import Around
    from .preflight.reading import read_policy

    if options["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"  # before anything reads it; for what we start as well
    policy = read_policy(config, _flags(options))
    launched = api_preflight.is_launched()
    if launched:
        _on_signals(lambda number, frame: None)
    step = _step if sys.stderr.isatty() else lambda text: None
    around = Around(env, not options["no_redact"], None, step, _warn)
    code = api_preflight.run_preflight(policy, around, lambda found: _deliver(found, options))
    if launched:
        _on_signals(signal.SIG_IGN)  # a handler of ours would not hold while Python ends
    return code


def _on_signals(handler: Any) -> None:
    """A launcher ends the other ranks as soon as one has failed: that must not change the code that all agreed on.

    While the ranks meet, signals are heard there, and hurry the report.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, under the keys of a policy."""
    trust = set(options["trust"])
    if options["no_run"] and options["run"] not in (None, "variants"):
        raise UsageError(f"--no-run and --run {options['run']} contradict each other")
    named = (*options["references"], *options["kernels"])
    kernels = [{"reference": ref, "trust-remote-code": ref.partition("@")[0] in trust} for ref in named]
    workload = {
        key: options[key.replace("-", "_")] for key in ("training", "model", "heads", "kv-heads", "head-dim", "dtype")
    }
    gpu = {"name": options["require_gpu"], "compute-capability": options["require_capability"]}
    given = {
        "kernels": kernels, "lock": options["lock"], "run": "variants" if options["no_run"] else options["run"],
        "fail-on": options["fail_on"], "ignore": _ignores(options["ignore"]),
        "allowed-publishers": list(options["publishers"]), "timeout": options["timeout"],
        "minimum": _minimum(options["minimum"]), "python": options["python"], "device": options["device"],
        "rules": list(options["rules"]), "workload": _given(workload), "required-gpu": _given(gpu),
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None and value != [] and value != {}}


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _ignores(values: tuple[str, ...]) -> list[Any]:
    from .api import parse_ignore

    return [parse_ignore(value) for value in values]


def _minimum(values: tuple[str, ...]) -> dict[str, str]:
    found = {value: _MINIMUM.fullmatch(value.strip()) for value in values}
    for value, match in found.items():
        if match is None:
            raise UsageError(f"--minimum {value}: NAME=RELEASE is expected, as in torch=2.10")
    return {match[1]: match[2] for match in found.values() if match is not None}


def _step(text: str) -> None:
    from .report.text import printable

    click.echo(f"\r\x1b[K{printable(text)[: terminal.width() - 5]} ...", err=True, nl=False)


def _warn(text: str) -> None:
    terminal.write_error(f"kerneldoctor: {text}\n")


def _deliver(found: Preflight, options: dict[str, Any]) -> None:
    from .report.preflight import to_json

    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    result = cli_reports.Result(
        console=lambda color: _console(found.checks, color, options["verbose"]),
        document=lambda: to_json(found.checks, found.about),
        checks=lambda: found.checks,
    )
    cli_reports.deliver(result, options["form"], options["reports"], options["output"], options["no_color"])


def _console(checks: Checks, color: bool, verbose: bool) -> str:
    from .report.layout import Page
    from .report.preflight import render

    return render(checks, Page(terminal.width(), color), verbose)
