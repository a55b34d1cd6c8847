"""Machines in order: no rule may call them faulty, and no rule about driver, torch or tools may stay in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.matching import judge
from tests.engine.facts_case import case_of

LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
NODES = ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]
LINUX = {"os": "linux", "wsl": False, "libc": "glibc", "libc_version": "2.39", "kernel": "6.8.0-45-generic"}
TOOLS = {
    "version": "3.12.4",
    "implementation": "cpython",
    "free_threaded": False,
    "headers": True,
    "c_compiler": "/usr/bin/gcc",
    "c_compiler_version": "13.3.0",
}
DRIVER = {
    "version": "580.159.04",
    "cuda": "13.0",
    "kernel_module_loaded": True,
    "kernel_module_flavour": "open",
    "uvm_loaded": True,
    "device_nodes": NODES,
    "pci_devices": 1,
    "libcuda": LIBCUDA,
    "libcuda_linkable": True,
}
TORCH = {
    "version": "2.11.0+cu130",
    "backend": "cuda",
    "cuda": "13.0",
    "installer": "pip",
    "cxx11_abi": True,
    "package_missing": False,
    "metadata_missing": False,
    "source_shadowed": False,
    "unusable_libraries": [],
}
H200 = {"vendor": "nvidia", "name": "NVIDIA H200", "compute_capability": "9.0", "visible": True, "mig": False}
PACKAGES = {"triton": "3.6.0", "transformers": "5.17.0", "huggingface-hub": "1.33.0", "kernels": "0.16.2"}
IN_ORDER = {"requirements": {"conflicts": [], "duplicates": []}}
NOTHING_ODD = ("driver.nvml_error", "driver.cuda_compat", "driver.fabric_manager", "visibility", "toolkit")
TORCH_IN_ORDER = ("system.library_overrides", "torch.duplicate_companions", "torch.missing_companions")


def machine(name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The absent and the known facts of one machine."""
    gpu_box = (*NOTHING_ODD, *TORCH_IN_ORDER, "system.container")
    packages = {**PACKAGES, "numpy": "2.5.2", "*": True}
    h200: dict[str, Any] = {
        "system": {**LINUX, "machine": "x86_64"},
        "python": TOOLS,
        "driver": DRIVER,
        "gpus": [H200],
        "torch": TORCH,
        "packages": packages,
        **IN_ORDER,
    }
    no_driver = {"kernel_module_loaded": False, "pci_devices": 0, "device_nodes": []}
    no_gpu = ("driver.version", "driver.cuda", "driver.libcuda", *NOTHING_ODD)
    cpu_torch = {**TORCH, "version": "2.13.0+cpu", "backend": "cpu"}
    match name:
        case "H200":
            return gpu_box, h200
        case "H200 in a container":
            container = {**LINUX, "machine": "x86_64", "container": "docker"}
            return tuple(p for p in gpu_box if p != "system.container"), {**h200, "system": container}
        case "H100 with an older driver of the same family":
            old = {**DRIVER, "version": "535.104.05", "cuda": "12.2"}
            return gpu_box, {**h200, "driver": old, "torch": {**TORCH, "version": "2.9.1+cu128", "cuda": "12.8"}}
        case "laptop without torch":
            system = {**LINUX, "machine": "x86_64"}
            facts = {"system": system, "python": TOOLS, "driver": no_driver, "gpus": [], "packages": {"*": True}}
            return (*no_gpu, "torch", "system.container", "system.library_overrides"), {**facts, **IN_ORDER}
        case "CPU torch in a slim container":
            system = {**LINUX, "machine": "x86_64", "container": "docker"}
            python = {k: v for k, v in TOOLS.items() if not k.startswith("c_")} | {"headers": False}
            facts = {"system": system, "python": python, "driver": no_driver, "gpus": [], "torch": cpu_torch}
            absent = (*no_gpu, "python.c_compiler", "torch.cuda", *TORCH_IN_ORDER)
            return absent, {**facts, "packages": packages, **IN_ORDER}
        case "CUDA torch on a CPU runner":
            system = {**LINUX, "machine": "x86_64", "container": "docker"}
            facts = {"system": system, "python": TOOLS, "driver": no_driver, "gpus": [], "torch": TORCH}
            return (*no_gpu, *TORCH_IN_ORDER), {**facts, "packages": packages, **IN_ORDER}
        case "AMD with ROCm":
            gpus = [{"vendor": "amd", "name": "AMD Instinct MI300X", "visible": True}]
            torch = {**TORCH, "version": "2.13.0+rocm7.2", "backend": "rocm", "hip": "7.2"}
            return (*no_gpu, "torch.cuda", "system.container", *TORCH_IN_ORDER), {
                **h200,
                "driver": no_driver,
                "gpus": gpus,
                "torch": torch,
            }
        case "Mac":
            mac = {"os": "darwin", "machine": "arm64", "wsl": False}
            gpus = [{"vendor": "apple", "name": "Apple M4 Max"}]
            torch = {**TORCH, "version": "2.13.0", "backend": "cpu"}
            absent = ("driver", "visibility", "toolkit", "torch.cuda", "system.container", *TORCH_IN_ORDER)
            return absent, {
                "system": mac,
                "python": TOOLS,
                "gpus": gpus,
                "torch": torch,
                "packages": packages,
            } | IN_ORDER
        case "Windows":
            windows = {"os": "windows", "machine": "AMD64", "wsl": False}
            driver = {"version": "581.15", "cuda": "13.0"}
            absent = (*gpu_box, "driver.kernel_module_loaded", "driver.device_nodes", "driver.libcuda")
            rtx = {"vendor": "nvidia", "name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}
            return absent, {**h200, "system": windows, "driver": driver, "gpus": [rtx]}
        case "WSL":
            wsl = {**LINUX, "machine": "x86_64", "wsl": True}
            driver = {"version": "581.15", "cuda": "13.0", "kernel_module_loaded": False, "device_nodes": ["/dev/dxg"]}
            driver |= {"libcuda": "/usr/lib/wsl/lib/libcuda.so.1", "libcuda_linkable": True, "pci_devices": 0}
            rtx = {"vendor": "nvidia", "name": "NVIDIA GeForce RTX 4090", "compute_capability": "8.9"}
            return gpu_box, {**h200, "system": wsl, "driver": driver, "gpus": [rtx]}
        case "MIG slices":
            gpu = {**H200, "mig": True, "mig_devices": 2}
            visibility = {"raw": "MIG-1234", "count": 1, "uses_uuid": True}
            absent = tuple(p for p in gpu_box if p != "visibility")
            return (*absent, "visibility.problem"), {**h200, "gpus": [gpu], "visibility": visibility}
        case "nightly":
            torch = {**TORCH, "version": "2.15.0.dev20260920+cu130", "archs": ["7.5", "9.0", "12.0+PTX"]}
            return gpu_box, {**h200, "torch": torch}
    raise AssertionError(name)


MACHINES = (
    "H200",
    "H200 in a container",
    "H100 with an older driver of the same family",
    "laptop without torch",
    "CPU torch in a slim container",
    "CUDA torch on a CPU runner",
    "AMD with ROCm",
    "Mac",
    "Windows",
    "WSL",
    "MIG slices",
    "nightly",
)
NO_FLASH = ("flash_attn", "flash_attn_3", "flash_attn_4")
OURS = ("KD1", "KD4", "KD6", "KD7")


@pytest.mark.parametrize("name", MACHINES)
def test_a_healthy_machine_gets_no_finding(name: str) -> None:
    absent, facts = machine(name)
    findings = judge(shipped_rules(), case_of(*absent, *NO_FLASH, **facts)).findings
    assert [(f.rule, f.certainty, f.title) for f in findings if f.rule.startswith(OURS)] == []


@pytest.mark.parametrize("name", ["H200", "laptop without torch", "CPU torch in a slim container"])
def test_no_rule_of_any_family_finds_fault_with_it(name: str) -> None:
    absent, facts = machine(name)
    findings = judge(shipped_rules(), case_of(*absent, *NO_FLASH, **facts)).findings
    assert [(f.rule, f.title) for f in findings if f.certainty == "confirmed" and f.severity != "info"] == []


@pytest.mark.parametrize("name", ["H200", "laptop without torch"])
def test_a_machine_that_was_looked_at_leaves_no_doubt(name: str) -> None:
    absent, facts = machine(name)
    undetermined = judge(shipped_rules(), case_of(*absent, *NO_FLASH, **facts)).undetermined
    assert {rule: missing for rule, missing in undetermined.items() if rule.startswith(OURS)} == {}
