"""Says whether GPU code built for a list of architectures runs on a GPU; knows no file, variant or machine.

Architectures are written as in kernel metadata: "8.0" (machine code), "9.0a" (one chip only), "10.0f" (one family),
"12.0+PTX" (machine code and an intermediate form that the driver can compile for newer chips), "gfx942" (AMD).
Rules: https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility and
https://developer.nvidia.com/blog/nvidia-blackwell-and-nvidia-cuda-12-9-introduce-family-specific-architecture-features/
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .values import dataclass

Capability = tuple[int, int]

_DOTTED = re.compile(r"(\d{1,3})\.(\d)([af]?)(\+PTX)?", re.IGNORECASE | re.ASCII)
_PACKED = re.compile(r"(?:(sm|compute)_?)?(\d{1,3})(\d)([af]?)(-real|-virtual)?(\+PTX)?", re.IGNORECASE | re.ASCII)
_AMD = re.compile(r"(gfx[0-9a-f]{3,5}|gfx\d{1,2}(?:-\d)?-generic)(?::\S*)?", re.IGNORECASE | re.ASCII)
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,2})", re.ASCII)

# Families that are narrower than "same major version, same or newer minor": the table in the blog above.
_FAMILIES: dict[Capability, frozenset[Capability]] = {(10, 0): frozenset({(10, 0), (10, 3)})}
# Thor was 10.1 up to CUDA 12.9 and is 11.0 since 13.0 (CUDA 13.0 release notes): whether the driver of one naming
# loads code built under the other is documented nowhere.
_RENAMED: dict[Capability, Capability] = {(10, 1): (11, 0), (11, 0): (10, 1)}


@dataclass(frozen=True, slots=True)
class Arch:
    """One NVIDIA architecture that code was built for."""

    major: int
    minor: int
    suffix: str = ""  # "", "a" (this chip only), "f" (its family)
    ptx: bool = False

    @property
    def capability(self) -> Capability:
        """The compute capability named."""
        return self.major, self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}{self.suffix}{'+PTX' if self.ptx else ''}"


def parse_arch(text: str) -> Arch | None:
    """Read "9.0a", "12.0+PTX", "sm_90a", "compute_90", "90" or CMake's "90-real". None for anything else.

    `compute_90` and `90-virtual` hold only the intermediate form; "9.0+PTX" runs on the same GPUs.
    """
    text = text.strip()
    if dotted := _DOTTED.fullmatch(text):
        major, minor, suffix, ptx = dotted.groups()
        return Arch(int(major), int(minor), suffix.lower(), bool(ptx))
    if packed := _PACKED.fullmatch(text):
        prefix, major, minor, suffix, kind, ptx = packed.groups()
        virtual = (prefix or "").lower() == "compute" or (kind or "").lower() == "-virtual"
        return Arch(int(major), int(minor), suffix.lower(), virtual or bool(ptx))
    return None


def normalise_arch(text: str) -> str | None:
    """The one way we write an architecture ("sm_90a" -> "9.0a"), or None when it is not one that we know."""
    arch = parse_arch(text)
    if arch is not None:
        return str(arch)
    amd = _AMD.fullmatch(text.strip())
    return amd[1].lower() if amd else None


def normalise_archs(texts: Iterable[str]) -> tuple[str, ...]:
    """Known architectures, normalised, each once, oldest first; "8.0" beside "8.0+PTX" is folded into the latter."""
    known = {name for name in map(normalise_arch, texts) if name is not None}
    known -= {name.removesuffix("+PTX") for name in known if name.endswith("+PTX")}
    return tuple(sorted(known, key=_age))


def supports_gpu(archs: Iterable[str], gpu: str | Capability) -> bool | None:
    """Whether code built for `archs` runs on a GPU: a capability ("9.0" or (9, 0)) or an AMD name ("gfx942").

    None when that cannot be told: an empty list, a GPU that we cannot read, or an architecture of unknown form and
    no other that fits. True through "+PTX" means that the driver compiles the code at the first use, which
    needs a driver at least as new as the toolkit that made it.
    """
    if isinstance(gpu, str) and (amd := _AMD.fullmatch(gpu.strip())):
        return _any_supports(normalise_arch(text) == amd[1].lower() if normalise_arch(text) else None for text in archs)
    capability = _capability(gpu)
    if capability is None:
        return None
    return _any_supports(_supports(text, capability) for text in archs)


def _supports(text: str, capability: Capability) -> bool | None:
    arch = parse_arch(text)
    if arch is None:
        return False if _AMD.fullmatch(text.strip()) else None
    if capability == arch.capability:
        return True
    if arch.suffix != "a" and _newer_in_family(arch, capability):
        return True
    if arch.ptx and not arch.suffix and capability > arch.capability:
        return True
    return None if _RENAMED.get(arch.capability) == capability else False


def _newer_in_family(arch: Arch, capability: Capability) -> bool:
    if arch.suffix == "f" and arch.capability in _FAMILIES:
        return capability in _FAMILIES[arch.capability]
    return capability[0] == arch.major and capability[1] >= arch.minor


def _any_supports(answers: Iterable[bool | None]) -> bool | None:
    """Kleene's or. Nothing at all is unknown: a build without an architecture list says nothing about itself."""
    seen = set(answers)
    if True in seen:
        return True
    return None if None in seen or not seen else False


def _capability(gpu: str | Capability) -> Capability | None:
    if not isinstance(gpu, str):
        return gpu
    found = _CAPABILITY.fullmatch(gpu.strip())
    return (int(found[1]), int(found[2])) if found else None


def _age(name: str) -> tuple[int, int, str]:
    arch = parse_arch(name)
    return (arch.major, arch.minor, name) if arch else (1000, 0, name)
