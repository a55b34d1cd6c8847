"""Makes the kernel and the workload of a question from what was taken. Reads no text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from ..engine.case import Kernel, Workload
from ..environment import Fact, known, unknown
from .assemble import fact, note
from .model import Sighting

_NOT_SAID: Fact[object] = unknown("the text does not say")
_REFERENCE = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?(?::\w+)?")


def workload(taken: Mapping[str, Sighting]) -> Workload | None:
    """What the kernel is used for; None where the text says nothing of it."""
    names = [f.name for f in dataclasses.fields(Workload)]
    found = {name: taken[f"workload.{name}"] for name in names if f"workload.{name}" in taken}
    return Workload(**{name: fact(found.get(name)) for name in names}) if found else None


def kernel(taken: Mapping[str, Sighting]) -> Kernel | None:
    """The Hub kernel that the text is about; None where it names none."""
    names = [f.name for f in dataclasses.fields(Kernel)]
    facts: dict[str, Fact[object]] = {
        name: fact(taken[f"kernel.{name}"]) for name in names if f"kernel.{name}" in taken
    }
    asked = taken.get("workload.attn_implementation")
    if asked is not None and isinstance(asked.value, str):
        for name, value in _asked(asked.value).items():
            facts.setdefault(name, known(value, note(asked)))
    if not facts:
        return None
    return Kernel(**{name: facts.get(name, _NOT_SAID) for name in names})  # type: ignore[arg-type]


def _asked(reference: str) -> dict[str, object]:
    """ "kernels-community/flash-attn2@v3" by its parts."""
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        return {}
    told: dict[str, object] = {"repo": found[1]}
    if found[2]:
        told["revision"] = found[2]
        if number := re.fullmatch(r"v(\d{1,3})", found[2]):
            told["version"] = int(number[1])
        elif re.fullmatch(r"[0-9a-f]{40}", found[2]):
            told["commit"] = found[2]
    return told
