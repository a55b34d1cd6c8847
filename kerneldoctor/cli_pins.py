"""The command that searches a code base for pins: parse, call the API, render, exit. No logic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import cli_reports, terminal
from .cli_hub import changes_of, facts_options, progress, said_of, workload_options
from .cli_numbers import Finite

if TYPE_CHECKING:
    from .pins.verdict import PinReport
    from .report.checks import Checks
    from .report.redact import Identity


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--require-commit", is_flag=True, help="A branch, a version or a bare name counts as a finding.")
@click.option("--offline", is_flag=True, help="Ask nobody: the bundled index and the local cache only.")
@click.option("--lenient", is_flag=True, help="What cannot be told does not count: exit code 0 instead of 3.")
@click.option(
    "--timeout", type=Finite(0.1, 600), default=20.0, show_default=True,
    help="Seconds for asking the Hub about one repository.",
)  # fmt: skip
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
@click.option("--verbose", "-v", is_flag=True, help="List every place, also those that are fine or were not read.")
@workload_options
@facts_options
@cli_reports.report_options
def pins(
    paths: tuple[str, ...], require_commit: bool, offline: bool, lenient: bool, timeout: float,
    folders: tuple[str, ...], verbose: bool, **options: Any,
) -> int:  # fmt: skip
    """Find the kernels that a code base asks for, and say which of them have no build or a known fault.

    PATH is a file or a folder; without it, this folder. Read are attn_implementation and get_kernel and the like in
    Python and notebooks, settings in YAML, JSON and TOML, options in shell commands, kernels.lock, pyproject.toml and
    kerneldoctor.lock.
    Files that git ignores, vendored folders and links are passed over. Nothing is run or imported.

    \b
    Exit code 0: nothing to mend.
    1: a pin has no build for the machine asked about, or a build that is known to
       fail there; it is not on the Hub, or kernels or transformers would refuse the
       call (no version, a publisher that is not trusted); it is no reference at all,
       a lock that cannot be read, or no commit where --require-commit asks for one.
    2: wrong use.
    3: of a pin it cannot be told (a fact is missing, the Hub did not answer), or a
       file that names a kernel could not be read.
    """
    from . import api_hub, api_pins
    from .report.layout import Page
    from .report.pins import render, to_json
    from .report.redact import redact_json

    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    report = api_pins.find_pins(
        paths or (".",), environment=environment, changes=changes_of(options), rules=folders,
        asking=api_hub.Asking("index" if offline else "auto", timeout, progress),
        workload=api_hub.workload_of(
            options["training"], options["heads"], options["kv_heads"], options["head_dim"], options["dtype"]
        ),
        demands=api_pins.Demands(require_commit, lenient),
    )  # fmt: skip
    said = said_of(options, identity, address)
    result = cli_reports.Result(
        lambda color: render(report, Page(terminal.width(), color, said), verbose),
        lambda: redact_json(to_json(report), said),
        lambda: _checks(report, folders, options["no_redact"], identity),
    )
    cli_reports.deliver(result, options["form"], options["reports"], options["output"], options["no_color"])
    return report.exit_code


def _checks(report: PinReport, folders: tuple[str, ...], secrets: bool, identity: Identity) -> Checks:
    from .api import list_rules
    from .report.pins import checks
    from .report.redact import redact_value

    found = checks(report, list_rules(folders))
    return found if secrets else redact_value(found, identity)
