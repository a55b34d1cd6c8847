"""What a report could not determine, grouped by the look that would settle it. Words only; nothing is judged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..engine.case import DERIVED
from ..environment import NOT_LOOKED
from ..values import dataclass
from .model import Report

_DRIVER = "run where the NVIDIA driver answers (`nvidia-smi` lists the GPU)"
_HOW = {
    "visibility": "run in the shell or job that starts the program",
    "kernel": "name the kernel",
    "workload": "name the model or the workload",
}
_NEWER = "a newer kerneldoctor may know it"
_OF_TABLES = r"\b(?:known here|table|listed)\b"  # in the reason of a derived fact
_DEEP = "run `kerneldoctor scan --deep`"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Facts that are unknown for one reason, and the rules that wait for them."""

    facts: tuple[str, ...]
    reason: str
    how: str  # what would settle it, or ""
    rules: tuple[str, ...]


def doubts(report: Report) -> tuple[Doubt, ...]:
    """The undecided rules of a report, those with the most rules first; each rule appears once."""
    groups: dict[tuple[str, str], tuple[dict[str, None], list[str]]] = {}
    for rule, facts in report.undetermined.items():
        key = _settled(report, facts[0] if facts else "")
        facts_seen, rules = groups.setdefault(key, ({}, []))
        facts_seen |= dict.fromkeys(fact for fact in facts if _settled(report, fact) == key)
        rules.append(rule)
    made = [Doubt(tuple(seen), why, do, tuple(rules)) for (why, do), (seen, rules) in groups.items()]
    return tuple(sorted(made, key=lambda doubt: -len(doubt.rules)))


def _settled(report: Report, fact: str) -> tuple[str, str]:
    return reason(report, fact), how(report, fact)


def reason(report: Report, fact: str) -> str:
    """Why a fact is unknown."""
    return report.why_unknown(fact) or "not known"


def how(report: Report, fact: str) -> str:
    """What a person can do to make a fact known, or "" where we know no way."""
    head = fact.partition(".")[0]
    if head == "deep":
        return _DEEP if report.environment.fact(fact) == NOT_LOOKED else ""
    if report.why_unknown(fact) == NOT_LOOKED.note:
        return "run `kerneldoctor scan` on that machine"
    if fact in DERIVED:
        return _NEWER if re.search(_OF_TABLES, report.why_unknown(fact)) else ""
    if head in ("driver", "gpus", "gpu"):
        silent = report.environment.gpus.is_unknown or report.environment.driver.version.is_unknown
        return _DRIVER if silent else ""
    return _HOW.get(head, "")


def missing_text(report: Report, facts: tuple[str, ...]) -> Iterator[str]:
    """For a possible finding: one line per fact that would settle it."""
    for fact in facts:
        do = how(report, fact)
        yield f"{fact} ({reason(report, fact)})" + (f"; {do}" if do else "")
