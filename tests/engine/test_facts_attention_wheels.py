"""Which flash-attn wheel is named for which machine, and which packages accept the installed one."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from tests.engine.facts_case import answer, case_of
from tests.engine.healthy import machine


def case(facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return case_of(*absent, **facts)


def wheel(**sections: dict[str, Any] | list[Any]) -> Any:
    base = machine(torch={"version": "2.8.0+cu128", "cuda": "12.8"})
    return answer(case(machine(base, **sections)), "flash_attn.best_wheel")


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
    assert wheel(**change) == "absent"


def test_a_gpu_that_is_hidden_does_not_narrow_the_choice() -> None:
    gpus = [{"compute_capability": "7.5", "visible": False}, {"compute_capability": "8.0", "visible": True}]
    assert str(wheel(gpus=gpus)).startswith("flash_attn-2.8.3")


def test_a_wheel_for_an_unknown_torch_is_unknown() -> None:
    assert case({"system": {"os": "linux", "machine": "x86_64"}}).fact("flash_attn.best_wheel").is_unknown


@pytest.mark.parametrize(
    ("torch", "distribution", "name"),
    [
        ("2.7.1+cu126", "Ubuntu 22.04.5 LTS", "flash_attn-2.8.3+cu12torch2.7cxx11abiTRUE-cp311-cp311-linux_x86_64.whl"),
        (
            "2.5.1+cu124",
            "Debian GNU/Linux 12",
            "flash_attn-2.8.3+cu12torch2.5cxx11abiFALSE-cp311-cp311-linux_x86_64.whl",
        ),
        ("2.7.1+cu126", "Ubuntu 20.04", "absent"),
        ("2.5.1", "Ubuntu 22.04", "unknown"),  # without a label both kinds of the C++ ABI exist
    ],
)
def test_what_the_names_of_releases_tell_is_enough_for_a_wheel(torch: str, distribution: str, name: str) -> None:
    facts = {
        "system": {"os": "linux", "machine": "x86_64", "distribution": distribution},
        "python": {"version": "3.11.4"},
        "torch": {"version": torch, "cuda": "12.6"},
        "gpus": [{"compute_capability": "8.6"}],
    }
    assert answer(case(facts), "flash_attn.best_wheel") == name


def test_the_list_of_the_unofficial_builder() -> None:
    assert answer(case(machine()), "flash_attn.community_wheel") == "2.8.3"  # torch 2.11, CUDA 13.0
    newer = machine(torch={"version": "2.15.0+cu132", "cuda": "13.2"})
    assert case(newer).fact("flash_attn.community_wheel").is_absent
    windows = machine(system={"os": "windows", "machine": "AMD64"})
    assert answer(case(windows), "flash_attn.community_wheel") == "2.8.3"
