"""From a pasted report to an ordered answer: what it is, how sure, which lines show it, what fact is missing.

Reads no file and prints nothing. It never guesses: what neither the text nor the facts speak for is no answer, and a
rule that the facts deny is dropped although its words stand in the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from .. import intake
from ..engine import facts as _registered  # noqa: F401 - registers the derived facts that rules name
from ..engine.case import Case, Kernel, Tables, Workload
from ..engine.conditions import leaves
from ..engine.loading import all_rules, shipped_tables
from ..engine.matching import judge_certain, judge_told
from ..engine.model import Finding, Rule, Severity
from ..engine.patterns import squeeze
from ..engine.symptoms import STRENGTHS, Hit, Symptoms
from ..engine.testimony import add_told, add_told_of, infer, told
from ..environment import Environment, Fact
from ..intake.model import Contradiction, Pasted
from ..intake.saved import without_captures
from ..intake.text import clean, to_bytes
from ..values import dataclass
from .asking import REPLAY, Ask, ask_for

Basis = Literal["text and facts", "text", "facts"]
Standing = Literal["open", "mended", "mentioned"]  # mended: by the text's own word; mentioned: nobody says to have it
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)
_OF_STRENGTH = {"decisive": 60, "telling": 40, "hint": 12}
_OF_SEVERITY = {"error": 0, "warning": -4, "info": -10}
_FACTS_ALONE = {"error": 28, "warning": 16, "info": 4}
_SHOWN_LINES = 6
_TAKEN_FOR_GRANTED = ("gpu.visible",)  # somebody who reports on a GPU uses it
_UNSAID = re.compile(r"\((?:unknown|none)\)")  # what a template says of a fact that it lacks
_MENTION = intake.is_mention_of_message
_CRASH = re.compile(r"\b\w{0,40}(?:Error|Exception)\b: |\bfatal ?(?:error)?\s*:|undefined symbol|: error: ")
_MENTIONED = 30  # what a mere mention costs


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the report."""

    number: int  # from 1
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A finding with what the report shows for it."""

    finding: Finding
    basis: Basis
    lines: tuple[Shown, ...]
    subjects: tuple[str, ...]  # GPUs or extensions that it holds for
    ask: Ask | None  # what would settle it; None where it is settled
    score: int  # what the order rests on
    standing: Standing = "open"


@dataclass(frozen=True, slots=True)
class Refuted:
    """A rule whose words stand in the text, and whose conditions the facts deny."""

    rule: str
    title: str
    lines: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What came of one report."""

    name: str
    answers: tuple[Answer, ...]  # best first
    refuted: tuple[Refuted, ...]
    environment: Environment
    kernel: Kernel
    workload: Workload
    kinds: tuple[str, ...]  # the formats that were recognised
    contradictions: tuple[Contradiction, ...]
    machines: int
    has_error: bool  # an error or a traceback stands in the text
    truncated: bool
    ask: Ask | None  # what would help most

    @property
    def determined(self) -> bool:
        """Whether there is an answer."""
        return bool(self.answers)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Rules, tables and the rules' symptoms, made ready once for many reports."""

    rules: tuple[Rule, ...]
    tables: Tables
    symptoms: Symptoms


@functools.lru_cache(maxsize=4)
def knowledge(folders: tuple[str, ...] = ()) -> Knowledge:
    """The shipped rules and those of extra folders. Raises RuleError."""
    rules = tuple(rule for rule in all_rules(tuple(map(Path, folders))) if not rule.withdrawn)
    return Knowledge(rules, shipped_tables(), Symptoms(rules))


def diagnose_text(text: str | bytes, name: str = "", known: Knowledge | None = None) -> Diagnosis:
    """Read one pasted report and say what it is. Never raises for a text."""
    known = known or knowledge()
    pasted = intake.read(text, name)
    data = without_captures(to_bytes(text))
    lines = [clean(line) for line in data.decode("utf-8", "replace").split("\n")]
    return _answer(pasted, _hits(lines, intake.heard(data), known.symptoms), known)


def _hits(lines: list[str], said: Sequence[intake.Said], symptoms: Symptoms) -> tuple[Hit, ...]:
    """The symptoms in what the text reports; of rules that it does not report, those in the rest of it."""
    if all(one.voice == "reports" for one in said):
        return tuple(_heard(hit, "speaks" if _MENTION(hit.beside) else "reports") for hit in symptoms.search(lines))
    found: list[Hit] = []
    for voice in ("reports", "mended", "speaks"):
        spoken = [line if one.voice == voice else "" for line, one in zip(lines, said, strict=True)]
        known = {hit.rule for hit in found if hit.voice == "reports"}
        hits = [hit for hit in symptoms.search(spoken) if hit.rule not in known]
        found += [_heard(hit, "speaks" if voice == "reports" and _MENTION(hit.beside) else voice) for hit in hits]
    return tuple(sorted(found, key=lambda hit: (hit.first_line, hit.rule)))


def _heard(hit: Hit, voice: str) -> Hit:
    return replace(hit, voice=voice)


def _answer(pasted: Pasted, hits: tuple[Hit, ...], known: Knowledge) -> Diagnosis:
    testimony = told(hit for hit in hits if hit.voice == "reports")
    case = Case(
        infer(add_told(pasted.environment, testimony), known.tables),
        known.tables,
        add_told_of(pasted.kernel or Kernel(), "kernel", testimony),
        add_told_of(pasted.workload or Workload(), "workload", testimony),
    )
    errors = squeeze(" ".join(block.text for block in pasted.error_text))
    answers, refuted = _weigh(case, hits, known.rules, errors)
    ordered = tuple(sorted(_causes_first(answers), key=lambda a: (-a.score, _first_line(a), a.finding.rule)))
    return Diagnosis(
        name=pasted.name,
        answers=ordered,
        refuted=tuple(refuted),
        environment=case.environment,
        kernel=case.kernel or Kernel(),
        workload=case.workload or Workload(),
        kinds=pasted.kinds,
        contradictions=pasted.contradictions,
        machines=pasted.machines,
        has_error=bool(pasted.error_text) or bool(hits),
        truncated=pasted.truncated,
        ask=_ask(pasted, ordered, case),
    )


def _ask(pasted: Pasted, answers: tuple[Answer, ...], case: Case) -> Ask | None:
    if "kerneldoctor capture" in pasted.kinds and not (answers and answers[0].ask is None):
        return REPLAY
    return answers[0].ask if answers else ask_for((), case)


def _weigh(case: Case, hits: Iterable[Hit], rules: Iterable[Rule], errors: str) -> tuple[list[Answer], list[Refuted]]:
    by_rule: dict[str, list[Hit]] = {}
    for hit in hits:
        by_rule.setdefault(hit.rule, []).append(hit)
    answers: list[Answer] = []
    refuted: list[Refuted] = []
    silent: list[Rule] = []
    for rule in rules:
        mine = by_rule.get(rule.id)
        if mine is None:
            silent.append(rule)
            continue
        truth, found = judge_told(rule, case)
        if not any(hit.strength != "hint" for hit in mine):
            answers += _by_hint(rule, found, truth, mine, case)
        elif truth is False:
            refuted.append(Refuted(rule.id, rule.name.replace("-", " "), _lines(mine, ())))
        else:
            answers.append(_by_text(found, truth, mine, case))
    answers += _by_facts(silent, case, errors)
    return answers, refuted


def _by_text(found: tuple[Finding, ...], truth: bool | None, hits: list[Hit], case: Case) -> Answer:
    finding = found[0]
    best = min(hits, key=lambda hit: (STRENGTHS.index(hit.strength), -hit.weight))
    score = _OF_STRENGTH[best.strength] + min(best.weight, 60) // 4 + _OF_SEVERITY[finding.severity]
    score += 30 if truth else min(5 * len(finding.facts), 20)
    standing = _standing(hits)
    score -= _MENTIONED * (standing != "open")
    others = bool(truth) and _has_other_lines(finding, hits)
    sure = others if standing == "mentioned" else standing == "open" and (bool(truth) or best.strength == "decisive")
    settled = _settled(replace(finding, severity=_harm(finding, hits)) if standing == "open" else finding, sure)
    return Answer(
        finding=settled,
        basis="text and facts" if truth else "text",
        lines=_lines(hits, settled.facts),
        subjects=_subjects(found),
        ask=_open_question(finding, settled, sure, case) if standing != "mended" else None,
        score=score,
        standing=standing,
    )


def _open_question(finding: Finding, settled: Finding, sure: bool, case: Case) -> Ask | None:
    """What to ask for: what would settle it, or what a remedy lacks where there is none."""
    if sure and settled.remedies:
        return None
    return ask_for(finding.missing if sure else settled.missing, case)


def _harm(finding: Finding, hits: Iterable[Hit]) -> Severity:
    """A fault of which somebody shows the crash is no mere risk."""
    crashed = any(_CRASH.search(line) for hit in hits if hit.strength != "hint" for line in hit.lines)
    return "error" if crashed else finding.severity


def _standing(hits: Iterable[Hit]) -> Standing:
    """Whether the fault is there, was mended in the text, or is only spoken of."""
    heard = {hit.voice for hit in hits}
    return "open" if "reports" in heard else "mended" if "mended" in heard else "mentioned"


def _has_other_lines(finding: Finding, hits: Iterable[Hit]) -> bool:
    """Whether a fact that decided it stands elsewhere than in the words themselves."""
    own = {line for hit in hits for line in range(hit.first_line, hit.last_line + 1)}
    lines = [_LINE.match(used.source) for used in finding.facts]
    return any(int(line[1]) not in own for line in lines if line)


def _settled(finding: Finding, sure: bool) -> Finding:
    """The finding as far as the text settles it, without remedies that lack a fact."""
    missing = () if sure else tuple(path for path in finding.missing if path not in _TAKEN_FOR_GRANTED)
    whole = tuple(a for a in finding.remedies if not _UNSAID.search(a.command + a.snippet + a.pin))
    return replace(finding, certainty="confirmed" if sure else "possible", missing=missing, remedies=whole)


def _by_hint(
    rule: Rule, found: tuple[Finding, ...], truth: bool | None, hits: list[Hit], case: Case
) -> Iterator[Answer]:
    """Somebody's words fit the rule: an answer only where facts of the rule's own speak for it as well."""
    if truth is False or not (truth or _is_backed(rule, case)):
        return
    finding = _settled(found[0], bool(truth))
    yield Answer(
        finding=finding,
        basis="facts",
        lines=_lines(hits, finding.facts),
        subjects=_subjects(found),
        ask=None if truth else ask_for(finding.missing, case),
        score=_OF_STRENGTH["hint"] + (30 if truth else min(6 * len(finding.facts), 18)),
    )


def _is_backed(rule: Rule, case: Case) -> bool:
    """Whether any fact is known on which the rule rests."""
    item = case.blank_item(rule.each) if rule.each else case
    paths = [path for leaf in leaves(rule.when) for path in item.basis(leaf.fact)]
    return any(item.fact(path).is_known for path in paths)


def _by_facts(rules: list[Rule], case: Case, errors: str) -> Iterator[Answer]:
    """Findings of rules without a word in the text, where they are certain: of the others nothing rules out many."""
    grouped: dict[str, list[Finding]] = {}
    for finding in judge_certain(rules, case):
        grouped.setdefault(finding.rule, []).append(finding)
    for found in grouped.values():
        yield Answer(
            finding=_settled(found[0], sure=True),
            basis="facts",
            lines=_lines((), found[0].facts),
            subjects=_subjects(found),
            ask=None,
            score=_FACTS_ALONE[found[0].severity] + 15 * _is_about(found[0], errors),
        )


def _is_about(finding: Finding, errors: str) -> bool:
    """Whether the error speaks of the component that the finding is about."""
    name = finding.component.rpartition("/")[2].lower()
    return bool(errors) and any(form in errors for form in {name, name.replace("-", "_")} if len(form) > 4)


def _causes_first(answers: list[Answer]) -> list[Answer]:
    """Marks each consequence with its cause, and puts the cause before it."""
    scores = {answer.finding.rule: answer.score for answer in answers}
    causes: dict[str, str] = {}
    for _ in range(3):  # a cause may itself be a consequence
        for answer in answers:
            finding = answer.finding
            if answer.basis == "facts" and finding.certainty == "possible":
                continue
            for consequence in finding.explains:
                if consequence in scores:
                    causes[consequence] = finding.rule
                    scores[finding.rule] = max(scores[finding.rule], scores[consequence] + 1)
    return [
        replace(
            answer,
            score=scores[answer.finding.rule],
            finding=replace(answer.finding, explained_by=causes.get(answer.finding.rule, "")),
        )
        for answer in answers
    ]


def _lines(hits: Iterable[Hit], used: Iterable[Any]) -> tuple[Shown, ...]:
    """The lines of the report that show it: the words first, then the facts, none twice."""
    shown: dict[int, str] = {}
    for hit in sorted(hits, key=lambda hit: STRENGTHS.index(hit.strength)):
        for offset, text in enumerate(hit.lines):
            shown.setdefault(hit.first_line + offset, text)
    for fact in used:
        place = _LINE.match(fact.source)
        if place:
            shown.setdefault(int(place[1]), place[2])
    return tuple(Shown(number, text) for number, text in list(shown.items())[:_SHOWN_LINES])


def _subjects(found: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(finding.subject for finding in found if finding.subject not in ("", "?")))


def _first_line(answer: Answer) -> int:
    return answer.lines[0].number if answer.lines else 1 << 30


def line_of(fact: Fact[Any]) -> int | None:
    """The line of the report that a fact comes from."""
    place = _LINE.match(fact.note)
    return int(place[1]) if place else None
