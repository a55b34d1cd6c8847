"""Every text of every rule reads as a sentence whatever facts are missing."""

from __future__ import annotations

import re

import pytest

from kerneldoctor.engine import facts  # noqa: F401 - registers the facts
from kerneldoctor.engine.case import Case, Kernel, Workload
from kerneldoctor.engine.loading import shipped_rules, shipped_tables
from kerneldoctor.engine.matching import explanation, heading
from kerneldoctor.engine.model import Rule
from kerneldoctor.engine.templates import can_fill, fill, places, unbracketed
from kerneldoctor.environment import Environment

NOTHING = Case(Environment(), shipped_tables(), Kernel(), Workload())
# What is left where a value fell out of a sentence.
HOLE = re.compile(
    r"\((?:unknown|none)\)|\{|\[\[|\]\]|\(\s*\)|  | [,.;:)]|[(,:]\s*[,.;:)]|,\s*$|:\s*$"
    r"|\b(?:is|are|has|than|to|for|in|with|of|by|the|needs|against|and|or|from|a|an|at|on)\s*(?:[.,;:)]|$)"
    r"|^(?:is|was|are|has|of|for)\b"
)


def blank(rule: Rule) -> Case:
    return NOTHING.blank_item(rule.each) if rule.each else NOTHING


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: rule.id)
def test_a_text_without_facts_has_no_hole(rule: Rule) -> None:
    case = blank(rule)
    texts = [(rule.title, heading(rule.title, case)), (rule.diagnosis, explanation(rule, case))]
    texts += [(r.title, fill(r.title, case)) for r in rule.remedies if can_fill(r.title, case)]
    for template, text in texts:
        assert text.strip(), text
        assert not [hole[0] for hole in HOLE.finditer(text) if hole[0] not in template], text


@pytest.mark.parametrize("rule", shipped_rules(), ids=lambda rule: rule.id)
def test_an_optional_clause_names_a_fact(rule: Rule) -> None:
    for text in (rule.title, rule.diagnosis, *(remedy.title for remedy in rule.remedies)):
        for clause in re.findall(r"\[\[(.*?)\]\]", text):
            assert places(clause), clause
        assert "[[" not in unbracketed(text)
