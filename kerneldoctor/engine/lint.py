"""What a rule must be beyond its form: facts that exist, tested conditions, evidence, a page that explains it.

The loader refuses what it cannot read; the linter names what an author must mend. Neither is run on a user's scan.
"""

from __future__ import annotations

import datetime
import difflib
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import replace

from .case import Tables, schema_paths, schema_type
from .conditions import BINARY, leaves, parse_specifier
from .examples import answer, symptom_matches
from .lint_symptoms import lint_symptoms
from .model import Condition, Leaf, Rule, Tree
from .templates import never_filled, places

SECTIONS = ("# What you see", "# Why", "# What to do", "# How we know")


def lint(rules: Iterable[Rule], tables: Tables, today: datetime.date, beside: Iterable[Rule] = ()) -> list[str]:
    """Every complaint about the rules, each as `file: what is wrong`. `beside` are rules they will be judged with."""
    rules = list(rules)
    complaints: list[str] = []
    for rule in rules:
        complaints += [f"{rule.file}: {text}" for text in _lint_rule(rule, tables, today)]
    complaints += _lint_together(rules, tuple(beside))
    return complaints


def _lint_rule(rule: Rule, tables: Tables, today: datetime.date) -> Iterator[str]:
    if not rule.file.endswith(f"{rule.id}-{rule.name}.md"):
        yield f"the file of {rule.id} must be named {rule.id}-{rule.name}.md"
    if len(rule.title) > 90:
        yield f"title is {len(rule.title)} characters long, at most 90"
    if rule.severity == "error" and rule.confidence == "inferred":
        yield "an inferred rule may not be an error: somebody must have reported or reproduced it"
    if rule.review_by and rule.review_by < today.isoformat():
        yield f"past its review date {rule.review_by}: check it again and move the date"
    for section in SECTIONS:
        if section not in rule.body:
            yield f"the body lacks the section {section!r}"
    if not rule.evidence:
        yield "no [[evidence]]"
    for evidence in rule.evidence:
        if not evidence.says:
            yield f"evidence {evidence.url} lacks `says`"
    for remedy in rule.remedies:
        if not (remedy.verify or remedy.effect == "safe"):
            yield f"remedy {remedy.title!r} changes something and lacks `verify`"
    yield from _never_filled(rule)
    unknown = list(_unknown_facts(rule))
    yield from unknown
    if not unknown:
        yield from _lint_values(rule)
        yield from _lint_examples(rule, tables)
    yield from lint_symptoms(rule)


def _unknown_facts(rule: Rule) -> Iterator[str]:
    named = [path for condition in _conditions(rule) for leaf in leaves(condition) for path in _named(leaf)]
    named += [path for text in _texts(rule) for path in places(text) if path != "remedy.pin"]
    for path in dict.fromkeys(named):
        try:
            schema_type(path, rule.each)
        except KeyError:
            near = difflib.get_close_matches(path, schema_paths(), 1)
            yield f"no such fact {path!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _never_filled(rule: Rule) -> Iterator[str]:
    for text in _texts(rule):
        for place in never_filled(text):
            yield f"{place} is not filled in: a fact is named as {{torch.cuda}}"


def _texts(rule: Rule) -> Iterator[str]:
    """Every text in which facts are filled in."""
    yield from (rule.title, rule.diagnosis)
    for remedy in rule.remedies:
        yield from (remedy.title, remedy.command, remedy.pin, remedy.snippet)
        yield from (remedy.verify, remedy.note, remedy.undo)


def _named(leaf: Leaf) -> tuple[str, ...]:
    return (leaf.fact, leaf.operand) if leaf.operator in BINARY else (leaf.fact,)


def _conditions(rule: Rule) -> Iterator[Condition]:
    if rule.when is not None:
        yield rule.when
    for remedy in rule.remedies:
        if remedy.when is not None:
            yield remedy.when


def _lint_values(rule: Rule) -> Iterator[str]:
    for condition in _conditions(rule):
        for leaf in leaves(condition):
            kind = schema_type(leaf.fact, rule.each)
            complaint = _operator_complaint(leaf, kind)
            if complaint:
                yield f"{leaf.fact} {leaf.operator}: {complaint}"


def _operator_complaint(leaf: Leaf, kind: object) -> str:
    is_list = typing.get_origin(kind) is tuple
    match leaf.operator:
        case "in" if kind is not str:
            return "a version range is for text facts"
        case "in":
            if parse_specifier(str(leaf.operand)) is None:
                return f"{leaf.operand!r} is no version specifier"
            if re.search(r"<=|>(?!=)", str(leaf.operand)):
                return "write only < and >=: <=2.8.3 leaves out 2.8.3.post2, and so does >2.8.3"
        case "at_least" | "at_most" if kind not in (int, float):
            return "is for numbers; compare versions with `in`"
        case "has" if not is_list:
            return "is for lists"
        case "is" if type(leaf.operand) is not kind:
            return f"the fact is a {getattr(kind, '__name__', kind)}, the operand a {type(leaf.operand).__name__}"
        case "one_of" if not isinstance(leaf.operand, tuple):
            return "needs a list"
        case "present" if not isinstance(leaf.operand, bool):
            return "needs true or false"
        case _:
            pass
    return ""


def _lint_examples(rule: Rule, tables: Tables) -> Iterator[str]:
    wanted = {example.expect for example in rule.examples}
    if rule.when is not None:
        for expect in ("fires", "silent"):
            if expect not in wanted:
                yield f"no example that {'fires' if expect == 'fires' else 'stays silent'}"
    if rule.symptoms and "symptom" not in wanted:
        yield "no example of the symptom's text"
    failed = False
    for example in rule.examples:
        try:
            got, missing = answer(rule, example, tables)
        except (ValueError, TypeError) as error:
            yield f"example {example.name!r}: {error}"
            failed = True
            continue
        if got != example.expect:
            yield f"example {example.name!r} should be {example.expect}, is {got or 'no match'} {', '.join(missing)}"
            failed = True
        elif set(example.needs) - set(missing):
            yield f"example {example.name!r} should need {', '.join(example.needs)}, needs {', '.join(missing)}"
            failed = True
    if not failed and rule.when is not None:
        yield from _untested_leaves(rule, tables)


def _untested_leaves(rule: Rule, tables: Tables) -> Iterator[str]:
    """A comparison that no example misses when it is taken out is a comparison that nobody tested."""
    if rule.when is None:
        return
    named = list(leaves(rule.when))
    for number, leaf in enumerate(named):
        when = _without(rule.when, iter(range(len(named))), number)
        if when is None:  # the only comparison there is
            continue
        changed = replace(rule, when=when)
        if all(answer(changed, e, tables)[0] == e.expect for e in rule.examples if e.expect != "symptom"):
            yield f"no example needs the condition `{leaf.fact} {leaf.operator} {leaf.operand!r}`"


def _without(condition: Condition, counter: Iterator[int], number: int) -> Condition | None:
    """The condition without its `number`-th comparison; None where nothing is left."""
    if isinstance(condition, Leaf):
        return None if next(counter) == number else condition
    kept = tuple(left for item in condition.items if (left := _without(item, counter, number)) is not None)
    return Tree(condition.kind, kept) if kept else None


def _lint_together(rules: list[Rule], beside: tuple[Rule, ...]) -> Iterator[str]:
    by_id = {rule.id: rule for rule in (*beside, *rules)}
    for rule in rules:
        for name in rule.explains:
            if name not in by_id:
                yield f"{rule.file}: explains {name}, which is no rule"
        if _loops(rule.id, by_id):
            yield f"{rule.file}: explains itself in the end"
        for other in rules:
            text = next((e for e in other.examples if e.text and symptom_matches(rule, e.text)), None)
            related = rule.id in other.explains or other.id in rule.explains
            if text and other is not rule and not related and rule.when is None:
                yield f"{rule.file}: its symptom also matches the example {text.name!r} of {other.id}"


def _loops(start: str, rules: dict[str, Rule]) -> bool:
    seen: set[str] = set()
    todo = list(rules[start].explains)
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name not in seen and name in rules:
            seen.add(name)
            todo += rules[name].explains
    return False
