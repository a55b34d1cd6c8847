"""Two reports side by side, as a value: findings of one side only, facts that differ, what would load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..engine.model import SEVERITIES, Finding
from ..report.model import Report
from ..values import dataclass
from .facts import Difference


@dataclass(frozen=True, slots=True)
class Answered:
    """What a kernel comes to on each side, in a line."""

    reference: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Diff:
    """The result of `kerneldoctor diff`."""

    names: tuple[str, str]  # of the files
    reports: tuple[Report, Report]
    only_a: tuple[Finding, ...]  # rules that hold, or may hold, on that side alone
    only_b: tuple[Finding, ...]
    surer: tuple[tuple[Finding, Finding], ...]  # on both sides, confirmed on one of them only
    common: tuple[Finding, ...]  # on both sides alike; as the first one tells it
    facts: tuple[Difference, ...]
    kernels: tuple[Answered, ...]

    @property
    def exit_code(self) -> int:
        """1 where the confirmed errors differ, else 0."""
        return int(_errors(self.reports[0].findings) != _errors(self.reports[1].findings))


def split(a: Report, b: Report) -> tuple[tuple[Finding, ...], ...]:
    """Findings only in the first, only in the second."""
    left, right = ({f.rule for f in report.findings} for report in (a, b))
    return (
        tuple(f for f in a.findings if f.rule not in right),
        tuple(f for f in b.findings if f.rule not in left),
    )


def pairs(a: Report, b: Report) -> tuple[tuple[Finding, Finding], ...]:
    """The first finding of each rule that both have."""
    right = {f.rule: f for f in reversed(b.findings)}
    left = {f.rule: f for f in reversed(a.findings)}
    return tuple((left[rule], right[rule]) for rule in dict.fromkeys(f.rule for f in a.findings) if rule in right)


def deciding(findings: Iterable[Finding]) -> Mapping[str, tuple[str, ...]]:
    """The facts that findings rest on or lack, with their rules, the worst first."""
    found: dict[str, tuple[str, ...]] = {}
    for finding in sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.certainty)):
        for path in (*(used.fact for used in finding.facts), *finding.missing):
            found[path] = tuple(dict.fromkeys((*found.get(path, ()), finding.rule)))
    return found


def _errors(findings: Iterable[Finding]) -> set[str]:
    return {f.rule for f in findings if f.severity == "error" and f.certainty == "confirmed"}
