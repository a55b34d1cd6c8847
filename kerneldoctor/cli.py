"""The commands: parse, call the API, render, exit. No logic, and nothing heavy is imported before a command runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from . import (
    __version__,
    cli_compare,
    cli_diagnose,
    cli_diff,
    cli_example,
    cli_hub,
    cli_pins,
    cli_prefetch,
    cli_preflight,
    cli_recommend,
    cli_reports,
    cli_try,
    terminal,
)
from .errors import KerneldoctorError, UndeterminedError, UsageError

if TYPE_CHECKING:
    from .api_hub import Unanswered
    from .hub.answer import Answer
    from .report.checks import Checks
    from .report.layout import Page
    from .report.model import FailOn, Report

PROGRAM = "kerneldoctor"
ISSUES = "the project's issue tracker"
_RULES = click.option(
    "--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules. Can be given several times."
)
_OUTPUT = click.option(
    "--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all; - for stdout."
)


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
@cli_reports.report_options
@click.option("--env", metavar="FILE", help="Judge saved facts or a saved report instead of this machine; - for stdin.")
@click.option("--python", metavar="PATH", help="Look at the environment of another interpreter.")
@click.option(
    "--deep",
    is_flag=True,
    help="Also import torch and flash-attn and run one GPU kernel, in a child process (up to 90 s).",
)
@click.option("--capture", metavar="FILE", help="Also write everything that was seen, to attach to a bug report.")
@click.option("--replay", metavar="FILE", help="Look at a captured machine.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="REF",
    help="Also say which build of a Hub kernel loads; one that would not counts as an error.",
)
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
    reports: tuple[cli_reports.Wanted, ...],
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
        click.echo("importing torch and flash-attn, running one GPU kernel, up to 90 s ...", err=True)
    report = api.scan(
        python=python, deep=deep, env=env, capture=capture, replay=replay, rules=folders, ignore=ignore,
        redact=not no_redact,
    )  # fmt: skip
    answers: Sequence[Answer | Unanswered] = ()
    if kernels or (api.usual_kernels(report.environment) and not quiet):  # else the Hub room is not even imported
        from .api_hub import kernels_of_scan, with_kernels

        answers = kernels_of_scan(kernels, report.environment, folders)
        if kernels:  # a kernel that was named counts
            report = with_kernels(report, answers)
    result = cli_reports.Result(
        lambda color: _console(report, answers, color, verbose, quiet),
        lambda: _document(report, answers),
        lambda: _checks(report, answers, fail_on, folders),
    )
    cli_reports.deliver(result, form, reports, output, no_color)
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
    terminal.deliver(json_text(rule_json(found)) if form == "json" else rule_page(found, terminal.width()), output)
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
            terminal.deliver(
                json_text({"folder": check, "rules": result.rules, "complaints": result.complaints}), output
            )
        else:
            fine = f"{plural(result.rules, 'rule')} checked, nothing to mend"
            terminal.deliver("\n".join(result.complaints or (fine,)) + "\n", output)
        return 2 if result.complaints else 0
    found = api.list_rules(folders)
    terminal.deliver(json_text([rule_json(rule) for rule in found]) if form == "json" else rule_list(found), output)
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
cli.add_command(cli_compare.compare)
cli.add_command(cli_diagnose.diagnose)
cli.add_command(cli_recommend.recommend)
cli.add_command(cli_pins.pins)
cli.add_command(cli_example.example)
cli.add_command(cli_diff.diff)
cli.add_command(cli_prefetch.prefetch)
cli.add_command(cli_preflight.preflight)


def _document(report: Report, kernels: Sequence[Answer | Unanswered]) -> dict[str, Any]:
    return {**report.to_json(), "kernels": cli_hub.kernels_json(kernels) if kernels else []}


def _console(report: Report, kernels: Sequence[Answer | Unanswered], color: bool, verbose: bool, quiet: bool) -> str:
    from .report.console import Style, render

    page = render(report, Style(terminal.width(), color, verbose, quiet))
    return page + (cli_hub.kernels_text(kernels, _page(color)) if kernels else "")


def _checks(report: Report, kernels: Sequence[Answer | Unanswered], fail_on: FailOn, folders: Sequence[str]) -> Checks:
    from .api import list_rules
    from .report.checks import of_report

    sections = (cli_hub.kernels_section(kernels),) if kernels else ()
    named = cli_hub.kernels_checks(kernels, fail_on != "never") if report.summary.kernels_named else ()
    return of_report(report, fail_on, list_rules(folders), sections, named)


def _page(color: bool) -> Page:
    from .report.layout import Page

    return Page(terminal.width(), color)


class _Signalled(BaseException):
    """SIGTERM or SIGHUP, as an exception: what was started is ended on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The process: every ending becomes an exit code, and one line on stderr where it is not a result."""
    code = 4
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    finally:
        _end_children()
    if arguments is None:
        _leave_the_hub(code)
    sys.exit(code)


def _run(arguments: Sequence[str]) -> int:
    terminal.prepare()
    secret = "--no-redact" not in arguments
    try:
        _listen_to_signals()
        result = cli.main(list(arguments), prog_name=PROGRAM, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        return _complain(error.format_message(), 2, secret)
    except UndeterminedError as error:
        return _complain(str(error), 3, secret)
    except KerneldoctorError as error:
        return _complain(str(error), 2, secret)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except _Signalled as signalled:
        return 128 + signalled.number
    except BrokenPipeError:
        terminal.give_up_stdout()  # the reader has gone
        return 141
    except Exception as error:  # noqa: BLE001 - the outermost frame: our own bug must end in one line that helps
        if isinstance(error, OSError) and terminal.is_full(error):
            terminal.give_up_stdout()
            return _complain(f"cannot write the result to standard output: {error.strerror}", 2, secret)
        return _own_bug(error, secret)


def _own_bug(error: Exception, secret: bool) -> int:
    if os.environ.get("KERNELDOCTOR_DEBUG") == "1":
        import traceback

        terminal.write_error(_redacted("".join(traceback.format_exception(error)), secret))
    return _complain(
        f"internal error ({type(error).__name__}: {error}): please report it to {ISSUES} with the output of the "
        f"same command under KERNELDOCTOR_DEBUG=1 and the file of `{PROGRAM} scan --capture FILE`",
        4,
        secret,
    )


def _complain(message: str, code: int, secret: bool) -> int:
    terminal.write_error(f"{PROGRAM}: {_redacted(message.strip(), secret)}\n")
    return code


def _redacted(text: str, secret: bool) -> str:
    """A message as it may be pasted: it names paths, and people in them, as reports do."""
    if not secret:
        return text
    from .api import find_identity
    from .host import RealHost
    from .report.redact import Redactor

    return Redactor(find_identity(RealHost()))(text)


def _listen_to_signals() -> None:
    """Turn what would end us at once into an exception, unless somebody listens already or it is ignored (nohup)."""
    import signal
    import threading

    ours = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() == ours:
            raise _Signalled(number)
        signal.signal(number, signal.SIG_DFL)  # a process forked from this one has nothing to clean up
        os.kill(os.getpid(), number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, stop)


def _leave_the_hub(code: int) -> None:
    """End at once where a question to the Hub was left behind: Python would wait for the threads of its client."""
    import threading

    if any(thread.name.startswith("hub-") for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        os._exit(code)


def _end_children() -> None:
    """Kill the programs that still run: probes that nobody waited for, or all when we are interrupted."""
    if f"{__package__}.processes" in sys.modules:
        from .processes import end_commands

        end_commands(for_good=True)
