"""The Report: facts, findings and their summary as one value, its JSON form and the exit code that follows from it.

Built once from an Environment and a Judgement; renderers read it and decide nothing. No I/O, no clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

from ..engine.matching import Judgement
from ..engine.model import SEVERITIES, Advice, Finding, Rule, Severity
from ..environment import Environment, Fact, encode, unknown
from ..values import dataclass

SCHEMA = "kerneldoctor.report/1"
FailOn = Literal["error", "warning", "info", "never"]


class ExitCode(enum.IntEnum):
    """What the process tells its caller; the same in every format."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNDETERMINED = 3
    BUG = 4


@dataclass(frozen=True, slots=True)
class Ignore:
    """A finding that somebody decided to live with. `until` is the last day it holds (ISO date), or ""."""

    rule: str
    reason: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class IgnoreUse:
    """What became of an Ignore: it hid a finding, matched nothing, or is past its date and hides nothing."""

    ignore: Ignore
    state: Literal["used", "unused", "expired"]


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts that headlines and exit codes rest on. Severities count confirmed findings that are not ignored."""

    error: int
    warning: int
    info: int
    fine: int  # rules that were decided and do not hold
    not_determined: int  # rules that hold only perhaps, and rules that could not be decided at all
    ignored: int  # findings
    required_unknown: tuple[str, ...]  # facts that every scan must know and this one does not
    kernels_named: int = 0  # kernels that were asked about beside
    kernels_failing: int = 0  # kernels that were named and would not load here
    kernels_undetermined: int = 0  # kernels that were named and of which that cannot be told


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Which kerneldoctor and which rules made a report."""

    version: str
    rules: int
    newest: str  # when the newest rule was added, ISO date


@dataclass(frozen=True, slots=True)
class Report:
    """See the module."""

    environment: Environment
    findings: tuple[Finding, ...]  # confirmed and possible, worst first, ignored ones included
    fine: tuple[str, ...]  # rule ids
    undetermined: Mapping[str, tuple[str, ...]]  # rule id to the facts that would settle it
    reasons: Mapping[str, str]  # why a fact that would settle something is unknown, derived facts included
    titles: Mapping[str, str]  # of the fine and the undetermined rules
    out_of_scope: tuple[str, ...]  # rules about a kernel or a workload that nobody named
    ignores: tuple[IgnoreUse, ...]
    summary: Summary
    knowledge: Knowledge
    date: str  # ISO date on which it was judged

    def ignored(self, finding: Finding) -> Ignore | None:
        """The ignore entry that hides a finding from counts and exit code."""
        return _ignore_of(finding, [use.ignore for use in self.ignores if use.state == "used"])

    @property
    def active(self) -> tuple[Finding, ...]:
        """The findings that nobody ignores."""
        return tuple(finding for finding in self.findings if self.ignored(finding) is None)

    def why_unknown(self, path: str) -> str:
        """The reason that an unknown fact gives, also a derived one or one of a list's item; "" where it is known."""
        fact = _fact(self.environment, path)
        return fact.note if fact is not None and fact.is_unknown else self.reasons.get(path, "")

    def to_json(self) -> dict[str, Any]:
        """The published form, see schema.json."""
        return {
            "schema": SCHEMA,
            "date": self.date,
            "kerneldoctor": asdict(self.knowledge),
            "summary": {**asdict(self.summary), "required_unknown": list(self.summary.required_unknown)},
            "findings": [_finding_json(finding, self.ignored(finding)) for finding in self.findings],
            "fine": list(self.fine),
            "undetermined": [
                {"rule": rule, "title": self.titles.get(rule, ""), "missing": list(facts)}
                for rule, facts in self.undetermined.items()
            ],
            "reasons": dict(self.reasons),
            "out_of_scope": list(self.out_of_scope),
            "ignores": [{**asdict(use.ignore), "state": use.state} for use in self.ignores],
            "environment": self.environment.to_json(),
        }


def build_report(
    environment: Environment,
    judgement: Judgement,
    rules: Iterable[Rule],
    ignores: Iterable[Ignore],
    version: str,
    date: str,
) -> Report:
    """Join facts and judgement. `date` (ISO) decides which ignore entries still hold."""
    by_id = {rule.id: rule for rule in rules}
    uses = tuple(IgnoreUse(ignore, _state(ignore, judgement.findings, date)) for ignore in ignores)
    return Report(
        environment=environment,
        findings=judgement.findings,
        fine=judgement.fine,
        undetermined=judgement.undetermined,
        reasons=judgement.reasons,
        titles={
            rule: by_id[rule].name.replace("-", " ")
            for rule in (*judgement.fine, *judgement.undetermined)
            if rule in by_id
        },
        out_of_scope=judgement.out_of_scope,
        ignores=uses,
        summary=_summarise(environment, judgement, [use.ignore for use in uses if use.state == "used"]),
        knowledge=Knowledge(version, len(by_id), max((rule.added for rule in by_id.values()), default="")),
        date=date,
    )


def exit_code(summary: Summary, fail_on: FailOn = "error") -> ExitCode:
    """The exit code of a report. `never` keeps findings and missing facts from failing the caller.

    A kernel that was named counts as an error where it would not load.
    """
    if fail_on == "never":
        return ExitCode.OK
    failing: tuple[Severity, ...] = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    if summary.kernels_failing or any(getattr(summary, severity) for severity in failing):
        return ExitCode.FINDINGS
    return ExitCode.UNDETERMINED if summary.required_unknown or summary.kernels_undetermined else ExitCode.OK


def _summarise(environment: Environment, judgement: Judgement, ignores: list[Ignore]) -> Summary:
    active = [finding for finding in judgement.findings if _ignore_of(finding, ignores) is None]
    sure = [finding.severity for finding in active if finding.certainty == "confirmed"]
    # An `each` rule may be possible for several GPUs: one question, counted once.
    doubtful = {finding.rule for finding in active if finding.certainty == "possible"} | set(judgement.undetermined)
    return Summary(
        error=sure.count("error"),
        warning=sure.count("warning"),
        info=sure.count("info"),
        fine=len(judgement.fine),
        not_determined=len(doubtful),
        ignored=len(judgement.findings) - len(active),
        required_unknown=_required_unknown(environment),
    )


def _required_unknown(environment: Environment) -> tuple[str, ...]:
    """Without these no scan has looked at the machine: which GPUs, which torch, which packages."""
    missing = [path for path in ("gpus", "torch.version") if environment.fact(path).is_unknown]
    if not environment.packages.complete and not environment.packages.items:
        missing.append("packages")
    return tuple(missing)


def _state(ignore: Ignore, findings: Iterable[Finding], date: str) -> Literal["used", "unused", "expired"]:
    if ignore.until and ignore.until < date:
        return "expired"
    return "used" if any(_ignore_of(finding, [ignore]) for finding in findings) else "unused"


def _ignore_of(finding: Finding, ignores: Iterable[Ignore]) -> Ignore | None:
    return next((i for i in ignores if i.rule in (finding.rule, finding.name, *finding.aliases)), None)


def _fact(environment: Environment, path: str) -> Fact[Any] | None:
    if path == "packages":
        return None if environment.packages.complete else unknown(environment.packages.note)
    try:
        return environment.fact(path)
    except KeyError:
        return None


def _finding_json(finding: Finding, ignore: Ignore | None) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "aliases": list(finding.aliases),
        "title": finding.title,
        "severity": finding.severity,
        "certainty": finding.certainty,
        "confidence": finding.confidence,
        "component": finding.component,
        "subject": finding.subject,
        "diagnosis": finding.diagnosis,
        "facts": [{"fact": f.fact, "value": encode(f.value), "source": f.source} for f in finding.facts],
        "missing": list(finding.missing),
        "remedies": [_advice_json(advice) for advice in finding.remedies],
        "references": list(finding.references),
        "explains": list(finding.explains),
        "explained_by": finding.explained_by,
        "review_by": finding.review_by,
        "ignored": None if ignore is None else {"reason": ignore.reason, "until": ignore.until},
    }


def _advice_json(advice: Advice) -> dict[str, Any]:
    """A remedy without the keys that it does not use."""
    optional = {key: getattr(advice, key) for key in ("command", "pin", "snippet", "verify", "undo", "note")}
    return {
        "title": advice.title,
        **{key: value for key, value in optional.items() if value},
        "effect": advice.effect,
        "certain": advice.certain,
    }
