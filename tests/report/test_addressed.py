"""Findings whose commands and diagnosis fit the shell and the path of the environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneldoctor.address import Address
from kerneldoctor.engine.model import UsedFact
from kerneldoctor.environment import Package, Packages, known
from kerneldoctor.report.addressed import addressed
from kerneldoctor.report.redact import Identity, redact_value
from tests.report.samples import BROKEN, make_report

PYTHON = "/home/alice/venv/bin/python"
FIRST = Address(first={"/shared/python": "PYTHONPATH comes first"})


def test_every_command_of_a_finding_is_addressed_and_survives_redaction() -> None:
    report = addressed(make_report(BROKEN), Address(pip=PYTHON, other=PYTHON))
    shown = redact_value(report, Identity(users=("alice",), homes=("/home/alice",)))
    advice = shown.findings[0].remedies[0]
    assert advice.command.startswith("~/venv/bin/python -m pip install ")
    assert advice.verify.startswith("kerneldoctor scan --python ~/venv/bin/python")


def test_that_there_is_no_pip_is_said_where_pip_is_advised() -> None:
    report = addressed(make_report(BROKEN), Address(pip=PYTHON, no_pip=True))
    note = f"There is no pip in this environment: {PYTHON} -m ensurepip brings it."
    for advice in (advice for finding in report.findings for advice in finding.remedies):
        assert (note in advice.note) is ("-m pip install" in advice.command)


@pytest.mark.parametrize(("location", "told"), [("/shared/python", True), ("/venv/lib/site-packages", False)])
def test_a_copy_that_pip_does_not_reach_is_named(location: str, told: bool) -> None:
    package = Package(version=known("0.17.2", "METADATA"), location=known(location, "METADATA"))
    items = {**BROKEN.packages.items, "kernels": package}
    base = make_report(replace(BROKEN, packages=Packages(items, True, "listed")))
    used = (*(UsedFact(f"packages.kernels.{n}", "x", "s") for n in ("version", "editable")),)
    pip = replace(base.findings[0], facts=used)
    other = replace(pip, remedies=(replace(pip.remedies[0], command="unset X"),))
    first, second = addressed(replace(base, findings=(pip, other)), FIRST).findings
    line = f" The copy of kernels in force is at {location} (PYTHONPATH comes first): "
    assert first.diagnosis.count(line) == told
    assert line not in second.diagnosis  # where no pip is advised, it does not matter
