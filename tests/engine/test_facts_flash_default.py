"""What flash_attention_2, 3 and 4 load with an installed transformers: package, Hub kernel or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from tests.engine.facts_case import answer, case_of

NO_FLASH = ("flash_attn", "flash_attn_3", "flash_attn_4")
CUDA = {"version": "2.11.0+cu130", "backend": "cuda"}
FA2 = {"kind": "complete", "distribution": "flash-attn", "version": "2.8.3+cu12torch2.8cxx11abitrue"}


def machine(transformers: str, kernels: str, *absent: str, torch: dict[str, Any] = CUDA, **facts: Any) -> Case:
    packages = {"transformers": transformers, "kernels": kernels, "*": True}
    packages = {name: value for name, value in packages.items() if value}
    gone = absent or tuple(name for name in NO_FLASH if name not in facts)
    return case_of(*gone, system={"os": "linux"}, torch=torch, packages=packages, **facts)


@pytest.mark.parametrize(
    ("transformers", "kernels", "expected"),
    [
        ("5.17.0", "0.16.2", "hub"),
        ("5.17.0", "0.17.2", "none"),  # out of range: as if kernels were missing
        ("5.17.0", "", "none"),
        ("4.55.4", "0.9.0", "none"),  # replaces nothing yet
        ("4.40.0", "0.9.0", "none"),  # nor did any before the tables begin
        ("4.56.0", "0.9.0", "hub"),
        ("5.25.0.dev0", "0.17.2", "unknown"),
        ("", "0.17.2", "absent"),
    ],
)
def test_without_flash_attn(transformers: str, kernels: str, expected: str) -> None:
    assert answer(machine(transformers, kernels), "transformers.flash_attention_2_source") == expected


@pytest.mark.parametrize(
    ("flash_attn", "expected"),
    [
        (FA2, "package"),
        ({**FA2, "version": "2.3.2"}, "hub"),  # older than transformers takes
        ({**FA2, "kind": "metadata_only"}, "hub"),
        ({"kind": "namespace_only"}, "hub"),  # flash-attn-4 alone
        ({**FA2, "distribution": "my-flash-attn"}, "hub"),
        ({**FA2, "kind": "stub"}, "package"),  # transformers only asks for name and version
    ],
)
def test_what_counts_as_the_package(flash_attn: dict[str, Any], expected: str) -> None:
    case = machine("5.17.0", "0.16.2", flash_attn=flash_attn)
    assert answer(case, "transformers.flash_attention_2_source") == expected


def test_a_pasted_list_of_packages_is_enough_and_without_one_nothing_is_guessed() -> None:
    listed = {"transformers": "5.17.0", "kernels": "0.16.2", "flash-attn": "2.8.3", "*": True}
    assert answer(case_of(torch=CUDA, packages=listed), "transformers.flash_attention_2_source") == "package"
    partial = {"transformers": "5.17.0", "kernels": "0.16.2"}
    assert answer(case_of(torch=CUDA, packages=partial), "transformers.flash_attention_2_source") == "unknown"


@pytest.mark.parametrize(
    ("transformers", "torch", "expected"),
    [
        ("4.57.6", "2.8.0", "kernels-community/flash-attn@main"),
        ("5.12.1", "2.9.0", "kernels-community/flash-attn2@main"),
        ("5.15.1", "2.12.0", "kernels-community/flash-attn2@v1"),
        ("5.16.0", "2.12.0", "kernels-community/flash-attn2@v3"),
        ("5.22.0", "2.9.1+cu128", "kernels-community/flash-attn2@v3"),
        ("5.22.0", "2.10.0+cu128", "kernels-community/flash-attn2@v4"),
        ("5.22.0", "2.10.0.dev20260101+cu130", "kernels-community/flash-attn2@v4"),  # a nightly counts
    ],
)
def test_the_version_that_each_release_asks_for(transformers: str, torch: str, expected: str) -> None:
    case = machine(transformers, "0.17.2", torch={"version": torch, "backend": "cuda"})
    assert answer(case, "transformers.flash_attention_2_reference") == expected


def test_the_version_is_unknown_where_it_hangs_on_an_unknown_torch() -> None:
    assert answer(machine("5.22.0", "0.17.2", torch={"backend": "cuda"}), "transformers.flash_attention_2_version") == (
        "unknown"
    )


@pytest.mark.parametrize(
    ("transformers", "generation", "expected"),
    [
        ("5.19.0", 2, "kernels-community/flash-attn2@v3"),
        ("5.20.0", 2, "kernels-community/aiter-flash-attn@v2"),
        ("5.12.1", 3, "kernels-community/vllm-flash-attn3@main"),
        ("5.13.0", 3, "kernels-community/aiter-flash-attn@v1"),
        ("5.18.0", 3, "kernels-community/aiter-flash-attn@v2"),
        ("5.13.0", 4, "kernels-community/flash-attn4@v0"),
    ],
)
def test_rocm_has_kernels_of_its_own(transformers: str, generation: int, expected: str) -> None:
    case = machine(transformers, "0.17.2", torch={"version": "2.9.0+rocm7.0", "backend": "rocm"})
    assert answer(case, f"transformers.flash_attention_{generation}_reference") == expected


@pytest.mark.parametrize(
    ("transformers", "kernels", "torch", "expected"),
    [
        ("5.15.1", "0.16.2", "2.12.0+cu130", True),
        ("5.15.1", "0.16.2", "2.13.0+cu130", False),
        ("5.15.1", "0.16.2", "2.13.0.dev20260601+cu130", False),
        ("5.15.1", "0.16.2", "2.9.1+cu128", "unknown"),
        ("5.16.1", "0.16.2", "2.14.1+cu130", True),
        ("5.16.1", "0.16.2", "2.9.1+cu128", False),
        ("5.22.2", "0.17.2", "2.13.0+cu130", "unknown"),  # the builds of version 4 are not on record
        ("5.17.0", "", "2.9.1+cu128", "absent"),  # no Hub kernel is loaded
    ],
)
def test_whether_that_version_has_a_build(transformers: str, kernels: str, torch: str, expected: Any) -> None:
    case = machine(transformers, kernels, torch={"version": torch, "backend": "cuda"})
    assert answer(case, "transformers.flash_attention_2_has_build") == expected


@pytest.mark.parametrize(
    ("transformers", "kernels", "backend", "has_build"),
    [
        ("5.17.0", "0.16.2", "cuda", True),
        (
            "5.17.0",
            "0.16.2",
            "rocm",
            False,
        ),  # v3 has none for ROCm; transformers takes another kernel there from 5.20 on
        ("5.22.2", "0.17.2", "rocm", "unknown"),
        ("5.17.0", "0.16.2", "cpu", "absent"),
    ],
)
def test_builds_are_those_for_the_backend(transformers: str, kernels: str, backend: str, has_build: bool | str) -> None:
    case = machine(transformers, kernels, torch={"version": "2.11.0", "backend": backend})
    assert answer(case, "transformers.flash_attention_2_has_build") == has_build
