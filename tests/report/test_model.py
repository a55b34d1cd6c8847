"""The Report's counts, exit codes, ignore entries and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import jsonschema
import pytest

from kerneldoctor.environment import Environment, Packages, unknown
from kerneldoctor.report.model import ExitCode, FailOn, Ignore, Summary, exit_code
from tests.report.samples import BARE, BROKEN, HANGING, HEALTHY, make_report

SCHEMA = json.loads(files("kerneldoctor.report").joinpath("schema.json").read_text("utf-8"))


@pytest.mark.parametrize("environment", [HEALTHY, BARE, BROKEN, HANGING, Environment()])
def test_json_keeps_to_the_published_schema(environment: Environment) -> None:
    report = make_report(environment, (Ignore("TST1001", "known"), Ignore("TST2001", "gone", "2026-01-01")))
    document = json.loads(json.dumps(report.to_json()))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def test_a_report_can_be_judged_again_from_its_json() -> None:
    assert Environment.from_json(json.loads(json.dumps(make_report(BROKEN).to_json()))) == BROKEN


def test_json_names_what_a_caller_needs_of_a_finding() -> None:
    finding = make_report(BROKEN).to_json()["findings"][0]
    assert finding["rule"] == "TST1001"
    assert finding["aliases"] == ["https://example.org/issues/7"]
    assert (finding["severity"], finding["certainty"]) == ("error", "confirmed")
    assert {"fact": "packages.kernels.version", "value": "0.17.2", "source": "METADATA"} in finding["facts"]
    assert finding["remedies"][0]["command"].endswith("-m pip install 'kernels>=0.18.2,<0.19'")
    assert "pin" not in finding["remedies"][0], "a key that says nothing is left out"


def test_a_possible_finding_counts_as_not_determined_only() -> None:
    report = make_report(replace(HEALTHY, driver=replace(HEALTHY.driver, cuda=unknown("old NVML"))))
    assert [f.certainty for f in report.findings] == ["possible"]
    assert (report.summary.error, report.summary.not_determined) == (0, 2)  # that one, and what --deep would tell
    assert exit_code(report.summary, "info") == ExitCode.OK


def test_a_consequence_is_counted_and_marked() -> None:
    report = make_report(BROKEN)
    assert (report.summary.error, report.summary.warning) == (2, 1)
    assert {f.rule: f.explained_by for f in report.findings}["TST1002"] == "TST1001"


SUMMARY = Summary(error=0, warning=0, info=0, fine=5, not_determined=0, ignored=0, required_unknown=())


@pytest.mark.parametrize(
    ("summary", "fail_on", "code"),
    [
        (SUMMARY, "error", ExitCode.OK),
        (replace(SUMMARY, error=1), "error", ExitCode.FINDINGS),
        (replace(SUMMARY, warning=1), "error", ExitCode.OK),
        (replace(SUMMARY, warning=1), "warning", ExitCode.FINDINGS),
        (replace(SUMMARY, error=1), "warning", ExitCode.FINDINGS),
        (replace(SUMMARY, info=1), "warning", ExitCode.OK),
        (replace(SUMMARY, info=1), "info", ExitCode.FINDINGS),
        (replace(SUMMARY, error=1, required_unknown=("gpus",)), "never", ExitCode.OK),
        (replace(SUMMARY, required_unknown=("gpus",)), "error", ExitCode.UNDETERMINED),
        (replace(SUMMARY, error=1, required_unknown=("gpus",)), "error", ExitCode.FINDINGS),
        (replace(SUMMARY, not_determined=9), "info", ExitCode.OK),
    ],
)
def test_exit_code_follows_from_the_summary(summary: Summary, fail_on: FailOn, code: ExitCode) -> None:
    assert exit_code(summary, fail_on) is code


@pytest.mark.parametrize(
    ("environment", "missing"),
    [
        (HEALTHY, ()),
        (BARE, ()),
        (HANGING, ("gpus",)),
        (replace(HEALTHY, packages=Packages(note="no permission")), ("packages",)),
        (Environment(), ("gpus", "torch.version", "packages")),
    ],
)
def test_a_scan_that_could_not_look_is_no_pass(environment: Environment, missing: tuple[str, ...]) -> None:
    assert make_report(environment).summary.required_unknown == missing


def test_an_ignored_finding_stays_in_the_report_and_leaves_the_counts() -> None:
    report = make_report(BROKEN, (Ignore("TST1001", "pinned by ticket 7", "2026-12-01"),))
    assert (report.summary.error, report.summary.ignored) == (1, 1)
    ignored = {f["rule"]: f["ignored"] for f in report.to_json()["findings"]}
    assert ignored["TST1001"] == {"reason": "pinned by ticket 7", "until": "2026-12-01"}
    assert ignored["TST2001"] is None


def test_an_expired_ignore_counts_for_nothing_and_is_named() -> None:
    report = make_report(BROKEN, (Ignore("TST1001", "for a week", "2026-11-30"),))
    assert report.summary.error == 2
    assert [use.state for use in report.ignores] == ["expired"]


def test_an_ignore_that_matches_nothing_is_named() -> None:
    assert [use.state for use in make_report(HEALTHY, (Ignore("TST1001", "old"),)).ignores] == ["unused"]


def test_knowledge_says_how_old_the_rules_are() -> None:
    knowledge = make_report(HEALTHY).knowledge
    assert (knowledge.version, knowledge.rules, knowledge.newest) == ("1.2.3", 5, "2026-12-01")
