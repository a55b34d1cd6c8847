"""Checks as workflow commands of GitHub Actions, and as the summary of a job. Decides nothing, writes nothing.

Commands and their escaping: https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator

from .checks import Check, Checks
from .markdown import render as render_markdown
from .text import plural, printable

SHOWN = 10  # annotations of each kind in a step (https://github.com/orgs/community/discussions/26680)
SUMMARY_LIMIT = 1024 * 1024  # bytes for a step; what is longer is not shown at all
_CUT = "\n\n(cut off: the summary of a step holds 1 MiB)\n"
_KINDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(checks: Checks) -> str:
    """One command a line, worst first; of more than are shown, the last one says how many there are."""
    by_kind: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    for check in checks.sorted():
        kind = _kind(check)
        if kind:
            by_kind[kind].append(_command(kind, check))
    doubts = [check for check in checks.checks if check.status == "undetermined" and not check.decisive]
    by_kind["notice"] += [_doubts(doubts)] if doubts else []
    lines = [line for kind, found in by_kind.items() for line in _limited(kind, found)]
    counts = checks.counts
    # Only figures: a text of a machine at the start of a line could be a command.
    told = f"{plural(counts.findings, 'finding')}, {counts.fine} fine, {counts.undetermined} not determined"
    return "\n".join([*lines, f"{told}; exit code {checks.exit_code}"]) + "\n"


def summary(checks: Checks, room: int = SUMMARY_LIMIT) -> str:
    """The page for the summary of the job in at most `room` bytes: whole, else without its long part, else cut."""
    for folded in (True, False):
        text = render_markdown(checks, folded)
        content = text.encode("utf-8", "backslashreplace")
        if len(content) <= room:
            return text
    kept = room - len(_CUT.encode())
    return content[:kept].decode("utf-8", "ignore") + _CUT if kept > 0 else ""


def _kind(check: Check) -> str:
    if check.status == "failed":
        return _KINDS[check.severity]
    return "error" if check.status == "undetermined" and check.decisive else ""


def _command(kind: str, check: Check) -> str:
    title = f"{check.rule}: {check.title}" if check.rule else f"{check.group}: {check.title}"
    properties = {"title": title, "file": check.file, "line": str(check.line) if check.file and check.line else ""}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::{kind} {listed}::{_data(chr(10).join(_said(check)))}"


def _said(check: Check) -> Iterator[str]:
    yield check.detail or check.title
    for words, command in check.remedies:
        yield f"{words}: {command}" if command else words
    if check.url:
        yield f"See {check.url}"


def _doubts(checks: list[Check]) -> str:
    names = ", ".join(check.rule or check.id for check in checks)
    return f"::notice title={_property(plural(len(checks), 'check'))} not determined::{_data(names)}"


def _limited(kind: str, found: list[str]) -> list[str]:
    if len(found) <= SHOWN:
        return found
    rest = len(found) - SHOWN + 1
    more = f"::{kind} title={rest} more::GitHub shows {SHOWN} annotations of a kind: the summary of the job has all"
    return [*found[: SHOWN - 1], more]


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
