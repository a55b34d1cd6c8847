"""The pins of a code base as a page, as JSON and as checks. Reads a PinReport and decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from ..engine.model import Rule, Severity
from ..pins.verdict import JudgedPin, PinReport
from .checks import Check, Checks, Counts, Status, count, rule_texts
from .layout import Page
from .text import plural

SCHEMA = "kerneldoctor.pins/1"
_KINDS = {
    "commit": "a commit", "version": "a version, which is a branch", "branch": "a branch or tag",
    "unpinned": "no revision", "locked": "locked", "name": "a name that transformers resolves", "builtin": "no kernel",
    "other": "no kernel's name", "registered": "a name that the code registers itself", "not_read": "not read",
    "wrong": "no kernel reference", "broken": "a lock",
}  # fmt: skip
_OPEN = ("undetermined", "perhaps-bad")
_HEADS = {
    "no-build": "no build", "known-bad": "known bad", "perhaps-bad": "known fault, which hangs on the workload",
    "missing": "not on the Hub", "raises": "would raise", "not-trusted": "publisher not trusted",
    "hindered": "would not load here", "wrong": "not a reference", "broken": "cannot be read",
    "undetermined": "not determined", "not-judged": "not judged", "fine": "fine",
}  # fmt: skip


def to_json(report: PinReport) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "date": report.date,
        "kerneldoctor": report.version,
        "exit_code": report.exit_code,
        "headline": headline(report),
        "target": report.target or None,
        "files": report.search.files,
        "skipped": dict(report.search.skipped),
        "unread": [{"file": file, "why": why} for file, why in report.search.unread],
        "notes": list(report.notes),
        "pins": [
            {**asdict(j.pin), "state": j.outlook.state, "outlook": j.outlook.text, "rules": list(j.outlook.rules),
             "instead": j.instead or None, "moves": j.moves, "fails": j.fails}
            for j in report.pins
        ],
    }  # fmt: skip


def headline(report: PinReport) -> str:
    """The verdict in a line, with the three counts."""
    files = plural(report.search.files, "file")
    unread = len(report.search.unread)
    beside = f"; {plural(unread, 'file')} could not be read" if unread else ""
    if not report.pins:
        return f"no kernel is asked for in {files}{beside}"
    counts = checks_counts(report)
    failed = f"{plural(counts.findings, 'pin')} to mend" if counts.findings else "nothing to mend"
    computed = sum(j.pin.kind == "not_read" and j.outlook.state == "not-judged" for j in report.pins)
    others = sum(j.outlook.state == "not-judged" for j in report.pins) - computed
    rest = (f", {computed} not read" if computed else "") + (f", {others} not judged" if others else "")
    fine = f"{counts.fine} fine, {counts.undetermined} not determined{rest}"
    return f"{failed}: {plural(len(report.pins), 'place')} in {files}; {fine}{beside}"


def checks_counts(report: PinReport) -> Counts:
    """Findings, fine, not determined."""
    return count(_pin_checks(report))


def checks(report: PinReport, rules: Iterable[Rule] = ()) -> Checks:
    """The list that every format for CI is made of. `rules` gives SARIF their pages."""
    found = (*_pin_checks(report), *_unread(report, not report.lenient))
    return Checks(
        title="kerneldoctor pins",
        headline=headline(report),
        checks=found,
        exit_code=report.exit_code,
        date=report.date,
        version=report.version,
        counts=count(found),
        facts=(("for", report.target),) if report.target else (),
        notes=report.notes,
        rules=rule_texts(rules, found),
        foot=(f"kerneldoctor {report.version}",),
    )


def _pin_checks(report: PinReport) -> Iterator[Check]:
    """One a pin. Its id outlives the lines above it: the how-manieth of its name in the file it is."""
    seen: Counter[str] = Counter()
    for judged in report.pins:
        name = f"pin:{judged.pin.file}:{_named(judged)}"
        seen[name] += 1
        yield _check(judged, report.lenient, name if seen[name] == 1 else f"{name}:{seen[name]}")


def render(report: PinReport, page: Page, verbose: bool = False) -> str:
    """The page for a person: what fails and what is open in full, the rest counted."""
    page.line(headline(report), "bold")
    if report.target:
        page.paragraph("  for     ", report.target)
    shown = [j for j in report.pins if verbose or j.fails or j.outlook.state in _OPEN or j.pin.kind == "other"]
    for judged in shown:
        _render_pin(judged, page)
    _render_rest([j for j in report.pins if j not in shown], page)
    for file, why in report.search.unread:
        page.paragraph("  unread  ", f"{_on_one_line(file)}: {why}")
    if report.search.skipped:
        parts = [f"{count} {why}" for why, count in sorted(report.search.skipped.items())]
        page.paragraph("  skipped ", ", ".join(parts))
    for note in report.notes:
        page.paragraph("  note    ", note)
    return page.text()


def _render_pin(judged: JudgedPin, page: Page) -> None:
    pin, outlook = judged.pin, judged.outlook
    style = "red" if judged.fails else "yellow" if outlook.state in _OPEN else ""
    page.line()
    page.whole(f"{_on_one_line(pin.file)}:{pin.line}: {_named(judged)}  {_verdict(judged)}", style)
    page.paragraph("    ", _detail(judged))
    if judged.instead:
        page.whole(f"    instead: {judged.instead}")


def _render_rest(rest: list[JudgedPin], page: Page) -> None:
    counted = Counter((j.pin.reference or _KINDS[j.pin.kind], j.pin.kind, j.outlook.state) for j in rest)
    if counted:
        page.line()
    for (reference, kind, state), number in sorted(counted.items()):
        what = "" if reference == _KINDS[kind] else f" ({_KINDS[kind]})"
        times = f", {number} places" if number > 1 else ""
        page.paragraph("  ", f"{reference}{what}{times}" + (f": {_HEADS[state]}" if kind != "not_read" else ""))
    if any(j.pin.kind == "not_read" for j in rest):
        page.paragraph("  ", "--verbose lists what was not read")


def _named(judged: JudgedPin) -> str:
    return judged.pin.reference or judged.pin.value or judged.pin.place


def _on_one_line(file: str) -> str:
    """A name may hold a line break, which would look like the name of another file."""
    return file.replace("\n", "\\n").replace("\r", "\\r")


def _verdict(judged: JudgedPin) -> str:
    state = judged.outlook.state
    heads = ["moves" if judged.moves else "", _HEADS[state] if state != "fine" or not judged.moves else ""]
    known = f" [{', '.join(judged.outlook.rules)}]" if judged.outlook.rules else ""
    return ", ".join(filter(None, heads)) + known


def _detail(judged: JudgedPin) -> str:
    pin = judged.pin
    moves = "; --require-commit asks for a commit" if judged.moves else ""
    text = f": {judged.outlook.text}" if judged.outlook.text else ""
    why = f" ({pin.why})" if pin.why and pin.why != judged.outlook.text else ""
    return f"{_KINDS[pin.kind]}{why}{moves}{text}"


def _check(judged: JudgedPin, lenient: bool, identity: str) -> Check:
    pin, outlook = judged.pin, judged.outlook
    kind, severity = _class(judged)
    return Check(
        id=identity,
        group="pins",
        title=f"{_named(judged)}: {_verdict(judged)}",
        status=_status(judged),
        severity=severity,
        detail=_detail(judged),
        remedies=(("Write instead", judged.instead),) if judged.instead else (),
        rule=outlook.rules[0] if outlook.rules else "",
        kind=kind,
        file=pin.file,
        line=pin.line,
        decisive=judged.fails or (outlook.state == "undetermined" and not lenient),
        seen=(("line", pin.text),),
    )


def _class(judged: JudgedPin) -> tuple[str, Severity]:
    state = judged.outlook.state
    if judged.moves and state == "fine":
        return "pin-moves", "error"
    return f"pin-{state}", "error" if judged.fails else "info"


def _status(judged: JudgedPin) -> Status:
    if judged.fails:
        return "failed"
    match judged.outlook.state:
        case "undetermined" | "perhaps-bad":
            return "undetermined"
        case "not-judged":
            return "skipped"
    return "passed"


def _unread(report: PinReport, decisive: bool) -> Iterator[Check]:
    for file, why in report.search.unread:
        yield Check(
            f"pin:{file}", "pins", f"{_on_one_line(file)} was not read", "undetermined", "warning", why,
            kind="pin-unread", file=file, decisive=decisive,
        )  # fmt: skip
