"""Triton's assembler against the GPU: the borders, another assembler by variable, and where a newer one is."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.matching import judge
from tests.engine.facts_case import answer, case_of
from tests.engine.healthy import H200, machine


def on(capability: str, **facts: Any) -> Case:
    gpu = {"name": "X", "vendor": "nvidia", "compute_capability": capability, **facts.pop("gpu", {})}
    return next(case_of(**facts, gpus=[gpu]).items("gpus"))


@pytest.mark.parametrize(
    ("capability", "triton", "assembles"),
    [
        ("9.0", "2.0.0", True),
        ("10.0", "3.2.0", False),
        ("10.0", "3.3.0", True),
        ("12.0", "3.3.0", True),
        ("10.3", "3.5.1", False),
        ("12.1", "3.5.1", False),
        ("12.1", "3.6.0", True),
        ("11.0", "3.6.0", False),
        ("11.0", "3.7.0", True),
        ("12.0", "3.7.0+git1234", True),
        ("12.0", "nonsense", "unknown"),
    ],
)
def test_what_each_release_brings(capability: str, triton: str, assembles: bool | str) -> None:
    assert answer(on(capability, packages={"triton": triton}), "gpu.triton_assembles") == assembles


@pytest.mark.parametrize(
    ("triton", "ptxas", "assembles"),
    [
        ("3.5.1", "13.0.48", True),
        ("3.5.1", "12.8.93", False),
        ("3.2.0", "13.0.48", False),  # makes no code for Blackwell in the first place
    ],
)
def test_another_assembler_by_variable(triton: str, ptxas: str, assembles: bool) -> None:
    case = on("12.1", packages={"triton": triton}, torch={"triton_ptxas_version": ptxas})
    assert answer(case, "gpu.triton_assembles") is assembles


def test_from_3_6_on_the_variable_of_the_first_assembler_does_not_count() -> None:
    case = on("11.0", packages={"triton": "3.6.0"}, torch={"triton_ptxas_version": "13.1.80"})
    assert answer(case, "gpu.triton_assembles") is False


@pytest.mark.parametrize(
    "facts",
    [
        {"system": {"os": "windows"}},
        {"torch": {"backend": "cpu"}},
        {"torch": {"backend": "rocm"}},
        {"gpu": {"visible": False}},
        {"gpu": {"vendor": "amd"}},
    ],
)
def test_where_the_question_makes_no_sense(facts: dict[str, Any]) -> None:
    assert answer(on("12.1", packages={"triton": "3.5.1"}, **facts), "gpu.triton_assembles") == "absent"


@pytest.mark.parametrize(
    ("capability", "versions", "ptxas"),
    [
        ("12.1", ["12.8", "13.0"], "/usr/local/cuda-13.0/bin/ptxas"),
        ("12.1", ["12.9", "12.8"], "/usr/local/cuda-12.9/bin/ptxas"),
        ("12.1", ["12.8"], "absent"),
        ("11.0", ["12.9"], "absent"),
    ],
)
def test_a_newer_assembler_of_the_machine(capability: str, versions: list[str], ptxas: str) -> None:
    nvccs = [{"path": f"/usr/local/cuda-{version}/bin/nvcc", "version": version} for version in versions]
    assert answer(on(capability, toolkit={"nvccs": nvccs}), "gpu.ptxas_for_triton") == ptxas


def test_the_torch_that_is_offered_knows_the_gpu_and_fits_the_machine() -> None:
    gb10 = {"name": "NVIDIA GB10", "vendor": "nvidia", "compute_capability": "12.1", "visible": True}
    facts = machine(
        H200,
        gpus=[gb10],
        system={"machine": "aarch64", "kernel": "6.14"},
        torch={"version": "2.9.1+cu130"},
        packages={"triton": "3.5.1"},
    )
    case = next(case_of("driver.cuda_compat", **facts).items("gpus"))
    wanted = '"torch==2.10.0+cu130" --index-url https://download.pytorch.org/whl/cu130'
    assert answer(case, "gpu.torch_for_triton") == wanted


def test_it_is_folded_under_a_torch_without_code_for_the_gpu() -> None:
    rtx = {"name": "NVIDIA GeForce RTX 5090", "vendor": "nvidia", "compute_capability": "12.0", "visible": True}
    torch = {"version": "2.6.0+cu124", "cuda": "12.4"}
    facts = machine(H200, gpus=[rtx], torch=torch, packages={"triton": "3.2.0"})
    findings = judge(shipped_rules(), case_of("driver.cuda_compat", **facts)).findings
    assert [(f.rule, f.explained_by) for f in findings if f.rule in ("KD4005", "KD6004")] == [
        ("KD4005", ""),
        ("KD6004", "KD4005"),
    ]
