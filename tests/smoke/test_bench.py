"""What becomes of one case, by what the kernel does in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kerneldoctor.smoke.bench import run_case  # noqa: E402
from kerneldoctor.smoke.cases import choose  # noqa: E402
from kerneldoctor.smoke.contracts import contract  # noqa: E402
from kerneldoctor.smoke.protocol import Result, Selection  # noqa: E402

from .attention_kernels import kernel, tiled  # noqa: E402

pytestmark = pytest.mark.torch
EXPORTS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
GQA = "dense-gqa-causal-bf16-d128"


def run(module: Any, case: str = GQA, *, backward: bool = True, seed: int = 3) -> tuple[Result, list[str]]:
    """The result of one case, and the stages that were announced."""
    (chosen,) = choose(EXPORTS, Selection("full", backward=backward, only=(case,), seed=seed), "cpu")
    stages: list[str] = []
    return run_case(chosen, contract(chosen.contract), module, "cpu", stages.append, "n"), stages


def dense(function: Any) -> SimpleNamespace:
    """A kernel with this flash_attn_func."""
    return kernel(tiled(), flash_attn_func=function)


RIGHT = kernel(tiled()).flash_attn_func


def test_a_right_kernel_passes_with_every_tensor_measured() -> None:
    result, stages = run(kernel(tiled()))
    assert (result.outcome, result.detail, result.direction) == ("passed", "", None)
    assert set(result.errors) == {"out", "dq", "dk", "dv"}
    assert all(0 < (error.ratio or 0) < 1 for error in result.errors.values())
    assert stages.index("forward") < stages.index("backward")
    assert set(result.timings) == set(stages)


def test_inference_calls_no_backward() -> None:
    result, stages = run(kernel(tiled()), backward=False)
    assert result.outcome == "passed"
    assert set(result.errors) == {"out"}
    assert "backward" not in stages


class Backward(torch.autograd.Function):
    """Right forward; the backward does what it is told."""

    @staticmethod
    def forward(ctx: Any, out: torch.Tensor, deed: Any) -> torch.Tensor:
        ctx.deed = deed
        return out.clone()

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor) -> Any:
        return ctx.deed(dout), None


def in_backward(deed: Any) -> SimpleNamespace:
    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return Backward.apply(RIGHT(q, k, v, causal=causal), deed)

    return dense(flash_attn_func)


def raising(error: BaseException) -> Any:
    def deed(*args: Any, **kwargs: Any) -> Any:
        raise error

    return deed


def test_an_exception_in_the_backward_is_placed_there_and_the_forward_stays_measured() -> None:
    result, _ = run(in_backward(raising(RuntimeError("aten::sum() Expected a value of type 'int' for 'dim'"))))
    assert (result.outcome, result.direction, result.stage) == ("raised", "backward", "backward")
    assert result.detail.startswith("RuntimeError: aten::sum()")
    assert "in deed" in result.traceback_tail
    assert set(result.errors) == {"out"}


def test_a_kernel_that_says_it_has_no_backward_is_not_wrong() -> None:
    result, _ = run(in_backward(raising(RuntimeError("This flash attention build does not support backward."))))
    assert (result.outcome, result.direction) == ("unsupported", "backward")
    assert set(result.errors) == {"out"}


def test_an_output_without_a_gradient_is_no_training() -> None:
    result, _ = run(dense(lambda q, k, v, causal=False: RIGHT(q, k, v, causal=causal).detach()))
    assert (result.outcome, result.direction, result.forward) == ("unsupported", "backward", True)
    assert "flash_attn_func carries no gradient" in result.detail


def test_what_came_of_the_forward_is_said_before_the_backward_is_called() -> None:
    def ends_here(error: BaseException, function: Any) -> tuple[list[Any], Result]:
        (chosen,) = choose(EXPORTS, Selection("full", only=(GQA,), seed=3), "cpu")
        told: list[Any] = []

        def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
            return Backward.apply(function(q, k, v, causal=causal), lambda dout: raising(error)(told[0]))

        module, calls = dense(flash_attn_func), contract(chosen.contract)
        return told, run_case(chosen, calls, module, "cpu", lambda _: None, "n", told.append)

    told, result = ends_here(RuntimeError("boom"), RIGHT)
    assert (told[0].id, told[0].found, set(told[0].errors)) == (GQA, "", {"out"})
    assert (result.forward, result.direction) == (True, "backward")
    told, result = ends_here(RuntimeError("boom"), lambda q, k, v, causal: RIGHT(q, k, v, causal=not causal))
    assert told[0].found.startswith("out is off")
    assert (result.forward, result.direction) == (False, "forward")


def test_a_gradient_that_does_not_come_back_is_wrong() -> None:
    result, _ = run(dense(lambda q, k, v, causal=False: RIGHT(q, k.detach(), v, causal=causal)))
    assert (result.outcome, result.direction) == ("wrong", "backward")
    assert "dk: no gradient came back" in result.detail


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError("bad"), "raised"),
        (SystemExit(1), "raised"),
        (MemoryError(), "oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1099511627776 bytes."), "oom"),
        (NotImplementedError(), "unsupported"),
        (RuntimeError("FlashAttention only supports Ampere GPUs or newer."), "unsupported"),
    ],
)
def test_what_the_forward_raises_decides_the_outcome(error: BaseException, outcome: str) -> None:
    result, _ = run(dense(raising(error)))
    assert (result.outcome, result.direction, result.stage) == (outcome, "forward", "forward")


def test_ctrl_c_is_not_an_outcome() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(dense(raising(KeyboardInterrupt())))


def test_a_missing_parameter_is_unsupported_by_name() -> None:
    result, _ = run(dense(lambda q, k, v, causal=False: RIGHT(q, k, v, causal=causal)), "dense-gqa-softcap-bf16-d256")
    assert result.outcome == "unsupported"
    assert "has no parameter softcap" in result.detail


def test_a_module_without_the_function_is_unsupported() -> None:
    result, _ = run(SimpleNamespace())
    assert result.outcome == "unsupported"
    assert "no flash_attn_func" in result.detail


@pytest.mark.parametrize(
    "returned",
    [
        lambda out, lse: (out, lse),
        lambda out, lse: [out, lse, None, None],
        lambda out, lse: out,
    ],
    ids=["fa3 tuple", "list", "tensor"],
)
def test_releases_return_the_output_in_their_own_way(returned: Any) -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, softmax_scale: Any = None, causal: bool = False) -> Any:
        out, lse, _ = RIGHT(q, k, v, softmax_scale=softmax_scale, causal=causal, return_attn_probs=True)
        return returned(out, lse)

    assert run(dense(flash_attn_func))[0].outcome == "passed"


def test_the_log_sum_exp_is_compared_where_it_can_be_had_and_not_missed_where_it_cannot() -> None:
    case = "dense-long-lse-bf16-d128"
    assert "lse" in run(kernel(tiled()), case)[0].errors
    without = run(dense(lambda q, k, v, causal=False: RIGHT(q, k, v, causal=causal)), case)[0]
    assert without.outcome == "passed"
    assert "lse" not in without.errors


def test_the_same_seed_gives_the_same_numbers_and_another_one_others() -> None:
    first, again, other = (run(kernel(tiled()), seed=seed)[0].errors["out"] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_dropout_that_is_accepted_and_ignored_is_unsupported() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float = 0.0) -> Any:
        return RIGHT(q, k, v)

    result, _ = run(dense(flash_attn_func), "dropout-gqa-bf16-d64-p0.25")
    assert result.outcome == "unsupported"
    assert "accepted and ignored" in result.detail


def test_dropout_of_another_strength_is_wrong() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, dropout_p: float = 0.0) -> Any:
        return RIGHT(q, k, v, dropout_p=1 - dropout_p)

    result, _ = run(dense(flash_attn_func), "dropout-gqa-bf16-d64-p0.25")
    assert result.outcome == "wrong"
    assert "out varies" in result.detail


def test_pages_of_a_cache_are_found_through_the_table() -> None:
    def flash_attn_with_kvcache(
        q: Any, k_cache: Any, v_cache: Any, cache_seqlens: Any = None, page_table: Any = None, causal: bool = False
    ) -> Any:
        whole = [cache[page_table.long()].flatten(1, 2) for cache in (k_cache, v_cache)]
        return kernel(tiled()).flash_attn_with_kvcache(q, *whole, cache_seqlens=cache_seqlens, causal=causal)

    module = kernel(tiled(), flash_attn_with_kvcache=flash_attn_with_kvcache)
    assert run(module, "kvcache-gqa-paged-bf16-d128")[0].outcome == "passed"


def test_the_reference_is_fp32_whatever_the_kernels_import_switched_on() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result, _ = run(kernel(tiled()), backward=False)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert result.outcome in ("passed", "wrong")  # autocast reaches the kernel, but not what it is measured by
    assert result.errors["out"].baseline == run(kernel(tiled()), backward=False)[0].errors["out"].baseline


def test_what_is_wrong_weighs_more_than_how_it_ended() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return Backward.apply(RIGHT(q, k, v, causal=causal) * 1.5, raising(RuntimeError("boom")))

    result, _ = run(dense(flash_attn_func))
    assert (result.outcome, result.direction) == ("wrong", "forward")
    assert "boom" in result.traceback_tail


def test_what_is_wrong_without_gradients_alone_is_found() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        out = RIGHT(q, k, v, causal=causal)
        return out if torch.is_grad_enabled() else out * 0

    for backward in (True, False):
        result, _ = run(dense(flash_attn_func), backward=backward)
        assert (result.outcome, result.direction) == ("wrong", "forward")
    assert "without gradients" in run(dense(flash_attn_func))[0].detail


def test_a_result_that_a_later_call_writes_over_is_found() -> None:
    buffer: list[Any] = []

    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        out = RIGHT(q, k, v, causal=causal)
        buffer[:] = buffer or [torch.empty_like(out)]
        with torch.no_grad():
            return buffer[0].copy_(out)

    result, _ = run(dense(flash_attn_func), backward=False)
    assert (result.outcome, result.detail) == (
        "wrong",
        "out: a later call with other inputs changed this earlier result",
    )


def test_a_kernel_that_settles_with_its_second_call_is_right_and_one_that_never_does_is_not() -> None:
    def drifting(moves: Any) -> Any:
        calls: list[int] = []

        def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
            calls.append(1)
            out = RIGHT(q, k, v, causal=causal)
            out[0, 0, 0, 0] += 2**-9 * out[0, 0, 0, 0].abs() * moves(len(calls))
            return out.to(q.dtype)

        return run(dense(flash_attn_func), backward=False)[0]

    settled = drifting(lambda call: 4 if call == 1 else 0)
    assert settled.outcome == "passed"
    assert any("other bits than the later ones" in note for note in settled.notes)
    restless = drifting(lambda call: 4 * (call % 2))
    assert (restless.outcome, restless.detail) == ("wrong", "out: a second forward gave other bits")


def test_another_dtype_than_that_of_the_inputs_is_found() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return RIGHT(q, k, v, causal=causal).float()

    result, _ = run(dense(flash_attn_func), backward=False)
    assert (result.outcome, result.detail) == ("wrong", "out is float32 where the inputs ask for bfloat16")


def test_one_that_leaves_out_the_third_of_a_batch_is_found() -> None:
    def flash_attn_func(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        out = RIGHT(q, k, v, causal=causal)
        return torch.cat([out[:2], torch.zeros_like(out[2:])])

    assert run(dense(flash_attn_func), backward=False)[0].outcome == "wrong"
