"""Rules as pages and as data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from kerneldoctor.engine.loading import load_rules, parse_condition
from kerneldoctor.engine.model import Deferred
from kerneldoctor.report.explain import rule_json, rule_list, rule_page
from tests.report.samples import RULES

RULE = load_rules(RULES)[0]


def test_page(golden: Callable[[str, str], None]) -> None:
    golden("explain.txt", rule_page(RULE, 80))


def test_json_holds_the_condition_in_the_words_of_rule_files() -> None:
    document = json.loads(json.dumps(rule_json(RULE)))
    assert document["when"]["all"][0] == {"fact": "packages.transformers.version", "in": "==5.24.0"}
    assert parse_condition(document["when"]) == RULE.when
    assert document["remedies"][1]["effect"] == "caution"
    assert document["evidence"][0]["url"] == "https://example.org/issues/7"


def test_list_reads_without_a_machine() -> None:
    lines = rule_list([RULE, replace(RULE, id="TST9999", withdrawn="2026-12-01")]).splitlines()
    assert lines[0] == "TST1001  error    transformers <transformers version> refuses every Hub kernel"
    assert lines[1].endswith("(withdrawn)")


def test_a_rule_of_somebody_else_cannot_drive_the_terminal() -> None:
    details = replace(RULE.details.value, body="# Why\n\n\x1b[2Jgone")
    page = rule_page(replace(RULE, details=Deferred(lambda: details)))
    assert "gone" in page
    assert "\x1b" not in page
