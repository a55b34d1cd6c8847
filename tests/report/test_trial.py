"""The page of a trial: what failed and where, the verdict line alone on its line, pins in one piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kerneldoctor.report.layout import Page
from kerneldoctor.report.trial import progress_text, render, to_json
from kerneldoctor.smoke.protocol import Case, Loaded, TensorError, Versions
from kerneldoctor.smoke.trial import CaseReport, LoadProblem, Note, Refusal, Run, Subject, Trial
from kerneldoctor.smoke.verdict import find_pin, judge_runs

COMMIT = "0510be1e482269a46fadf30069aca3ede496ff9b"
SUBJECT = Subject(
    "flash_attention_2", "kernels-community/flash-attn2", "v3", COMMIT, "torch-stable-abi210-cu130-x86_64-linux",
    "4eec01c", "live", "/home/ann/.cache/x",
)  # fmt: skip
SEEN = Versions("n", "2.13.0+cu130", "13.0", {"name": "NVIDIA H200", "capability": "9.0"})
OFF = {"dq": TensorError(0.002, 0.002, 0.01, ratio=0.4), "dk": TensorError(0.86, 0.005, 1.5, (0, 69), 44.0)}


def case(identity: str, outcome: Any, detail: str = "", **more: Any) -> CaseReport:
    params = {"dtype": "bfloat16", "heads": 8, "kv_heads": 2, "head_dim": 128, "causal": True, "backward": True}
    return CaseReport(Case(identity, "flash_attn_func", params, 0), outcome, detail, seconds=0.25, **more)


def trial(
    *cases: CaseReport, findings: tuple[Note, ...] = (), refusals: tuple[Refusal, ...] = (), **more: Any
) -> Trial:
    runs = (Run("cuda:0", cases, versions=SEEN, packages={"kernels": "0.17.2"}, seconds=6.5, children=1, **more),)
    runs = () if refusals else runs
    verdict = judge_runs(refusals, runs)
    return Trial(SUBJECT, runs, refusals, verdict, find_pin(verdict, SUBJECT, runs, False), findings)


PASSED = trial(
    case("dense-mha", "passed"), case("dense-gqa", "passed"), timings={"import-torch": 4.4}, peak_memory=2**31
)
BROKEN = trial(
    case("dense-mha", "passed"),
    case("dense-gqa", "wrong", "dk is off by 0.86", direction="backward", errors=OFF),
    case("dense-mqa", "wrong", "dk is off by 0.86", direction="backward", errors=OFF),
    case("varlen", "crashed", "SIGSEGV in forward", direction="forward", said="Segmentation fault", signal="SIGSEGV"),
    findings=(
        Note("KD3101", "This build fails in backward", "error", "build", "agrees", "measured as predicted"),
        Note("KD3110", "This build is old", "error", "build", "disagrees", "the measurement counts"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("passed", PASSED),
        (
            "failed",
            replace(BROKEN, notes=("a note",), next_steps=("see it again: kerneldoctor try x --case dense-gqa",)),
        ),
        (
            "refused",
            trial(refusals=(Refusal("digest", "a.so is not what was built"), Refusal("minver", "it asks for 0.19"))),
        ),
        (
            "load-crashed",
            trial(problem=LoadProblem("crashed", "SIGSEGV", "died of SIGSEGV in load-kernel", "load-kernel", "Fatal")),
        ),
        ("no-contract", trial(loaded=Loaded("n", "m", None, ("sort", "layers.Sort"), ()))),
    ],
)
def test_the_page(golden: Callable[[str, str], None], name: str, tried: Trial) -> None:
    golden(f"trial-{name}.txt", render(tried, Page(100)))


def test_what_a_case_said_is_shown_only_when_asked_for() -> None:
    assert "Segmentation fault" not in render(BROKEN, Page(100))
    text = render(BROKEN, Page(100), verbose=True)
    assert "| Segmentation fault" in text
    assert "dk: off by 0.86, torch itself 0.005" in text


def test_pins_stay_in_one_piece_on_a_narrow_page() -> None:
    text = render(PASSED, Page(60))
    assert f'attn_implementation="kernels-community/flash-attn2@{COMMIT}"  # v3' in text
    assert f"--attn_implementation kernels-community/flash-attn2@{COMMIT}\n" in text


def test_of_several_devices_each_case_names_its_own() -> None:
    two = replace(PASSED, runs=(PASSED.runs[0], replace(PASSED.runs[0], device="cuda:1")))
    assert "dense-mha on cuda:1" in render(two, Page(100))
    assert [case["device"] for case in to_json(two)["cases"]] == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]


def test_json_has_what_the_issue_of_a_ci_needs() -> None:
    document = to_json(BROKEN)
    assert {"reference", "resolved", "device", "cases", "verdict", "pin", "findings"} <= document.keys()
    assert document["resolved"]["commit"] == COMMIT
    assert document["device"]["gpu"]["name"] == "NVIDIA H200"
    wrong = document["cases"][1]
    assert {"id", "contract", "params", "outcome", "detail", "errors", "seconds"} <= wrong.keys()
    assert wrong["errors"]["dk"]["relative"] == 0.86
    assert document["verdict"] == {"kind": "failed", "text": "failed (1 crashed, 2 wrong; 1 of 4 passed)"}
    assert document["pin"] is None
    assert [note["standing"] for note in document["findings"]] == ["agrees", "disagrees"]
    assert document["exit_code"] == 1
    assert to_json(PASSED)["exit_code"] == 0


def test_progress_says_which_case_of_how_many() -> None:
    assert (
        progress_text("cuda:0", 3, 16, "dense-gqa", "backward", 4.2) == "cuda:0: case 3 of 16, dense-gqa: backward, 4 s"
    )
    assert progress_text("cpu", 0, 0, "", "import-torch", 2.0) == "cpu: import-torch, 2 s"
