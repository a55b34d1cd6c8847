"""Memory that tells on a kernel: fenced inputs, poisoned outputs, and what a broken device looks like.

An input lies inside a larger buffer whose every byte is compared afterwards, so that a write before, behind or between
its rows shows. It must not decide what an outcome is called. Child side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: Elements before and behind an input; a multiple of 128 bytes in every dtype, so alignment is as in a fresh tensor.
FENCE = 512


class Fenced:
    """One input tensor with a fence around it.

    layout: "contiguous"; "transposed" (a 4-d tensor stored as batch, heads, seqlen, head_dim, as attention layers
    hand it over); "spaced" (a gap behind the last dimension, as a slice of a fused qkv projection has).
    """

    def __init__(self, values: torch.Tensor, layout: str = "contiguous") -> None:
        import torch

        self._place = _Place(tuple(values.shape), layout)
        self._buffer = torch.empty(self._place.count + 2 * FENCE, dtype=values.dtype, device=values.device)
        self._buffer.view(torch.uint8).fill_(0xFF)  # NaN in every float format: a read beyond the input shows too
        self.tensor = self._place.view(self._buffer)
        self.tensor.copy_(values)
        self._before = self._buffer.clone()

    def damage(self, *, may_change: bool = False) -> str:
        """What was written where nothing may be written, or "". may_change: the values themselves are an output."""
        import torch

        if may_change:
            self._place.view(self._before).copy_(self.tensor)
        now, before = self._buffer.view(torch.uint8), self._before.view(torch.uint8)
        if torch.equal(now, before):
            return ""
        changed = (now != before).nonzero().flatten() // self._buffer.element_size()
        first, beyond = int(changed[0]), int(changed[-1]) - (self._buffer.numel() - FENCE)
        if first < FENCE:
            return f"was written before its start, from element {first - FENCE} on"
        if beyond >= 0:
            return f"was written behind its end, up to element {beyond} beyond it"
        return "is an input and was changed, or was written between its rows"


class _Place:
    """Where in a fenced buffer a tensor of this shape and layout lies."""

    def __init__(self, shape: tuple[int, ...], layout: str) -> None:
        self._swapped = layout == "transposed" and len(shape) == 4
        stored = (shape[0], shape[2], shape[1], shape[3]) if self._swapped else shape
        self._width = shape[-1] if shape else 1
        # 64 elements: rows stay 128 bytes apart from each other, which every vectorised load is content with.
        self._stored = (*stored[:-1], self._width + 64) if layout == "spaced" and shape else stored
        self.count = 1
        for length in self._stored:
            self.count *= length

    def view(self, buffer: torch.Tensor) -> torch.Tensor:
        inner = buffer[FENCE : FENCE + self.count].view(self._stored)
        if inner.ndim:
            inner = inner[..., : self._width]
        return inner.transpose(1, 2) if self._swapped else inner


@contextlib.contextmanager
def poisoned_outputs(device: str) -> Iterator[None]:
    """On the CPU, what torch.empty returns inside starts as NaN.

    On a CUDA device the allocator is used for that (device_memory): the switch would change which operators run.
    """
    import torch

    if device != "cpu":
        yield
        return
    before = torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms imports torch._inductor: two seconds
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        torch.utils.deterministic.fill_uninitialized_memory = filled


def synchronize(device: str) -> None:
    """Waits for everything that was asked of the device; raises what went wrong there."""
    import torch

    kind = device.split(":")[0]
    if kind != "cpu":
        torch.get_device_module(kind).synchronize()


def broken_for_good(device: str) -> bool:
    """Whether the device context answers a harmless request with an error: then only a new process helps."""
    import torch

    if device == "cpu":
        return False
    try:
        synchronize(device)
        return int(torch.ones(1, device=device).add_(1).item()) != 2
    except RuntimeError:
        return True


def is_out_of_memory(error: BaseException) -> bool:
    """Whether host or device memory ran out."""
    import torch

    kinds: tuple[Any, ...] = (MemoryError, torch.OutOfMemoryError)
    if isinstance(error, kinds):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text.lower())
