"""The command that finds the pin which works here: parse, call the API, render, exit. No logic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from . import cli_hub, cli_reports, cli_try, terminal
from .errors import UsageError

if TYPE_CHECKING:
    from .address import Address
    from .api_recommend import Recommendation, Written
    from .report.checks import Checks
    from .report.redact import Identity

_WRITE = click.option(
    "--write", "lock", is_flag=False, flag_value="kerneldoctor.lock", metavar="[FILE]",
    help="Keep what was chosen in a lock file, kerneldoctor.lock by default; entries for other environments stay.",
)  # fmt: skip
_HOW_FAR = cli_reports.option_group(
    click.option("--device", default="auto", show_default=True, metavar="DEVICE", help="auto, cpu, cuda, N, or all."),
    click.option(
        "--trust-remote-code", "trust", multiple=True, metavar="REPO",
        help="Run this repository's code although the Hub does not mark its publisher as trusted.",
    ),
    click.option("--no-run", is_flag=True, help="Predict only. What is said then is untested."),
    click.option("--try-all", is_flag=True, help="Run every version that has a build, also what rules rule out."),
    click.option("--no-alternatives", is_flag=True, help="Look at no other repository where nothing asked for passes."),
)  # fmt: skip


@click.command()
@click.argument("reference", required=False)
@_HOW_FAR
@_WRITE
@cli_try.CASES
@cli_try.BOUNDS
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
@click.option("--verbose", "-v", is_flag=True, help="Show what failed, and what every source said.")
@cli_hub.facts_options
@cli_reports.report_options
def recommend(reference: str | None, lock: str | None, **options: Any) -> int:
    """Find the version of a kernel to pin here: run those that fit, from the newest on, until one passes.

    REFERENCE is owner/name[@revision] or flash_attention_2, which it is by default. Training is what is asked for,
    unless --inference says otherwise. With --env or a what-if (--torch, --gpu, ...) nothing is run.

    \b
    Exit code 0: a pin that passed here; with --no-run one that should.
    1: nothing passed and nothing else is left: what torch brings (sdpa) is what remains.
    2: wrong use.
    3: that could not be told: nothing could be run here.
    """
    from . import api_hub, api_recommend

    if reference is None and lock is not None and "/" in lock and not lock.endswith((".lock", ".json")):
        raise UsageError(f"--write took {lock} for its file: put --write last, or write --write=FILE")
    if lock is not None:
        api_recommend.check_lock(lock)
    changes = cli_hub.changes_of(options)
    elsewhere = bool(changes) or options["env"] is not None
    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    found = api_recommend.recommend(
        reference, python=options["python"], environment=environment, changes=changes, device=options["device"],
        cases=cli_try.cases_of(options), trust_remote_code=options["trust"], bounds=cli_try.bounds_of(options),
        rules=options["folders"], listener=cli_try.listener_on_stderr(),
        doing=api_recommend.Doing(
            not options["no_run"] and not elsewhere, not options["no_alternatives"], options["try_all"]
        ),
    )  # fmt: skip
    cli_try.clear_line()
    written = api_recommend.write(found, lock) if lock is not None else None
    _deliver(found, written, options, identity, address)
    return found.exit_code


def _deliver(
    found: Recommendation, lock: Written | None, options: dict[str, Any], identity: Identity, address: Address
) -> None:
    """The result in the formats asked for, to the files asked for or stdout."""
    from .report.layout import Page
    from .report.recommendation import render, to_json
    from .report.redact import redact_json

    said = cli_hub.said_of(options, identity, address)
    result = cli_reports.Result(
        lambda color: render(found, Page(terminal.width(), color, said), lock, options["verbose"]),
        lambda: redact_json(to_json(found, lock), said),
        lambda: _checks(found, lock, options, identity, address),
    )
    cli_reports.deliver(result, options["form"], options["reports"], options["output"], options["no_color"])


def _checks(
    found: Recommendation, lock: Written | None, options: dict[str, Any], identity: Identity, address: Address
) -> Checks:
    import datetime

    from . import __version__
    from .api import list_rules
    from .report.recommendation_checks import of_recommendation
    from .report.redact import redact_value

    today = datetime.date.today().isoformat()
    checks = of_recommendation(found, __version__, today, list_rules(options["folders"]), lock, address.commands)
    return checks if options["no_redact"] else redact_value(checks, identity)
