"""What a symptom must be beyond its form: cheap to search for, tried on an example, telling of facts that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .case import schema_type
from .examples import symptom_matches
from .model import Deferred, Details, Rule, Symptom
from .patterns import complaint
from .symptoms import Symptoms
from .testimony import path_of

_GROUP = re.compile(r"\(\?P<(\w+)>")


def lint_symptoms(rule: Rule) -> Iterator[str]:
    """Every complaint about the symptoms of a rule."""
    texts = [example.text for example in rule.examples if example.expect == "symptom"]
    for symptom in rule.symptoms:
        for pattern in filter(None, (symptom.match, symptom.unless, symptom.near)):
            text = complaint(pattern)
            if text:
                yield f"symptom {pattern!r}: {text}"
        if not any(symptom_matches(_alone(rule, symptom), text) for text in texts):
            yield f'symptom {symptom.match!r}: no example of expect = "symptom" has its text'
        if symptom.near and not any(_is_placed(_alone(rule, symptom), text) for text in texts):
            yield f'symptom {symptom.match!r}: no example of expect = "symptom" has `near` around it'
        yield from _lint_facts(rule, symptom)


def _is_placed(rule: Rule, text: str) -> bool:
    return any(hit.placed for hit in Symptoms([rule]).search(text.split("\n")))


def _alone(rule: Rule, symptom: Symptom) -> Rule:
    details = rule.details.value
    only = Details(details.diagnosis, (symptom,), details.remedies, details.evidence, details.examples, details.body)
    return replace(rule, details=Deferred(lambda: only))


def _lint_facts(rule: Rule, symptom: Symptom) -> Iterator[str]:
    told: dict[str, Any] = {path_of(group): "" for group in _GROUP.findall(symptom.match)} | dict(symptom.says)
    for path, value in told.items():
        try:
            kind = schema_type(path, "gpus" if path.startswith("gpu.") else rule.each)
        except KeyError:
            yield f"symptom {symptom.match!r} tells {path!r}, which is no fact"
            continue
        if not isinstance(value, kind):
            yield f"symptom {symptom.match!r} tells {path} as {type(value).__name__}, it is {kind}"
