"""Sees to it that what judges a kernel is still what it was before the kernel came into the process. Child side.

It finds what a kernel, or a library that it brings, replaces by accident or carelessly. A kernel that wants to deceive
can: code in the same process has no secrets from it.
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import json
import math
import os
import time
import traceback
from collections.abc import Iterator
from types import FunctionType
from typing import Any

_TENSOR = """
    __add__ __and__ __bool__ __div__ __eq__ __float__ __ge__ __getitem__ __gt__ __int__ __invert__ __le__ __len__ __lt__
    __matmul__ __mul__ __ne__ __neg__ __or__ __pow__ __radd__ __rdiv__ __rmul__ __rsub__ __rtruediv__ __setitem__
    __sub__ __truediv__ abs all allclose amax amin any argmax clone contiguous copy_ cpu data_ptr detach dim div
    double element_size eq equal expand fill_ flatten float ge gt half bfloat16 is_contiguous isclose isfinite isnan
    item le lt masked_fill matmul max mean min mul narrow ne new_empty nonzero norm normal_ numel permute pow
    repeat_interleave requires_grad_ reshape size softmax sqrt square stride sub sum tanh to tolist transpose uniform_
    unflatten untyped_storage view view_as zero_
"""
_TORCH = """
    abs all allclose amax any arange argmax bmm cat empty empty_like equal eq finfo full isclose isfinite isnan linspace
    log logsumexp masked_fill matmul max maximum mean min minimum mm mul ne norm ones ones_like rand randint randn
    randperm softmax split sqrt stack sub sum tanh tensor where zeros zeros_like Generator Tensor no_grad enable_grad
"""
_BUILTIN = """
    abs all any bool dict divmod enumerate float getattr int isinstance len list max min repr round set sorted str sum
    tuple type zip
"""
#: Of our own: whose functions make inputs and references, compare, and report.
_SIBLINGS = ("attention", "bench", "fences", "integrity", "numerics", "protocol", "torch_math")


class Integrity:
    """What was there before the kernel was imported."""

    def __init__(self) -> None:
        self._before = dict(_parts())

    def replaced(self) -> tuple[str, ...]:
        """The names of what is another object now."""
        now = dict(_parts())
        return tuple(name for name, part in self._before.items() if now.get(name) is not part)

    def trouble(self, device: str) -> str:
        """Why what is judged here is worth nothing; "" where all is well."""
        replaced = self.replaced()
        if replaced:
            more = f" and {len(replaced) - 3} more" if len(replaced) > 3 else ""
            return f"the kernel replaces {', '.join(replaced[:3])}{more}, with which it is judged"
        if not sees_a_difference(device):
            return "with this kernel in the process a wrong tensor is taken for right: it changes what torch computes"
        return ""


def sees_a_difference(device: str) -> bool:
    """Whether random numbers are none of them alike, a tensor that is off is called wrong and a right one right."""
    import torch

    from . import numerics

    with torch.no_grad():
        source = torch.Generator().manual_seed(11)
        right = torch.randn((4, 8), generator=source, dtype=torch.float32).to(device)
        low = right.to(torch.bfloat16)
        wrong = low.clone()
        wrong[2, 5] = 7.0
        if len(set(right.flatten().tolist())) < 2:
            return False
        return bool(numerics.compare(wrong, right, [low])[1]) and not numerics.compare(low, right, [low])[1]


def _parts() -> Iterator[tuple[str, Any]]:
    import torch

    nothing = object()
    places: tuple[tuple[str, Any, str], ...] = (
        ("torch.Tensor", torch.Tensor, _TENSOR),
        ("torch", torch, _TORCH),
        ("torch.linalg", torch.linalg, "norm vector_norm matrix_norm"),
        ("torch.nn.functional", torch.nn.functional, "max_pool1d softmax silu gelu pad"),
        ("torch.autograd", torch.autograd, "grad backward"),
        ("json", json, "dumps loads JSONEncoder _default_encoder"),
        ("json.JSONEncoder", json.JSONEncoder, "encode iterencode default __init__"),
        ("builtins", builtins, _BUILTIN),
        ("os", os, "write _exit"),
        ("math", math, "sqrt isfinite isnan exp log"),
        ("time", time, "perf_counter"),
        ("traceback", traceback, "format_exception"),
        ("dataclasses", dataclasses, "asdict replace fields"),
    )
    for place, holder, names in places:
        for name in names.split():
            part = getattr(holder, name, nothing)
            if part is not nothing:
                yield f"{place}.{name}", part
    for sibling in _SIBLINGS:
        module = importlib.import_module(f".{sibling}", __package__)
        yield from _functions(module, f"kerneldoctor's {sibling}")


def _functions(module: Any, place: str) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, FunctionType):
            yield f"{place}.{name}", value.__code__
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from ((f"{place}.{name}.{n}", v) for n, v in vars(value).items() if isinstance(v, FunctionType))
