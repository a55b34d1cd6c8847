"""The numerics tell wrong attention from right attention; tests/benchmarks/numerics.py does it over more seeds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from kerneldoctor.smoke.bench import run_case  # noqa: E402
from kerneldoctor.smoke.cases import choose  # noqa: E402
from kerneldoctor.smoke.contracts import contract  # noqa: E402
from kerneldoctor.smoke.protocol import Result, Selection  # noqa: E402

from .attention_kernels import flex, kernel, math_fp32, math_low, sdpa, tiled  # noqa: E402
from .mutants import mutants  # noqa: E402

pytestmark = pytest.mark.torch
EXPORTS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
SDPBackend = torch.nn.attention.SDPBackend
WRONG = mutants()
RIGHT = {
    "math in low precision": kernel(math_low),
    "math in fp32": kernel(math_fp32),
    "sdpa math": kernel(sdpa(SDPBackend.MATH)),
    "sdpa flash": kernel(sdpa(SDPBackend.FLASH_ATTENTION)),
    "flex attention": kernel(flex),
    "tiled, blocks of 64": kernel(tiled()),
    "tiled, blocks of 16": kernel(tiled(block=16)),
}
FOR_FLEX = ("dense-gqa-causal-bf16-d128", "dense-gqa-peaked-fp16-d80", "varlen-gqa-causal-empty-bf16-d128")


def results(module: SimpleNamespace, selection: Selection) -> Iterator[Result]:
    """Each quick case on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sdpa explains at length why a backend does not take dropout
        for case in choose(EXPORTS, selection, "cpu"):
            yield run_case(case, contract(case.contract), module, "cpu", lambda _: None, "n")


def test_there_are_enough_ways_to_be_wrong() -> None:
    assert len(WRONG) >= 20


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_kernel_is_caught_by_the_quick_set(fault: str) -> None:
    seen = list(results_until_wrong(WRONG[fault]))
    assert seen[-1].outcome == "wrong", [(result.id, result.outcome, result.detail) for result in seen]


def results_until_wrong(module: SimpleNamespace) -> Iterator[Result]:
    for result in results(module, Selection("quick", seed=11)):
        yield result
        if result.outcome == "wrong":
            return


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_not_rejected(name: str) -> None:
    selection = Selection("quick", seed=12)
    if name == "flex attention":  # on a CPU it has no backward and takes its time
        selection = replace(selection, backward=False, only=FOR_FLEX)
    outcomes = {result.id: result for result in results(RIGHT[name], selection)}
    if name == "sdpa flash":
        # It has no dropout on a CPU and aborts where it is asked for.
        assert outcomes.pop("dropout-gqa-bf16-d64-p0.25").outcome == "raised"
    unsupported = {id_ for id_, result in outcomes.items() if result.outcome == "unsupported"}
    assert unsupported <= {"dense-gqa-softcap-bf16-d256", "dropout-gqa-bf16-d64-p0.25"}
    rest = {id_: result for id_, result in outcomes.items() if id_ not in unsupported}
    assert {id_: result.detail for id_, result in rest.items() if result.outcome != "passed"} == {}
