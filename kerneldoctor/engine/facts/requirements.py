"""Which unmet requirements matter to loading torch, transformers and kernels, and what pip has to be given.

The probe holds every requirement of the packages that matter against what is installed; most of what it finds harms
nobody. The table `requirements` says which of it does, and what comes of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ...environment import Conflict, Extension, Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import parse_version
from .attention import minor

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BOUND_TO_TORCH = {"torchvision": "torchvision._C", "torchaudio": "torchaudio.lib.libtorchaudio"}


@derived("requirements.broken_imports", tuple[str, ...])
def broken_imports(case: Case) -> Fact[tuple[str, ...]]:
    """Requirements without which a package does not import, in words; absent where there is none."""
    return _told(case, "import")


@derived("requirements.broken_imports_pins", str)
def broken_imports_pins(case: Case) -> Fact[str]:
    """What to give to pip for these: `"tokenizers>=0.22.0,<0.24"`."""
    found = _conflicts(case, "import")
    if isinstance(found, Fact):
        return found
    wanted = [conflict for conflict in found if _needs(conflict) != "python"]
    return known(_pins(wanted), "requirements.conflicts") if wanted else absent("nothing that pip can install")


@derived("requirements.unmet", tuple[str, ...])
def unmet(case: Case) -> Fact[tuple[str, ...]]:
    """Requirements that are not met and harm a part of a package, in words; absent where there is none."""
    return _told(case, "use")


@derived("requirements.unmet_pins", str)
def unmet_pins(case: Case) -> Fact[str]:
    """What to give to pip for these: the packages that ask, in their releases, so that it brings what they ask for."""
    found = _conflicts(case, "use")
    if isinstance(found, Fact):
        return found
    versions = {name: case.fact(f"packages.{name}.version") for name in dict.fromkeys(c.distribution for c in found)}
    if not found or not all(version.is_known for version in versions.values()):
        return absent("no release is known of a package that asks")
    return known(" ".join(f"{name}=={version.value}" for name, version in versions.items()), "packages")


@derived("torch.other_torch_wanted", tuple[str, ...])
def other_torch_wanted(case: Case) -> Fact[tuple[str, ...]]:
    """torchvision and torchaudio of another minor release of torch, in words; absent where there is none.

    Their compiled parts use torch's C++ interface. Where such a part was read, its symbols tell better (KD2001).
    """
    conflicts, listed = case.fact("requirements.conflicts"), case.fact("extensions")
    if not conflicts.is_known:
        return conflicts
    extensions: tuple[Extension, ...] = listed.value or ()
    read = {extension.module for extension in extensions if extension.missing_torch_symbols.is_known}
    found = [c for c in conflicts.value or () if _other_minor(c) and _BOUND_TO_TORCH[c.distribution] not in read]
    return known(tuple(map(_text, found)), conflicts.note) if found else absent(conflicts.note)


@derived("torch.bound_packages", str)
def bound_packages(case: Case) -> Fact[str]:
    """The names of these packages, as pip takes them."""
    conflicts = case.fact("requirements.conflicts")
    names = dict.fromkeys(c.distribution for c in conflicts.value or () if _other_minor(c))
    return known(" ".join(names), conflicts.note) if names else absent("none is of another torch")


def _other_minor(conflict: Conflict) -> bool:
    pinned = re.fullmatch(r"torch==(\S+)", conflict.requirement)
    if conflict.distribution not in _BOUND_TO_TORCH or pinned is None or parse_version(conflict.found) is None:
        return False
    return minor(pinned[1]) != minor(conflict.found)


def _told(case: Case, effect: str) -> Fact[tuple[str, ...]]:
    found = _conflicts(case, effect)
    if isinstance(found, Fact):
        return found
    return known(tuple(map(_text, found)), "requirements.conflicts") if found else absent("none that matters")


def _conflicts(case: Case, effect: str) -> list[Conflict] | Fact[Any]:
    """The conflicts that have an effect, or the fact that says why none can be named."""
    listed = case.fact("requirements.conflicts")
    if not listed.is_known:
        return absent(listed.note) if listed.is_absent else unknown(f"requirements.conflicts: {listed.note}")
    return [conflict for conflict in listed.value or () if effect in _effects(case, conflict)]


def _effects(case: Case, conflict: Conflict) -> Iterator[str]:
    for row in case.table("requirements"):
        if row["package"] == conflict.distribution and _needs(conflict) in row["needs"]:
            yield str(row.get("wrong" if conflict.found else "missing", ""))


def _needs(conflict: Conflict) -> str:
    """The normalised name of what is required."""
    match = _NAME.match(conflict.requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _text(conflict: Conflict) -> str:
    state = f"{conflict.found} is installed" if conflict.found else "it is not installed"
    return f"{conflict.distribution} needs {conflict.requirement}, {state}"


def _pins(conflicts: Iterable[Conflict]) -> str:
    bounds: dict[str, list[str]] = {}
    for conflict in conflicts:
        specifier = _NAME.sub("", conflict.requirement, count=1)
        bounds.setdefault(_needs(conflict), []).extend([specifier] if specifier else [])
    return " ".join(f'"{name}{",".join(dict.fromkeys(parts))}"' for name, parts in bounds.items())
