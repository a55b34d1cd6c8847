"""Describes a machine as the `kernels` library would see it, from facts alone; judges no build.

The library asks torch at run time; each answer is derived here from a fact of the Environment, and stays unknown,
with the reason, where that fact is unknown. Source: kernels/variants.py (`resolve_variants`) and
kernels/backends.py (`_backend`) of https://pypi.org/project/kernels/0.17.2/.
"""

from __future__ import annotations

import re
from typing import Any

from ..environment import NOT_LOOKED, Environment, Fact, absent, known, unknown
from ..values import dataclass
from .variant import Numbers

_RELEASE = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_CUDART = re.compile(r"cudart\.so\.(\d+)\.(\d+)", re.ASCII)
_CUDA_FOLDER = re.compile(r"/cuda-(\d+)\.(\d+)/", re.ASCII)
_MACOS = re.compile(r"mac\s?OS\D*(\d+)(?:\.(\d+))?", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class SystemDescription:
    """What the resolver of `kernels` looks at. An absent `torch` means that no torch is installed."""

    torch: Fact[Numbers] = NOT_LOOKED  # (2, 13)
    cxx11: Fact[bool] = NOT_LOOKED
    backend: Fact[str] = NOT_LOOKED  # cuda | rocm | metal | xpu | cann | cpu: of torch, or of libcudart without torch
    backend_version: Fact[Numbers] = NOT_LOOKED  # absent for metal and cpu
    neuron: Fact[bool] = NOT_LOOKED  # torch-neuronx is installed: comes before `backend`
    tpu: Fact[bool] = NOT_LOOKED  # torch-tpu is installed: comes before both
    machine: Fact[str] = NOT_LOOKED  # as platform.machine() says: x86_64, AMD64, arm64, aarch64
    os: Fact[str] = NOT_LOOKED  # linux | windows | darwin
    macos: Fact[Numbers] = NOT_LOOKED
    tvm_ffi: Fact[Numbers] = NOT_LOOKED
    free_threaded: Fact[bool] = NOT_LOOKED  # and older than Python 3.15


# The fact of the Environment that settles each field (of `backend_version`: by backend), for "not determined" lines.
FACT_PATHS: dict[str, str] = {
    "torch": "torch.version",
    "cxx11": "torch.cxx11_abi",
    "backend": "torch.backend",
    "cuda_version": "torch.cuda",
    "rocm_version": "torch.hip",
    "xpu_version": "torch.xpu",
    "cann_version": "packages.torch-npu.version",
    "cudart": "toolkit.cudart",  # in place of torch.cuda where no torch is installed
    "neuron": "packages.torch-neuronx.version",
    "tpu": "packages.torch-tpu.version",
    "machine": "system.machine",
    "os": "system.os",
    "macos": "system.kernel",
    "tvm_ffi": "packages.apache-tvm-ffi.version",
    "free_threaded": "python.free_threaded",
}


def describe(environment: Environment) -> SystemDescription:
    """The machine as `kernels` would see it when its torch is imported there."""
    torch = _torch(environment)
    backend, version = _backend(environment, torch)
    return SystemDescription(
        torch=torch,
        cxx11=environment.torch.cxx11_abi,
        backend=backend,
        backend_version=version,
        neuron=_installed(environment, "torch-neuronx"),
        tpu=_installed(environment, "torch-tpu"),
        machine=environment.system.machine,
        os=environment.system.os,
        macos=_macos(environment),
        tvm_ffi=_numbers(environment.packages.get("apache-tvm-ffi").version),
        free_threaded=_free_threaded(environment),
    )


def _torch(environment: Environment) -> Fact[Any]:
    """The library looks for the package, not for its metadata: what is left of a half-removed torch does not count."""
    missing = environment.torch.package_missing
    return absent(missing.note) if missing.value else _numbers(environment.torch.version)


def _backend(environment: Environment, torch: Fact[Numbers]) -> tuple[Fact[str], Fact[Any]]:
    if torch.is_absent:
        return _backend_without_torch(environment)
    name = environment.torch.backend
    if name.value == "cpu":
        return _backend_of_plain_torch(environment, name)
    if name.value == "xpu":
        return name, _xpu_numbers(environment.torch.xpu)
    if name.value in ("cuda", "rocm"):
        return name, _numbers(environment.torch.cuda if name.value == "cuda" else environment.torch.hip)
    return name, name if name.is_unknown else absent(name.note)


def _backend_of_plain_torch(environment: Environment, name: Fact[str]) -> tuple[Fact[str], Fact[Any]]:
    """A torch without CUDA, ROCm or XPU: Metal on a Mac, CANN with torch-npu, otherwise the CPU."""
    nothing = absent(name.note)
    if environment.system.os.value == "darwin":
        if environment.system.machine.value == "arm64":
            return known("metal", "torch on an Apple chip"), nothing
        return unknown("whether torch's MPS backend is available on this Mac"), nothing
    if environment.packages.get("torch-npu").version.is_known:
        return known("cann", "torch-npu is installed"), unknown("torch-npu does not say its CANN version in files")
    return name, nothing


def _backend_without_torch(environment: Environment) -> tuple[Fact[str], Fact[Any]]:
    """Without torch, a libcudart that the loader finds makes the machine a CUDA one, GPU or not."""
    cudart = environment.toolkit.cudart
    if cudart.is_absent:
        return known("cpu", cudart.note), absent(cudart.note)
    if cudart.value is None:
        return cudart, cudart
    found = _CUDART.search(cudart.value) or _CUDA_FOLDER.search(cudart.value)
    version = known((int(found[1]), int(found[2])), cudart.note) if found else unknown(f"release of {cudart.value}")
    return known("cuda", cudart.note), version


def _installed(environment: Environment, package: str) -> Fact[bool]:
    """Whether a torch plug-in is there. Where packages were not listed in full, a rare plug-in counts as not there."""
    version = environment.packages.get(package).version
    if version.is_known:
        return known(True, version.note)
    return known(False, version.note if version.is_absent else "assumed: no sign of it")


def _macos(environment: Environment) -> Fact[Any]:
    system = environment.system
    if system.os.is_known and system.os.value != "darwin":
        return absent(f"not a Mac: {system.os.value}")
    if found := _MACOS.search(system.distribution.value or ""):
        return known((int(found[1]), int(found[2] or 0)), system.distribution.note)
    if system.os.value == "darwin" and (darwin := _numbers(system.kernel)).value:
        return _macos_of(darwin.value[0], system.kernel.note)
    return unknown("the macOS release")


def _macos_of(darwin: int, source: str) -> Fact[Any]:
    """The macOS of a Darwin kernel: 20 to 24 are macOS 11 to 15, and 25 is macOS 26."""
    if darwin < 20:
        return unknown(f"Darwin {darwin} is older than macOS 11")
    return known((darwin - 9 if darwin < 25 else darwin + 1, 0), source)


def _free_threaded(environment: Environment) -> Fact[bool]:
    python = environment.python
    if python.free_threaded.value is not True:
        return python.free_threaded
    version = _numbers(python.version)
    if version.value is None:
        return unknown("the release of a free-threaded Python")
    return known(version.value < (3, 15), python.free_threaded.note)


def _xpu_numbers(fact: Fact[str]) -> Fact[Any]:
    """The oneAPI release, cut as the library cuts it: of "20250302" the first four digits and the sixth."""
    if fact.value is None:
        return fact
    year, minor = fact.value[:4], fact.value[5:6]
    if not (year + minor).isdecimal() or not minor:
        return unknown(f"no oneAPI release in {fact.value[:60]!r}")
    return known((int(year), int(minor)), fact.note)


def _numbers(fact: Fact[str]) -> Fact[Any]:
    """Major and minor part of a version fact."""
    if fact.value is None:
        return fact
    found = _RELEASE.match(fact.value)
    if found is None:
        return unknown(f"no release number in {fact.value[:60]!r}")
    return known((int(found[1]), int(found[2])), fact.note)
