"""Derived facts about the driver and the GPUs: the boundaries, and what is said when a fact is missing."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.facts.driver import product_row
from kerneldoctor.engine.loading import shipped_tables
from tests.engine.facts_case import answer, case_of, gpu_cases

LINUX = {"os": "linux", "wsl": False}
NO_COMPAT = "driver.cuda_compat"


def carries(cuda: str, driver: dict[str, Any], system: dict[str, Any] = LINUX, *absent: str) -> Any:
    case = case_of(*(absent or (NO_COMPAT,)), system=system, driver=driver, torch={"backend": "cuda", "cuda": cuda})
    return answer(case, "torch.driver_carries_cuda")


@pytest.mark.parametrize(
    ("cuda", "driver", "expected"),
    [
        ("12.8", "525.60.13", True),  # any driver of the family, however old
        ("12.8", "525.60.12", False),
        ("12.0", "520.61.05", False),
        ("13.0", "580.65.06", True),
        ("13.2", "580.65.06", True),
        ("13.0", "580.65.05", False),
        ("13.0", "575.57.08", False),
        ("12.1", "470.182.03", False),
        ("11.8", "450.80.02", True),
        ("11.8", "450.80.01", False),
        ("11.8", "595.45.04", True),  # backwards without limit
        ("14.0", "595.45.04", "unknown"),  # a family that the table does not know
    ],
)
def test_a_driver_carries_its_family_and_older_ones(cuda: str, driver: str, expected: Any) -> None:
    assert carries(cuda, {"version": driver}) == expected


def test_what_the_driver_says_of_itself_outranks_its_version() -> None:
    # Jetson drivers are numbered apart: 540.4.0 offers CUDA 12.6, and the table would say 12.2.
    case = case_of(system=LINUX, driver={"version": "540.4.0", "cuda": "12.6"})
    assert answer(case, "driver.cuda_offered") == "12.6"
    assert carries("13.0", {"version": "540.4.0", "cuda": "13.0"}) is True


def test_windows_and_wsl_use_the_windows_numbers() -> None:
    windows, wsl = {"os": "windows", "wsl": False}, {"os": "linux", "wsl": True}
    assert carries("12.8", {"version": "527.41"}, windows) is True
    assert carries("12.8", {"version": "526.98"}, wsl) is False
    assert answer(case_of(system=wsl, driver={"version": "572.61"}), "driver.cuda_offered") == "12.8"


def test_a_forward_compatibility_library_leaves_a_too_old_driver_open() -> None:
    driver = {"version": "535.104.05", "cuda_compat": "/usr/local/cuda/compat/libcuda.so.1"}
    assert carries("13.0", driver, LINUX, "toolkit") == "unknown"
    assert carries("12.8", driver, LINUX, "toolkit") is True


def test_the_driver_question_without_its_facts() -> None:
    assert carries("12.8", {}) == "unknown"
    assert carries("12.8", {"version": "no-number"}) == "unknown"
    assert carries("12.8", {}, LINUX, "driver") == "absent"
    assert carries("12.8", {"version": "580.65.06"}, {"os": "darwin"}) == "absent"
    assert carries("12.8", {"version": "580.65.06"}, {}) == "unknown"
    cpu = case_of("torch.cuda", system=LINUX, driver={"version": "525.60.13"})
    assert answer(cpu, "torch.driver_carries_cuda") == "absent"


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("470.182.03", "11.4"),
        ("535.247.01", "12.2"),
        ("550.54.13", "12.3"),
        ("550.54.14", "12.4"),
        ("580.159.04", "13.0"),
    ],
)
def test_the_cuda_release_that_a_driver_offers(driver: str, cuda: str) -> None:
    assert answer(case_of(system=LINUX, driver={"version": driver}), "driver.cuda_offered") == cuda


@pytest.mark.parametrize(
    ("name", "capability", "segment"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0", "datacenter"),
        ("NVIDIA H200", "9.0", "datacenter"),
        ("NVIDIA GH200 480GB", "9.0", "datacenter"),
        ("NVIDIA A100-SXM4-80GB", "8.0", "datacenter"),
        ("NVIDIA A10G", "8.6", "datacenter"),
        ("Tesla V100-SXM2-32GB", "7.0", "datacenter"),
        ("Tesla T4", "7.5", "datacenter"),
        ("NVIDIA L4", "8.9", "datacenter"),
        ("NVIDIA GeForce RTX 5090", "12.0", "geforce"),
        ("RTX 5090", "12.0", "geforce"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", "8.9", "geforce"),
        ("NVIDIA GeForce GTX 1080 Ti", "6.1", "geforce"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9", "workstation"),
        ("Quadro RTX 6000", "7.5", "workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", "workstation"),
        ("NVIDIA GB10", "12.1", "datacenter"),
        ("NVIDIA Thor", "11.0", "jetson"),
        ("Orin (nvgpu)", "8.7", "jetson"),
    ],
)
def test_a_product_name_gives_the_capability(name: str, capability: str, segment: str) -> None:
    [gpu] = gpu_cases(case_of(gpus=[{"vendor": "nvidia", "name": name}]))
    assert (answer(gpu, "gpu.capability"), answer(gpu, "gpu.segment")) == (capability, segment)


@pytest.mark.parametrize("name", ["NVIDIA Graphics Device", "RTX 6000", "H1000", "A100X2", ""])
def test_a_name_that_is_not_listed_is_no_guess(name: str) -> None:
    assert product_row(name, shipped_tables()["gpu_products"]) is None


def test_the_capability_of_the_driver_outranks_the_name() -> None:
    [gpu] = gpu_cases(case_of(gpus=[{"vendor": "nvidia", "name": "NVIDIA H200", "compute_capability": "9.1"}]))
    assert answer(gpu, "gpu.capability") == "9.1"
    [amd] = gpu_cases(case_of(gpus=[{"vendor": "amd", "name": "AMD Instinct MI300X"}]))
    assert answer(amd, "gpu.capability") == "absent"


def test_counting_gpus() -> None:
    hidden, plain = (
        {"vendor": "nvidia", "name": "NVIDIA L4", "visible": False},
        {"vendor": "nvidia", "name": "NVIDIA L4"},
    )
    case = case_of(gpus=[hidden, plain, {"vendor": "amd", "name": "AMD Instinct MI300X"}])
    assert (answer(case, "driver.gpu_count"), answer(case, "driver.visible_gpu_count")) == (2, 1)
    assert answer(case_of(), "driver.gpu_count") == "unknown"
    assert answer(case_of("gpus"), "driver.gpu_count") == 0
    # What only the PCI bus or a device file shows: NVML hung, or there is no driver.
    assert answer(case_of(gpus=[{"vendor": "nvidia"}]), "driver.gpu_count") == "unknown"


LIB = "/usr/lib64/libcuda.so.1"
ALL_NODES = ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl"]


@pytest.mark.parametrize(
    ("absent", "system", "driver", "expected"),
    [
        (["driver.libcuda"], {}, {"kernel_module_loaded": False, "pci_devices": 0}, "no_gpu"),
        (["driver.libcuda"], {}, {"kernel_module_loaded": False, "pci_devices": 1}, "not_installed"),
        ([], {}, {"kernel_module_loaded": False, "pci_devices": 1, "libcuda": LIB}, "module_not_loaded"),
        (["driver.libcuda", "system.container"], {}, {"kernel_module_loaded": True}, "userland_missing"),
        (["driver.libcuda"], {"container": "docker"}, {"kernel_module_loaded": True}, "not_in_container"),
        (
            [],
            {"container": "docker"},
            {"kernel_module_loaded": True, "libcuda": LIB, "device_nodes": []},
            "nodes_missing",
        ),
        (
            ["driver.nvml_error"],
            {"container": "docker"},
            {"kernel_module_loaded": True, "libcuda": LIB, "device_nodes": ALL_NODES},
            "no_devices",
        ),
        (
            ["system.container"],
            {},
            {"kernel_module_loaded": True, "libcuda": LIB, "nvml_error": "driver_library_mismatch"},
            "nvml_error",
        ),
        (["driver.libcuda"], {}, {"pci_devices": 1}, "unknown"),
        (["driver.libcuda"], {"wsl": True}, {"kernel_module_loaded": False, "pci_devices": 0}, "absent"),
        (["driver.libcuda"], {"os": "windows"}, {"kernel_module_loaded": False, "pci_devices": 1}, "absent"),
        (["driver.libcuda"], {"os": "darwin"}, {"kernel_module_loaded": False, "pci_devices": 0}, "absent"),
    ],
)
def test_what_stands_between_a_process_and_its_gpu(
    absent: list[str], system: dict[str, Any], driver: dict[str, Any], expected: str
) -> None:
    case = case_of(*absent, system={**LINUX, **system}, driver=driver, gpus=[])
    assert answer(case, "driver.state") == expected


def test_a_listed_gpu_means_that_the_driver_works() -> None:
    gpu = {"vendor": "nvidia", "name": "NVIDIA H200"}
    case = case_of(system=LINUX, driver={"kernel_module_loaded": False}, gpus=[gpu])
    assert answer(case, "driver.state") == "working"


def test_a_gpu_that_only_the_bus_shows_does_not_mean_that_the_driver_works() -> None:
    driver = {"kernel_module_loaded": False, "pci_devices": 1, "nvml_error": "library_not_found"}
    case = case_of("driver.libcuda", system=LINUX, driver=driver, gpus=[{"vendor": "nvidia"}])
    assert answer(case, "driver.state") == "not_installed"


def test_device_files() -> None:
    def missing(*nodes: str, **system: Any) -> Any:
        return answer(case_of(system={**LINUX, **system}, driver={"device_nodes": list(nodes)}), "driver.missing_nodes")

    assert missing(*ALL_NODES) == "absent"
    assert missing("/dev/nvidiactl", "/dev/nvidia3") == ("/dev/nvidia-uvm",)
    assert len(missing("/dev/nvidiactl", "/dev/nvidia-uvm")) == 1
    assert missing("/dev/dxg", wsl=True) == "absent"
    assert missing(kernel="5.15.148-tegra") == "absent"
    assert answer(case_of(system=LINUX), "driver.missing_nodes") == "unknown"


@pytest.mark.parametrize(
    ("gpus", "visible", "usable"),
    [
        ([{"mig": False}], 1, 1),
        ([{"mig": True, "mig_devices": 0}], 0, 0),
        ([{"mig": True, "mig_devices": 2}], 1, 1),
        ([{"mig": True, "mig_devices": 0}, {"mig": False}], 1, 1),
        ([{"mig": True, "mig_devices": 0}, {"mig": False, "visible": False}], 0, 0),
        ([{"mig": True}], 1, "unknown"),  # nvidia-smi does not list the devices
        ([{"mig": True}, {"mig": False}], 2, 1),
        ([], 0, 0),
    ],
)
def test_a_gpu_in_mig_mode_without_an_instance_is_not_seen_by_cuda(
    gpus: list[dict[str, Any]], visible: int, usable: int | str
) -> None:
    case = case_of(gpus=[{"vendor": "nvidia", "name": "NVIDIA H100", **gpu} for gpu in gpus])
    assert answer(case, "driver.visible_gpu_count") == visible
    assert answer(case, "driver.usable_gpu_count") == usable


@pytest.mark.parametrize(
    ("gpus", "visibility", "state"),
    [
        ([{"mig": True, "mig_devices": 0}], {}, "none_left"),
        ([{"mig": True, "mig_devices": 0}, {"mig": False}], {}, "others_left"),
        ([{"mig": True, "mig_devices": 0}, {"mig": False}], {"raw": "1"}, "absent"),  # the other one is meant
        ([{"mig": True, "mig_devices": 0}], {"raw": "0"}, "none_left"),
        ([{"mig": True, "mig_devices": 0}], {"raw": "", "problem": "empty"}, "absent"),
        ([{"mig": True, "mig_devices": 1}], {}, "absent"),
        ([{"mig": False}], {}, "absent"),
        ([{"mig": True}], {}, "unknown"),
        ([{"vendor": "amd"}], {}, "absent"),
    ],
)
def test_what_a_gpu_in_mig_mode_without_an_instance_leaves(
    gpus: list[dict[str, Any]], visibility: dict[str, Any], state: str
) -> None:
    listed = [{"vendor": "nvidia", "name": "NVIDIA H100", **gpu} for gpu in gpus]
    gone = [f"visibility.{name}" for name in ("raw", "problem") if name not in visibility]
    case = case_of(*gone, gpus=listed, visibility=visibility)
    assert answer(gpu_cases(case)[0], "gpu.mig_without_instance") == state
