"""The formats of a result on the command line: the options, and the files and streams that it goes to. No logic."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from . import terminal
from .errors import UndeterminedError, UsageError

if TYPE_CHECKING:
    from .report.checks import Checks

Command = Callable[..., Any]
FORMATS = ("console", "json", "markdown", "html", "github", "sarif", "junit")


class Wanted(NamedTuple):
    """A file that a format is to be written to."""

    form: str
    path: str


class Result(NamedTuple):
    """A result that can be had in every format; each is made when it is asked for, and redacted by its maker."""

    console: Callable[[bool], str]  # whether colours are wanted
    document: Callable[[], Any]  # for JSON
    checks: Callable[[], Checks]  # for the rest


def option_group(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which the help lists them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def report_options(command: Command) -> Command:
    """--format, --report and --output; `deliver` takes their values.

    Where the command ends because nothing could be determined, the files say so: CI looks for them then as well.
    """

    @functools.wraps(command)
    def reporting(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except UndeterminedError as error:
            _deliver_trouble(str(error), options)
            raise

    return _OPTIONS(reporting)


def deliver(result: Result, form: str, reports: Sequence[Wanted], output: str | None, no_color: bool) -> None:
    """The files first: they are there whatever becomes of stdout. Raises UsageError for what cannot be written."""
    result = result._replace(checks=functools.cache(result.checks))
    troubles: list[UsageError] = []
    for wanted in reports:
        try:
            terminal.deliver(_text(result, wanted.form, False), wanted.path)
        except UsageError as error:
            troubles.append(error)
    terminal.deliver(_text(result, form, terminal.may_color(no_color, output)), output)
    if form == "github":
        _summarise(result.checks())
    if troubles:
        raise troubles[0]


def _deliver_trouble(message: str, options: Mapping[str, Any]) -> None:
    """The message in every file, and on stdout where that is to be read by a program for CI."""
    said = message if options.get("no_redact") else _redacted(message)
    title = click.get_current_context().command_path
    result = Result(
        lambda color: f"{said}\n",
        lambda: {"schema": "kerneldoctor.trouble/1", "command": title, "undetermined": said, "exit_code": 3},
        lambda: _trouble(title, said),
    )
    for wanted in options["reports"]:
        terminal.deliver(_text(result, wanted.form, False), wanted.path)
    if options["form"] not in ("console", "json"):
        deliver(result, options["form"], (), options["output"], True)


def _trouble(title: str, said: str) -> Checks:
    import datetime

    from . import __version__
    from .report.checks import undetermined

    return undetermined(title, said, __version__, datetime.date.today().isoformat())


def _redacted(text: str) -> str:
    from .api import find_identity
    from .host import RealHost
    from .report.redact import Redactor

    return Redactor(find_identity(RealHost()))(text)


def _text(result: Result, form: str, color: bool) -> str:
    if form == "console":
        return result.console(color)
    if form == "json":
        from .report.text import json_text

        return json_text(result.document())
    import importlib

    render: Callable[[Checks], str] = importlib.import_module(f"{__package__}.report.{form}").render
    return render(result.checks())


def _summarise(checks: Checks) -> None:
    """The summary of the job, where there is one. That it cannot be written is no reason to fail the job."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    from .files import append_text, size_of
    from .report.github import SUMMARY_LIMIT, summary

    try:
        append_text(path, summary(checks, SUMMARY_LIMIT - size_of(path)))
    except UsageError as error:
        terminal.write_error(f"kerneldoctor: no summary of the job: {error}\n")


def _parsed(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[Wanted, ...]:
    """The files asked for, checked before anything is run: a try may take long."""
    found = [parse_report(value) for value in values]
    _check_apart([*(w.path for w in found), context.params.get("output")])
    return tuple(found)


def parse_report(value: str) -> Wanted:
    """FORMAT=FILE. Raises UsageError that offers the nearest format."""
    form, equals, path = value.partition("=")
    form = form.strip().lower()
    if not equals or not path:
        raise UsageError(f"--report {value}: FORMAT=FILE is expected, as in junit=kerneldoctor.xml")
    if form not in FORMATS:
        import difflib

        near = difflib.get_close_matches(form, FORMATS, 1, 0.4)
        hint = f"; the nearest is {near[0]}" if near else ""
        raise UsageError(f"--report {value}: there is no format {form!r}{hint}. Formats: {', '.join(FORMATS)}")
    if path == terminal.STDOUT:
        raise UsageError(f"--report {value}: a file is needed; --format {form} writes to standard output")
    _check_folder(path, f"--report {value}")
    return Wanted(form, path)


def _checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The place of the result itself. Which of the two options is read first hangs on the command line."""
    if value is not None and value != terminal.STDOUT:
        _check_folder(value, f"--output {value}")
        _check_apart([value, *(wanted.path for wanted in context.params.get("reports", ()))])
    return value


def _check_apart(paths: Sequence[str | None]) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        if path is None or path == terminal.STDOUT:
            continue
        real = _real(path)
        if real in seen:
            raise UsageError(f"two results cannot be written to one file: {seen[real]} and {path}")
        seen[real] = path


def _check_folder(path: str, option: str) -> None:
    folder = os.path.dirname(_real(path))
    if os.path.isdir(path):
        raise UsageError(f"{option}: cannot write {path}: it is a folder")
    if folder and not os.path.isdir(folder):
        raise UsageError(f"{option}: cannot write {path}: there is no folder {folder}")


def _real(path: str) -> str:
    """The file that a path means; the path itself where that cannot be told, and the writing will say why."""
    try:
        return os.path.realpath(path)
    except OSError:  # the current folder is gone
        return f"./{path}"


_OPTIONS = option_group(
    click.option("--format", "form", type=click.Choice(FORMATS), default="console", show_default=True),
    click.option(
        "--report", "reports", multiple=True, metavar="FORMAT=FILE", callback=_parsed,
        help="Also write a file in this format. Can be given several times.",
    ),
    click.option(
        "--output", "-o", metavar="FILE", callback=_checked,
        help="Write the result to a file, whole or not at all; - for stdout.",
    ),
)  # fmt: skip
