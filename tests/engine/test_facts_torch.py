"""Derived facts about torch: GPU code in wheels, the wheel that would fit, its libraries, NumPy, the toolkit."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.loading import shipped_tables
from tests.engine.facts_case import answer, case_of, gpu_cases

X86 = {"os": "linux", "wsl": False, "machine": "x86_64", "libc": "glibc", "libc_version": "2.35"}
ARM = {**X86, "machine": "aarch64"}


def has_code(version: str, cuda: str, gpu: str, system: dict[str, Any] = X86, **torch: Any) -> Any:
    facts = {"version": version, "backend": "cuda", "cuda": cuda, **torch}
    [case] = gpu_cases(case_of(system=system, torch=facts, gpus=[{"vendor": "nvidia", "compute_capability": gpu}]))
    return answer(case, "gpu.torch_has_code")


@pytest.mark.parametrize(
    ("version", "cuda", "gpu", "expected"),
    [
        ("2.8.0+cu126", "12.6", "12.0", False),  # RTX 50 with the last legacy wheel
        ("2.8.0+cu128", "12.8", "12.0", True),
        ("2.8.0+cu128", "12.8", "6.1", False),  # Pascal
        ("2.14.1+cu126", "12.6", "6.1", True),
        ("2.10.0+cu128", "12.8", "7.0", True),  # Volta: in 2.10, no longer in 2.11
        ("2.11.0+cu128", "12.8", "7.0", False),
        ("2.11.0+cu126", "12.6", "7.0", True),
        ("2.7.1+cu128", "12.8", "7.0", False),
        ("2.13.0+cu130", "13.0", "8.9", True),  # Ada runs code for 8.6
        ("2.13.0+cu130", "13.0", "8.7", True),
        ("2.13.0+cu130", "13.0", "10.3", True),  # B300 runs code for 10.0
        ("2.13.0+cu130", "13.0", "12.1", True),  # GB10 runs code for 12.0
        ("2.13.0+cu130", "13.0", "11.0", False),  # Thor is in the aarch64 wheels only
        ("2.13.0+cu130", "13.0", "13.0", "unknown"),  # newer than the table: the wheel may hold PTX
        ("2.13.0+cu126", "12.6", "13.0", False),
        ("2.0.1+cu118", "11.8", "12.0", False),  # not listed, but its compiler knew no 12.0
        ("2.0.1+cu118", "11.8", "8.0", "unknown"),
        ("2.16.0+cu132", "13.2", "7.0", False),  # not listed, but CUDA 13 has nothing before 7.5
        ("2.15.0.dev20261101+cu132", "13.2", "9.0", "unknown"),
        ("2.15.0.dev20261101+cu132", "13.2", "6.1", False),
        ("2.9.0a0+50eac811a6.nv25.09", "13.0", "9.0", "unknown"),
        ("rubbish", "12.8", "9.0", "unknown"),
    ],
)
def test_whether_a_wheel_holds_code_for_a_gpu(version: str, cuda: str, gpu: str, expected: Any) -> None:
    assert has_code(version, cuda, gpu) == expected


def test_arm_wheels_have_lists_of_their_own() -> None:
    assert has_code("2.13.0+cu130", "13.0", "11.0", ARM) is True
    assert has_code("2.10.0+cu128", "12.8", "11.0", ARM) is False
    assert has_code("2.10.0+cu126", "12.6", "8.7", ARM) is True
    assert has_code("2.10.0+cu126", "12.6", "7.5", ARM) is False


def test_a_version_without_label_is_a_wheel_only_where_pip_installed_it() -> None:
    assert has_code("2.11.0", "12.8", "7.0", installer="pip") is False
    assert has_code("2.11.0", "12.8", "7.0", installer="conda") == "unknown"
    assert has_code("2.11.0", "12.8", "7.0") == "unknown"


def test_what_the_binary_says_outranks_the_table() -> None:
    assert has_code("2.11.0+cu128", "12.8", "7.0", archs=["7.0", "8.0"]) is True
    assert has_code("2.13.0", "13.0", "13.0", archs=["8.0", "9.0"]) is False
    assert has_code("2.13.0", "13.0", "13.0", archs=["8.0", "12.0+PTX"]) is True


def test_gpus_that_torch_is_not_asked_about() -> None:
    torch = {"version": "2.8.0+cu126", "backend": "cuda", "cuda": "12.6"}
    gpus = [{"vendor": "nvidia", "compute_capability": "12.0", "visible": False}, {"vendor": "amd"}]
    cases = gpu_cases(case_of(system=X86, torch=torch, gpus=gpus))
    assert [answer(case, "gpu.torch_has_code") for case in cases] == ["absent", "absent"]
    cpu = gpu_cases(case_of(torch={"backend": "cpu"}, gpus=[{"vendor": "nvidia", "compute_capability": "12.0"}]))
    assert answer(cpu[0], "gpu.torch_has_code") == "absent"


def fitting(
    version: str, driver: str, *gpus: str, system: dict[str, Any] = X86, python: str = "3.12.4", **more: Any
) -> tuple[Any, Any]:
    listed = [{"vendor": "nvidia", "compute_capability": gpu} for gpu in gpus]
    case = case_of(
        "driver.cuda_compat",
        system=system,
        python={"version": python, **more},
        driver={"version": driver},
        torch={"version": version, "backend": "cuda"},
        gpus=listed,
    )
    return answer(case, "torch.fitting_release"), answer(case, "torch.fitting_wheel")


def test_the_advised_wheel_changes_as_little_as_possible() -> None:
    assert fitting("2.11.0+cu130", "550.54.14", "9.0") == ("2.11.0", "cu128")
    assert fitting("2.12.0+cu130", "550.54.14", "9.0") == ("2.12.0", "cu126")  # its patch release stays
    assert fitting("2.11.0+cu128", "580.65.06", "7.0") == ("2.11.0", "cu126")
    assert fitting("2.15.0+cu132", "550.54.14", "9.0") == ("2.14.1", "cu126")
    assert fitting("2.6.0+cu124", "580.65.06", "12.0") == ("2.7.1", "cu128")
    assert fitting("2.0.1+cu118", "580.65.06", "12.0") == ("2.7.1", "cu128")
    assert fitting("2.13.0+cu130", "580.65.06", "9.0") == ("2.13.0", "cu130")  # the installed one, where it fits


@pytest.mark.parametrize(
    ("cuda", "driver", "wheel"),
    [
        ("12.4", "580.65.06", "cu128"),  # its CUDA major release stays: extensions built for it go on working
        ("13.0", "580.65.06", "cu130"),
        ("13.2", "580.65.06", "cu130"),  # not newer than what the driver names
        ("12.4", "550.54.14", "cu128"),
    ],
)
def test_of_the_tags_of_a_release_the_nearest_is_advised(cuda: str, driver: str, wheel: str) -> None:
    case = case_of(
        "driver.cuda_compat",
        system=X86,
        python={"version": "3.14.1"},
        driver={"version": driver},
        torch={"version": "2.6.0", "installer": "pip", "backend": "cuda", "cuda": cuda},
        gpus=[{"vendor": "nvidia", "compute_capability": "9.0"}],
    )
    assert (answer(case, "torch.fitting_release"), answer(case, "torch.fitting_wheel")) == ("2.9.1", wheel)


def test_the_advised_wheel_serves_every_visible_gpu_and_python() -> None:
    assert fitting("2.13.0+cu130", "580.65.06", "9.0", "6.1") == ("2.13.0", "cu126")
    assert fitting("2.13.0+cu130", "550.54.14", "12.0")[1] == "cu128"
    assert fitting("2.13.0+cu130", "580.65.06", "12.0", "6.1") == ("absent", "absent")
    assert fitting("2.13.0+cu130", "470.182.03", "8.0") == ("2.6.0", "cu118")
    assert fitting("2.6.0+cu124", "580.65.06", "12.0", python="3.14.1") == ("2.9.1", "cu130")
    assert fitting("2.8.0+cu126", "580.65.06", "12.1", system=ARM) == ("2.9.1", "cu130")


def test_no_wheel_is_advised_on_a_guess() -> None:
    none = ("absent", "absent")
    assert fitting("2.13.0+cu130", "580.65.06") == none  # no GPU
    assert fitting("2.13.0+cu130", "580.65.06", "9.0", free_threaded=True) == none
    assert fitting("2.13.0+cu130", "580.65.06", "9.0", python="3.99") == none
    assert fitting("2.13.0+cu130", "580.65.06", "9.0", system={**X86, "libc": "musl", "libc_version": "1.2.5"}) == none
    assert fitting("2.13.0+cu130", "580.65.06", "8.7", system={**ARM, "kernel": "5.15.148-tegra"}) == none
    assert fitting("2.13.0+cu130", "580.65.06", "9.0", system={"os": "linux", "wsl": False}) == none
    assert fitting("2.13.0+cu130", "525.60.13", "9.0", system={**X86, "libc_version": "2.27"}) == none
    assert fitting("2.13.0+cu130", "525.60.13", "9.0", system={**X86, "libc_version": "2.28"}) != none


def test_advice_that_is_the_installed_wheel_is_marked() -> None:
    for label, capability, differs in (("cu132", "9.0", False), ("cu130", "9.0", False), ("cu130", "6.1", True)):
        case = case_of(
            "driver.cuda_compat",
            system=X86,
            python={"version": "3.12.4"},
            driver={"cuda": "13.2"},
            torch={"version": f"2.13.0+{label}", "backend": "cuda"},
            gpus=[{"vendor": "nvidia", "compute_capability": capability}],
        )
        assert answer(case, "torch.fitting_differs") is differs


def test_every_offered_wheel_is_listed_as_published() -> None:
    """A wheel with an architecture list must be among the tags of its release: advice comes from both."""
    tables = shipped_tables()
    published = {".".join(row["torch"].split(".")[:2]): row["wheels"] for row in tables["torch_releases"]}
    for row in tables["torch_wheels"]:
        assert row["wheel"] in published[row["torch"]], row


@pytest.mark.parametrize(
    ("torch", "numpy", "system", "expected"),
    [
        ("2.2.2", "2.0.0", "linux", True),
        ("2.3.0", "2.0.0", "linux", False),
        ("2.4.0", "2.1.2", "windows", True),
        ("2.4.1", "2.1.2", "windows", False),
        ("2.2.2", "1.26.4", "linux", False),
        ("2.4.0", "2.1.2", None, "unknown"),
        ("2.2.0", "2.1.2", None, True),
        ("2.13.0+cu130", "2.5.2", None, False),
    ],
)
def test_numpy_two_needs_a_torch_built_for_it(torch: str, numpy: str, system: str | None, expected: Any) -> None:
    case = case_of(torch={"version": torch}, packages={"numpy": numpy}, system={"os": system} if system else {})
    assert answer(case, "torch.numpy_too_new") == expected
    assert answer(case_of("torch", packages={"numpy": numpy}), "torch.numpy_too_new") == "absent"
    assert answer(case_of(torch={"version": torch}), "torch.numpy_too_new") == "unknown"


def test_which_doubled_companions_share_a_file() -> None:
    both = ["nvidia-cublas: cu12 and cu13", "nvidia-nccl: cu12 and cu13"]
    assert answer(case_of(torch={"duplicate_companions": both}), "torch.clashing_companions") == (both[1],)
    assert answer(case_of(torch={"duplicate_companions": both[:1]}), "torch.clashing_companions") == "absent"
    assert answer(case_of("torch.duplicate_companions"), "torch.clashing_companions") == "absent"
    assert answer(case_of(), "torch.clashing_companions") == "unknown"


def nvjitlink(cuda: str, path: str, variable: str = "LD_LIBRARY_PATH", **more: Any) -> Any:
    override = {"variable": variable, "path": path, "family": "nvjitlink"}
    torch = {"backend": "cuda", "cuda": cuda, **more.pop("torch", {})}
    case = case_of(torch=torch, system={"library_overrides": [override]}, **more)
    return answer(case, "torch.older_nvjitlink")


def test_an_older_nvjitlink_is_told_by_its_path() -> None:
    old = "/usr/local/cuda-12.1/lib64/libnvJitLink.so.12"
    assert nvjitlink("12.4", old) == old
    assert nvjitlink("12.1", old) == "absent"
    assert nvjitlink("13.0", old) == "absent"
    assert nvjitlink("12.4", "/opt/lib/libnvJitLink.so.12.0.76") == "/opt/lib/libnvJitLink.so.12.0.76"
    assert nvjitlink("12.4", "/usr/local/cuda/lib64/libnvJitLink.so.12") == "unknown"
    assert nvjitlink("12.4", "/venv/site-packages/nvidia/nvjitlink/lib/libnvJitLink.so.12") == "absent"
    assert nvjitlink("12.4", old, torch={"installer": "conda"}) == "absent"


def test_the_release_of_a_library_is_told_by_the_nvcc_beside_it() -> None:
    toolkit = {"nvccs": [{"path": "/usr/local/cuda/bin/nvcc", "version": "12.2"}]}
    path = "/usr/local/cuda/lib64/libnvJitLink.so.12"
    assert nvjitlink("12.4", path, toolkit=toolkit) == path
    assert nvjitlink("12.2", path, toolkit=toolkit) == "absent"


def test_two_metadata_folders_of_torch() -> None:
    case = case_of(requirements={"duplicates": ["torch 2.12.0, 2.13.0", "torchvision 0.1, 0.2"]})
    assert answer(case, "torch.metadata_versions") == "2.12.0, 2.13.0"
    assert answer(case_of(requirements={"duplicates": ["torchvision 0.1, 0.2"]}), "torch.metadata_versions") == "absent"


@pytest.mark.parametrize(
    ("nvcc", "compiler", "version", "expected"),
    [
        ("12.1", "/usr/bin/gcc", "13.3.0", True),
        ("12.1", "/usr/bin/gcc", "12.4.0", False),
        ("12.4", "/usr/bin/gcc", "13.3.0", False),
        ("13.0", "/usr/bin/gcc", "15.2.1", False),
        ("12.1", "/usr/bin/clang", "18.1.3", "absent"),
        ("14.7", "/usr/bin/gcc", "13.3.0", "unknown"),
    ],
)
def test_the_newest_gcc_that_nvcc_accepts(nvcc: str, compiler: str, version: str, expected: Any) -> None:
    python = {"c_compiler": compiler, "c_compiler_version": version}
    assert answer(case_of(toolkit={"nvcc_version": nvcc}, python=python), "toolkit.gcc_too_new") == expected
