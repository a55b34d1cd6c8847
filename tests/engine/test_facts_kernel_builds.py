"""What is known of one build of a Hub kernel."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.facts_case import answer, case_of, gpu_cases


@pytest.mark.parametrize(
    ("archs", "capability", "expected"),
    [
        (["8.0", "9.0a"], "9.0", True),
        (["8.0", "9.0a"], "8.9", True),
        (["8.0", "9.0a"], "10.0", False),
        (["8.0", "9.0", "10.0", "12.0"], "12.1", True),
        ([], "9.0", "absent"),  # Triton: compiled for the GPU at hand
        (["gibberish"], "9.0", "unknown"),
    ],
)
def test_gpu_code(archs: list[str], capability: str, expected: Any) -> None:
    [case] = gpu_cases(case_of(kernel={"archs": archs}, gpus=[{"compute_capability": capability}]))
    assert answer(case, "kernel.supports_gpu") == expected


@pytest.mark.parametrize(
    ("declared", "packages", "expected"),
    [
        (["einops", "nvidia-cutlass-dsl"], {"einops": "0.8.1", "*": True}, ("nvidia-cutlass-dsl",)),
        (["tvm-ffi"], {"apache-tvm-ffi": "0.1.9", "*": True}, "absent"),
        (["Einops>=0.8"], {"einops": "0.8.1", "*": True}, "absent"),
        (["einops"], {}, "unknown"),
        (["A.b_c"], {"a-b-c": "1", "*": True}, "absent"),
        (["../../etc"], {"*": True}, "unknown"),  # metadata is somebody else's
        ([""], {"*": True}, "unknown"),
    ],
)
def test_python_dependencies(declared: list[str], packages: dict[str, Any], expected: Any) -> None:
    case = case_of(kernel={"python_depends": declared}, packages=packages)
    assert answer(case, "kernel.missing_python_depends") == expected


GPT_OSS = "kernels-community/gpt-oss-triton-kernels"


@pytest.mark.parametrize(
    ("kernel", "state"),
    [
        ({"repo": GPT_OSS, "commit": "ccd55e633ab591faa81fb4b1c611881aa68c9948"}, "no build"),
        ({"repo": GPT_OSS, "commit": "0" * 40}, "absent"),
        ({"repo": "kernels-community/finegrained-fp8", "version": 4}, "unknown"),
        ({"repo": "kernels-community/flash-attn2", "version": 1, "backend": "cuda", "commit": "0" * 40}, "absent"),
        ({"repo": "kernels-community/flash-attn2", "version": 1, "backend": "xpu", "commit": "0" * 40}, "unknown"),
        ({"repo": "kernels-community/relu", "version": 1}, "absent"),
    ],
)
def test_builds_from_before_a_fix(kernel: dict[str, Any], state: str) -> None:
    assert str(answer(case_of(kernel=kernel), "kernel.stale_build_fault")).startswith(state)


def test_a_doubt_about_the_age_of_a_build_names_the_fault() -> None:
    fact = case_of(kernel={"repo": "kernels-community/sonic-moe", "version": 1}).fact("kernel.stale_build_fault")
    assert "expert-parallel" in fact.note
    assert "2026-08-03" in fact.note
