"""The pasted reports of tests/cases/reports with the rules that answer them, and how well `diagnose` does on them."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kerneldoctor.diagnosis.answer import Diagnosis, diagnose_text, knowledge

FOLDER = Path(__file__).parent.parent / "cases" / "reports"


@dataclass(frozen=True)
class Report:
    """One pasted report. `rules` are the right answers; empty for a machine that has none of our faults."""

    name: str
    kind: str  # case | variation | near-miss | healthy
    group: str  # the class of its fault
    rules: frozenset[str]
    text: str


@dataclass
class Score:
    """Counts over reports."""

    reports: int = 0
    first: int = 0  # the first answer is right
    found: int = 0  # the right rule is among the answers
    missed: list[str] = field(default_factory=list)  # where the first answer is not right


def load() -> list[Report]:
    """Every report, by file."""
    return [
        Report(item["name"], item["kind"], path.stem, frozenset(item["rules"]), item["text"])
        for path in sorted(FOLDER.glob("*.toml"))
        for item in tomllib.loads(path.read_text("utf-8"))["report"]
    ]


def score(reports: Iterable[Report]) -> Mapping[str, Score]:
    """First answers and all answers, by kind and by class (`case/build`), over the reports that have a fault."""
    scores: dict[str, Score] = defaultdict(Score)
    for report in reports:
        if not report.rules:
            continue
        answers = [answer.finding.rule for answer in diagnose_text(report.text, report.name, knowledge()).answers]
        for key in (report.kind, f"{report.kind}/{report.group}"):
            scores[key].reports += 1
            scores[key].first += bool(answers) and answers[0] in report.rules
            scores[key].found += bool(report.rules & set(answers))
            if not answers or answers[0] not in report.rules:
                scores[key].missed.append(f"{report.name}: {', '.join(answers[:3]) or 'nothing'}")
    return scores


def false_alarms(reports: Iterable[Report]) -> list[str]:
    """Confirmed errors on machines that have none of our faults."""
    alarms = []
    for report in reports:
        if report.rules:
            continue
        found = diagnose_text(report.text, report.name, knowledge())
        alarms += [f"{report.name}: {rule}" for rule in confirmed_errors(found)]
    return alarms


def confirmed_errors(diagnosis: Diagnosis) -> list[str]:
    """The rules of the answers that a reader would take for certain and grave."""
    return [
        answer.finding.rule
        for answer in diagnosis.answers
        if answer.finding.certainty == "confirmed" and answer.finding.severity == "error"
    ]
