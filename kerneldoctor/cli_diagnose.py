"""The command that reads somebody's bug report: parse, call the API, render, exit. No logic, nothing heavy before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import terminal
from .errors import UsageError

if TYPE_CHECKING:
    from .diagnosis.batch import Outcome

_SEVERITIES = ("error", "warning", "info")


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(["console", "json", "markdown", "csv"]), default="console", show_default=True,
    help="markdown is a reply to post; csv is for many reports.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 512), help="Processes for many reports; one a core by default.")
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
@click.option(
    "--fail-on", type=click.Choice([*_SEVERITIES, "never"]), default="never", show_default=True,
    help="The mildest confirmed finding that makes the exit code 1.",
)  # fmt: skip
@click.option("--verbose", "-v", is_flag=True, help="Show every finding in full.")
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same.")
@click.option("--no-redact", is_flag=True, help="Keep user names, home paths and secrets that the report holds.")
@click.option("--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all; - for stdout.")
def diagnose(files: tuple[str, ...], form: str, output: str | None, **options: Any) -> int:
    """Read a pasted bug report and name the fault: what it is, how sure, which lines show it, what to do.

    FILE is a text file, - for standard input, or a folder of reports. Exit code 0: answered; 1: a finding at or above
    --fail-on; 3: nothing could be determined for a single report, or a file that was named could not be read.
    """
    if not files:
        raise UsageError("name a file with the report, a folder of them, or - for standard input")
    redact = _redactor(options["no_redact"])
    if len(files) == 1 and not Path(files[0]).is_dir():
        if form == "csv":
            raise UsageError("--format csv is for many reports; take json")
        return _one(files[0], form, output, redact, options)
    if form == "markdown":
        raise UsageError("--format markdown is a reply to one report; take json or csv for many")
    return _many(files, form, output, redact, options)


def _redactor(keep: bool) -> Callable[[Any], Any]:
    from .report.redact import Identity, Redactor, redact_json

    redactor = Redactor(Identity())
    return (lambda value: value) if keep else lambda value: redact_json(value, redactor)


def _one(path: str, form: str, output: str | None, redact: Callable[[Any], Any], options: dict[str, Any]) -> int:
    from . import __version__
    from .api_diagnose import diagnose as ask
    from .report.diagnosis import markdown, render
    from .report.diagnosis_json import to_json
    from .report.layout import Page
    from .report.text import json_text

    found = ask(path=path, rules=options["folders"])
    if form == "json":
        text = json_text(redact(to_json(found)))
    elif form == "markdown":
        text = redact(markdown(found, __version__))
    else:
        page = Page(terminal.width(), terminal.may_color(options["no_color"], output), redact)
        text = render(found, page, options["verbose"])
    terminal.deliver(text, output)
    worst: set[str] = {a.finding.severity for a in found.answers if a.finding.certainty == "confirmed"}
    if _fails(worst, options["fail_on"]):
        return 1
    return 0 if found.determined else 3


def _many(
    files: tuple[str, ...], form: str, output: str | None, redact: Callable[[Any], Any], options: dict[str, Any]
) -> int:
    from .api_diagnose import diagnose_many
    from .report.diagnosis_json import failed, to_json

    outcomes = diagnose_many(files, rules=options["folders"], jobs=options["jobs"] or 0, render=to_json)
    documents: list[dict[str, Any]] = []
    for outcome in _with_progress(outcomes, options["quiet"]):
        document = outcome.result or failed(outcome.path, outcome.error)
        documents.append({**redact(document), "file": outcome.path})  # the name leads back to the report
    terminal.deliver(_WRITERS[form](documents), output)
    worst = {a["severity"] for d in documents for a in d["answers"] if a["certainty"] == "confirmed"}
    if _fails(worst, options["fail_on"]):
        return 1
    named = {path for path in files if not Path(path).is_dir()}
    return 3 if any(d["file"] in named and d["error"] for d in documents) else 0


def _with_progress(outcomes: Iterable[Outcome], quiet: bool) -> Iterator[Outcome]:
    """Count on stderr; on a terminal in one line."""
    live, bad, number = sys.stderr.isatty(), 0, 0
    for number, outcome in enumerate(outcomes, 1):
        bad += bool(outcome.error)
        if outcome.error and not quiet:
            terminal.write_error(f"{chr(13) if live else ''}kerneldoctor: {outcome.error}\n")
        if not quiet and number % (20 if live else 1000) == 0:
            click.echo(f"\r{number} reports" if live else f"{number} reports", err=True, nl=not live)
        yield outcome
    if not quiet:
        unread = f", {bad} could not be read" if bad else ""
        click.echo(f"{chr(13) if live else ''}{number} reports{unread}", err=True)


def _fails(worst: set[str], fail_on: str) -> bool:
    return fail_on != "never" and bool(worst & set(_SEVERITIES[: _SEVERITIES.index(fail_on) + 1]))


def _json(documents: list[dict[str, Any]]) -> str:
    from .report.text import json_text

    return json_text(documents)


def _csv(documents: list[dict[str, Any]]) -> str:
    import csv
    import io

    from .report.diagnosis_json import COLUMNS, row

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(map(row, documents))
    return out.getvalue()


def _console(documents: list[dict[str, Any]]) -> str:
    from .report.text import printable

    lines = []
    for document in documents:
        best = document["answers"][0] if document["answers"] else None
        text = f"{best['rule']} {best['certainty']}: {best['title']}" if best else document["verdict"]
        lines.append(printable(f"{' '.join(document['file'].split())}: {text}\n"))
    return "".join(lines)


_WRITERS: dict[str, Callable[[list[dict[str, Any]]], str]] = {"json": _json, "csv": _csv, "console": _console}
