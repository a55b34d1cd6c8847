"""The shipped rules: every one is linted, every example answers, no file is left out of the bundle."""

from __future__ import annotations

import datetime

import kerneldoctor.engine.facts
from kerneldoctor.engine import lint, loading
from kerneldoctor.engine.case import DERIVED

assert kerneldoctor.engine.facts


def test_every_rule_passes_the_linter() -> None:
    # The review date is looked at on the day the rules were last released, not on the day the test runs:
    # an old checkout must stay green, and `kerneldoctor rules --check` tells an author of today.
    rules = loading.load_rules(loading.rules_folder())
    day = max(datetime.date.fromisoformat(rule.added) for rule in rules)
    assert lint.lint(rules, loading.shipped_tables(), day) == []


def test_every_table_row_says_where_it_is_from() -> None:
    for name, rows in loading.shipped_tables().items():
        assert rows, name
        for row in rows:
            assert row.get("source"), (name, row)


def test_every_derived_fact_says_what_it_is() -> None:
    assert [path for path, fact in DERIVED.items() if len(fact.doc) < 20] == []
