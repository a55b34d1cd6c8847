"""One line over all cases: never "passed" with a failure in it, never "failed" for what was not run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kerneldoctor.smoke.protocol import Case, Loaded
from kerneldoctor.smoke.trial import CaseReport, LoadProblem, Refusal, Run, Subject
from kerneldoctor.smoke.verdict import find_pin, judge_run, judge_runs, untried

COMMIT = "0510be1e482269a46fadf30069aca3ede496ff9b"


def case(outcome: str, direction: Any = None, backward: bool = True, **more: Any) -> CaseReport:
    return CaseReport(
        Case("c", "flash_attn_func", {"backward": backward}, 0),
        outcome,
        more.pop("detail", ""),
        direction=direction,
        **more,
    )


PASSED, FORWARD = case("passed"), case("passed", backward=False)


def after_forward(outcome: str, forward: bool | None = True, **more: Any) -> CaseReport:
    """A case that came to its end in the backward; `forward`: what came of its own forward."""
    return case(outcome, "backward", forward=forward, **more)


def of(report: CaseReport, contract: str, function: str | None = None) -> CaseReport:
    params = {**report.case.params, **({} if function is None else {"function": function})}
    return replace(report, case=Case("c", contract, params, 0))


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
        ([FORWARD], "passed (1 of 1), forward only", False),
        ([PASSED, FORWARD], "passed (2 of 2)", False),
        ([FORWARD, after_forward("raised")], "partial (inference fine, training not: 1 raised)", False),
        ([after_forward("wrong")], "partial (inference fine, training not: 1 wrong)", False),
        ([after_forward("crashed")], "partial (inference fine, training not: 1 crashed)", False),
        # Its forward was not compared, or was wrong: what passed beside it does not vouch for it.
        ([FORWARD, after_forward("crashed", None)], "failed (1 crashed; 1 of 2 passed)", False),
        ([PASSED, after_forward("hung", None)], "failed (1 hung; 1 of 2 passed)", False),
        ([PASSED, after_forward("raised", False)], "failed (1 raised; 1 of 2 passed)", False),
        ([FORWARD, after_forward("raised"), case("raised")], "failed (2 raised; 1 of 3 passed)", False),
        (
            [FORWARD, after_forward("unsupported", detail="does not support backward")],
            "partial (inference fine, training not: the kernel has no backward: does not support backward)",
            False,
        ),
        (
            [case("unsupported", "backward", detail="no backward")],
            "untested (not supported by the kernel: no backward)",
            True,
        ),
        ([PASSED, after_forward("unsupported")], "passed (1 of 1), 1 not supported by the kernel", False),
        (
            [PASSED, of(PASSED, "activation_layer", "Silu"), of(after_forward("wrong"), "activation_layer", "Gelu")],
            "partial (inference fine, training not: 1 wrong)",
            False,
        ),
        (
            [PASSED, of(PASSED, "activation_layer", "Silu"), of(case("wrong", "forward"), "activation_layer", "Gelu")],
            "failed (1 wrong; 2 of 3 passed)",
            False,
        ),
        (
            [
                of(PASSED, "rms_norm", "RMSNorm"),
                of(after_forward("unsupported", detail="none"), "activation_layer", "Silu"),
                of(after_forward("unsupported", detail="none"), "activation_layer", "Gelu"),
            ],
            "partial (inference fine, training not: Gelu, Silu have no backward: none)",
            False,
        ),
        (
            [
                after_forward("wrong"),
                of(after_forward("unsupported", detail="no grad"), "flash_attn_varlen_func"),
                of(case("unsupported", "forward"), "flash_attn_with_kvcache"),
            ],
            "partial (inference fine but for flash_attn_with_kvcache (not supported by the kernel), training not: "
            "1 wrong; flash_attn_varlen_func has no backward: no grad)",
            False,
        ),
        # Inference has no use for dropout, whatever it does.
        (
            [PASSED, of(case("wrong", "forward"), "flash_attn_dropout")],
            "partial (inference fine, training not: 1 wrong)",
            False,
        ),
        ([of(case("wrong", "forward"), "flash_attn_dropout")], "failed (1 wrong)", False),
        (
            [PASSED, of(after_forward("unsupported", None), "flash_attn_dropout")],
            "passed (1 of 1), 1 not supported by the kernel",
            False,
        ),
        ([case("unsupported", detail="no dropout")], "untested (not supported by the kernel: no dropout)", True),
        ([PASSED, case("skipped", detail="no time")], "untested (1 passed, 1 not run: no time)", True),
        ([FORWARD, after_forward("raised"), case("skipped")], "failed (1 raised; 1 of 2 passed)", False),
        (
            [FORWARD, after_forward("unsupported"), case("skipped", detail="no time")],
            "untested (1 passed, 1 not run: no time)",
            True,
        ),
    ],
)
def test_the_line_says_what_was_measured(cases: list[CaseReport], text: str, undetermined: bool) -> None:
    verdict = judge_run(Run("cpu", tuple(cases)))
    assert (verdict.text, verdict.undetermined) == (text, undetermined)


def test_what_no_case_was_about_is_no_inference_that_is_fine() -> None:
    exports = ("flash_attn_func", "flash_attn_varlen_func", "layers.SiluAndMul", "layers.RMSNorm")
    fits = ("flash_attn_func", "flash_attn_dropout", "flash_attn_varlen_func", "activation_layer", "rms_norm")
    run = Run("cpu", (after_forward("wrong"), of(PASSED, "rms_norm", "RMSNorm")))
    run = replace(run, loaded=Loaded("n", "m", None, exports, fits))
    assert set(untried(run)) == {"flash_attn_dropout", "flash_attn_varlen_func", "SiluAndMul"}
    assert judge_run(run).text == (
        "partial (inference fine but for SiluAndMul (not tried), flash_attn_varlen_func (not tried), "
        "training not: 1 wrong)"
    )


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
    forward = Run("cpu", (FORWARD,))
    pin = find_pin(judge_run(forward), subject, (forward,), False)
    assert pin is not None
    assert pin.inference_only
    partial = Run("cpu", (FORWARD, after_forward("raised")))
    pin = find_pin(judge_run(partial), subject, (partial,), False)
    assert pin is not None
    assert pin.inference_only


def plain(outcome: str, heads: tuple[int, int], direction: Any = None, **more: Any) -> CaseReport:
    """A case of attention without options."""
    params = {
        "backward": True, "heads": heads[0], "kv_heads": heads[1], "head_dim": 128, "dtype": "bfloat16",
        **more.pop("params", {}),
    }  # fmt: skip
    return replace(case(outcome, direction, **more), case=Case("c", "flash_attn_func", params, 0))


MHA, GQA = (4, 4), (4, 2)


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        (plain("unsupported", GQA, "backward", forward=True), "partial"),
        (plain("unsupported", GQA, "forward"), "failed"),
        (plain("unsupported", GQA, "forward", params={"softcap": 30.0}), "passed"),
        (plain("unsupported", GQA, "forward", params={"head_dim": 80}), "passed"),
        (plain("unsupported", GQA, "forward", params={"dtype": "float16"}), "passed"),  # it is for bf16 alone
    ],
)
def test_a_kernel_that_lacks_plain_attention_is_not_simply_right(report: CaseReport, kind: str) -> None:
    verdict = judge_run(Run("cpu", (plain("passed", MHA), report)))
    assert verdict.kind == kind
    assert ("grouped-query" in verdict.text) == (kind != "passed")
