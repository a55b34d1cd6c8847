"""One line over all cases: never "passed" with a failure in it, never "failed" for what was not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kerneldoctor.smoke.protocol import Case, Loaded, TensorError
from kerneldoctor.smoke.trial import CaseReport, LoadProblem, Refusal, Run, Subject
from kerneldoctor.smoke.verdict import find_pin, judge_run, judge_runs

COMMIT = "0510be1e482269a46fadf30069aca3ede496ff9b"


def case(outcome: str, direction: Any = None, backward: bool = True, **more: Any) -> CaseReport:
    return CaseReport(
        Case("c", "flash_attn_func", {"backward": backward}, 0),
        outcome,
        more.pop("detail", ""),
        direction=direction,
        **more,
    )


OUT = {"out": TensorError(0.001, 0.001, 0.01, ratio=0.5)}
PASSED, FORWARD = case("passed"), case("passed", backward=False)


@pytest.mark.parametrize(
    ("cases", "text", "undetermined"),
    [
        ([PASSED, PASSED], "passed (2 of 2)", False),
        ([PASSED, case("unsupported")], "passed (1 of 1), 1 not supported by the kernel", False),
        (
            [PASSED, case("wrong", "forward"), case("crashed", "backward"), case("crashed")],
            "failed (2 crashed, 1 wrong; 1 of 4 passed)",
            False,
        ),
        ([case("raised", "forward")], "failed (1 raised)", False),
        ([PASSED, case("oom", "forward")], "failed (1 out of memory; 1 of 2 passed)", False),
        ([FORWARD, case("raised", "backward")], "partial (inference fine, training not: 1 raised)", False),
        ([case("wrong", "backward")], "partial (inference fine, training not: 1 wrong)", False),
        ([case("crashed", "backward")], "failed (1 crashed)", False),
        ([FORWARD, case("crashed", "backward")], "partial (inference fine, training not: 1 crashed)", False),
        ([FORWARD, case("raised", "backward"), case("raised")], "failed (2 raised; 1 of 3 passed)", False),
        (
            [FORWARD, case("unsupported", "backward", detail="does not support backward")],
            "partial (inference fine, training not: the kernel has no backward: does not support backward)",
            False,
        ),
        (
            [case("unsupported", "backward", detail="no backward", errors=OUT)],
            "partial (inference fine, training not: the kernel has no backward: no backward)",
            False,
        ),
        ([PASSED, case("unsupported", "backward")], "passed (1 of 1), 1 not supported by the kernel", False),
        ([case("unsupported", detail="no dropout")], "untested (not supported by the kernel: no dropout)", True),
        ([PASSED, case("skipped", detail="no time")], "untested (1 passed, 1 not run: no time)", True),
        ([FORWARD, case("raised", "backward"), case("skipped")], "failed (1 raised; 1 of 2 passed)", False),
    ],
)
def test_the_line_says_what_was_measured(cases: list[CaseReport], text: str, undetermined: bool) -> None:
    verdict = judge_run(Run("cpu", tuple(cases)))
    assert (verdict.text, verdict.undetermined) == (text, undetermined)


def problem(kind: Any, reason: str = "", stage: str = "load-kernel") -> Run:
    return Run("cpu", problem=LoadProblem(kind, reason, "why", stage))


@pytest.mark.parametrize(
    ("run", "text", "undetermined"),
    [
        (problem("refused", "import-error"), "refused (import-error: why)", False),
        (problem("refused", "no-torch"), "untested (no-torch: why)", True),
        (problem("refused", "hub-unreachable"), "untested (hub-unreachable: why)", True),
        (problem("crashed", "SIGSEGV"), "failed (crashed while loading: why)", False),
        (problem("hung", "", "import-torch"), "untested (torch itself: why)", True),
        (Run("cpu", loaded=Loaded("n", "m", None, ("f",), ())), "loaded, no contract", True),
        (Run("cpu"), "untested (no case was asked for)", True),
    ],
)
def test_a_kernel_without_cases_is_never_passed(run: Run, text: str, undetermined: bool) -> None:
    verdict = judge_run(run)
    assert (verdict.text, verdict.undetermined) == (text, undetermined)


def test_of_several_devices_the_worst_counts_and_is_named() -> None:
    good, bad = Run("cuda:0", (PASSED,)), Run("cuda:1", (case("wrong", "forward"),))
    assert judge_runs((), (good, bad)).text == "failed (1 wrong) on cuda:1"
    assert judge_runs((), (good, replace(good, device="cuda:1"))).text == "passed (1 of 1) on cuda:0, cuda:1"


def test_refusals_are_all_in_the_line() -> None:
    verdict = judge_runs((Refusal("digest", "a.so changed"), Refusal("minver", "needs 0.19")), ())
    assert verdict.text == "refused (a.so changed; needs 0.19)"


def test_the_pin_is_the_full_commit_in_every_form() -> None:
    run = Run("cpu", (PASSED,))
    subject = Subject("o/n@v3", "o/n", "v3", COMMIT)
    pin = find_pin(judge_run(run), subject, (run,), inference=False)
    assert pin is not None
    assert pin.forms() == {
        "attn_implementation": f'attn_implementation="o/n@{COMMIT}"',
        "trl": f"--attn_implementation o/n@{COMMIT}",
        "get_kernel": f'get_kernel("o/n", revision="{COMMIT}")',
    }
    assert not pin.inference_only
    trusted = find_pin(judge_run(run), replace(subject, trusted_by_name=True), (run,), inference=True)
    assert trusted is not None
    assert trusted.inference_only
    assert trusted.forms()["get_kernel"] == f'get_kernel("o/n", revision="{COMMIT}", trust_remote_code=["o/n"])'


def test_no_pin_without_a_pass_or_a_whole_commit() -> None:
    run, subject = Run("cpu", (PASSED,)), Subject("o/n@v3", "o/n", "v3", COMMIT)
    bad = Run("cpu", (case("wrong", "forward"),))
    assert find_pin(judge_run(bad), subject, (bad,), False) is None
    assert find_pin(judge_run(run), replace(subject, commit="0510be1"), (run,), False) is None
    assert find_pin(judge_run(run), replace(subject, repo=""), (run,), False) is None
    partial = Run("cpu", (FORWARD, case("raised", "backward")))
    pin = find_pin(judge_run(partial), subject, (partial,), False)
    assert pin is not None
    assert pin.inference_only
