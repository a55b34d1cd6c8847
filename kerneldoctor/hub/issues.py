"""Which rules speak of a listed build: the known faults of a kernel, by build id or commit. Fetches nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..engine.case import Case, Kernel, Workload
from ..engine.conditions import BINARY, evaluate, leaves
from ..engine.matching import judge
from ..engine.model import Advice, Certainty, Finding, Rule, Severity
from ..environment import unknown
from ..values import dataclass
from .listing import Build

_BUILD_ID = "kernel.build_id"
_ELSEWHERE = unknown("seen in another commit than the listed one")


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A rule that holds, or may hold, for one build."""

    rule: str
    name: str
    title: str
    severity: Severity
    certainty: Certainty
    missing: tuple[str, ...]  # the facts that would settle a possible one
    remedies: tuple[Advice, ...]

    @property
    def depends_on_workload(self) -> bool:
        """Whether it hangs on what the build is used for, whatever else is open."""
        return self.certainty == "possible" and any(path.startswith("workload.") for path in self.missing)

    @property
    def blocks(self) -> bool | None:
        """Whether the build is of no use: true, false, or None where that is not settled."""
        if self.severity != "error" or self.depends_on_workload:
            return False
        return True if self.certainty == "confirmed" else None


class Faults:
    """The rules about kernels, ready to be asked about many builds of one environment."""

    def __init__(self, rules: Iterable[Rule], case: Case, workload: Workload | None) -> None:
        self._rules = tuple(rule for rule in rules if _about_kernels(rule))
        self._case = case
        self._workload = workload or Workload()
        self._of_repo: dict[str, tuple[Rule, ...]] = {}

    def of_build(self, kernel: Kernel, build: Build) -> tuple[KnownIssue, ...]:
        """The known faults of one build, worst first. A build id that was seen in another commit proves nothing."""
        rules = self._speaking_of(kernel)
        if not rules:
            return ()
        if not build.build_id_elsewhere:
            return tuple(_issue(finding) for finding in self._judge(rules, kernel) if _speaks_of_build(finding))
        without = {f.rule: f for f in self._judge(rules, replace(kernel, build_id=_ELSEWHERE))}
        return tuple(
            _issue(finding) if _alike(finding, without.get(finding.rule)) else _doubted(_issue(finding))
            for finding in self._judge(rules, kernel)
            if _speaks_of_build(finding)
        )

    def _judge(self, rules: tuple[Rule, ...], kernel: Kernel) -> tuple[Finding, ...]:
        return judge(rules, Case(self._case.environment, self._case.tables, kernel, self._workload)).findings

    def _speaking_of(self, kernel: Kernel) -> tuple[Rule, ...]:
        """The rules that the repository alone does not rule out: few of them need to look at each build."""
        repo = str(kernel.repo.value)
        if repo not in self._of_repo:
            of_repo = Case(self._case.environment, self._case.tables, Kernel(repo=kernel.repo), self._workload)
            self._of_repo[repo] = tuple(r for r in self._rules if r.each or _may_hold(r, of_repo))
        return self._of_repo[repo]


def _about_kernels(rule: Rule) -> bool:
    if rule.when is None or rule.withdrawn:
        return False
    paths = (
        p
        for leaf in leaves(rule.when)
        for p in ((leaf.fact, leaf.operand) if leaf.operator in BINARY else (leaf.fact,))
    )
    return any(path.startswith("kernel.") for path in paths)


def _speaks_of_build(finding: Finding) -> bool:
    """Whether something that was seen of the build speaks for the rule, not only the repository that it is from."""
    seen = {fact.fact for fact in finding.facts if fact.fact.startswith("kernel.")}
    if "kernel.repo" in finding.missing:  # a folder on disk: version 1 of anything is not version 1 of that kernel
        return bool(seen & {_BUILD_ID, "kernel.commit"})
    return finding.certainty == "confirmed" or bool(seen - {"kernel.repo"})


def _alike(finding: Finding, other: Finding | None) -> bool:
    """Whether a rule says the same without the build id, so that the id was no part of it."""
    return other is not None and (finding.certainty, finding.missing) == (other.certainty, other.missing)


def _may_hold(rule: Rule, case: Case) -> bool:
    return rule.when is not None and evaluate(rule.when, case) is not False


def _issue(finding: Finding) -> KnownIssue:
    return KnownIssue(
        finding.rule,
        finding.name,
        finding.title,
        finding.severity,
        finding.certainty,
        finding.missing,
        finding.remedies,
    )


def _doubted(issue: KnownIssue) -> KnownIssue:
    """The same, but possible at most."""
    missing = tuple(dict.fromkeys((_BUILD_ID, *issue.missing)))
    return replace(issue, certainty="possible", missing=missing)
