"""Judges one build for one machine under the rules of one `kernels` release; sorts and chooses nothing.

`problems` goes through the release's own checks in its own order. A `Reason` says why the build is refused, a
`Missing` says which fact a check would have needed. Source of each check: the packages named in eras.py.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from ..environment import Fact, absent, known, unknown
from ..values import dataclass
from .eras import Feature, Rules, first_release
from .system import FACT_PATHS, SystemDescription
from .variant import Framework, Numbers, Variant, backend_tag

T = TypeVar("T")
MACOS_FOR_METAL: Numbers = (26, 0)  # kernels 0.17: Metal builds are compiled with -std=metal4.0


class ReasonCode(enum.Enum):
    """Why a build is refused. `wanted` and `found` of a Reason are what the build and the machine say."""

    NAME_NOT_READ = "name_not_read"  # wanted, found: kernels releases
    NAME_NOT_CANONICAL = "name_not_canonical"  # wanted: the name that is asked for
    RELEASE_WITHOUT_BACKEND = "release_without_backend"  # this kernels release raises on such a torch
    TORCH_MISSING = "torch_missing"
    FREE_THREADED = "free_threaded"
    MACHINE = "machine"
    OS = "os"
    TORCH_VERSION = "torch_version"
    ABI = "cxx11_abi"
    STABLE_ABI_TOO_NEW = "stable_abi_too_new"
    TVM_FFI_VERSION = "tvm_ffi_version"
    CUDA_MAJOR = "cuda_major"
    CUDA_TOO_NEW = "cuda_too_new"
    CUDA_NOT_EXACT = "cuda_not_exact"  # before kernels 0.13 an older CUDA minor release does not do
    BACKEND = "backend"
    MACOS = "macos"


@dataclass(frozen=True, slots=True)
class Reason:
    """The one reason why a build is refused, as data; the words are the report's."""

    code: ReasonCode
    wanted: str
    found: str
    without_torch: bool = False  # no torch is installed: what was found is what kernels makes of the machine then


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that a check needs and that is unknown."""

    fact: str  # its path in the Environment, "torch.cuda"
    why: str


Problem = Reason | Missing


def problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    """What stands against taking the build, in the order in which the release would meet it. Empty: accepted."""
    for problem in _problems(variant, system, rules):
        yield replace(problem, without_torch=system.torch.is_absent) if isinstance(problem, Reason) else problem


def _problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    unread = _unread(variant, rules)
    if unread is not None:
        yield unread
    elif not rules.has(Feature.READS_NAMES):
        yield from _exact_name_problems(variant, system, rules)
    elif variant.is_noarch:
        yield from _noarch_problems(variant, system, rules)
    else:
        yield from _compiled_problems(variant, system, rules)


def _unread(variant: Variant, rules: Rules) -> Reason | None:
    """Names that came in later: older releases skip such folders without a word."""
    needs = {
        Framework.TORCH_STABLE_ABI: Feature.STABLE_ABI,
        Framework.TVM_FFI: Feature.TVM_FFI,
    }.get(variant.framework)
    if variant.backend == "tpu" and not variant.is_noarch:
        needs = Feature.TPU
    if variant.is_noarch and variant.backend != "universal":
        needs = Feature.NOARCH
    if needs is None or rules.has(needs):
        return None
    return Reason(ReasonCode.NAME_NOT_READ, first_release(needs), rules.release)


# --- kernels 0.13 and later: every folder is judged ---------------------------------------------------------------


def _noarch_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    if variant.backend == "universal":
        return
    name, _ = _backend_seen(system, rules)
    seen = known("npu", name.note) if name.value == "cann" else name
    yield from _unless(seen, "backend", lambda found: found == variant.backend, ReasonCode.BACKEND, variant.backend)


def _compiled_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    if rules.has(Feature.REFUSES_FREE_THREADED):
        yield from _free_threaded_problems(system.free_threaded)
    yield from _platform_problems(variant, system, rules)
    yield from _framework_problems(variant, system)
    yield from _backend_problems(variant, system, rules)


def _free_threaded_problems(free_threaded: Fact[bool]) -> Iterator[Problem]:
    if free_threaded.is_unknown:
        yield Missing(FACT_PATHS["free_threaded"], free_threaded.note)
    elif free_threaded.value:
        yield Reason(ReasonCode.FREE_THREADED, "abi3", "free-threaded")


def _platform_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    machine = _machine_seen(system, rules)
    yield from _unless(machine, "machine", lambda m: m == variant.machine, ReasonCode.MACHINE, variant.machine)
    yield from _unless(system.os, "os", lambda os: os == variant.os, ReasonCode.OS, variant.os)


def _framework_problems(variant: Variant, system: SystemDescription) -> Iterator[Problem]:
    built_for = variant.framework_version or (0, 0)
    wanted = _show(built_for)
    if variant.framework is Framework.TORCH_STABLE_ABI:
        too_new = ReasonCode.STABLE_ABI_TOO_NEW
        yield from _unless(system.torch, "torch", lambda found: built_for <= found, too_new, wanted)
    elif variant.framework is Framework.TVM_FFI:
        code = ReasonCode.TVM_FFI_VERSION
        yield from _unless(system.tvm_ffi, "tvm_ffi", lambda found: found == built_for, code, wanted)
    else:
        code = ReasonCode.TORCH_VERSION
        yield from _unless(system.torch, "torch", lambda found: found == built_for, code, wanted)
        if variant.cxx11 is not None:
            yield from _abi_problems(variant, system)


def _abi_problems(variant: Variant, system: SystemDescription) -> Iterator[Problem]:
    """The library asks torch for its ABI on Linux only, so that elsewhere a tagged name never fits."""
    seen = _abi_seen(system)
    if system.os.is_known and system.os.value != "linux":
        seen = absent(f"not asked for on {system.os.value}")
    wanted = _abi_tag(variant.cxx11)
    yield from _unless(seen, "cxx11", lambda found: found == wanted, ReasonCode.ABI, wanted)


def _backend_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    name, version = _backend_seen(system, rules)
    if name.value == variant.backend == "cuda":
        yield from _cuda_problems(variant.backend_version or (0, 0), version, system)
    else:
        yield from _tag_problems(variant, name, version, system)
    if name.value == variant.backend == "metal" and rules.has(Feature.METAL_NEEDS_MACOS_26):
        wanted = _show(MACOS_FOR_METAL)
        yield from _unless(system.macos, "macos", lambda found: found >= MACOS_FOR_METAL, ReasonCode.MACOS, wanted)


def _tag_problems(
    variant: Variant, name: Fact[str], version: Fact[Numbers], system: SystemDescription
) -> Iterator[Problem]:
    """Compare backends by name, as the library does: a torch's 7.14 and a folder's 71.4 are both rocm714."""
    wanted = variant.backend_tag
    if name.value is None:
        yield Missing(FACT_PATHS["backend"], name.note)
    elif name.value != variant.backend:
        yield Reason(ReasonCode.BACKEND, wanted, backend_tag(name.value, version.value))
    elif version.is_unknown and variant.backend_version is not None:
        yield Missing(FACT_PATHS[_version_field(system)], version.note)
    elif backend_tag(name.value, version.value) != wanted:
        code = ReasonCode.CUDA_NOT_EXACT if name.value == "cuda" else ReasonCode.BACKEND
        yield Reason(code, wanted, backend_tag(name.value, version.value))


def _cuda_problems(built_for: Numbers, version: Fact[Numbers], system: SystemDescription) -> Iterator[Problem]:
    field, wanted = _version_field(system), _show(built_for)
    major, minor = built_for
    yield from _unless(version, field, lambda found: found[0] == major, ReasonCode.CUDA_MAJOR, wanted)
    if version.is_known:
        yield from _unless(version, field, lambda found: found[1] >= minor, ReasonCode.CUDA_TOO_NEW, wanted)


# --- before kernels 0.13: up to three exact names are asked for ---------------------------------------------------

_BACKENDS_ASKED_FOR = {
    "rocm": (Feature.ROCM,),
    "metal": (Feature.METAL,),
    "xpu": (Feature.XPU, Feature.XPU_UNVERSIONED),
    "cann": (Feature.CANN,),
    "cpu": (Feature.CPU,),
}


def _exact_name_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    if system.torch.is_absent:
        yield Reason(ReasonCode.TORCH_MISSING, "torch", "none")
        return
    if system.torch.is_unknown:
        yield Missing(FACT_PATHS["torch"], system.torch.note)
    yield from _unless(
        system.backend,
        "backend",
        lambda name: name == "cuda" or any(map(rules.has, _BACKENDS_ASKED_FOR.get(name, ()))),
        ReasonCode.RELEASE_WITHOUT_BACKEND,
        rules.release,
    )
    if str(variant) != variant.name:
        yield Reason(ReasonCode.NAME_NOT_CANONICAL, str(variant), variant.name)
    elif variant.is_noarch:
        yield from _noarch_problems(variant, system, rules)
    else:
        yield from _exact_compiled_problems(variant, system, rules)


def _exact_compiled_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    built_for = variant.framework_version
    yield from _platform_problems(variant, system, rules)
    yield from _unless(
        system.torch, "torch", lambda found: found == built_for, ReasonCode.TORCH_VERSION, _show(built_for or (0, 0))
    )
    yield from _exact_abi_problems(variant, system, rules)
    version = system.backend_version
    if system.backend.value == "xpu" and not rules.has(Feature.XPU):
        version = absent("asked for without a number")
    yield from _tag_problems(variant, system.backend, version, system)


def _exact_abi_problems(variant: Variant, system: SystemDescription, rules: Rules) -> Iterator[Problem]:
    """The name asked for carries the tag, except on a Mac and, later, on Windows."""
    if system.os.is_unknown:
        return  # already missing
    untagged = system.os.value == "darwin" or (system.os.value == "windows" and rules.has(Feature.WINDOWS_NAMES))
    seen = known(_abi_tag(None), system.os.note) if untagged else _abi_seen(system)
    wanted = _abi_tag(variant.cxx11)
    yield from _unless(seen, "cxx11", lambda found: found == wanted, ReasonCode.ABI, wanted)


# --- what the release sees of the machine -------------------------------------------------------------------------


def _machine_seen(system: SystemDescription, rules: Rules) -> Fact[str]:
    machine, os = system.machine, system.os
    aliases = {"arm64": ("darwin", Feature.ARM64_IS_AARCH64), "AMD64": ("windows", Feature.WINDOWS_NAMES)}
    if machine.value not in aliases:
        return machine
    where, feature = aliases[machine.value]
    if os.is_unknown:
        return os
    if os.value != where or not rules.has(feature):
        return machine
    return known("aarch64" if machine.value == "arm64" else "x86_64", machine.note)


def _backend_seen(system: SystemDescription, rules: Rules) -> tuple[Fact[str], Fact[Numbers]]:
    """TPU and Neuron plug-ins come before what torch itself was built for."""
    plugins = ((Feature.TPU, "tpu", system.tpu), (Feature.NEURON, "neuron", system.neuron))
    for feature, name, fact in plugins:
        if system.torch.is_absent or not rules.has(feature):
            continue
        if fact.is_unknown:
            return unknown(fact.note), unknown(fact.note)
        if fact.value:
            return known(name, fact.note), absent(fact.note)
    return system.backend, system.backend_version


def _abi_seen(system: SystemDescription) -> Fact[str]:
    cxx11 = system.cxx11
    if cxx11.value is None:
        return absent(cxx11.note) if cxx11.is_absent else unknown(cxx11.note)
    return known(_abi_tag(cxx11.value), cxx11.note)


def _abi_tag(cxx11: bool | None) -> str:
    return "no tag" if cxx11 is None else "cxx11" if cxx11 else "cxx98"


def _version_field(system: SystemDescription) -> str:
    return "cudart" if system.torch.is_absent else f"{system.backend.value}_version"


def _unless(fact: Fact[T], field: str, fits: Callable[[T], bool], code: ReasonCode, wanted: str) -> Iterator[Problem]:
    """Nothing where the known value fits; otherwise why not, or that the fact is missing."""
    if fact.is_unknown:
        yield Missing(FACT_PATHS[field], fact.note)
    elif fact.value is None:
        yield Reason(code, wanted, "none")
    elif not fits(fact.value):
        yield Reason(code, wanted, _show(fact.value))


def _show(value: object) -> str:
    return ".".join(map(str, value)) if isinstance(value, tuple) else str(value)
