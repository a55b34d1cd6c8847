"""The one list behind all formats: nothing is lost on the way to it, and the exit code follows from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.environment import Deep, Environment, known
from kerneldoctor.report.checks import Check, Checks, code_of, of_report
from kerneldoctor.report.model import FailOn, Ignore
from kerneldoctor.report.trial_checks import of_trial
from kerneldoctor.smoke.protocol import Loaded
from kerneldoctor.smoke.trial import LoadProblem, Refusal, Trial
from tests.report.samples import BARE, BROKEN, HANGING, HEALTHY, make_report
from tests.report.test_trial import BROKEN as FAILED
from tests.report.test_trial import PASSED, case, trial

# One of each: errors, a warning, one that is only possible, one that is fine, ignores that hold and that do not.
MIXED = replace(BROKEN, deep=Deep(cuda_available=known(True, "a child process")))
IGNORES = (Ignore("TST2001", "the card goes back", "2027-11-30"), Ignore("TST3001", "an old ticket"))
TRIALS = {
    "passed": PASSED,
    "failed": FAILED,
    "partial": trial(case("a", "passed"), case("b", "wrong", "dk is off", direction="backward")),
    "refused": trial(refusals=(Refusal("digest", "a.so is not what was built"), Refusal("minver", "it asks for 0.19"))),
    "load-crashed": trial(problem=LoadProblem("crashed", "SIGSEGV", "died of SIGSEGV", "load-kernel")),
    "no-device": trial(problem=LoadProblem("refused", "no-device", "torch sees no GPU", "open-device")),
    "no-contract": trial(loaded=Loaded("n", "m", None, ("sort",), ())),
    "not-run": trial(case("a", "passed"), case("b", "skipped", "the time is up")),
    "unsupported": trial(case("a", "unsupported", "head_dim 64 only")),
}


def mixed(fail_on: FailOn = "error") -> Checks:
    return of_report(make_report(MIXED, IGNORES), fail_on)


@pytest.mark.parametrize("fail_on", ["error", "warning", "info", "never"])
@pytest.mark.parametrize("environment", [HEALTHY, BARE, BROKEN, HANGING, MIXED])
def test_the_exit_code_of_a_scan_follows_from_its_checks(environment: Environment, fail_on: FailOn) -> None:
    checks = of_report(make_report(environment, IGNORES), fail_on)
    assert code_of(checks.checks) == checks.exit_code


@pytest.mark.parametrize("name", TRIALS)
def test_the_exit_code_of_a_try_follows_from_its_checks(name: str) -> None:
    tried = TRIALS[name]
    checks = of_trial(tried, "1.2.3", "2026-12-01")
    assert code_of(checks.checks) == checks.exit_code == tried.exit_code


def test_every_rule_that_was_asked_has_its_answer() -> None:
    report, checks = make_report(MIXED, IGNORES), mixed()
    answers = {check.id: check.status for check in checks.checks}
    assert answers == {
        "TST1001": "failed",
        "TST1002": "failed",
        "TST2001:GPU 2: NVIDIA GeForce RTX 5090": "ignored",
        "TST3002": "undetermined",
        "TST3001": "passed",
    }
    counts = checks.counts
    assert (counts.findings, counts.fine, counts.undetermined, counts.ignored) == (2, 1, 1, 1)
    assert counts.fine == report.summary.fine


def test_what_decides_comes_first() -> None:
    assert [check.id.partition(":")[0] for check in mixed().sorted()] == [
        "TST1001", "TST1002", "TST3002", "TST2001", "TST3001",
    ]  # fmt: skip


def test_a_finding_tells_why_what_and_how_to_go_back() -> None:
    check = next(check for check in mixed().checks if check.id == "TST1001")
    words = [words for words, _ in check.remedies]
    assert words == [
        "Install kernels in the range that it accepts", "Then", "Take the newest set that agrees (caution)",
        "Other packages may want the newer transformers.", "Then", "Undo",
    ]  # fmt: skip
    assert check.remedies[-1] == ("Undo", "pip install transformers==5.24.0")
    assert ("packages.kernels.version", "0.17.2") in check.seen


def test_doubts_and_ignores_carry_their_reasons() -> None:
    by_id = {check.rule: check for check in mixed().checks}
    assert "needs driver.cuda (NVML has no function for it)" in by_id["TST3002"].detail
    assert by_id["TST2001"].detail.endswith("Ignored: the card goes back (until 2027-11-30).")
    assert mixed().notes == ("The ignore entry for TST3001 (an old ticket) matches nothing",)
    assert by_id["TST1002"].detail.endswith("It follows from TST1001.")


def test_names_stay_the_same_whatever_the_answer() -> None:
    """CI keeps the history of a test by its name."""
    names = [
        next(check.name for check in of_report(make_report(environment)).checks if check.rule == "TST3001")
        for environment in (MIXED, BROKEN, replace(BROKEN, deep=Deep(cuda_available=known(False, "child"))))
    ]
    assert set(names) == {"torch sees no gpu"}


def test_ids_are_unique_on_several_devices() -> None:
    run = PASSED.runs[0]
    both: Trial = replace(PASSED, runs=(run, replace(run, device="cuda:1")))
    ids = [check.id for check in of_trial(both, "1", "2026-12-01").checks]
    assert len(set(ids)) == len(ids) == 5
    assert "try:kernels-community/flash-attn2@v3/dense-mha@cuda:1" in ids


def test_a_rule_that_the_measurement_contradicts_is_not_held_against_the_kernel() -> None:
    by_rule: dict[str, Check] = {check.rule: check for check in of_trial(FAILED, "1", "2026-12-01").checks}
    assert by_rule["KD3101"].status == "failed"
    assert by_rule["KD3110"].status == "passed"


def test_a_try_shows_its_pin_and_what_comes_next() -> None:
    sections: dict[str, Any] = {
        section.title: section
        for section in of_trial(replace(PASSED, next_steps=("see it again",)), "1", "2026-12-01").sections
    }
    assert f"kernels-community/flash-attn2@{PASSED.subject.commit}" in sections["Pin"].code
    assert sections["Next"].paragraphs == ("see it again",)
    assert [row[0] for row in sections["2 cases on cuda:0"].rows] == ["dense-mha", "dense-gqa"]
