"""Whole machines that somebody met, and what must be said of them: no more and no less."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldoctor import api

MACHINES = Path(__file__).parent / "cases" / "environments"


@pytest.mark.parametrize(
    ("name", "findings"),
    [
        ("h200-torch211-cu130-transformers517-kernels0162", {"KD5004": "info"}),
        ("h200-torch211-cu130-transformers517-kernels0172", {"KD5001": "error"}),
    ],
)
def test_a_machine_gets_exactly_its_findings(name: str, findings: dict[str, str]) -> None:
    report = api.scan(env=str(MACHINES / f"{name}.json"))
    assert {f.rule: f.severity for f in report.findings} == findings
    assert all(f.certainty == "confirmed" for f in report.findings)


def test_the_range_fault_comes_with_the_release_that_fits() -> None:
    [finding] = api.scan(env=str(MACHINES / "h200-torch211-cu130-transformers517-kernels0172.json")).findings
    assert finding.remedies[0].command == "pip install kernels==0.16.2"


@pytest.mark.parametrize("path", sorted(MACHINES.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_machine_loses_no_fact_as_the_schema_grows(path: Path) -> None:
    document = json.loads(path.read_text("utf-8"))
    read = api.load_environment(str(path)).to_json()
    for section, facts in document.items():
        assert read[section] == (facts if isinstance(facts, str) or "value" in facts else {**read[section], **facts})
