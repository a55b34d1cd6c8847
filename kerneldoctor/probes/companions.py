"""Lists the nvidia-* distributions that torch brings, which of them are missing, and which are there twice.

CUDA 12 wheels end in `-cu12`. Of CUDA 13 only cuDNN, NCCL, cuSPARSELt and NVSHMEM end in `-cu13`; the libraries of
the toolkit lost their ending (`nvidia-cublas`), and torch asks for them through the extras of `cuda-toolkit`:
https://pypi.org/project/torch/2.13.0/ and https://pypi.org/project/cuda-toolkit/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ..environment import Fact, known, unknown
from . import distributions
from .elf import machine_of
from .scene import Distribution, Scene

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_COMPANION = re.compile(r"(nvidia-|cuda-toolkit|cuda-bindings)", re.IGNORECASE)
_SUFFIXED = re.compile(r"(nvidia-.+)-(cu\d+)")
_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine


def duplicates(installed: Iterable[Distribution]) -> tuple[str, ...]:
    """Families that are installed for two CUDA majors: "nvidia-cudnn: cu12 and cu13"."""
    families: dict[str, list[str]] = {}
    names = {d.name: d.version for d in reversed(tuple(installed)) if d.name.startswith("nvidia-")}
    for name in sorted(names):
        match = _SUFFIXED.fullmatch(name)
        if match:
            families.setdefault(match[1], []).append(match[2])
    for name, version in names.items():
        if name in families:
            families[name].append(f"{version} without a suffix")
    return tuple(f"{family}: {' and '.join(found)}" for family, found in sorted(families.items()) if len(found) > 1)


def missing(scene: Scene, torch: Distribution) -> Fact[tuple[str, ...]]:
    """Companions that torch's metadata asks for and that are not installed, or in another version.

    Raises ProbeError when distributions cannot be listed.
    """
    found = distributions.metadata(scene.host, torch)
    if found.problem:
        return unknown(found.problem)
    lines = [line for line in found.requires if _COMPANION.match(line)]
    if not lines:  # a CPU build, or one whose libraries lie inside or come from conda
        return known((), torch.metadata)
    marker = _marker_environment(scene)
    wanted = list(_required(scene, lines, marker, ""))
    return known(tuple(text for r in wanted if (text := _fault(scene, r))), torch.metadata)


def _required(scene: Scene, lines: Iterable[str], marker: Mapping[str, str], extra: str) -> Iterator[Requirement]:
    """Requirements that apply here, and those behind the extras that they ask for."""
    from packaging.requirements import InvalidRequirement, Requirement

    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue  # named by the requirements probe
        if requirement.marker is not None and not requirement.marker.evaluate({**marker, "extra": extra}):
            continue
        yield requirement
        source = scene.distribution(distributions.normalise(requirement.name)) if not extra else None
        for name in sorted(requirement.extras) if source else ():
            inner = [r for r in distributions.metadata(scene.host, source).requires if "extra" in r] if source else []
            yield from _required(scene, inner, marker, name)


def _fault(scene: Scene, requirement: Requirement) -> str:
    found = scene.distribution(distributions.normalise(requirement.name))
    wanted = f"{requirement.name}{requirement.specifier}"
    if found is None:
        return f"{wanted} (not installed)"
    if found.version and not requirement.specifier.contains(found.version, prereleases=True):
        return f"{wanted} ({found.version} is installed)"
    return ""


def _marker_environment(scene: Scene) -> dict[str, str]:
    """Markers of the target, not of the Python that runs us. Wheels with companions exist for Linux only."""
    target = scene.target
    machine = machine_of(scene.host.read(target.executable, 20))
    return {
        "python_version": ".".join(target.version.split(".")[:2]),
        "python_full_version": target.version,
        "implementation_name": target.implementation,
        "platform_python_implementation": "PyPy" if target.implementation == "pypy" else "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "platform_machine": _MACHINES.get(machine.code, "") if machine else "",
    }
