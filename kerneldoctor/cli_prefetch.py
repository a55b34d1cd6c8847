"""The command that brings builds for machines without network: parse, call the API, render, exit. No logic."""

from __future__ import annotations

import sys
from typing import Any

import click

from .cli_hub import changes_of, deliver, machine_options, said_of
from .cli_numbers import SECONDS, Finite


@click.command()
@click.argument("references", nargs=-1, metavar="[REF]...")
@click.option("--to", metavar="DIR", help="Fill this folder, to carry it away; by default the cache of this machine.")
@click.option(
    "--lock", metavar="FILE", help="Also bring what a kerneldoctor.lock pins for this environment, by its digests."
)
@click.option(
    "--build-only", is_flag=True, help="Only the one build, however large the rest is; found through LOCAL_KERNELS."
)
@click.option("--timeout", type=Finite(0.1, 600), default=20.0, show_default=True, help="Seconds for a question.")
@click.option(
    "--fetch-timeout", type=SECONDS, default=3600.0, show_default=True,
    help="Seconds for the bytes of one kernel. What has arrived is kept: the next run goes on from there.",
)  # fmt: skip
@machine_options
def prefetch(
    references: tuple[str, ...], to: str | None, lock: str | None, build_only: bool, timeout: float,
    fetch_timeout: float, **options: Any,
) -> int:  # fmt: skip
    """Bring the builds that a job would load to where it finds them offline, and print what its environment must say.

    One fetch for a cluster, instead of one for each rank. From huggingface_hub 1.22 on a snapshot that is not whole is
    refused offline, so that the whole one is brought, unless --build-only asks for the one build. Files are held to
    the digests in metadata.json. Nothing is called loading offline that was not looked at: by the rules, and by the
    kernels library of --python (by default ours) where it is installed.

    \b
    Exit code 0: everything that was asked for loads offline.
    1: there is no build, no room, or what was fetched is not usable.
    2: wrong use, or a repository or revision that the Hub says is not there.
    3: the Hub did not answer, or whether it loads offline cannot be told.
    """
    from . import api_hub, api_prefetch
    from .report.prefetch import render, to_json

    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    if options["env"] is not None and to is None:
        to = api_prefetch.usual_cache()
    cargo = api_prefetch.prefetch(
        references, environment=environment, changes=changes_of(options), cache=to, lock=lock, build_only=build_only,
        python=api_prefetch.asked_python(environment, options["env"], changes_of(options)),
        patience=api_prefetch.Patience(timeout, fetch_timeout, _progress),
    )  # fmt: skip
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)
    deliver(options, said_of(options, identity, address), lambda: to_json(cargo), lambda page: render(cargo, page))
    return cargo.exit_code


def _progress(text: str) -> None:
    """What is being done, on one line that passes, for a person who waits."""
    if sys.stderr.isatty():
        from . import terminal
        from .report.text import printable

        click.echo(f"\r\x1b[K{printable(text)[: terminal.width() - 5]} ...", err=True, nl=False)
