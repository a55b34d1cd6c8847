"""What follows for flash-attn and other extensions from torch, Python, the C libraries and the GPU: the borders."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.engine.case import Case
from kerneldoctor.engine.examples import example_case
from kerneldoctor.engine.loading import shipped_rules, shipped_tables
from kerneldoctor.engine.matching import judge
from kerneldoctor.engine.model import Example, Finding
from kerneldoctor.environment import Fact, State

H200: dict[str, Any] = {
    "system": {"os": "linux", "machine": "x86_64", "libc": "glibc", "libc_version": "2.35", "glibcxx": "3.4.30"},
    "python": {"version": "3.12.7", "abi_tag": "cp312"},
    "driver": {"version": "580.159.04", "cuda": "13.0"},
    "gpus": [{"index": 0, "name": "NVIDIA H200", "vendor": "nvidia", "compute_capability": "9.0", "visible": True}],
    "torch": {"version": "2.11.0+cu130", "backend": "cuda", "cuda": "13.0", "cxx11_abi": True},
    "packages": {"transformers": "5.17.0", "triton": "3.6.0", "kernels": "0.16.2", "numpy": "2.5.2", "*": True},
    "extensions": [],
}
NO_FLASH = ("flash_attn", "flash_attn_3", "flash_attn_4")


def case(facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return example_case(Example("", "fires", facts, absent, "", ()), shipped_tables())


def machine(base: dict[str, Any] = H200, /, **sections: dict[str, Any] | list[Any]) -> dict[str, Any]:
    """A machine with some sections changed: dicts are merged, lists replace."""
    merged = dict(base)
    for name, value in sections.items():
        merged[name] = {**base.get(name, {}), **value} if isinstance(value, dict) else value
    return merged


def extension(facts: dict[str, Any], absent: tuple[str, ...] = (), /, **fields: Any) -> Case:
    items = [{"module": "flash_attn_2_cuda", "distribution": "flash-attn", **fields}]
    return next(case({**facts, "extensions": items}, absent).items("extensions"))


def gpu(capability: str, facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return next(case({**facts, "gpus": [{"compute_capability": capability}]}, absent).items("gpus"))


def findings(facts: dict[str, Any], absent: tuple[str, ...] = NO_FLASH) -> tuple[Finding, ...]:
    ours = [rule for rule in shipped_rules() if rule.id.startswith("KD2")]
    return judge(ours, case(facts, absent)).findings


def said(fact: Fact[Any]) -> Any:
    return fact.value if fact.is_known else fact.state


# --- extensions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "offered", "fits"),
    [("2.32", "2.32", True), ("2.32", "2.31", False), ("2.9", "2.31", True), ("2.32", "2.35", True)],
)
def test_glibc_is_compared_as_a_version(needed: str, offered: str, fits: bool) -> None:
    found = extension({"system": {"libc": "glibc", "libc_version": offered}}, glibc_needed=needed)
    assert said(found.fact("extension.glibc_ok")) is fits


def test_a_system_whose_glibc_was_not_read_is_not_fine() -> None:
    assert extension({}, glibc_needed="2.32").fact("extension.glibc_ok").is_unknown


@pytest.mark.parametrize(
    ("tag", "python", "fits"),
    [
        ("cp312", "cp312", True),
        ("cp311", "cp312", False),
        ("cp313", "cp313t", False),
        ("cp313t", "cp313t", True),
        ("abi3", "cp312", True),
        ("abi3", "cp313t", False),
    ],
)
def test_tags_of_python(tag: str, python: str, fits: bool) -> None:
    assert said(extension({"python": {"abi_tag": python}}, abi_tag=tag).fact("extension.abi_tag_ok")) is fits


def test_a_package_with_a_file_per_python_is_fine() -> None:
    items = [{"module": "m", "distribution": "d", "abi_tag": tag} for tag in ("cp311", "cp312")]
    found = [item.fact("extension.abi_tag_ok") for item in case(machine(extensions=items)).items("extensions")]
    assert [said(fact) for fact in found] == [True, True]


def test_a_package_with_a_file_per_cuda_is_fine() -> None:
    # bitsandbytes carries one library for each CUDA and opens the one that torch needs.
    items = [
        {"module": f"cuda{major}", "distribution": "bitsandbytes", "cudart_major": major}
        for major in ("11", "12", "13")
    ]
    found = [i.fact("extension.cudart_major_ok") for i in case(machine(extensions=items)).items("extensions")]
    assert [said(fact) for fact in found] == [True, True, True]


@pytest.mark.parametrize(
    ("cudart", "fits"),
    [
        ("/usr/local/cuda-12.8/lib64/libcudart.so.12.8.90", True),
        ("/usr/local/cuda-13.0/lib64/libcudart.so.13", False),
        ("/usr/lib/libcudart.so", False),
    ],
)
def test_a_cuda_12_extension_beside_a_cuda_13_torch(cudart: str, fits: bool) -> None:
    found = extension(machine(toolkit={"cudart": cudart}), cudart_major="12")
    assert said(found.fact("extension.cudart_major_ok")) is fits


def test_torch_without_cuda_has_no_runtime_to_compare() -> None:
    found = extension({"torch": {"version": "2.8.0+cpu"}}, ("torch.cuda",), cudart_major="12")
    assert found.fact("extension.cudart_major_ok").is_absent


def test_an_abi_that_differs_does_not_matter_when_every_symbol_resolves() -> None:
    facts = {"torch": {"cxx11_abi": True}}
    assert said(extension(facts, cxx11_abi=False).fact("extension.cxx11_abi_matches")) is False
    resolved = extension(facts, cxx11_abi=False, missing_torch_symbols=[])
    assert said(resolved.fact("extension.cxx11_abi_matches")) is True


# --- labels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "fits"),
    [("2.8.0+cu128", True), ("2.8.1", True), ("2.9.0+cu128", False), ("2.15.0.dev20261101+cu132", False)],
)
def test_a_label_stands_for_a_torch_minor(torch: str, fits: bool) -> None:
    found = case({"flash_attn": {"built_for_torch": "2.8"}, "torch": {"version": torch}})
    assert said(found.fact("flash_attn.label_torch_ok")) is fits


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
    assert said(found.fact("flash_attn.label_abi_ok")) is fits


def test_without_a_label_there_is_no_answer() -> None:
    found = case({"torch": {"version": "2.8.0"}}, ("flash_attn",))
    assert found.fact("flash_attn.label_torch_ok").is_absent


# --- GPUs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capability", "two", "three"),
    [
        ("7.5", False, False),
        ("8.0", True, State.UNKNOWN),
        ("8.9", True, State.UNKNOWN),
        ("9.0", True, True),
        ("10.0", True, False),
        ("12.1", True, False),
    ],
)
def test_generations(capability: str, two: object, three: object) -> None:
    found = gpu(capability, {})
    assert said(found.fact("gpu.flash_attn_2_supported")) is two
    assert said(found.fact("gpu.flash_attn_3_supported")) is three


def test_a_gpu_of_another_maker_and_a_hidden_one_are_not_judged() -> None:
    amd = {"gpus": [{"vendor": "amd"}], "flash_attn": {"kind": "complete"}}
    assert next(case(amd).items("gpus")).fact("gpu.flash_attn_2_supported").is_unknown
    hidden = {"gpus": [{"compute_capability": "7.5", "visible": False}]}
    assert next(case(hidden).items("gpus")).fact("gpu.flash_attn_2_supported").is_absent


@pytest.mark.parametrize(
    ("version", "label", "capability", "code"),
    [
        ("2.8.3", "2.8", "12.0", True),
        ("2.8.3", "2.8", "8.9", True),
        ("2.8.3", "2.8", "11.0", False),  # Thor
        ("2.7.4.post1", "2.6", "12.0", False),  # a wheel: compiled by CUDA 12.4
        ("2.7.4.post1", None, "12.0", State.UNKNOWN),  # a wheel or a build with a newer nvcc
        ("2.6.3", None, "12.0", False),  # no release file and no build of it holds that
        ("2.8.3", "2.8", "8.7", State.UNKNOWN),  # Orin, reported both ways
        ("2.9.0", None, "12.0", State.UNKNOWN),  # newer than the table
    ],
)
def test_gpu_code_by_the_table_of_releases(version: str, label: str | None, capability: str, code: object) -> None:
    flash = {"version": version, **({"built_for_torch": label} if label else {})}
    gone = () if label else ("flash_attn.built_for_torch",)
    assert said(gpu(capability, {"flash_attn": flash}, gone).fact("gpu.flash_attn_2_has_code")) is code


def test_the_binary_outranks_the_table() -> None:
    facts = {
        "flash_attn": {"version": "2.7.4.post1", "built_for_torch": "2.7"},
        "extensions": [{"module": "flash_attn_2_cuda", "archs": ["12.0"]}],
    }
    assert said(gpu("12.0", facts).fact("gpu.flash_attn_2_has_code")) is True
    assert said(gpu("9.0", facts).fact("gpu.flash_attn_2_has_code")) is False


# --- wheels ---------------------------------------------------------------------------------------------------------


def wheel(**sections: dict[str, Any] | list[Any]) -> Any:
    base = machine(torch={"version": "2.8.0+cu128", "cuda": "12.8"})
    return said(case(machine(base, **sections)).fact("flash_attn.best_wheel"))


def test_the_wheel_of_an_ordinary_machine_is_named_in_full() -> None:
    facts = case(machine(torch={"version": "2.8.0+cu128", "cuda": "12.8"}))
    name = "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert facts.fact("flash_attn.best_wheel").value == name
    url = f"https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/{name}"
    assert facts.fact("flash_attn.best_wheel_url").value == url


def test_what_fits_decides_the_version() -> None:
    torch26 = {"version": "2.6.0+cu124", "cuda": "12.4", "cxx11_abi": False}
    old_abi = "flash_attn-2.7.4.post1+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"
    assert wheel(torch=torch26) == old_abi
    assert wheel(torch={"version": "2.6.0+cu126", "cuda": "12.6"}).startswith(
        "flash_attn-2.8.3+cu12torch2.6cxx11abiTRUE"
    )
    assert wheel(torch={"version": "2.10.0+cu130", "cuda": "13.0"}).startswith("flash_attn-2.8.3+cu13torch2.10")
    assert wheel(torch={"version": "2.10.0+cu130", "cuda": "13.0"}, python={"abi_tag": "cp313"}).startswith(
        "flash_attn-2.8.1+cu13torch2.10"
    )
    ubuntu20 = {"libc_version": "2.31"}
    assert wheel(torch=torch26, system=ubuntu20) == old_abi
    cu118 = {"version": "2.5.1+cu118", "cuda": "11.8", "cxx11_abi": False}
    assert wheel(torch=cu118).startswith("flash_attn-2.7.3+cu11torch2.5cxx11abiFALSE")


@pytest.mark.parametrize(
    "change",
    [
        {"torch": {"version": "2.11.0+cu130", "cuda": "13.0"}},  # none was published
        {"torch": {"version": "2.8.0.dev20250601+cu128"}},  # a nightly
        {"torch": {"version": "2.8.0a0+5228986c39.nv25.06", "cuda": "12.9"}},  # an NVIDIA container
        {"python": {"abi_tag": "cp314"}},
        {"python": {"abi_tag": "cp313t"}},
        {"system": {"libc_version": "2.31"}},  # built on Ubuntu 22.04
        {"system": {"libc": "musl"}},
        {"system": {"os": "windows"}},
        {"system": {"machine": "aarch64"}, "python": {"abi_tag": "cp311"}},  # on Arm for 3.12 only
        {"gpus": [{"compute_capability": "11.0"}]},  # Thor: no code inside
        {"gpus": [{"compute_capability": "7.5"}]},
    ],
)
def test_no_wheel_is_offered_that_does_not_fit(change: dict[str, Any]) -> None:
    assert wheel(**change) is State.ABSENT


def test_a_gpu_that_is_hidden_does_not_narrow_the_choice() -> None:
    gpus = [{"compute_capability": "7.5", "visible": False}, {"compute_capability": "8.0", "visible": True}]
    assert str(wheel(gpus=gpus)).startswith("flash_attn-2.8.3")


def test_a_wheel_for_an_unknown_torch_is_unknown() -> None:
    assert case({"system": {"os": "linux", "machine": "x86_64"}}).fact("flash_attn.best_wheel").is_unknown


def test_the_list_of_the_unofficial_builder() -> None:
    assert said(case(machine()).fact("flash_attn.community_wheel")) == "2.8.3"  # torch 2.11, CUDA 13.0
    newer = machine(torch={"version": "2.15.0+cu132", "cuda": "13.2"})
    assert case(newer).fact("flash_attn.community_wheel").is_absent
    windows = machine(system={"os": "windows", "machine": "AMD64"})
    assert said(case(windows).fact("flash_attn.community_wheel")) == "2.8.3"


# --- gates and dependencies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("xformers", "flash", "accepted"),
    [
        ("0.0.30", "2.7.4", True),
        ("0.0.30", "2.7.4.post1", False),  # a post release counts as newer
        ("0.0.31.post1", "2.8.0.post2", False),
        ("0.0.32.post2", "2.8.2", True),
        ("0.0.33.post2", "2.8.3", True),
        ("0.0.33.post2", "2.8.3.post1", False),
        ("0.0.99", "2.8.3", State.UNKNOWN),
    ],
)
def test_what_xformers_accepts(xformers: str, flash: str, accepted: object) -> None:
    found = case({"packages": {"xformers": xformers}, "flash_attn": {"version": flash}})
    assert said(found.fact("xformers.flash_attn_ok")) is accepted


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
    assert said(found.fact("flash_attn_4.dependencies_ok")) is (not fault)
    assert (found.fact("flash_attn_4.dependency_fault").value or "").startswith(fault)


def test_flash_attn_4_is_not_fine_when_the_packages_were_not_listed() -> None:
    assert case({"flash_attn_4": {"version": "4.0.0b36"}}).fact("flash_attn_4.dependencies_ok").is_unknown


# --- no false alarms ------------------------------------------------------------------------------------------------

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
