"""What the bench asks of PyTorch itself: fp32 that is fp32, gradients by given ones. Child side; judges nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@contextmanager
def plain_math(device: str) -> Iterator[None]:
    """The reference is fp32 for real: no TF32, no autocast, whatever a kernel's import switched on."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    threads = torch.get_num_threads()
    if device == "cpu":
        torch.set_num_threads(1)  # small tensors on a busy machine: threads that wait for each other cost seconds
    try:
        with torch.autocast(device.split(":")[0], enabled=False):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(before)


def gradients(
    outputs: list[torch.Tensor], given: list[torch.Tensor], leaves: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of `outputs` by the leaves where theirs are `given`, tensor for tensor; None: none came back.

    With grad_outputs torch.autograd.grad imports sympy and half of torch.fx to compare shapes: a second or more.
    """
    import torch

    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        return tensors[0].new_zeros(())

    def backward(ctx: Any, one: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(given)

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    end: Any = type("Given", (torch.autograd.Function,), methods)
    found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(end.apply(*outputs), leaves, allow_unused=True)
    return found


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """In fp32, where it holds numbers that are not whole."""
    return tensor.float() if tensor.is_floating_point() else tensor


def have_same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors are the same to the bit, NaN included."""
    import torch

    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(torch.equal(*(t.detach().contiguous().flatten().view(torch.uint8) for t in (first, second))))
