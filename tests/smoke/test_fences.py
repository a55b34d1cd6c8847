"""Writes that are not a kernel's to make are seen, and say where they went."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kerneldoctor.smoke.device_memory import Fences  # noqa: E402
from kerneldoctor.smoke.fences import FENCE, Fenced, is_out_of_memory, poisoned_outputs  # noqa: E402

pytestmark = pytest.mark.torch
LAYOUTS = ("contiguous", "transposed", "spaced")


def memory(tensor: torch.Tensor, first: int, count: int) -> torch.Tensor:
    """What lies `first` elements from the start of a tensor, whatever it is."""
    return torch.as_strided(tensor, (count,), (1,), tensor.storage_offset() + first)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32])
def test_a_fenced_tensor_is_the_tensor_in_its_layout(layout: str, dtype: torch.dtype) -> None:
    values = torch.randn(2, 5, 3, 8).mul(10).to(dtype)
    fenced = Fenced(values, layout)
    assert torch.equal(fenced.tensor, values)
    assert fenced.tensor.is_contiguous() == (layout == "contiguous")
    assert fenced.tensor.stride(-1) == 1
    # Vectorised loads want what a fresh allocation gives them.
    assert fenced.tensor.data_ptr() % 64 == 0
    assert fenced.damage() == ""


@pytest.mark.parametrize(
    ("first", "said"),
    [(-1, "before its start, from element -1 on"), (240, "behind its end, up to element 0 beyond it")],
)
def test_a_write_beyond_either_end_is_seen(first: int, said: str) -> None:
    fenced = Fenced(torch.randn(2, 5, 3, 8).half())
    memory(fenced.tensor, first, 1).fill_(1.0)
    assert said in fenced.damage()


def test_a_write_of_zeros_and_of_nan_is_seen_as_well() -> None:
    for value in (0.0, float("nan")):
        fenced = Fenced(torch.randn(64).half())
        memory(fenced.tensor, 64, 2).fill_(value)
        assert fenced.damage() or value != value  # this very NaN may be the fence's own bits


def test_a_write_between_rows_is_seen() -> None:
    fenced = Fenced(torch.randn(2, 5, 3, 8).half(), "spaced")
    memory(fenced.tensor, 8, 1).fill_(0.0)
    assert "between its rows" in fenced.damage()


def test_an_input_that_was_changed_is_seen_unless_it_may() -> None:
    fenced = Fenced(torch.randn(2, 5, 3, 8).half(), "transposed")
    fenced.tensor[0, 0, 0, 0] += 1
    assert fenced.damage(may_change=True) == ""
    changed = Fenced(torch.ones(4).half())
    changed.tensor[3] = 2
    assert "is an input and was changed" in changed.damage()


def test_an_output_that_may_change_is_still_fenced() -> None:
    fenced = Fenced(torch.zeros(16).half())
    fenced.tensor.fill_(3.0)
    memory(fenced.tensor, -FENCE, 1).fill_(0.0)
    assert "before its start" in fenced.damage(may_change=True)


def test_a_read_beyond_the_end_meets_nan() -> None:
    fenced = Fenced(torch.zeros(16).half())
    assert bool(memory(fenced.tensor, 16, 8).isnan().all())


def test_a_scalar_and_an_empty_tensor_can_be_fenced() -> None:
    assert Fenced(torch.tensor(3.0)).damage() == ""
    assert Fenced(torch.zeros(0, 4, 8).half()).tensor.shape == (0, 4, 8)


def test_what_a_kernel_allocates_starts_as_nan_and_the_switch_is_put_back() -> None:
    before = torch.are_deterministic_algorithms_enabled()
    with poisoned_outputs("cpu"):
        assert bool(torch.empty(100, dtype=torch.bfloat16).isnan().all())
        assert bool(torch.empty_like(torch.zeros(7, 3)).isnan().all())
    assert torch.are_deterministic_algorithms_enabled() == before


def test_on_the_cpu_no_fence_is_claimed_for_outputs() -> None:
    fences = Fences("cpu", [1024])
    assert fences.holes == 0
    assert fences.damage() == ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
