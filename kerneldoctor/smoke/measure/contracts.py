"""The two cases of `compare`: is it right for these heads, and then how fast and with what memory. Child side.

A step is the forward and the backward of this one attention, with gradients of q, k and v. It must not compare speeds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, ClassVar

from .. import fences
from ..bench import Skip, Wrong
from ..contracts._calling import find, first_two, parameters
from ..contracts._contract import Contract, Unsupported
from ..contracts.flash_attn_func import FlashAttnFunc
from ..protocol import Json
from .plan import CHECKS, UNCHECKED
from .spot import find_wrong_row
from .timing import Clock


def contract(name: str) -> Contract:
    """The contract of this name; KeyError when there is none."""
    return {"check": _CHECKED, "measure": _MEASURED}[name]


class Checked(FlashAttnFunc):
    """Dense attention as `try` judges it; keeps what came of it for the lengths that follow in this process."""

    def __init__(self) -> None:
        self.passed = {"forward": False, "backward": False}
        self._seen = 0

    def examine(self, bench: Any) -> None:
        """Runs the case, and notes what may be measured after all of them."""
        right = False
        try:
            bench.standard()
            right = not bench.found
        finally:
            first, self._seen = self._seen == 0, self._seen + 1
            forward = bench.forward_is_right is True
            self.passed = {
                "forward": forward and (first or self.passed["forward"]),
                "backward": right and (first or self.passed["backward"]),
            }

    @property
    def is_over(self) -> bool:
        """Whether every check ran in this process."""
        return self._seen >= CHECKS


class Measured(Contract):
    """One length: forward, backward and step. What ran out of memory is not asked for more."""

    name: ClassVar[str] = "measure"
    description: ClassVar[str] = "time and memory of attention at one length"
    exports: ClassVar[tuple[str, ...]] = ("flash_attn_func",)

    def __init__(self) -> None:
        self._full: dict[str, int] = {}  # direction -> the length at which memory ran out

    def examine(self, bench: Any) -> None:
        """Measures; an exception leaves what was measured before it."""
        length = int(bench.params["seqlen"])
        try:
            self._measure(bench, length)
        except Exception as error:
            if fences.is_out_of_memory(error):
                self._full.setdefault(bench.direction, length)
            raise

    def _measure(self, bench: Any, length: int) -> None:
        checked = bool(bench.params["checked"])
        if not checked and not _CHECKED.is_over:
            raise Skip(UNCHECKED)
        if not checked and not _CHECKED.passed["forward"]:
            raise Skip("its check did not pass")
        self._still_fits("forward", length)
        made = _Measurement(bench)
        made.forward()
        if not bench.params.get("backward") or not (checked or _CHECKED.passed["backward"]):
            return
        bench.direction = "backward"
        self._still_fits("backward", length)
        made.backward()

    def _still_fits(self, direction: str, length: int) -> None:
        full = self._full.get(direction)
        if full is not None and length >= full:
            raise Skip(f"out of memory at {full} already")


_CHECKED, _MEASURED = Checked(), Measured()


class _Measurement:
    """One length on the bench."""

    def __init__(self, bench: Any) -> None:
        self._bench, self._device = bench, str(bench.device)
        self._backend = _memory_of(self._device)
        gc.collect()
        if self._backend is not None:
            self._backend.empty_cache()
        with bench.at("make-inputs"):
            self._inputs = _inputs(bench.params, bench.case.seed, self._device)
        with bench.at("prepare"):
            self._attend = _caller(bench.kernel, bench.params)
            prepare = getattr(bench.kernel, "prepare", None)
            if callable(prepare) and hasattr(bench.kernel, "taken"):
                prepare(int(bench.params["seqlen"]), bool(bench.params["causal"]), self._inputs[0])
        self._base = self._allocated()

    def forward(self) -> None:
        """Without gradients, as in inference."""
        import torch

        q, k, v, _ = self._inputs
        with torch.no_grad():
            self._measure("forward", lambda: None, lambda given: self._attend(q, k, v), self._check_rows)

    def _check_rows(self, out: Any) -> None:
        q, k, v, _ = self._inputs
        with self._bench.at("compare"):
            why = find_wrong_row(out, q, k, v, bool(self._bench.params["causal"]), self._device)
        if why:
            raise Wrong(why)

    def backward(self) -> None:
        """A step, then its backward alone."""
        import torch

        leaves = [tensor.detach().requires_grad_(True) for tensor in self._inputs[:3]]
        loss = _loss(self._inputs[3])

        def backward(out: Any) -> Any:
            return torch.autograd.grad(loss(out), leaves)

        self._measure("step", lambda: None, lambda given: backward(self._attend(*leaves)))
        # The outputs of its own forward are in the cache, as they are in training: they stay there.
        self._time("backward", lambda: self._attend(*leaves), backward, False)

    def _measure(
        self,
        name: str,
        before: Callable[[], Any],
        call: Callable[[Any], Any],
        check: Callable[[Any], None] = lambda made: None,
    ) -> None:
        """The first call, which compiles and tunes; memory of one call; times of many."""
        bench, start = self._bench, time.perf_counter()
        with bench.at(f"first-{name}"):
            made = call(before())
        first = time.perf_counter() - start
        check(made)
        del made
        found: dict[str, Json] = {"first_call_s": first, **self._memory(name, before, call)}
        bench.measured[name] = found
        self._time(name, before, call, True)
        self._remark()

    def _memory(self, name: str, before: Callable[[], Any], call: Callable[[Any], Any]) -> dict[str, Json]:
        if self._backend is None:
            return {}
        with self._bench.at(f"memory-{name}"):
            self._backend.reset_peak_memory_stats()
            made = call(before())
            self._backend.synchronize()
            peak = int(self._backend.max_memory_allocated())
            del made
        return {"peak_bytes": peak - self._base, "total_bytes": peak}

    def _time(self, name: str, before: Callable[[], Any], call: Callable[[Any], Any], cold: bool) -> None:
        with self._bench.at(f"time-{name}"):
            clock = Clock(self._device)
            samples = clock.sample(before, call, cold)
        found = self._bench.measured.setdefault(name, {})
        found["ms"] = [round(sample, 6) for sample in samples]
        found["cold"] = cold and clock.empties_cache

    def _remark(self) -> None:
        kernel = self._bench.kernel
        if isinstance(taken := getattr(kernel, "taken", None), dict):
            self._bench.measured["taken"] = dict(taken)
        if isinstance(remarks := getattr(kernel, "remarks", None), list):
            self._bench.notes[:] = list(remarks)

    def _allocated(self) -> int:
        return 0 if self._backend is None else int(self._backend.memory_allocated())


def _memory_of(device: str) -> Any:
    """torch's module of the device, where its allocator counts."""
    if device == "cpu":
        return None
    import torch

    backend = torch.get_device_module(device.split(":")[0])
    return backend if hasattr(backend, "max_memory_allocated") else None


def _inputs(params: Any, seed: int, device: str) -> tuple[Any, ...]:
    """q, k, v and the gradient of the output."""
    import torch

    dtype = getattr(torch, params["dtype"])
    source = torch.Generator(device=device).manual_seed(seed)
    shape = (params["batch"], params["seqlen"])

    def draw(heads: int) -> Any:
        return torch.randn(*shape, heads, params["head_dim"], generator=source, dtype=dtype, device=device)

    heads, kv_heads = params["heads"], params["kv_heads"]
    return draw(heads), draw(kv_heads), draw(kv_heads), draw(heads)


def _loss(grad: Any) -> Callable[[Any], Any]:
    """A loss whose gradient by the output is this one, at the cost of next to nothing.

    With grad_outputs torch.autograd.grad imports sympy to compare shapes, which takes seconds in every process.
    """
    import torch

    def forward(ctx: Any, out: Any) -> Any:
        return out.new_zeros(())

    def backward(ctx: Any, one: Any) -> Any:
        return grad

    made: Any = type(
        "Loss", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )
    return lambda out: made.apply(out)


def _caller(kernel: Any, params: Any) -> Callable[..., Any]:
    """The kernel's function with its options, looked up once: signatures are slow to read."""
    function = find(kernel, "flash_attn_func")
    known = parameters(function)
    options = {"causal": True} if params["causal"] else {}
    if options and known is not None and "causal" not in known:
        raise Unsupported("flash_attn_func has no parameter causal")
    return lambda q, k, v: first_two(function(q, k, v, **options))[0]
