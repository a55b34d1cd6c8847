"""Two machines side by side, as a page and as JSON. Reads a Diff and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..diff.facts import Difference
from ..diff.model import Diff
from ..engine.model import Finding
from ..environment import encode
from .layout import Page
from .text import fact_text, plural

SCHEMA = "kerneldoctor.diff/1"


def to_json(found: Diff) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "a": found.names[0],
        "b": found.names[1],
        "exit_code": found.exit_code,
        "headline": headline(found),
        "findings": {
            "only_a": [_finding_json(f) for f in found.only_a],
            "only_b": [_finding_json(f) for f in found.only_b],
            "surer": [{"a": _finding_json(a), "b": _finding_json(b)} for a, b in found.surer],
            "common": [_finding_json(f) for f in found.common],
        },
        "kernels": [{"reference": k.reference, "a": k.a, "b": k.b} for k in found.kernels],
        "facts": [
            {"path": d.path, "a": encode(d.a), "b": encode(d.b), "weight": d.weight, "rules": list(d.rules),
             "one_sided": d.one_sided}
            for d in found.facts
        ],
    }  # fmt: skip


def headline(found: Diff) -> str:
    """The verdict in a line."""
    if not found.facts and not found.only_a and not found.only_b:
        return "no difference is known between the two"
    parts = [f"{len(side)} only in {name}" for side, name in _sides(found) if side]
    parts += [f"{len(found.surer)} surer on one side"] if found.surer else []
    findings = ", ".join(parts)
    mattering = sum(d.weight == "decides" for d in found.facts)
    facts = f"{plural(len(found.facts), 'fact')} differ{'s' if len(found.facts) == 1 else ''}"
    if not findings:
        return f"the same findings on both; {facts}"
    return f"findings differ: {findings}; {facts}, {mattering} of them behind that"


def render(found: Diff, page: Page, show_all: bool = False) -> str:
    """The page for a person: findings first, then what they rest on, then the rest; noise only when asked for."""
    page.line(headline(found), "bold")
    page.paragraph("  A       ", found.names[0])
    page.paragraph("  B       ", found.names[1])
    for side, name in _sides(found):
        _render_findings(f"Only in {name}", side, page)
    if found.surer:
        page.line()
        page.line("On both, but sure on one side only", "bold")
        for one, other in found.surer:
            page.paragraph("  ", f"{_head(one)}: {one.certainty} in A, {other.certainty} in B")
    if found.kernels:
        page.line()
        page.line("What would load", "bold")
        for kernel in found.kernels:
            page.whole(f"  {kernel.reference}")
            if kernel.a == kernel.b:
                page.paragraph("    on both  ", kernel.a)
                continue
            page.paragraph("    A  ", kernel.a)
            page.paragraph("    B  ", kernel.b)
    _render_facts(found, page, show_all)
    if found.common:
        page.line()
        rules = ", ".join(dict.fromkeys(f.rule for f in found.common))
        page.paragraph("  on both ", rules)
    return page.text()


def _sides(found: Diff) -> tuple[tuple[tuple[Finding, ...], str], ...]:
    return (found.only_a, "A"), (found.only_b, "B")


def _render_findings(title: str, findings: Sequence[Finding], page: Page) -> None:
    if not findings:
        return
    page.line()
    page.line(title, "bold")
    for finding in findings:
        style = "red" if (finding.severity, finding.certainty) == ("error", "confirmed") else ""
        page.paragraph("  ", f"{_head(finding)}{'' if finding.certainty == 'confirmed' else ' (possible)'}", style)


def _head(finding: Finding) -> str:
    subject = f" ({finding.subject})" if finding.subject and finding.subject not in finding.title else ""
    return f"{finding.severity} {finding.title}{subject} [{finding.rule}]"


def _render_facts(found: Diff, page: Page, show_all: bool) -> None:
    titles = {"decides": "Facts behind that", "read": "Facts that rules read", "other": "Other facts", "noise": "Noise"}
    for weight, title in titles.items():
        facts = [d for d in found.facts if d.weight == weight]
        shown = facts if show_all or weight in ("decides", "read") else []
        if shown:
            page.line()
            page.line(title, "bold")
        for difference in shown:
            _render_difference(difference, page)
    hidden = [d for d in found.facts if d.weight in ("other", "noise")]
    if hidden and not show_all:
        page.line()
        count = plural(len(hidden), "fact")
        page.paragraph("  ", f"{count} more that no rule reads or that differ between any two machines: --all")


def _render_difference(difference: Difference, page: Page) -> None:
    rules = f"  [{', '.join(difference.rules)}]" if difference.rules else ""
    page.whole(f"  {difference.path}{rules}")
    page.paragraph("    A  ", fact_text(difference.a))
    page.paragraph("    B  ", fact_text(difference.b))


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule, "title": finding.title, "severity": finding.severity, "certainty": finding.certainty,
        "subject": finding.subject, "facts": [used.fact for used in finding.facts], "missing": list(finding.missing),
    }  # fmt: skip
