"""flash-attn against torch, the GPU and its dependencies: the borders, and no false alarms."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.matching import judge
from kerneldoctor.engine.model import Finding
from tests.engine.facts_case import answer, case_of
from tests.engine.healthy import H200, machine

NO_FLASH = ("flash_attn", "flash_attn_3", "flash_attn_4")


def case(facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return case_of(*absent, **facts)


def gpu(capability: str, facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return next(case({**facts, "gpus": [{"compute_capability": capability}]}, absent).items("gpus"))


def findings(facts: dict[str, Any], absent: tuple[str, ...] = NO_FLASH) -> tuple[Finding, ...]:
    ours = [rule for rule in shipped_rules() if rule.id.startswith("KD2")]
    return judge(ours, case(facts, absent)).findings


@pytest.mark.parametrize(
    ("torch", "fits"),
    [("2.8.0+cu128", True), ("2.8.1", True), ("2.9.0+cu128", False), ("2.15.0.dev20261101+cu132", False)],
)
def test_a_label_stands_for_a_torch_minor(torch: str, fits: bool) -> None:
    found = case({"flash_attn": {"built_for_torch": "2.8"}, "torch": {"version": torch}})
    assert answer(found, "flash_attn.label_torch_ok") == fits


@pytest.mark.parametrize(
    ("version", "built_for", "label", "torch_is_new", "fits"),
    [
        ("2.8.3", "2.8", False, True, True),  # FALSE means the ABI of the torch it was compiled against
        ("2.8.2", "2.6", False, False, False),  # compiled against 2.6.0+cu126, whose ABI is new
        ("2.7.4.post1", "2.6", False, False, True),  # compiled against 2.6.0+cu124
        ("2.7.4.post1", "2.6", True, False, False),
        ("2.8.3", "2.5", False, False, True),
    ],
)
def test_abi_labels_are_read_as_what_they_stand_for(
    version: str, built_for: str, label: bool, torch_is_new: bool, fits: bool
) -> None:
    flash = {"version": version, "built_for_torch": built_for, "built_for_cxx11_abi": label}
    found = case({"flash_attn": flash, "torch": {"cxx11_abi": torch_is_new}})
    assert answer(found, "flash_attn.label_abi_ok") == fits


def test_without_a_label_there_is_no_answer() -> None:
    found = case({"torch": {"version": "2.8.0"}}, ("flash_attn",))
    assert found.fact("flash_attn.label_torch_ok").is_absent


@pytest.mark.parametrize(
    ("capability", "two", "three"),
    [
        ("7.5", False, False),
        ("8.0", True, "unknown"),
        ("8.9", True, "unknown"),
        ("9.0", True, True),
        ("10.0", True, False),
        ("12.1", True, False),
    ],
)
def test_generations(capability: str, two: object, three: object) -> None:
    found = gpu(capability, {})
    assert answer(found, "gpu.flash_attn_2_supported") == two
    assert answer(found, "gpu.flash_attn_3_supported") == three


def test_a_gpu_of_another_maker_and_a_hidden_one_are_not_judged() -> None:
    amd = {"gpus": [{"vendor": "amd"}], "flash_attn": {"kind": "complete"}}
    assert next(case(amd).items("gpus")).fact("gpu.flash_attn_2_supported").is_absent
    hidden = {"gpus": [{"compute_capability": "7.5", "visible": False}]}
    assert next(case(hidden).items("gpus")).fact("gpu.flash_attn_2_supported").is_absent


@pytest.mark.parametrize(
    ("version", "label", "capability", "code"),
    [
        ("2.8.3", "2.8", "12.0", True),
        ("2.8.3", "2.8", "8.9", True),
        ("2.8.3", "2.8", "11.0", False),  # Thor
        ("2.7.4.post1", "2.6", "12.0", False),  # a wheel: compiled by CUDA 12.4
        ("2.7.4.post1", None, "12.0", "unknown"),  # a wheel or a build with a newer nvcc
        ("2.6.3", None, "12.0", False),  # no release file and no build of it holds that
        ("2.8.3", "2.8", "8.7", "unknown"),  # Orin, reported both ways
        ("2.9.0", None, "12.0", "unknown"),  # newer than the table
    ],
)
def test_gpu_code_by_the_table_of_releases(version: str, label: str | None, capability: str, code: object) -> None:
    flash = {"version": version, **({"built_for_torch": label} if label else {})}
    gone = () if label else ("flash_attn.built_for_torch",)
    assert answer(gpu(capability, {"flash_attn": flash}, gone), "gpu.flash_attn_2_has_code") == code


def test_the_binary_outranks_the_table() -> None:
    facts = {
        "flash_attn": {"version": "2.7.4.post1", "built_for_torch": "2.7"},
        "extensions": [{"module": "flash_attn_2_cuda", "archs": ["12.0"]}],
    }
    assert answer(gpu("12.0", facts), "gpu.flash_attn_2_has_code") is True
    assert answer(gpu("9.0", facts), "gpu.flash_attn_2_has_code") is False


@pytest.mark.parametrize(
    ("xformers", "flash", "accepted"),
    [
        ("0.0.30", "2.7.4", True),
        ("0.0.30", "2.7.4.post1", False),  # a post release counts as newer
        ("0.0.31.post1", "2.8.0.post2", False),
        ("0.0.32.post2", "2.8.2", True),
        ("0.0.33.post2", "2.8.3", True),
        ("0.0.33.post2", "2.8.3.post1", False),
        ("0.0.99", "2.8.3", "unknown"),
    ],
)
def test_what_xformers_accepts(xformers: str, flash: str, accepted: object) -> None:
    found = case({"packages": {"xformers": xformers}, "flash_attn": {"version": flash}})
    assert answer(found, "xformers.flash_attn_ok") == accepted


@pytest.mark.parametrize(
    ("beta", "dsl", "quack", "ffi", "fault"),
    [
        ("4.0.0b11", "4.5.2", "0.4.1", "0.1.9", ""),
        ("4.0.0b11", "4.6.0", "0.6.1", "0.1.9", "nvidia-cutlass-dsl is 4.6.0"),
        ("4.0.0b18", "4.6.0", "0.5.0", "0.1.9", "quack-kernels 0.5.0 breaks"),
        ("4.0.0b18", "4.6.0", "0.6.1", "0.1.9", ""),
        ("4.0.0b36", "4.5.2", "0.6.4", "0.1.12", "nvidia-cutlass-dsl is 4.5.2"),
        ("4.0.0b36", "4.8.1", "0.6.5", "0.1.11", ""),
        ("4.0.0b36", "4.6.2", "0.6.4", "0.1.9", "apache-tvm-ffi is 0.1.9"),
    ],
)
def test_flash_attn_4_beside_its_dependencies(beta: str, dsl: str, quack: str, ffi: str, fault: str) -> None:
    packages = {"nvidia-cutlass-dsl": dsl, "quack-kernels": quack, "apache-tvm-ffi": ffi}
    found = case({"flash_attn_4": {"version": beta}, "packages": packages})
    assert answer(found, "flash_attn_4.dependencies_ok") == (not fault)
    assert (found.fact("flash_attn_4.dependency_fault").value or "").startswith(fault)


def test_flash_attn_4_is_not_fine_when_the_packages_were_not_listed() -> None:
    assert case({"flash_attn_4": {"version": "4.0.0b36"}}).fact("flash_attn_4.dependencies_ok").is_unknown


FITTING = {
    "module": "flash_attn_2_cuda", "distribution": "flash-attn", "version": "2.8.3", "missing_torch_symbols": [],
    "cxx11_abi": True, "cudart_major": "12", "glibc_needed": "2.32", "glibcxx_needed": "3.4.29", "abi_tag": "cp312",
    "archs": ["8.0", "9.0", "10.0", "12.0"],
}  # fmt: skip


def loud(found: tuple[Finding, ...]) -> list[str]:
    return [f.rule for f in found if f.certainty == "confirmed" and f.severity in ("error", "warning")]


def test_healthy_machines_hear_nothing() -> None:
    assert findings(H200) == ()
    laptop = {"system": H200["system"], "python": H200["python"], "packages": {"*": True}, "extensions": []}
    assert findings(laptop, (*NO_FLASH, "torch", "gpus", "driver")) == ()
    cpu = machine(torch={"version": "2.13.0+cpu", "backend": "cpu"})
    del cpu["torch"]["cuda"], cpu["gpus"]
    assert findings(cpu, (*NO_FLASH, "torch.cuda", "gpus")) == ()
    amd = {**laptop, "torch": {"version": "2.9.1+rocm6.4", "backend": "rocm"}, "gpus": [{"vendor": "amd"}]}
    assert loud(findings({**amd, "flash_attn": {"kind": "complete", "version": "2.8.3"}}, ("torch.cuda",))) == []


def test_a_fitting_flash_attn_is_not_complained_of() -> None:
    flash = {
        "kind": "complete", "version": "2.8.3", "distribution": "flash-attn", "built_for_torch": "2.8",
        "built_for_cuda": "12", "built_for_cxx11_abi": True,
    }  # fmt: skip
    box = machine(torch={"version": "2.8.0+cu128", "cuda": "12.8"}, flash_attn=flash, extensions=[FITTING])
    assert findings(box, ("flash_attn_3", "flash_attn_4")) == ()


def test_flash_attn_4_alone_is_no_stub() -> None:
    packages = {"nvidia-cutlass-dsl": "4.6.2", "quack-kernels": "0.6.4", "apache-tvm-ffi": "0.1.12"}
    box = machine(
        flash_attn={"kind": "namespace_only"},
        flash_attn_4={"kind": "complete", "version": "4.0.0b36", "distribution": "flash-attn-4"},
        packages={**packages, "flash-attn-4": "4.0.0b36"},
    )
    assert loud(findings(box, ("flash_attn_3",))) == []


def test_one_cause_is_shown_with_its_consequences_folded() -> None:
    flash = {"kind": "complete", "version": "2.8.3", "built_for_torch": "2.6", "built_for_cuda": "12"}
    broken = {**FITTING, "missing_torch_symbols": ["_ZN3c104cuda9SetDeviceEi"]}
    box = machine(torch={"version": "2.8.0+cu128", "cuda": "12.8"}, flash_attn=flash, extensions=[broken])
    found = {f.rule: f for f in findings(box, ("flash_attn_3", "flash_attn_4")) if f.certainty == "confirmed"}
    assert set(found) == {"KD2001", "KD2003"}
    assert found["KD2003"].explained_by == "KD2001"
    command = found["KD2001"].remedies[0].command
    assert "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl" in command


@pytest.mark.parametrize(
    ("label", "torch", "mismatch"),
    [
        (
            {"built_for_torch": "2.8", "built_for_cuda": "12", "built_for_cxx11_abi": True},
            {"version": "2.9.1+cu130", "cuda": "13.0", "cxx11_abi": True},
            "torch 2.8, not 2.9.1+cu130; CUDA 12, not 13.0",
        ),
        (
            {"built_for_torch": "2.6", "built_for_cuda": "12", "built_for_cxx11_abi": True},
            {"version": "2.6.0+cu124", "cuda": "12.4", "cxx11_abi": False},
            "the new C++ ABI, which is not that of torch",
        ),
        (
            {"built_for_torch": "2.6", "built_for_cuda": "12", "built_for_cxx11_abi": False},
            {"version": "2.6.0+cu126", "cuda": "12.6", "cxx11_abi": True},
            "the old C++ ABI, which is not that of torch",
        ),
        (
            {"built_for_torch": "2.9", "built_for_cuda": "12", "built_for_cxx11_abi": True},
            {"version": "2.9.1+cu128", "cuda": "12.8", "cxx11_abi": True},
            "absent",
        ),
    ],
)
def test_the_mismatch_of_a_label_is_named(label: dict[str, Any], torch: dict[str, Any], mismatch: str) -> None:
    told = case_of(flash_attn={"version": "2.7.4", **label}, torch=torch, extensions=[])
    assert answer(told, "flash_attn.label_mismatch") == mismatch


def test_a_generation_that_is_only_listed_is_hollow() -> None:
    three = {"kind": "incomplete", "distribution": "flash-attn-3", "version": "3.0.0"}
    four = {"kind": "metadata_only", "distribution": "flash-attn-4", "version": "4.0.0b36"}
    hollow = "flash_attn.hollow_generations"
    assert answer(case_of(flash_attn_3=three, flash_attn_4=four), hollow) == (
        "flash-attn-3 3.0.0",
        "flash-attn-4 4.0.0b36",
    )
    assert answer(case_of("flash_attn_3", "flash_attn_4"), hollow) == "absent"
    assert answer(case_of("flash_attn_3"), hollow) == "unknown"
