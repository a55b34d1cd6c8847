"""Checks as Markdown that can be pasted into an issue: the verdict, the machine, what to do; the long part folded.

Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .checks import Check, Checks, Section, Status
from .markup import code, fenced, folding, inline, prose, table
from .text import listing, web_address

_ASIDE: tuple[tuple[Status, str], ...] = (
    ("undetermined", "Not determined"), ("ignored", "Ignored"), ("skipped", "Not run"),
)  # fmt: skip
_SHOWN = 6  # of the checks that are only listed, before the rest is folded


def render(checks: Checks, folded: bool = True) -> str:
    """The whole page. folded=False leaves the long part out."""
    parts = [f"### {inline(checks.title)}", f"**{inline(checks.headline)}**", *_facts(checks)]
    ordered = [check for check in checks.sorted() if not check.tabled]
    parts += [text for check in ordered if check.status == "failed" for text in _finding(check)]
    for status, title in _ASIDE:
        parts += _listed([check for check in ordered if check.status == status], title)
    parts += [f"- {prose(note)}" for note in checks.notes]
    parts += [text for section in checks.sections if folded or not section.folded for text in _section(section)]
    if folded:
        parts += _passed([check for check in ordered if check.status == "passed"], checks.fine)
    parts += ["<sub>" + "<br>".join(map(inline, checks.foot)) + "</sub>"] if checks.foot else []
    return "\n\n".join(parts) + "\n"


def _facts(checks: Checks) -> list[str]:
    return [table(("", checks.date), checks.facts)] if checks.facts else []


def _finding(check: Check) -> Iterator[str]:
    rule = f" ({code(check.rule)})" if check.rule else ""
    yield f"#### {check.severity.upper()}: {inline(check.title)}{rule}"
    if check.file:
        yield f"In {code(f'{check.file}:{check.line}' if check.line else check.file)}"
    if check.detail:
        yield prose(check.detail)
    if check.seen:
        yield "Seen: " + ", ".join(code(f"{fact} = {value}") for fact, value in check.seen)
    for words, command in check.remedies:
        if " " in words or "\n" in command:
            yield f"{prose(words)}:" if command else prose(words)
            yield from (fenced(command, "sh"),) if command else ()
        else:  # "Then", "Undo"
            yield f"{words}: {code(command)}"
    if web_address(check.url):
        yield f"See <{check.url}>"


def _listed(checks: list[Check], title: str) -> Iterator[str]:
    """Checks in a line each; of many the worst, and the rest folded."""
    if not checks:
        return
    yield f"#### {title} ({len(checks)})"
    yield _lines(checks[:_SHOWN])
    if checks[_SHOWN:]:
        yield folding(f"{len(checks) - _SHOWN} more", _lines(checks[_SHOWN:]))


def _lines(checks: Iterable[Check]) -> str:
    return "\n".join(f"- {_name(check)}" + (f": {prose(check.detail)}" if check.detail else "") for check in checks)


def _name(check: Check) -> str:
    return inline(check.title) + (f" ({code(check.rule)})" if check.rule else "")


def _passed(checks: list[Check], fine: str) -> Iterator[str]:
    if checks:
        yield folding(f"{len(checks)} {fine}", listing([_name(check) for check in checks]))


def _section(section: Section) -> Iterator[str]:
    body = [prose(text) for text in section.paragraphs]
    body += [table(section.head, section.rows)] if section.rows else []
    body += [fenced(section.code)] if section.code else []
    if not body:  # a figure alone is nothing that Markdown could show
        return
    if section.folded:
        yield folding(section.title, "\n\n".join(body))
    else:
        yield from (f"#### {inline(section.title)}", *body)
