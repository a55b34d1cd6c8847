"""The promise of `diagnose`: the right fault first, and no false alarm, over all pasted reports that we have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kerneldoctor.engine.loading import shipped_rules

from .reports import Report, Score, false_alarms, load, score

REPORTS = load()
FIRST, ANY = 0.95, 0.98


@pytest.fixture(scope="module")
def scores() -> Mapping[str, Score]:
    return score(REPORTS)


@pytest.mark.parametrize("kind", ["case", "variation"])
def test_the_first_answer_is_right(kind: str, scores: Mapping[str, Score]) -> None:
    result = scores[kind]
    assert result.first >= FIRST * result.reports, result.missed


@pytest.mark.parametrize("kind", ["case", "variation"])
def test_the_right_rule_is_among_the_answers(kind: str, scores: Mapping[str, Score]) -> None:
    result = scores[kind]
    assert result.found >= ANY * result.reports, result.missed


def test_no_machine_without_our_faults_gets_a_confirmed_error() -> None:
    assert false_alarms(REPORTS) == []


def test_every_label_is_a_rule_and_every_rule_with_words_is_tried() -> None:
    labels = {rule for report in REPORTS for rule in report.rules}
    known = {rule.id: rule for rule in shipped_rules()}
    assert labels <= set(known)
    with_words = {i for i, rule in known.items() if any(s.strength != "hint" for s in rule.symptoms)}
    assert with_words <= labels, f"add a report to tests/cases/reports for {sorted(with_words - labels)}"


def test_the_reports_are_many_and_of_all_kinds() -> None:
    counts = {kind: sum(r.kind == kind for r in REPORTS) for kind in ("case", "variation", "near-miss", "healthy")}
    assert counts["case"] >= 137
    assert counts["variation"] >= 60
    assert counts["near-miss"] + counts["healthy"] >= 50
    assert len({report.name for report in REPORTS}) == len(REPORTS)


def test_a_report_without_labels_says_why_it_has_none() -> None:
    assert all(bool(r.rules) == (r.kind in ("case", "variation")) for r in REPORTS if isinstance(r, Report))
