"""The commands: parse, call the API, render, exit. No logic, and nothing heavy is imported before a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click

from . import __version__, cli_hub, cli_try
from .errors import KerneldoctorError, UndeterminedError, UsageError

if TYPE_CHECKING:
    from .api_hub import Unanswered
    from .hub.answer import Answer
    from .report.layout import Page
    from .report.model import FailOn, Report

PROGRAM = "kerneldoctor"
ISSUES = "the project's issue tracker"
_RULES = click.option(
    "--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules. Can be given several times."
)
_OUTPUT = click.option("--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all.")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, invoke_without_command=True
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tells whether this machine can run this GPU kernel, and what to do where it cannot."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@cli.command()
@click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)
@_OUTPUT
@click.option("--env", metavar="FILE", help="Judge saved facts or a saved report instead of this machine; - for stdin.")
@click.option("--python", metavar="PATH", help="Look at the environment of another interpreter.")
@click.option("--deep", is_flag=True, help="Also import torch and flash-attn, in a child process (up to 90 s).")
@click.option("--capture", metavar="FILE", help="Also write everything that was seen, to attach to a bug report.")
@click.option("--replay", metavar="FILE", help="Look at a captured machine.")
@click.option("--kernel", "kernels", multiple=True, metavar="REF", help="Also say which build of a Hub kernel loads.")
@_RULES
@click.option("--ignore", multiple=True, metavar="ID=REASON[;until=DATE]", help="Live with a finding, for a reason.")
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info", "never"]),
    default="error",
    show_default=True,
    help="The mildest confirmed finding that makes the exit code 1.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show every fact, and all that is not determined.")
@click.option("--quiet", "-q", is_flag=True, help="Show the verdict and the titles of findings only.")
@click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same.")
@click.option("--no-redact", is_flag=True, help="Keep user and host names, home paths and secrets in the output.")
def scan(
    form: str,
    output: str | None,
    env: str | None,
    python: str | None,
    deep: bool,
    capture: str | None,
    replay: str | None,
    kernels: tuple[str, ...],
    folders: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: FailOn,
    verbose: bool,
    quiet: bool,
    no_color: bool,
    no_redact: bool,
) -> int:
    """Look at this machine: state the facts, name the known faults, say what to do."""
    from . import api
    from .report.model import exit_code

    if deep and not quiet and sys.stderr.isatty():
        click.echo("importing torch and flash-attn in a child process, up to 90 s ...", err=True)
    report = api.scan(
        python=python, deep=deep, env=env, capture=capture, replay=replay, rules=folders, ignore=ignore,
        redact=not no_redact,
    )  # fmt: skip
    answers: Sequence[Answer | Unanswered] = ()
    if kernels or (api.usual_kernels(report.environment) and not quiet):  # else the Hub room is not even imported
        from .api_hub import kernels_of_scan

        answers = kernels_of_scan(kernels, report.environment, folders)
    if form == "json":
        text = _json(report, answers)
    else:
        may_color = output is None and not no_color
        text = _console(report, may_color, verbose, quiet)
        text += cli_hub.kernels_text(answers, _page(may_color)) if answers else ""
    _deliver(text, output)
    return int(exit_code(report.summary, fail_on))


@cli.command()
@click.argument("rule")
@click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)
@_RULES
@_OUTPUT
def explain(rule: str, form: str, folders: tuple[str, ...], output: str | None) -> int:
    """Show a rule with its conditions, remedies and evidence. RULE is an id, a name or an alias."""
    from . import api
    from .report.explain import rule_json, rule_page
    from .report.text import json_text

    found = api.find_rule(rule, folders)
    _deliver(json_text(rule_json(found)) if form == "json" else rule_page(found, _width()), output)
    return 0


@cli.command()
@click.option("--check", metavar="DIR", help="Validate a folder of rules instead of listing.")
@click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)
@_RULES
@_OUTPUT
def rules(check: str | None, form: str, folders: tuple[str, ...], output: str | None) -> int:
    """List the rules, or validate a folder of them."""
    from . import api
    from .report.explain import rule_json, rule_list
    from .report.text import json_text, plural

    if check is not None:
        result = api.check_rules(check)
        if form == "json":
            _deliver(json_text({"folder": check, "rules": result.rules, "complaints": result.complaints}), output)
        else:
            fine = f"{plural(result.rules, 'rule')} checked, nothing to mend"
            _deliver("\n".join(result.complaints or (fine,)) + "\n", output)
        return 2 if result.complaints else 0
    found = api.list_rules(folders)
    _deliver(json_text([rule_json(rule) for rule in found]) if form == "json" else rule_list(found), output)
    return 0


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the script that completes our commands in a shell: eval "$(kerneldoctor completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
    return 0


for _command in (cli_try.try_, cli_hub.variants, cli_hub.resolve, cli_hub.index, cli_try.contracts):
    cli.add_command(_command)


def _json(report: Report, kernels: Sequence[Answer | Unanswered]) -> str:
    from .report.text import json_text

    return json_text({**report.to_json(), "kernels": cli_hub.kernels_json(kernels) if kernels else []})


def _console(report: Report, may_color: bool, verbose: bool, quiet: bool) -> str:
    from .report.console import Style, render

    return render(report, Style(_width(), may_color and not _dull(), verbose, quiet))


def _page(may_color: bool) -> Page:
    from .report.layout import Page

    return Page(_width(), may_color and not _dull())


def _dull() -> bool:
    """Whether nobody would see colours."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((80, 24)).columns


def _deliver(text: str, output: str | None) -> None:
    """To the file that was asked for, else to stdout."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    from .api import write_text

    write_text(output, text)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The process: every ending becomes an exit code, and one line on stderr where it is not a result."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        # A name that the locale cannot write must not turn a report into a crash.
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        result = cli.main(arguments, prog_name=PROGRAM, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except UndeterminedError as error:
        return _complain(str(error), 3)
    except KerneldoctorError as error:
        return _complain(str(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        # The reader has gone; closing stdout at exit must not fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:  # noqa: BLE001 - the outermost frame: our own bug must end in one line that helps
        if os.environ.get("KERNELDOCTOR_DEBUG") == "1":
            import traceback

            traceback.print_exc()
        return _complain(
            f"internal error ({type(error).__name__}: {error}): please report it to {ISSUES} with the output of the "
            f"same command under KERNELDOCTOR_DEBUG=1 and the file of `{PROGRAM} scan --capture FILE`",
            4,
        )


def _complain(message: str, code: int) -> int:
    from .report.text import printable

    sys.stderr.write(f"{PROGRAM}: {printable(message.strip())}\n")
    return code
