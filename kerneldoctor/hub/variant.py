"""Reads and prints the names of build folders in kernel repositories; decides nothing about where a build runs.

A folder below `build/` is named by what it was built for. The names of every era are one grammar:

    torch28-cxx11-cu128-x86_64-linux        torch release, C++ ABI (Linux, older names only), backend, machine, OS
    torch210-metal-aarch64-darwin
    torch-stable-abi210-cu130-x86_64-linux  any torch from that release on
    tvm-ffi01-cu130-x86_64-linux            no torch at all
    torch-cuda, torch-cpu, torch-universal  no compiled code: `noarch`

Digits carry no dots, and are cut as the `kernels` library cuts them: the first digit of a torch release is its
major part ("torch210" is 2.10), the last digit of a backend is its minor part ("cu130" is 13.0, "xpu20251" is 2025.1
and "rocm714", meant as 7.14, is 71.4). Source: kernels/variants.py and kernels/backends.py of
https://pypi.org/project/kernels/0.17.2/.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable

from ..values import dataclass

VERSIONED_BACKENDS = {"cu": "cuda", "rocm": "rocm", "xpu": "xpu", "cann": "cann"}  # by their prefix in names
PLAIN_BACKENDS = frozenset({"cpu", "metal", "neuron", "tpu"})
_PREFIXES = {name: prefix for prefix, name in VERSIONED_BACKENDS.items()}

_TORCH = re.compile(r"torch(\d)(\d+)", re.ASCII)
_STABLE_ABI = re.compile(r"torch-stable-abi(\d)(\d+)", re.ASCII)
_TVM_FFI = re.compile(r"tvm-ffi(\d)(\d+)", re.ASCII)
_BACKEND = re.compile(r"(cu|rocm|xpu|cann)(\d+)(\d)", re.ASCII)
_MAX_NAME = 255  # the longest file name that Linux and the Hub's git can hold


class Framework(enum.Enum):
    """What the code of a build links against."""

    TORCH = "torch"
    TORCH_STABLE_ABI = "torch-stable-abi"
    TVM_FFI = "tvm-ffi"
    NOARCH = "noarch"  # Python and Triton only; `backend` names the device it is written for, or "universal"


Numbers = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Variant:
    """One build, by the parts of its name. Parts that a noarch name does not have are None or empty."""

    name: str  # the folder, as it was listed
    framework: Framework
    framework_version: Numbers | None = None  # (2, 10)
    cxx11: bool | None = None  # None: the name carries no C++ ABI tag
    backend: str = ""  # cuda | rocm | xpu | cann | cpu | metal | neuron | tpu; any text in noarch names
    backend_version: Numbers | None = None  # (13, 0)
    machine: str = ""  # x86_64 | aarch64
    os: str = ""  # linux | windows | darwin

    @property
    def is_noarch(self) -> bool:
        """Whether the folder holds no compiled code."""
        return self.framework is Framework.NOARCH

    @property
    def backend_tag(self) -> str:
        """The backend as names write it: "cu130", "cpu", "rocm71"."""
        return backend_tag(self.backend, self.backend_version)

    def __str__(self) -> str:
        """The name that `parse_variant` reads back to the same parts, and that `kernels` asks the Hub for."""
        if self.is_noarch:
            return f"torch-{self.backend}"
        major, minor = self.framework_version or (0, 0)
        abi = "" if self.cxx11 is None else "-cxx11" if self.cxx11 else "-cxx98"
        return f"{self.framework.value}{major}{minor}{abi}-{self.backend_tag}-{self.machine}-{self.os}"


def backend_tag(name: str, version: Numbers | None) -> str:
    """How names write a backend: ("cuda", (12, 8)) is "cu128"."""
    if version is None:
        return name
    return f"{_PREFIXES[name]}{version[0]}{version[1]}"


@functools.lru_cache(maxsize=4096)  # a whole index holds some ten thousand folders but few hundred different names
def parse_variant(name: str) -> Variant | None:
    """Read the name of a build folder, or None where `kernels` (0.17.2) reads none: it ignores such folders."""
    if len(name) > _MAX_NAME:
        return None
    parts = name.split("-")
    if name.startswith("torch-stable-abi"):
        return _compiled(name, Framework.TORCH_STABLE_ABI, _STABLE_ABI.fullmatch("-".join(parts[:3])), None, parts[3:])
    if parts[0] == "torch":
        return Variant(name, Framework.NOARCH, backend="-".join(parts[1:]))
    if parts[0].startswith("torch"):
        tagged = len(parts) > 1 and parts[1] in ("cxx11", "cxx98")
        cxx11 = parts[1] == "cxx11" if tagged else None
        return _compiled(name, Framework.TORCH, _TORCH.fullmatch(parts[0]), cxx11, parts[2 if tagged else 1 :])
    if parts[0] == "tvm":
        return _compiled(name, Framework.TVM_FFI, _TVM_FFI.fullmatch("-".join(parts[:2])), None, parts[2:])
    return None


def parse_variants(names: Iterable[str]) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """The builds among listed folder names, in their order, and the names that are none."""
    parsed = [(name, parse_variant(name)) for name in names]
    return tuple(v for _, v in parsed if v is not None), tuple(name for name, v in parsed if v is None)


def _compiled(
    name: str, framework: Framework, release: re.Match[str] | None, cxx11: bool | None, rest: list[str]
) -> Variant | None:
    if release is None or len(rest) != 3:
        return None
    backend = _parse_backend(rest[0])
    if backend is None:
        return None
    return Variant(name, framework, _numbers(release[1], release[2]), cxx11, *backend, machine=rest[1], os=rest[2])


def _parse_backend(text: str) -> tuple[str, Numbers | None] | None:
    if text in PLAIN_BACKENDS:
        return text, None
    found = _BACKEND.fullmatch(text)
    return (VERSIONED_BACKENDS[found[1]], _numbers(found[2], found[3])) if found else None


def _numbers(major: str, minor: str) -> Numbers:
    return int(major), int(minor)
