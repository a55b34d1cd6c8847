"""What keeps a Hub kernel from loading or running here: every obstacle by itself, and none where nothing was seen."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.matching import judge
from tests.engine.facts_case import answer, case_of
from tests.engine.healthy import H200, machine

NO_FLASH = ("flash_attn", "flash_attn_3", "flash_attn_4")
ONLINE: dict[str, Any] = {
    "offline": False,
    "telemetry_disabled": False,
    "cached_kernels": [],
    "cache_writable": True,
    "cache_free_bytes": 60_000_000_000,
}
FINE = machine(H200, huggingface=ONLINE)
OBSTACLE = "transformers.flash_attention_2_obstacle"
OUT = "hub.flash_attn2_obstacle"
FA2 = "kernels-community/flash-attn2"


def gpu(name: str, capability: str, visible: bool = True) -> dict[str, Any]:
    return {"name": name, "vendor": "nvidia", "compute_capability": capability, "visible": visible}


def cached(repo: str = FA2, branch: str = "v3") -> list[dict[str, Any]]:
    snapshot = {"commit": "0" * 40, "variants": [], "build_ids": [], "complete": True}
    return [{"repo": repo, "branches": [branch], **snapshot}]


def obstacle(path: str, *absent: str, **sections: Any) -> Any:
    gone = (*NO_FLASH, "huggingface.local_kernels", "driver.cuda_compat", *absent)
    return answer(case_of(*gone, **machine(FINE, **sections)), path)


def test_a_healthy_machine_has_none() -> None:
    assert (obstacle(OBSTACLE), obstacle(OUT)) == ("absent", "absent")


def test_where_nothing_was_looked_at_none_is_made_up() -> None:
    assert (answer(case_of(), OBSTACLE), answer(case_of(), OUT)) == ("absent", "absent")


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([gpu("Tesla T4", "7.5")], "no FlashAttention runs on Tesla T4 (7.5)"),
        ([gpu("Tesla T4", "7.5")] * 4, "no FlashAttention runs on Tesla T4 (7.5)"),
        ([gpu("Tesla V100", "7.0"), gpu("NVIDIA A100", "8.0")], "absent"),  # one of them is able
        ([gpu("Tesla V100", "7.0"), gpu("NVIDIA A100", "8.0", False)], "no FlashAttention runs on Tesla V100 (7.0)"),
        ([{"name": "GPU of tomorrow", "vendor": "nvidia", "visible": True}], "absent"),
        ([gpu("NVIDIA A100", "8.0", False)], "CUDA sees no GPU"),
    ],
)
def test_gpus(gpus: list[dict[str, Any]], expected: str) -> None:
    assert (obstacle(OBSTACLE, gpus=gpus), obstacle(OUT, gpus=gpus)) == (expected, expected)


def test_the_gpus_that_are_too_old_are_named_once() -> None:
    gpus = [gpu("Tesla T4", "7.5"), gpu("Tesla T4", "7.5"), gpu("NVIDIA A100", "8.0"), gpu("Tesla P100", "6.0", False)]
    assert obstacle("driver.gpus_before_ampere", gpus=gpus) == ("Tesla T4 (7.5)",)
    assert obstacle("driver.gpus_before_ampere", gpus=[{"name": "MI300X", "vendor": "amd"}]) == "absent"
    assert answer(case_of(), "driver.gpus_before_ampere") == "unknown"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"driver": {"version": "550.54.15", "cuda": "12.4"}, "system": {"os": "linux", "wsl": False}}, "the driver"),
        ({"torch": {"unusable_libraries": ["libc10.so (missing)"]}}, "torch is not whole"),
        ({"python": {"free_threaded": True}}, "compiled kernels do not load on a free-threaded Python"),
    ],
)
def test_obstacles_of_every_kernel(change: dict[str, Any], expected: str) -> None:
    assert str(obstacle(OBSTACLE, **change)).startswith(expected)
    assert str(obstacle(OUT, **change)).startswith(expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"torch": {"version": "2.9.1+cu128"}}, "it has no build for this torch"),
        ({"huggingface": {"offline": True}}, "offline mode is on, and it is not in the cache"),
        ({"huggingface": {"offline": True, "cached_kernels": cached()}}, "absent"),
        ({"huggingface": {"offline": True, "cached_kernels": cached(branch="v1")}}, "offline mode is on"),
        ({"huggingface": {"offline": True, "local_kernels": [f"{FA2}=/kernels/fa2"]}}, "absent"),
        ({"huggingface": {"cache_writable": False}}, "the cache: it cannot be written"),
        ({"huggingface": {"cache_writable": False, "cached_kernels": cached()}}, "absent"),
        ({"huggingface": {"cache_free_bytes": 20_000_000}}, "the cache: only 20 MB are free"),
        ({"huggingface": {"cache_free_bytes": 400_000_000}}, "absent"),
    ],
)
def test_obstacles_of_the_kernel_that_transformers_takes(change: dict[str, Any], expected: str) -> None:
    gone = () if "local_kernels" in change.get("huggingface", {}) else ("huggingface.local_kernels",)
    case = case_of(*NO_FLASH, *gone, **machine(FINE, **change))
    assert str(answer(case, OBSTACLE)).startswith(expected)


def test_kernels_that_nobody_names_are_enough_where_transformers_takes_none() -> None:
    packages = {"kernels": "0.16.2", "*": True}
    read_only = {**ONLINE, "cache_writable": False}
    gone = (*NO_FLASH, "huggingface.local_kernels")
    case = case_of(*gone, torch=H200["torch"], packages=packages, huggingface=read_only)
    assert answer(case, "kernels.cache_obstacle") == "it cannot be written"
    full = {**read_only, "cached_kernels": cached("kernels-community/activation")}
    case = case_of(*gone, torch=H200["torch"], packages=packages, huggingface=full)
    assert answer(case, "kernels.cache_obstacle") == "absent"


@pytest.mark.parametrize("os", ["windows", "darwin"])
def test_flash_attn2_has_no_builds_for_other_systems(os: str) -> None:
    assert obstacle(OUT, system={"os": os}) == "it has no builds for this system"


def rules_of(**sections: Any) -> set[str]:
    gone = (*NO_FLASH, "huggingface.local_kernels", "driver.cuda_compat")
    findings = judge(shipped_rules(), case_of(*gone, **machine(FINE, **sections))).findings
    return {finding.rule for finding in findings if finding.certainty == "confirmed"}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, {"KD5004"}),
        ({"gpus": [gpu("Tesla T4", "7.5")]}, {"KD5013"}),
        ({"gpus": [gpu("Tesla V100", "7.0")], "torch": {"version": "2.11.0+cu126", "cuda": "12.6"}}, {"KD5013"}),
        ({"gpus": [gpu("Tesla T4", "7.5"), gpu("NVIDIA A100", "8.0")]}, {"KD5004", "KD5013"}),
        ({"huggingface": {"offline": True}}, {"KD3009"}),
        ({"huggingface": {"cache_writable": False}}, {"KD3010"}),
        ({"huggingface": {"offline": True, "cache_writable": False, "cached_kernels": cached()}}, {"KD5004"}),
    ],
)
def test_a_hub_kernel_is_advised_only_where_it_loads_and_runs(sections: dict[str, Any], expected: set[str]) -> None:
    assert rules_of(**sections) == expected
