"""What a pasted report was understood to say of machine, kernel and workload, in a few lines. It judges nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..diagnosis.answer import Diagnosis
from ..environment import Environment, Fact
from .text import value_text

_FIRST = ("torch", "flash-attn", "transformers", "kernels", "huggingface-hub", "triton", "xformers", "vllm")
_SHOWN_PACKAGES = 8


def understood(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Label and text a line, only of what is known."""
    environment = diagnosis.environment
    lines = [
        ("system", _joined(environment.system.distribution, environment.system.os, environment.system.machine)),
        ("python", _joined(environment.python.version)),
        ("GPU", _gpus(environment)),
        ("driver", _with(environment.driver.version, "offers CUDA", environment.driver.cuda)),
        ("torch", _with(environment.torch.version, "built for CUDA", environment.torch.cuda)),
        ("packages", _packages(environment)),
        ("kernel", _section(diagnosis.kernel, ("repo", "revision", "version", "variant", "build_id"))),
        ("workload", _section(diagnosis.workload, ())),
        ("read from", ", ".join(diagnosis.kinds)),
    ]
    return [(label, text) for label, text in lines if text]


def _joined(*facts: Fact[str]) -> str:
    return ", ".join(dict.fromkeys(str(fact.value) for fact in facts if fact.is_known))


def _with(fact: Fact[str], words: str, other: Fact[str]) -> str:
    """A value and what belongs to it, either of which may be missing."""
    parts = [str(fact.value)] if fact.is_known else ["not installed"] if fact.is_absent else []
    return ", ".join([*parts, *([f"{words} {other.value}"] if other.is_known else [])])


def _gpus(environment: Environment) -> str:
    counts: dict[str, int] = {}
    for gpu in environment.gpus.value or ():
        name = value_text(gpu.name.value) if gpu.name.is_known else "GPU"
        capability = f" ({gpu.compute_capability.value})" if gpu.compute_capability.is_known else ""
        counts[name + capability] = counts.get(name + capability, 0) + 1
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def _packages(environment: Environment) -> str:
    known = {name: p.version for name, p in environment.packages.items.items() if not p.version.is_unknown}
    names = [name for name in _FIRST if name in known] + sorted(set(known) - set(_FIRST))
    shown = [f"{n} {known[n].value}" if known[n].is_known else f"no {n}" for n in names if n != "torch"]
    rest = len(shown) - _SHOWN_PACKAGES
    return ", ".join(shown[:_SHOWN_PACKAGES]) + (f", +{rest} more" if rest > 0 else "")


def _section(section: object, wanted: tuple[str, ...]) -> str:
    def parts() -> Iterator[str]:
        for field in dataclasses.fields(section):  # type: ignore[arg-type]
            fact = getattr(section, field.name)
            if fact.is_known and (not wanted or field.name in wanted):
                yield f"{field.name.replace('_', ' ')} {value_text(fact.value)}"

    return ", ".join(parts())
