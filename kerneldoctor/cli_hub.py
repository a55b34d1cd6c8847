"""The commands about Hub kernels: parse, call the API, render, exit. No logic, nothing heavy imported beforehand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from . import terminal
from .cli_numbers import Finite
from .errors import KerneldoctorError

if TYPE_CHECKING:
    from .address import Address
    from .api_hub import Unanswered
    from .hub.answer import Answer
    from .hub.whatif import Changes
    from .report.checks import Check, Section
    from .report.layout import Page
    from .report.redact import Identity

Command = Callable[..., Any]
_FORMAT = click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)
_OUTPUT = click.option(
    "--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all; - for stdout."
)
_RULES = click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
_TIMEOUT = click.option(
    "--timeout", type=Finite(0.1, 600), default=20.0, show_default=True, help="Seconds for asking the Hub."
)


def facts_options(command: Command) -> Command:
    """The options that say whose facts are judged, and with which changes."""
    for option in reversed(
        (
            click.option("--env", metavar="FILE", help="Judge saved facts or a saved report; - for stdin."),
            click.option("--python", metavar="PATH", help="Look at the environment of another interpreter."),
            click.option("--torch", metavar="RELEASE", help="What if: 2.13, or 2.13.0+cu130."),
            click.option(
                "--cuda", metavar="RELEASE", help="What if torch were built for 12.8 (cpu, rocm6.4, xpu2025.3)."
            ),
            click.option("--gpu", multiple=True, metavar="GPU", help='What if: "RTX 5090", sm_120, 12.0, or none.'),
            click.option("--kernels", metavar="RELEASE", help="What if: another kernels release."),
            click.option("--transformers", metavar="RELEASE", help="What if: another transformers release."),
            click.option("--platform", metavar="NAME", help="What if: aarch64-linux, x86_64-windows."),
            click.option("--python-version", metavar="RELEASE", help="What if: 3.12, 3.13t."),
            click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same."),
            click.option("--no-redact", is_flag=True, help="Keep user and host names, home paths and secrets."),
        )
    ):
        command = option(command)
    return command


def machine_options(command: Command) -> Command:
    """The same, with where the result goes."""
    return facts_options(_FORMAT(_OUTPUT(command)))


def workload_options(command: Command) -> Command:
    """What the kernel is for, in the words of `try`: settles the known faults that hang on it."""
    for option in reversed(
        (
            click.option("--training/--inference", default=None, help="Whether a backward pass is wanted."),
            click.option("--heads", type=click.IntRange(1, 1024), help="Query heads of the workload."),
            click.option(
                "--kv-heads", type=click.IntRange(1, 1024), help="Key and value heads; as many as query heads."
            ),
            click.option("--head-dim", type=click.IntRange(1, 1024), help="Of the workload."),
            click.option("--dtype", type=click.Choice(["bfloat16", "float16"]), help="Of the workload."),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("reference")
@click.option("--all", "--verbose", "-v", "show_all", is_flag=True, help="List every build, also for other platforms.")
@click.option(
    "--source", type=click.Choice(["auto", "live", "cache", "index"]), default="auto", show_default=True,
    help="Where the listing comes from; auto asks the Hub and falls back to the index.",
)  # fmt: skip
@_TIMEOUT
@click.option("--find-env", is_flag=True, help="Find the smallest changes that would give a usable build.")
@workload_options
@_RULES
@machine_options
def variants(
    reference: str,
    show_all: bool,
    source: str,
    timeout: float,
    find_env: bool,
    folders: tuple[str, ...],
    **options: Any,
) -> int:
    """Show the builds of a kernel: which would load here, why not the others, and what to pin.

    REFERENCE is owner/name[@revision], flash_attention_2, or a page of the Hub. Nothing is run: `kerneldoctor try` does
    that.

    \b
    Exit code 0: the version asked for (any, where none was) has a build that
       get_kernel would load. A known fault that hangs on what the kernel is for is
       named, and counts once --training, --heads, ... decide it. Where transformers
       would load no kernel from the Hub, the headline says so.
    1: it has no such build, or would load one that is known to fail here; it would
       not be loaded (offline and not in the cache, a publisher that kernels must be
       told to trust); or transformers would raise for flash_attention_2.
    2: wrong use, or a repository or revision that the Hub says is not there.
    3: that cannot be told: a fact, the whole listing or the metadata of the build is
       missing, or the Hub refuses to show the repository.
    """
    from . import api_hub
    from .report.variants import to_json
    from .report.variants_page import render

    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    answer = api_hub.variants(
        reference, environment=environment, changes=changes_of(options), find_env=find_env, rules=folders,
        asking=api_hub.Asking(source, timeout, progress),  # type: ignore[arg-type]
        workload=api_hub.workload_of(
            options["training"], options["heads"], options["kv_heads"], options["head_dim"], options["dtype"]
        ),
    )  # fmt: skip
    code = {True: 0, False: 1, None: 3}[answer.usable]
    deliver(
        options,
        said_of(options, identity, address),
        lambda: to_json(answer),
        lambda page: render(answer, page, show_all),
    )
    return code


@click.command()
@click.argument("name")
@machine_options
def resolve(name: str, **options: Any) -> int:
    """Say what a kernel's name means for the installed transformers, step by step.

    NAME is flash_attention_2, owner/name[@revision], or a page of the Hub. Whether there is a build for this machine is
    the question of `kerneldoctor variants`.

    \b
    Exit code 0: transformers would go and load what it means.
    1: transformers would raise.
    2: wrong use.
    3: that cannot be told: no transformers is installed, or a fact is missing.
    """
    from . import api_hub
    from .report.naming import render, to_json

    environment, identity, address = api_hub.look_from_shell(options["env"], options["python"])
    meant, notes = api_hub.resolve(name, environment=environment, changes=changes_of(options))
    code = {True: 0, False: 1, None: 3}[meant.works]
    deliver(
        options,
        said_of(options, identity, address),
        lambda: to_json(meant, notes),
        lambda page: render(meant, notes, page),
    )
    return code


@click.group()
def index() -> None:
    """The listings of kernels for machines that cannot ask the Hub."""


@index.command()
@click.argument("repositories", nargs=-1, required=True, metavar="REPO...")
@_TIMEOUT
def refresh(repositories: tuple[str, ...], timeout: float) -> int:
    """Take entries of the index from the live Hub."""
    from . import api_hub
    from .report.redact import Redactor
    from .report.text import plural, printable

    said, failed = Redactor(api_hub.identity_here()), 0
    for repo in repositories:
        try:
            listing, path = api_hub.refresh_index(repo, api_hub.Asking("live", timeout, progress))
        except KerneldoctorError as error:
            failed = max(failed, _exit_code(error))
            click.echo(f"kerneldoctor: {printable(said(str(error)))}", err=True)
            continue
        builds = sum(len(version.builds) for version in listing.versions)
        line = f"{listing.repo}: {plural(len(listing.versions), 'version')}, {plural(builds, 'build')} -> {path}"
        click.echo(said(line))
    return failed


@index.command()
@click.argument("repositories", nargs=-1, metavar="[REPO]...")
@_FORMAT
def show(repositories: tuple[str, ...], form: str) -> int:
    """List what the index knows, how, and of what day."""
    from . import api_hub
    from .report.index import render, to_json
    from .report.layout import Page
    from .report.text import json_text

    found = api_hub.read_index(repositories)
    text = json_text(to_json(found)) if form == "json" else render(found, Page(terminal.width()), bool(repositories))
    terminal.deliver(text, None)
    return 0


def kernels_text(kernels: Sequence[Answer | Unanswered], page: Page) -> str:
    """The part of a scan's page that is about kernels."""
    from .hub.answer import Answer
    from .report.variants_page import render_brief

    for kernel in kernels:
        if isinstance(kernel, Answer):
            render_brief(kernel, page)
        else:
            page.line()
            page.paragraph(f"{kernel.reference}  ", kernel.why)
    return page.text()


def kernels_json(kernels: Sequence[Answer | Unanswered]) -> list[dict[str, Any]]:
    """The part of a scan's JSON that is about kernels."""
    from .hub.answer import Answer
    from .report.variants import to_json

    return [
        to_json(kernel)
        if isinstance(kernel, Answer)
        else {"reference": kernel.reference, "usable": kernel.loads, "error": kernel.why}
        for kernel in kernels
    ]


def kernels_section(kernels: Sequence[Answer | Unanswered]) -> Section:
    """The part about kernels of a scan in the formats for CI and for pasting."""
    from .hub.answer import Answer
    from .report.kernels_section import kernels_section as section

    return section(kernel if isinstance(kernel, Answer) else (kernel.reference, kernel.why) for kernel in kernels)


def kernels_checks(kernels: Sequence[Answer | Unanswered], decisive: bool) -> tuple[Check, ...]:
    """The kernels that were named, as checks of a scan."""
    from .api_hub import would_load
    from .hub.answer import Answer
    from .report.kernels_section import kernel_check
    from .report.loading import verdict_line

    return tuple(
        kernel_check(str(k.meaning.reference), would_load(k), verdict_line(k), decisive)
        if isinstance(k, Answer)
        else kernel_check(k.reference, would_load(k), k.why, decisive)
        for k in kernels
    )


def changes_of(options: dict[str, Any]) -> Changes:
    """The what-if of the options."""
    from .hub.whatif import Changes

    return Changes(
        options["torch"], options["cuda"], options["gpu"], options["kernels"], options["transformers"],
        options["platform"], options["python_version"],
    )  # fmt: skip


def said_of(options: dict[str, Any], identity: Identity, address: Address) -> Callable[[str], str]:
    """What every text goes through: commands reach the environment that was looked at, and nobody is named."""
    from .report.redact import Redactor

    if options["no_redact"]:
        return address.commands
    redactor = Redactor(identity)
    return lambda text: redactor(address.commands(text))


def deliver(
    options: dict[str, Any], said: Callable[[str], str], document: Callable[[], Any], page: Callable[[Page], str]
) -> None:
    """The result in the format asked for, to the file asked for or stdout."""
    from .report.layout import Page
    from .report.redact import redact_json
    from .report.text import json_text

    if options["form"] == "json":
        text = json_text(redact_json(document(), said))
    else:
        color = terminal.may_color(options["no_color"], options["output"])
        text = page(Page(terminal.width(), color, said))
    terminal.deliver(text, options["output"])


def progress(text: str) -> None:
    """What is being asked, for a person who waits."""
    if sys.stderr.isatty():
        click.echo(f"{text} ...", err=True)


def _exit_code(error: KerneldoctorError) -> int:
    from .errors import UndeterminedError

    return 3 if isinstance(error, UndeterminedError) else 2
