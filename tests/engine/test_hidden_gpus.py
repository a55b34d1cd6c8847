"""What CUDA_VISIBLE_DEVICES hides is not used by any program: no rule may speak of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kerneldoctor.engine.facts
from kerneldoctor.engine.examples import answer
from kerneldoctor.engine.loading import shipped_rules, shipped_tables
from kerneldoctor.engine.model import Example, Rule

assert kerneldoctor.engine.facts
ABOUT_GPUS_LEFT_OUT = {"KD1023", "KD1024"}
CASES = [
    (rule, example)
    for rule in shipped_rules()
    if rule.each == "gpus" and rule.id not in ABOUT_GPUS_LEFT_OUT
    for example in rule.examples
    if example.expect == "fires"
]


def test_there_are_such_rules() -> None:
    assert len({rule.id for rule, _ in CASES}) > 10


@pytest.mark.parametrize(("rule", "example"), CASES, ids=[f"{rule.id}-{example.name}" for rule, example in CASES])
def test_a_rule_about_gpus_is_silent_for_a_hidden_one(rule: Rule, example: Example) -> None:
    hidden = [{**gpu, "visible": False} for gpu in example.facts["gpus"]]
    assert answer(rule, example, shipped_tables())[0] == "fires"
    seen = replace(example, facts={**example.facts, "gpus": hidden})
    assert answer(rule, seen, shipped_tables())[0] == "silent"
