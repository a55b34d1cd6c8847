"""Compiled extensions against torch, Python and the C libraries: the borders."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from tests.engine.facts_case import answer, case_of
from tests.engine.healthy import machine


def case(facts: dict[str, Any], absent: tuple[str, ...] = ()) -> Case:
    return case_of(*absent, **facts)


def extension(facts: dict[str, Any], absent: tuple[str, ...] = (), /, **fields: Any) -> Case:
    items = [{"module": "flash_attn_2_cuda", "distribution": "flash-attn", **fields}]
    return next(case({**facts, "extensions": items}, absent).items("extensions"))


@pytest.mark.parametrize(
    ("needed", "offered", "fits"),
    [("2.32", "2.32", True), ("2.32", "2.31", False), ("2.9", "2.31", True), ("2.32", "2.35", True)],
)
def test_glibc_is_compared_as_a_version(needed: str, offered: str, fits: bool) -> None:
    found = extension({"system": {"libc": "glibc", "libc_version": offered}}, glibc_needed=needed)
    assert answer(found, "extension.glibc_ok") == fits


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
    assert answer(extension({"python": {"abi_tag": python}}, abi_tag=tag), "extension.abi_tag_ok") == fits


def test_a_package_with_a_file_per_python_is_fine() -> None:
    items = [{"module": "m", "distribution": "d", "abi_tag": tag} for tag in ("cp311", "cp312")]
    found = [item.fact("extension.abi_tag_ok") for item in case(machine(extensions=items)).items("extensions")]
    assert [fact.value for fact in found] == [True, True]


def test_a_package_with_a_file_per_cuda_is_fine() -> None:
    # bitsandbytes carries one library for each CUDA and opens the one that torch needs.
    items = [
        {"module": f"cuda{major}", "distribution": "bitsandbytes", "cudart_major": major}
        for major in ("11", "12", "13")
    ]
    found = [i.fact("extension.cudart_major_ok") for i in case(machine(extensions=items)).items("extensions")]
    assert [fact.value for fact in found] == [True, True, True]


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
    assert answer(found, "extension.cudart_major_ok") == fits


def test_torch_without_cuda_has_no_runtime_to_compare() -> None:
    found = extension({"torch": {"version": "2.8.0+cpu"}}, ("torch.cuda",), cudart_major="12")
    assert found.fact("extension.cudart_major_ok").is_absent


def test_an_abi_that_differs_does_not_matter_when_every_symbol_resolves() -> None:
    facts = {"torch": {"cxx11_abi": True}}
    assert answer(extension(facts, cxx11_abi=False), "extension.cxx11_abi_matches") is False
    resolved = extension(facts, cxx11_abi=False, missing_torch_symbols=[])
    assert answer(resolved, "extension.cxx11_abi_matches") is True
