"""Calls a kernel's function with the options it has, and says so where it has not.

Releases of flash-attn differ in parameters and in what they return; their signature tells. It must not import torch.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from ._contract import Unsupported

#: What kernels say when they refuse a feature on purpose. Messages of a broken kernel ("aten::sum", "Expected dim …")
#: must not match, so each form names support or a build without the feature.
REFUSALS = re.compile(
    r"(?:does|do|is|are) not (?:yet |currently )?support|not (?:yet |currently )?(?:supported|implemented)"
    r"|only supports?\b|\bonly support(?:ed)?\b|unsupported (?!operand)|no support for|without support|currently only"
    r"|only implemented for|requires (?:A100|H100|sm|compute capability)|doesn't (?:yet |currently )?support"
    r"|must be (?:divisible by|a multiple of|at most|less than or equal)"
    r"|head_?dim(?:ension)?\b.{0,40}(?:at most|must be)",
    re.IGNORECASE,
)
#: "CUDA error: operation not supported" is a fault of driver or build, not a feature that is missing.
DEVICE_ERRORS = re.compile(r"\b(?:CUDA|HIP|XPU|cuDNN|Triton)\b.{0,20}\berror", re.IGNORECASE)


def refuses(error: BaseException) -> bool:
    """Whether an exception is the kernel saying that it does not have this feature; never an error of the device."""
    text = str(error)[:4000]
    if DEVICE_ERRORS.search(text):
        return False
    return isinstance(error, NotImplementedError) or bool(REFUSALS.search(text))


def find(kernel: Any, name: str) -> Any:
    """An export of the kernel, at its top or in its `layers`; Unsupported when it is in neither."""
    for owner in (kernel, getattr(kernel, "layers", None)):
        found = getattr(owner, name, None)
        if found is not None:
            return found
    raise Unsupported(f"the kernel has no {name}")


def parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of a function by name; None when they cannot be told (C functions, `**kwargs`)."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found.values()):
        return None
    return found


def invoke(function: Callable[..., Any], required: Mapping[str, Any], options: Mapping[str, tuple[Any, Any]]) -> Any:
    """Calls it with `required` and with those `options`, {name: (value, neutral value)}, that are not neutral.

    Required arguments go by name where the signature has all their names, else in order. "a|b" as an option is
    whichever of the two names the function has. An option without a parameter is Unsupported.
    """
    known = parameters(function)
    wanted: dict[str, Any] = {}
    for names, (value, neutral) in options.items():
        if value is neutral or (isinstance(value, (bool, int, float)) and value == neutral):
            continue
        name = next((n for n in names.split("|") if known is None or n in known), None)
        if name is None:
            raise Unsupported(f"{_called(function)} has no parameter {names.split('|')[0]}")
        wanted[name] = value
    if known is not None and all(name in known for name in required):
        return function(**required, **wanted)
    return function(*required.values(), **wanted)


def window(function: Callable[..., Any], asked: tuple[int, int]) -> tuple[Any, Any]:
    """A window as this function writes "no limit": -1, or None where its own default does."""
    known = parameters(function)
    default = known["window_size"].default if known and "window_size" in known else (-1, -1)
    free = None if isinstance(default, (tuple, list)) and None in default else -1
    left, right = asked
    return (free if left < 0 else left), (free if right < 0 else right)


def first_two(returned: Any) -> tuple[Any, Any]:
    """(out, lse) of a call: kernels return a tensor, or a tuple or list that starts with these two."""
    if isinstance(returned, (tuple, list)):
        return returned[0], returned[1] if len(returned) > 1 else None
    return returned, None


def _called(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
