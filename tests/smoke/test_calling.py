"""How a kernel's function is called with what it has, and which exceptions are a kernel's own refusal."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.smoke.contracts._calling import first_two, invoke, refuses, window
from kerneldoctor.smoke.contracts._contract import Unsupported


# Messages of real kernels and libraries, in short; what is refused on purpose is no fault.
@pytest.mark.parametrize(
    "message",
    [
        "This flash attention build does not support backward.",
        "This flash attention build does not support dropout.",
        "This flash attention build does not support tanh softcapping.",
        "FlashAttention only supports Ampere GPUs or newer.",
        "FlashAttention forward only supports head dimension at most 256",
        "FlashAttention backward for head dim > 192 requires A100/A800 or H100/H800",
        "CK only supports head dimension at most 256",
        "Only support head size 64, 128, and 256 for now",
        "Softcapping does not support dropout for now",
        "S aux is currently only supported for Hopper GPUs",
        "head_size must be a multiple of 8",
        "\"softmax_kernel\" not implemented for 'Half'",
        "local attention is not yet supported on this device",
    ],
)
def test_a_refusal_in_the_kernels_words_is_known(message: str) -> None:
    assert refuses(RuntimeError(message))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("aten::sum() Expected a value of type 'Optional[List[int]]' for argument 'dim'"),
        RuntimeError("Dimension out of range (expected to be in range of [-5, 4], but got 94832)"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: operation not supported"),
        RuntimeError("CUDA error: no kernel image is available for execution on the device"),
        TypeError("unsupported operand type(s) for +: 'int' and 'NoneType'"),
        TypeError("flash_attn_func() got an unexpected keyword argument 'softcap'"),
        RuntimeError("The size of tensor a (64) must match the size of tensor b (128)"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        AttributeError("module 'x' has no attribute 'fwd'"),
    ],
)
def test_a_fault_is_not_taken_for_a_refusal(error: Exception) -> None:
    assert not refuses(error)


def test_not_implemented_is_a_refusal_whatever_it_says() -> None:
    assert refuses(NotImplementedError("later"))


def test_arguments_go_by_name_where_the_names_are_there_and_in_order_else() -> None:
    def named(k: int, q: int) -> tuple[int, int]:
        return q, k

    def ordered(x: int, y: int) -> tuple[int, int]:
        return x, y

    assert invoke(named, {"q": 1, "k": 2}, {}) == (1, 2)
    assert invoke(ordered, {"q": 1, "k": 2}, {}) == (1, 2)


def test_neutral_options_are_not_passed_and_missing_ones_are_unsupported() -> None:
    def plain(q: int, causal: bool = False) -> bool:
        return causal

    assert invoke(plain, {"q": 1}, {"causal": (True, False), "dropout_p": (0.0, 0.0), "softmax_scale": (None, None)})
    with pytest.raises(Unsupported, match="plain has no parameter dropout_p"):
        invoke(plain, {"q": 1}, {"dropout_p": (0.1, 0.0)})


def test_an_option_with_two_names_takes_the_one_that_is_there() -> None:
    def paged(q: int, page_table: Any = None) -> Any:
        return page_table

    assert invoke(paged, {"q": 1}, {"block_table|page_table": (5, None)}) == 5


def test_a_function_that_takes_anything_is_given_everything() -> None:
    def anything(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert invoke(anything, {"q": 1}, {"causal": (True, False), "softcap": (0.0, 0.0)}) == ((1,), {"causal": True})


def test_no_limit_is_written_as_the_function_writes_it() -> None:
    def fa2(q: int, window_size: tuple[int, int] = (-1, -1)) -> None: ...
    def fa4(q: int, window_size: tuple[int | None, int | None] = (None, None)) -> None: ...

    assert window(fa2, (63, -1)) == (63, -1)
    assert window(fa4, (63, -1)) == (63, None)


@pytest.mark.parametrize(
    ("returned", "expected"), [("o", ("o", None)), (("o", "l", "s"), ("o", "l")), (["o"], ("o", None))]
)
def test_outputs_are_found_in_whatever_is_returned(returned: Any, expected: tuple[Any, Any]) -> None:
    assert first_two(returned) == expected
