"""Weighs what rules say of a build against what was measured: the measurement outranks, and a contradiction is said.

Pure. A rule about a build often hangs on the workload; it is asked about each case that ran, with that case's numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..engine import facts  # noqa: F401 - registers the derived facts that rules name
from ..engine.case import Case as Question
from ..engine.case import Kernel, Tables, Workload
from ..engine.conditions import evaluate
from ..engine.examples import symptom_matches
from ..engine.matching import judge
from ..engine.model import Advice, Rule
from ..environment import Environment, Fact, absent, known
from ..hub.issues import Faults, KnownIssue
from ..hub.listing import Build
from .trial import CaseReport, Note, Run

_SOURCE = "case"
_QUOTED = ("raised", "oom", "crashed")  # outcomes whose detail is the exception or the signal


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What there is to ask: the rules, the tables, the machine and the build."""

    rules: tuple[Rule, ...]
    tables: Tables
    environment: Environment
    kernel: Kernel | None

    def issues(self, workload: Workload | None) -> tuple[KnownIssue, ...]:
        """The rules that speak of this build, for a workload."""
        if self.kernel is None:
            return ()
        question = Question(self.environment, self.tables)
        build = Build(str(self.kernel.variant.value or ""), str(self.kernel.build_id.value or ""))
        return Faults(self.rules, question, workload).of_build(self.kernel, build)


def weigh(knowledge: Knowledge, workload: Workload | None, runs: Sequence[Run]) -> tuple[Note, ...]:
    """The rules about this build, each with how the measurement stands to it; then those that know the error text."""
    reports = [report for run in runs for report in run.cases]
    predicted = {id(report): knowledge.issues(workload_of(report.case.params)) for report in _judged(reports)}
    about = [_weigh_rule(issue, predicted, reports, runs) for issue in knowledge.issues(workload)]
    seen = {note.rule for note in about}
    return (*about, *(note for note in _symptoms(knowledge, runs) if note.rule not in seen))


def workload_of(params: Mapping[str, Any]) -> Workload:
    """A case's parameters as the facts that rules read; what the case does not name is unknown."""
    window = params.get("window")

    def given(name: str) -> Fact[Any]:
        value = params.get(name)
        return known(value, _SOURCE) if value is not None else Workload().backward

    return Workload(
        backward=known(bool(params.get("backward")), _SOURCE),
        q_heads=given("heads"),
        kv_heads=given("kv_heads"),
        head_dim=given("head_dim"),
        dtype=given("dtype"),
        causal=given("causal"),
        sliding_window=known(int(window[0]), _SOURCE) if window else absent(_SOURCE),
        softcap=known(params["softcap"], _SOURCE) if params.get("softcap") else absent(_SOURCE),
        dropout=known(params["dropout"], _SOURCE) if params.get("dropout") else absent(_SOURCE),
        compile=known(False, _SOURCE),
        distributed=known(False, _SOURCE),
    )


def workload_facts(asked: Mapping[str, Any], backward: bool) -> Workload:
    """A workload that was asked for, as rules read it. Without one at most the direction is known."""
    if not asked:
        return Workload() if backward else Workload(backward=known(False, "--inference"))
    window = [asked["window"]] if asked.get("window") else None
    facts_of_it = workload_of({**asked, "backward": backward, "window": window})
    named = asked.get("model_type")
    return replace(facts_of_it, model_type=known(named, "config.json")) if named else facts_of_it


def _judged(reports: Iterable[CaseReport]) -> Iterable[CaseReport]:
    return (report for report in reports if report.failed or report.outcome == "passed")


def _weigh_rule(
    issue: KnownIssue,
    predicted: Mapping[int, tuple[KnownIssue, ...]],
    reports: Sequence[CaseReport],
    runs: Sequence[Run],
) -> Note:
    about = [
        report
        for report in _judged(reports)
        if any(found.rule == issue.rule and found.certainty == "confirmed" for found in predicted[id(report)])
    ]
    failed = [report for report in about if report.failed]
    if not about and any(run.problem is not None and run.problem.kind != "refused" for run in runs):
        return _note(issue, "agrees", "the kernel took its process along while it was loaded, as far as this rule goes")
    if not about:
        return _note(issue, "open", "no case that ran is of the kind that this rule is about")
    ids = ", ".join(report.case.id for report in (failed or about)[:3])
    if failed:
        return _note(issue, "agrees", f"measured as predicted: {len(failed)} of {len(about)} such cases failed ({ids})")
    if issue.severity != "error":
        return _note(issue, "open", f"the {len(about)} cases that it is about passed")
    text = f"the rule says that it fails, and all {len(about)} such cases passed here ({ids}): the measurement counts"
    return _note(issue, "disagrees", text)


def _symptoms(knowledge: Knowledge, runs: Sequence[Run]) -> Iterable[Note]:
    """Rules whose symptoms are in what failed. A rule whose conditions are decided otherwise is said to be so."""
    texts = list(dict.fromkeys(text for run in runs for text in _evidence(run)))
    whole = "\n".join(texts)
    if not whole:
        return
    question = Question(knowledge.environment, knowledge.tables, knowledge.kernel, Workload())
    for rule in knowledge.rules:
        if rule.withdrawn or not rule.symptoms or not symptom_matches(rule, whole):
            continue
        holds = evaluate(rule.when, question) if rule.when is not None and not rule.each else None
        text = "the error text is that of this rule"
        if holds is False:
            text += ", although what it is known for is not what is here"
        advice = next((f.remedies for f in judge([rule], question).findings), ())
        yield Note(
            rule.id,
            _title(rule),
            rule.severity,
            "symptom",
            "open" if holds is False else "agrees",
            text,
            _remedies(advice),
        )


def _title(rule: Rule) -> str:
    """Its title, unless that speaks of facts that an error text alone does not settle."""
    return rule.name.replace("-", " ") if "{" in rule.title else rule.title


def _evidence(run: Run) -> Iterable[str]:
    """What the kernel and its libraries wrote. Our own sentences (of what is wrong, of a limit) are no symptom."""
    if run.problem is not None:
        yield run.problem.message
        yield run.problem.said
    for report in run.cases:
        if report.failed:
            if report.outcome in _QUOTED:
                yield report.detail
            yield report.said


def _note(issue: KnownIssue, standing: Any, text: str) -> Note:
    return Note(issue.rule, issue.title, issue.severity, "build", standing, text, _remedies(issue.remedies))


def _remedies(advices: Iterable[Advice]) -> tuple[Mapping[str, Any], ...]:
    return tuple({key: value for key, value in asdict(advice).items() if value != ""} for advice in advices)
