"""Rules over a Case: confirmed and possible findings, ordered by harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from ..environment import Fact
from ..values import dataclass
from .case import Case
from .conditions import BINARY, Truth, deciding, evaluate, leaves, undecided
from .model import SEVERITIES, Advice, Condition, Finding, Leaf, Remedy, Rule, Tree, UsedFact
from .templates import TEMPLATE, can_fill, fill, nameless, places, settle


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the rules say of one Case."""

    findings: tuple[Finding, ...]  # worst first; confirmed before possible
    fine: tuple[str, ...]  # ids of rules that were decided and do not hold
    undetermined: Mapping[str, tuple[str, ...]]  # rule id to the facts that would settle it, findings excluded
    out_of_scope: tuple[str, ...]  # ids of rules about a kernel or workload that nobody named
    reasons: Mapping[str, str] = field(default_factory=dict)  # why a fact that is missing is unknown, derived ones too


def judge(rules: Iterable[Rule], case: Case) -> Judgement:
    """Evaluate every rule once (or once per item)."""
    findings: list[Finding] = []
    fine: list[str] = []
    undetermined: dict[str, tuple[str, ...]] = {}
    out_of_scope: list[str] = []
    reasons: dict[str, str] = {}
    for rule in rules:
        if rule.when is None or rule.withdrawn:
            continue
        if not _in_scope(rule.when, case):
            out_of_scope.append(rule.id)
            continue
        found, doubts = _judge_rule(rule, rule.when, case, reasons)
        findings += found
        if doubts and not found:
            undetermined[rule.id] = tuple(dict.fromkeys(doubts))
        elif not found:
            fine.append(rule.id)
    return Judgement(_order(_fold(findings)), tuple(fine), undetermined, tuple(out_of_scope), reasons)


def judge_certain(rules: Iterable[Rule], case: Case) -> Iterator[Finding]:
    """What certainly holds, in order of the rules. Of what may hold nothing is worked out: `judge` does that."""
    for rule in rules:
        if rule.when is not None and not rule.withdrawn:
            for item in case.items(rule.each) if rule.each else (case,):
                if evaluate(rule.when, item):
                    yield _finding(rule, rule.when, item, True, ())


def judge_told(rule: Rule, case: Case) -> tuple[Truth, tuple[Finding, ...]]:
    """A rule whose symptom was read in a text: what the facts say of it, and what it finds where they do not deny it.

    Where a list (GPUs, extensions) is empty or unknown, the rule is judged on one item of which nothing is known.
    """
    items = (tuple(case.items(rule.each)) or (case.blank_item(rule.each),)) if rule.each else (case,)
    truths = [(item, evaluate(rule.when, item) if rule.when else None) for item in items]
    wanted = next((truth for truth in (True, None) if any(t is truth for _, t in truths)), False)
    if wanted is False:
        return False, ()
    found = [_told(rule, item, truth) for item, truth in truths if truth is wanted]
    return wanted, tuple(found)


def _told(rule: Rule, case: Case, truth: Truth) -> Finding:
    when = rule.when or Tree("all", ())
    finding = _finding(rule, when, case, truth, tuple(_missing(when, case)) if rule.when else ())
    return replace(finding, title=heading(rule.title, case), diagnosis=explanation(rule, case))


def explanation(rule: Rule, case: Case) -> str:
    """A rule's diagnosis without the sentences that lack a fact; its title where none is left."""
    sentences = re.split(r"(?<=\.) (?=[A-Z{])", settle(rule.diagnosis, case))
    whole = " ".join(fill(sentence, case) for sentence in sentences if can_fill(sentence, case))
    whole = whole or f"{heading(rule.title, case)}."
    return whole[0].upper() + whole[1:] if whole.startswith(("the ", "this ")) else whole


def heading(template: str, case: Case) -> str:
    """A title with what is known filled in and the rest left out."""

    def value(match: re.Match[str]) -> str:
        text = fill(match[0], case)
        return _GAP if text in ("(unknown)", "(none)") else text

    text = re.sub(
        rf" ?\([^()]*{_GAP}[^()]*\)", "", TEMPLATE.sub(value, settle(template, case))
    )  # a remark that lacks a fact
    text = " ".join(re.sub(rf":? ?{_GAP}", "", text).split())
    return text[0].upper() + text[1:] if text.startswith(("the ", "this ")) else text


_GAP = "\0"


def _judge_rule(rule: Rule, when: Condition, case: Case, reasons: dict[str, str]) -> tuple[list[Finding], list[str]]:
    findings: list[Finding] = []
    doubts: list[str] = []
    for item in case.items(rule.each) if rule.each else (case,):
        truth = evaluate(when, item)
        if truth is False:
            continue
        missing = _missing(when, item)
        reasons |= missing
        if truth is None and not _suggested(when, item):
            doubts += missing
        else:
            findings.append(_finding(rule, when, item, truth, tuple(missing)))
    return findings, doubts


def _in_scope(when: Condition, case: Case) -> bool:
    heads = {path.partition(".")[0] for leaf in leaves(when) for path in _paths(leaf)}
    return not ("kernel" in heads and case.kernel is None) and not ("workload" in heads and case.workload is None)


def _paths(leaf: Leaf) -> tuple[str, ...]:
    """The facts that a comparison reads."""
    return (leaf.fact, leaf.operand) if leaf.operator in BINARY else (leaf.fact,)


def _suggested(when: Condition, case: Case) -> bool:
    """Whether something that was seen speaks for the rule: otherwise every rule would be "possible" on a blank."""
    return any(leaf.operator != "present" for leaf in deciding(when, case))


def _missing(when: Condition, case: Case) -> dict[str, str]:
    """The facts that keep a condition from being decided, and why each is unknown."""
    paths: dict[str, str] = {}
    for leaf in undecided(when, case):
        for path in _paths(leaf):
            doubts = {p: fact.note for p, fact in case.basis(path).items() if fact.is_unknown}
            # A derived fact can be unknown although all it rests on is known: a release that no table holds.
            if not doubts and case.fact(path).is_unknown:
                doubts = {path: case.fact(path).note}
            paths |= doubts
    return paths


def _finding(rule: Rule, when: Condition, case: Case, truth: Truth, missing: tuple[str, ...]) -> Finding:
    used: dict[str, Fact[Any]] = {}
    for leaf in deciding(when, case):
        for path in _paths(leaf):
            used |= {p: f for p, f in case.basis(path).items() if not f.is_unknown}
            used[path] = case.fact(path)
    return Finding(
        rule=rule.id,
        name=rule.name,
        aliases=rule.aliases,
        title=fill(rule.title, case) if truth else heading(rule.title, case),
        severity=rule.severity,
        certainty="confirmed" if truth else "possible",
        confidence=rule.confidence,
        component=rule.component,
        diagnosis=fill(rule.diagnosis, case) if truth else explanation(rule, case),
        subject=_subject(case),
        facts=tuple(UsedFact(p, f.value, f.note) for p, f in used.items() if not f.is_unknown),
        missing=missing if truth is None else (),
        remedies=tuple(_advice(rule.remedies, case)),
        references=tuple(dict.fromkeys(evidence.url for evidence in rule.evidence)),
        explains=rule.explains,
        explained_by="",
        review_by=rule.review_by,
    )


def _subject(case: Case) -> str:
    if case.item_name == "gpu":
        index, name = case.fact("gpu.index"), case.fact("gpu.name")
        if not name.is_known:
            return nameless("gpu.name", case) if index.is_known else ""
        return f"GPU {index.value}: {name.value}" if index.is_known else str(name.value)
    if case.item_name:
        return fill("{extension.module}", case)
    return ""


def _advice(remedies: Iterable[Remedy], case: Case) -> Iterator[Advice]:
    """The remedies that suit this case and can be told in full, those whose condition is certain first."""
    suited = [(evaluate(r.when, case) if r.when else True, r) for r in remedies if _complete(r, case)]
    for wanted in (True, None):
        for truth, r in suited:
            if truth is wanted:
                yield _fill_remedy(r, case, bool(truth))


def _complete(remedy: Remedy, case: Case) -> bool:
    """Whether no fact is missing from what a person would type or do: half a command is worse than none."""
    typed = [text.replace("{remedy.pin}", remedy.pin) for text in (remedy.command, remedy.pin, remedy.snippet)]
    named = all(case.fact(path).is_known for text in typed for path in places(text))  # "the kernel" is no argument
    return named and can_fill(remedy.title, case)


def _fill_remedy(remedy: Remedy, case: Case, certain: bool) -> Advice:
    def text(template: str) -> str:
        return fill(template.replace("{remedy.pin}", remedy.pin), case)

    def if_whole(template: str) -> str:
        return text(template) if can_fill(template, case) else ""

    return Advice(
        title=text(remedy.title),
        command=text(remedy.command),
        pin=text(remedy.pin),
        snippet=text(remedy.snippet),
        verify=if_whole(remedy.verify),
        effect=remedy.effect,
        undo=if_whole(remedy.undo),
        note=_sentences(remedy.note, if_whole),
        certain=certain,
    )


def _sentences(text: str, tell: Callable[[str], str]) -> str:
    return " ".join(filter(None, map(tell, re.split(r"(?<=\.) (?=[A-Z])", text))))


def _fold(findings: list[Finding]) -> list[Finding]:
    """Mark each consequence with its cause, where the cause is at least as certain."""
    causes = {name: f for f in findings for name in f.explains}
    certain = {f.rule for f in findings if f.certainty == "confirmed"}
    return [
        replace(f, explained_by=causes[f.rule].rule)
        if f.rule in causes and (causes[f.rule].rule in certain or f.certainty == "possible")
        else f
        for f in findings
    ]


def _order(findings: list[Finding]) -> tuple[Finding, ...]:
    def key(finding: Finding) -> tuple[bool, int, bool, str, str]:
        return (
            finding.certainty == "possible",
            SEVERITIES.index(finding.severity),
            bool(finding.explained_by),
            finding.rule,
            finding.subject,
        )

    return tuple(sorted(findings, key=key))
