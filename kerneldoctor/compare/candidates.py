"""Which of torch's own attentions are compared where nobody said which, and what kernels are called. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..smoke.protocol import KernelRequest
from ..smoke.trial import Subject
from .model import Implementation

#: In the order of the report.
BUILT_IN = ("eager", "sdpa", "sdpa-flash", "sdpa-cudnn", "sdpa-efficient", "sdpa-math", "flex")
#: Flex attention on the CPU wants a C++ compiler and half a minute, and the fused backends but one are of the GPU.
_ON_A_CPU = ("eager", "sdpa", "sdpa-math")


def built_ins(device: str, asked: Sequence[str]) -> tuple[Implementation, ...]:
    """Those that were asked for, or the usual ones of a device."""
    names = asked or (_ON_A_CPU if device == "cpu" else BUILT_IN)
    return tuple(
        Implementation(name, "built-in", bool(asked), KernelRequest("builtin", module=name, measure=True))
        for name in BUILT_IN
        if name in names
    )


def kernel_name(subject: Subject) -> str:
    """What a table calls a kernel: short, and still to be told from its other versions."""
    if subject.repo:
        return f"{subject.repo}@{subject.revision}" if subject.revision else subject.repo
    if subject.source == "local":
        return Path(subject.reference).name or subject.reference
    return subject.reference


def told_apart(implementations: Iterable[Implementation]) -> tuple[Implementation, ...]:
    """The same with names that differ: the second of a name gets a number."""
    seen: dict[str, int] = {}
    made = []
    for one in implementations:
        seen[one.name] = seen.get(one.name, 0) + 1
        made.append(replace(one, name=f"{one.name} ({seen[one.name]})") if seen[one.name] > 1 else one)
    return tuple(made)
