"""Which rules speak of a build: of a folder on disk only its build id or commit can tell."""

from __future__ import annotations

import pytest

from kerneldoctor.engine import (
    facts,  # noqa: F401 - registers the derived facts that rules name
    loading,
)
from kerneldoctor.engine.case import Case, Kernel
from kerneldoctor.environment import Environment, Fact, known, unknown
from kerneldoctor.hub.issues import Faults
from kerneldoctor.hub.listing import Build


@pytest.mark.parametrize(
    ("repo", "build_id", "expected"),
    [
        (unknown("a folder"), known("0000001", "file"), False),
        (unknown("a folder"), known("48628c8", "file"), True),
        (known("kernels-community/flash-attn2", "reference"), known("48628c8", "file"), True),
    ],
)
def test_a_folder_is_no_known_kernel_by_its_version(repo: Fact[str], build_id: Fact[str], expected: bool) -> None:
    kernel = Kernel(
        repo=repo, build_id=build_id, version=known(1, "metadata.json"), backend=known("cuda", "metadata.json"),
        framework=known("torch-stable-abi", "name"), cuda=known("12.8", "name"),
    )  # fmt: skip
    build = Build("torch-stable-abi210-cu128-x86_64-linux")
    faults = Faults(loading.shipped_rules(), Case(Environment(), loading.shipped_tables()), None)
    found = {issue.rule for issue in faults.of_build(kernel, build)}
    assert ("KD3101" in found) is expected
    assert not found & {"KD3117", "KD3119"}  # about version 1 of other kernels
