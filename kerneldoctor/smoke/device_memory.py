"""Fences on a CUDA device around what a kernel allocates by itself, through the habits of torch's caching allocator.

It claims nothing where an output cannot be watched, and nothing that could have another cause. Child side.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_SMALL = 1 << 20  # the CUDA caching allocator serves up to this many bytes from its small pool
_BLOCK = 512  # and in multiples of this many


class Fences:
    """Poisoned holes with fences between them, for the outputs that a kernel allocates on a CUDA device by itself.

    The caching allocator gives a freed block to the next request of its size, so an output of one of these sizes lands
    in a hole: it starts as NaN, and a write beyond its end hits what the allocator rounded its size up by, or the fence
    behind that. Where it lands elsewhere nothing is claimed.
    """

    def __init__(self, device: str, sizes: Sequence[int]) -> None:
        import torch

        self.holes = 0
        self._fences: list[torch.Tensor] = []
        self._holes: dict[int, int] = {}  # bytes by address
        self._device = device
        if not device.startswith("cuda"):
            return
        torch.cuda.empty_cache()
        _poison_free_memory(device)
        holes = []
        for size in map(_rounded, sizes):
            width = 64 << 10 if size <= _SMALL else _SMALL + 512  # a fence in the pool that its hole is in
            self._fences.append(_filled(width, device))
            holes.append(_filled(size, device))
            self._fences.append(_filled(width, device))
        self.holes = len(holes)
        self._holes = {hole.data_ptr(): hole.numel() for hole in holes}

    def damage(self) -> str:
        """Which fence was written to, or ""."""
        for number, fence in enumerate(self._fences):
            if bool((fence != 0xFF).any()):
                return f"memory {'behind' if number % 2 else 'before'} an output was written"
        return ""

    def behind(self, outputs: Mapping[str, torch.Tensor]) -> dict[str, Behind]:
        """What was written between the end of an output and the end of its block, by name; often nothing can be seen.

        A block that held something else before the output got it looks the same: see `Behind.is_sure`.
        """
        import torch

        found: dict[str, Behind] = {}
        for name, tensor in outputs.items():
            storage = tensor.untyped_storage()
            start, size = storage.data_ptr(), storage.nbytes()
            room = self._holes.get(start, 0) - size
            if not 0 < room < _BLOCK:
                continue
            try:
                slack = torch.as_tensor(_Bytes(start + size, room), device=self._device)
            except (RuntimeError, TypeError, ValueError):  # a torch that does not take memory by its address
                return {}
            touched = (slack != 0xFF).nonzero().flatten()
            if touched.numel():
                found[name] = Behind(start, size, int(touched[-1]) + 1)
        return found


@dataclass(frozen=True, slots=True)
class Behind:
    """Bytes that changed behind an output of `size` bytes; the last of them is the one of number `last`."""

    start: int
    size: int
    last: int

    def is_sure(self, allocated: Iterable[tuple[int, int]]) -> bool:
        """Whether the block was handed out once only since it was filled, so that nothing else can have lain there."""
        end = self.start + self.size + self.last
        within = [(at, size) for at, size in allocated if at < end and self.start < at + size]
        return within == [(self.start, self.size)]

    def __str__(self) -> str:
        return f"memory behind its end was written, up to byte {self.last} beyond it"


def _rounded(size: int) -> int:
    """Bytes that the allocator sets aside for a request."""
    return -(-max(size, 1) // _BLOCK) * _BLOCK


class _Bytes:
    """Device memory by its address, as a kernel sees it: torch itself refuses to look beyond a storage."""

    def __init__(self, address: int, count: int) -> None:
        shape = {"shape": (count,), "typestr": "|u1"}
        self.__cuda_array_interface__ = {**shape, "data": (address, False), "version": 3}


@contextlib.contextmanager
def recorded_allocations(device: str) -> Iterator[list[tuple[int, int]]]:
    """(address, bytes) of everything that is allocated inside, in the list that is handed out, once it is left.

    The list stays empty where the allocator keeps no history (another torch, another allocator).
    """
    import torch

    found: list[tuple[int, int]] = []
    memory: Any = torch.cuda.memory
    try:
        memory._record_memory_history(enabled="all", context=None, max_entries=1_000_000)
    except (AttributeError, TypeError, RuntimeError):
        yield found
        return
    try:
        yield found
        traces = memory._snapshot(torch.device(device).index)["device_traces"]
        found += [(event["addr"], event["size"]) for trace in traces for event in trace if event["action"] == "alloc"]
    finally:
        memory._record_memory_history(enabled=None)


def _filled(size: int, device: str) -> torch.Tensor:
    import torch

    return torch.full((max(size, 1),), 0xFF, dtype=torch.uint8, device=device)


def _poison_free_memory(device: str) -> None:
    """Fills some of what the allocator will hand out next with NaN, in both of its pools."""
    blocks = [_filled(size, device) for size in (64 << 20, 16 << 20, _SMALL, _SMALL, 64 << 10, 64 << 10)]
    del blocks
