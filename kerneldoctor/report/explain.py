"""A rule as a page: what it means, when it holds, what to do, how we know. Words only; loads and decides nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from ..engine.model import Condition, Leaf, Remedy, Rule
from ..engine.templates import TEMPLATE, unbracketed
from .text import printable, value_text

_OPERATORS = {
    "is": "is", "one_of": "is one of", "in": "is in", "at_least": ">=", "at_most": "<=", "has": "has",
    "matches": "matches", "same_as": "equals", "differs_from": "differs from", "newer_than": "is newer than",
    "older_than": "is older than",
}  # fmt: skip
_KINDS = {"all": "all of", "any": "any of", "not": "not"}


def rule_page(rule: Rule, width: int = 80) -> str:
    """Everything that a person may want to know of a rule."""
    return printable("\n".join(_page(rule, width)) + "\n")


def rule_list(rules: Iterable[Rule]) -> str:
    """One line a rule: id, severity, title."""
    lines = (f"{r.id:<8} {r.severity:<8} {blanks(r.title)}{' (withdrawn)' if r.withdrawn else ''}\n" for r in rules)
    return printable("".join(lines))


def rule_json(rule: Rule) -> dict[str, Any]:
    """The rule as data, in the words of its file."""
    plain = (
        "id", "name", "title", "diagnosis", "severity", "confidence", "component", "added", "review_by", "withdrawn",
        "superseded_by", "each", "body", "file",
    )  # fmt: skip
    return {
        **{key: getattr(rule, key) for key in plain},
        "aliases": list(rule.aliases),
        "explains": list(rule.explains),
        "when": condition_json(rule.when) if rule.when else None,
        "symptoms": [{"match": s.match, "where": s.where, "note": s.note} for s in rule.symptoms],
        "remedies": [_remedy_json(remedy) for remedy in rule.remedies],
        "evidence": [{"kind": e.kind, "url": e.url, "says": e.says, "seen": e.seen} for e in rule.evidence],
    }


def condition_json(condition: Condition) -> dict[str, Any]:
    """A condition in the form that rule files have."""
    if isinstance(condition, Leaf):
        operand = list(condition.operand) if isinstance(condition.operand, tuple) else condition.operand
        return {"fact": condition.fact, condition.operator: operand}
    return {condition.kind: [condition_json(item) for item in condition.items]}


def _remedy_json(remedy: Remedy) -> dict[str, Any]:
    texts = ("title", "command", "pin", "snippet", "verify", "effect", "undo", "note")
    return {
        **{key: getattr(remedy, key) for key in texts if getattr(remedy, key)},
        **({"when": condition_json(remedy.when)} if remedy.when else {}),
    }


def blanks(template: str) -> str:
    """A text whose facts are not filled in: "{packages.kernels.version}" reads "<kernels version>"."""
    return TEMPLATE.sub(
        lambda match: f"<{' '.join(match[1].split('.')[-2:]).replace('_', ' ')}>", unbracketed(template)
    )


def _page(rule: Rule, width: int) -> Iterator[str]:
    yield f"{rule.id} {rule.name}"
    yield from textwrap.wrap(blanks(rule.title), width)
    yield ""
    yield f"{rule.severity}, {rule.confidence}, about {rule.component}; added {rule.added}, review by {rule.review_by}"
    if rule.withdrawn:
        yield f"Withdrawn on {rule.withdrawn}" + (f", see {rule.superseded_by}" if rule.superseded_by else "")
    if rule.aliases:
        yield f"Also known as {', '.join(rule.aliases)}"
    yield ""
    yield from _wrapped(rule.body, width)
    if rule.when:
        yield from ("", "# When it holds" + (f" (asked for each of {rule.each})" if rule.each else ""), "")
        yield from _condition(rule.when, "")
    if rule.symptoms:
        yield from ("", "# What the error says", "")
        yield from (f"{s.match}" + (f"   ({s.note})" if s.note else "") for s in rule.symptoms)
    yield from _remedies(rule.remedies, width)
    yield from ("", "# Evidence", "")
    for evidence in rule.evidence:
        yield f"{evidence.kind}, seen {evidence.seen}: {evidence.url}"
        yield from textwrap.wrap(evidence.says, width, initial_indent="  ", subsequent_indent="  ")


def _remedies(remedies: tuple[Remedy, ...], width: int) -> Iterator[str]:
    if not remedies:
        return
    yield from ("", "# Remedies", "")
    for number, remedy in enumerate(remedies, 1):
        effect = "" if remedy.effect == "safe" else f" ({remedy.effect})"
        yield from textwrap.wrap(f"{number}. {blanks(remedy.title)}{effect}", width, subsequent_indent="   ")
        for text in filter(None, (remedy.command, remedy.snippet, remedy.pin)):
            yield from (f"     {line}" for line in text.splitlines())
        yield from textwrap.wrap(remedy.note, width, initial_indent="   ", subsequent_indent="   ")
        if remedy.verify:
            yield f"   then: {remedy.verify}"
        if remedy.undo:
            yield f"   undo: {remedy.undo}"
        if remedy.when:
            yield "   only when:"
            yield from _condition(remedy.when, "     ")


def _condition(condition: Condition, indent: str) -> Iterator[str]:
    if isinstance(condition, Leaf):
        yield indent + _leaf(condition)
        return
    yield f"{indent}{_KINDS[condition.kind]}:"
    for item in condition.items:
        yield from _condition(item, indent + "  ")


def _leaf(leaf: Leaf) -> str:
    if leaf.operator == "present":
        return f"{leaf.fact} is {'present' if leaf.operand else 'absent'}"
    operand = "yes" if leaf.operand is True else "no" if leaf.operand is False else value_text(leaf.operand, 0)
    return f"{leaf.fact} {_OPERATORS[leaf.operator]} {operand}"


def _wrapped(body: str, width: int) -> Iterator[str]:
    """Markdown with its paragraphs filled; lists, code and headings stay as they were written."""
    for number, block in enumerate(body.split("\n\n")):
        if number:
            yield ""
        keep = block.lstrip().startswith(("#", "-", "*", "|", "```", ">", "1.")) or block.startswith("    ")
        yield from block.split("\n") if keep else textwrap.wrap(block, width, break_long_words=False)
