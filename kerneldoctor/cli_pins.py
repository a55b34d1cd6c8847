"""The command that searches a code base for pins: parse, call the API, render, exit. No logic."""

from __future__ import annotations

from typing import Any

import click

from .cli_hub import changes_of, deliver, machine_options, progress, said_of, workload_options


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--require-commit", is_flag=True, help="A branch, a version or a bare name counts as a finding.")
@click.option("--offline", is_flag=True, help="Ask nobody: the bundled index and the local cache only.")
@click.option("--lenient", is_flag=True, help="What cannot be told does not count: exit code 0 instead of 3.")
@click.option(
    "--timeout", type=click.FloatRange(0.1, 600), default=20.0, show_default=True,
    help="Seconds for asking the Hub about one repository.",
)  # fmt: skip
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
@click.option("--verbose", "-v", is_flag=True, help="List every place, also those that are fine or were not read.")
@workload_options
@machine_options
def pins(
    paths: tuple[str, ...], require_commit: bool, offline: bool, lenient: bool, timeout: float,
    folders: tuple[str, ...], verbose: bool, **options: Any,
) -> int:  # fmt: skip
    """Find the kernels that a code base asks for, and say which of them have no build or a known fault.

    PATH is a file or a folder. Read are attn_implementation and get_kernel and the like in Python and notebooks,
    settings in YAML, JSON and TOML, options in shell commands, kernels.lock, pyproject.toml and kerneldoctor.lock.
    Files that git ignores, vendored folders and links are passed over. Nothing is run or imported.

    \b
    Exit code 0: nothing to mend.
    1: a pin has no build for the machine asked about, is known to fail there, is no
       reference at all, or is no commit where --require-commit asks for one.
    2: wrong use.
    3: of a pin it cannot be told (a fact is missing, the Hub did not answer).
    """
    from . import api_hub, api_pins
    from .report.pins import render, to_json

    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    report = api_pins.find_pins(
        paths, environment=environment, changes=changes_of(options), rules=folders,
        asking=api_hub.Asking("index" if offline else "auto", timeout, progress),
        workload=api_hub.workload_of(
            options["training"], options["heads"], options["kv_heads"], options["head_dim"], options["dtype"]
        ),
        demands=api_pins.Demands(require_commit, lenient),
    )  # fmt: skip
    said = said_of(options, identity, address)
    deliver(options, said, lambda: to_json(report), lambda page: render(report, page, verbose))
    return report.exit_code
