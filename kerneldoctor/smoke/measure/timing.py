"""Times calls on a device: warmed up, with the device's own clock, the cache emptied before each. Child side."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

_WARM = 2  # calls before anything is timed, beside the first one and the one whose memory is counted
_FEWEST, _MOST = 4, 100  # timed calls
_BUDGET = {"cpu": 0.15, "gpu": 0.4}  # seconds of timed calls


class Clock:
    """Times calls on one device; holds the memory that empties the cache while it lives."""

    def __init__(self, device: str) -> None:
        self._backend: Any = None
        self._filler: Any = None
        if not device.startswith("cpu"):
            import torch

            self._backend = torch.get_device_module(device.split(":")[0])
            self._filler = _cache_filler(self._backend, device)

    @property
    def empties_cache(self) -> bool:
        """Whether the L2 cache is emptied where that is asked for."""
        return self._filler is not None

    def sample(self, before: Callable[[], Any], call: Callable[[Any], object], cold: bool) -> list[float]:
        """Milliseconds of each timed call. `before` makes what `call` is given and is not timed.

        cold: empty the L2 cache between the two.
        """
        for _ in range(_WARM):
            guess = self._once(before, call, cold)
        budget = _BUDGET["cpu" if self._backend is None else "gpu"]
        count = min(_MOST, max(_FEWEST, int(budget * 1e3 / max(guess, 1e-3))))
        if self._backend is None:
            return [self._once(before, call, cold) for _ in range(count)]
        return self._by_events(before, call, cold, count)

    def _once(self, before: Callable[[], Any], call: Callable[[Any], object], cold: bool) -> float:
        if self._backend is not None:
            return self._by_events(before, call, cold, 1)[0]
        given = before()
        start = time.perf_counter()
        call(given)
        return (time.perf_counter() - start) * 1e3

    def _by_events(
        self, before: Callable[[], Any], call: Callable[[Any], object], cold: bool, count: int
    ) -> list[float]:
        """The device is not waited for between calls, so that what launching costs the CPU hides behind its work."""
        pairs = []
        for _ in range(count):
            given = before()
            if cold and self._filler is not None:
                self._filler.zero_()
            start, end = (self._backend.Event(enable_timing=True) for _ in range(2))
            start.record()
            call(given)
            end.record()
            pairs.append((start, end))
        self._backend.synchronize()
        return [float(start.elapsed_time(end)) for start, end in pairs]


def _cache_filler(backend: Any, device: str) -> Any:
    """A buffer twice the size of the L2 cache; None where that size is not told."""
    import torch

    size = getattr(backend.get_device_properties(device), "L2_cache_size", 0)
    return torch.empty(2 * size, dtype=torch.uint8, device=device) if size else None
