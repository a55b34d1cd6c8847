"""The linter: one deliberately awful rule, and every complaint that it must draw."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from kerneldoctor.engine.lint import lint
from kerneldoctor.engine.loading import rule_from_json

TODAY = datetime.date(2026, 12, 1)
BODY = "# What you see\n\n# Why\n\n# What to do\n\n# How we know\n"
FIRES = {"name": "thirteen", "expect": "fires", "facts": {"torch": {"cuda": "13.0"}}}
SILENT = {"name": "twelve", "expect": "silent", "facts": {"torch": {"cuda": "12.8"}}}


def rule(**fields: Any) -> dict[str, Any]:
    return {
        "id": "KD1001", "name": "x", "title": "t", "diagnosis": "d", "severity": "error", "confidence": "reported",
        "component": "torch", "added": "2026-12-01", "review_by": "2027-12-01", "file": "driver/KD1001-x.md",
        "body": BODY, "when": {"fact": "torch.cuda", "in": ">=13"},
        "evidence": [{"kind": "report", "url": "https://example.org", "says": "it fails", "seen": "2026-12-01"}],
        "example": [FIRES, SILENT], **fields,
    }  # fmt: skip


def complaints(*rules: dict[str, Any]) -> list[str]:
    return lint([rule_from_json(r) for r in rules], {}, TODAY)


def test_a_good_rule_draws_no_complaint() -> None:
    assert complaints(rule()) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"file": "KD1002-x.md"}, "must be named"),
        ({"title": "x" * 91}, "91 characters"),
        ({"confidence": "inferred"}, "may not be an error"),
        ({"review_by": "2026-11-30"}, "past its review date"),
        ({"body": "# What you see"}, "lacks the section '# Why'"),
        ({"evidence": []}, "no [[evidence]]"),
        ({"remedy": [{"title": "wipe", "effect": "destructive"}]}, "lacks `verify`"),
        ({"when": {"fact": "torch.kuda", "in": ">=13"}}, "did you mean 'torch.cuda'"),
        ({"title": "{torch.kuda} is bad"}, "no such fact 'torch.kuda'"),
        ({"title": "{flash_attn_9.version} is bad"}, "no such fact 'flash_attn_9.version'"),
        ({"remedy": [{"title": "pin", "pin": "torch=={torch.kuda}"}]}, "no such fact 'torch.kuda'"),
        ({"remedy": [{"title": "pin", "command": "pip install x=={ torch.cuda }"}]}, "{ torch.cuda } is not filled"),
        ({"diagnosis": "torch {version} is bad"}, "{version} is not filled in"),
        ({"when": {"fact": "torch.cuda", "in": "<=12.9"}}, "write only < and >="),
        ({"when": {"fact": "torch.cuda", "in": "=>13"}}, "is no version specifier"),
        ({"when": {"fact": "torch.debug", "in": ">=13"}}, "for text facts"),
        ({"when": {"fact": "torch.cuda", "at_least": 13}}, "compare versions with `in`"),
        ({"when": {"fact": "torch.cuda", "has": "13"}}, "is for lists"),
        ({"when": {"fact": "torch.debug", "is": "yes"}}, "the fact is a bool"),
        ({"example": [FIRES]}, "no example that stays silent"),
        ({"example": [FIRES, {**SILENT, "facts": {"torch": {"cuda": "13.2"}}}]}, "should be silent, is fires"),
        ({"example": [FIRES, {**SILENT, "facts": {"torch": {"kuda": "1"}}}]}, "torch.kuda is not in the schema"),
        ({"symptom": [{"match": "boom"}]}, "no example of the symptom's text"),
        ({"explains": ["KD9999"]}, "which is no rule"),
        ({"explains": ["KD1001"]}, "explains itself"),
        (
            {"when": {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "torch.backend", "is": "cuda"}]},
             "example": [{**FIRES, "facts": {"torch": {"cuda": "13.0", "backend": "cuda"}}},
                         {**SILENT, "facts": {"torch": {"cuda": "12.8", "backend": "cuda"}}}]},
            "no example needs the condition `torch.backend is 'cuda'`",
        ),
    ],
)  # fmt: skip
def test_each_mistake_is_named(fields: dict[str, Any], says: str) -> None:
    assert any(says in text for text in complaints(rule(**fields))), complaints(rule(**fields))


def test_an_undetermined_example_must_need_the_facts_that_it_names() -> None:
    both = {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "driver.version", "in": "<580"}]}
    examples = [
        {"name": "a", "expect": "fires", "facts": {"torch": {"cuda": "13.0"}, "driver": {"version": "570.1"}}},
        {"name": "b", "expect": "silent", "facts": {"torch": {"cuda": "13.0"}, "driver": {"version": "580.1"}}},
        {"name": "c", "expect": "silent", "facts": {"torch": {"cuda": "12.8"}, "driver": {"version": "570.1"}}},
        {"name": "d", "expect": "undetermined", "facts": {"torch": {"cuda": "13.0"}}, "needs": ["driver.version"]},
    ]
    assert complaints(rule(when=both, example=examples)) == []
    examples[3] = {**examples[3], "needs": ["gpus"]}
    assert any("should need gpus" in text for text in complaints(rule(when=both, example=examples)))


def test_braces_that_are_no_places_for_facts_are_text() -> None:
    remedy = {"title": "t", "command": "echo ${HOME} {1..3}", "snippet": 'dict = {"a": 1, "b": {}}\nset = {1, 2}'}
    assert complaints(rule(remedy=[remedy])) == []


def test_a_rule_may_explain_one_that_it_will_be_judged_with() -> None:
    beside = [rule_from_json(rule(id="KD1002", explains=["ORG0001"]))]
    mine = [rule_from_json(rule(id="ORG0001", file="ORG0001-x.md", explains=["KD1002"]))]
    texts = lint(mine, {}, TODAY, beside)
    assert not any("is no rule" in text for text in texts)
    assert any("explains itself" in text for text in texts)  # through the other one
