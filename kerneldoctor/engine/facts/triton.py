"""Triton against the GPU: which assembler it brings, and where a newer one is. Pure functions over facts.

Since 3.6 Triton brings a second assembler for Blackwell, `ptxas-blackwell`, which has a variable of its own:
https://github.com/triton-lang/triton/issues/10331
"""

from __future__ import annotations

from packaging.version import Version

from ...environment import Fact, Nvcc, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range
from .torch import wheel_from

# The first assembler for a compute capability, and the first torch release whose Triton has it. 12.1 and 10.3 came
# with CUDA 12.9, Thor was called 10.1 before CUDA 13.0.
_FIRST = (("==11.0", "13.0", "2.12"), ("==10.3", "12.9", "2.10"), ("==12.1", "12.9", "2.10"), (">=10", "12.8", "2.7"))
# What the wheels hold: https://github.com/triton-lang/triton/issues/10331; before 3.3 nothing for 10.0 and newer.
_BROUGHT = (("<3.3.dev0", "12.4"), ("<3.6.dev0", "12.8"), ("<3.7.dev0", "12.9"), (">=3.7.dev0", "13.1"))
_TAKES_ANOTHER = ">=3.3.dev0,<3.6.dev0"  # older ones generate nothing for Blackwell, whatever assembles it
_NVCC = "/bin/nvcc"


@derived("gpu.triton_assembles", bool)
def triton_assembles(case: Case) -> Fact[bool]:
    """Whether the assembler that Triton would call knows this GPU. Absent for a hidden GPU and without CUDA or Triton.

    TRITON_PTXAS_PATH counts from 3.3 to 3.5: torch.triton_ptxas_version is that of the program it names.
    """
    asks = _asked(case)
    if isinstance(asks, Fact):
        return asks
    needed, triton = asks
    brought = next((release for bound, release in _BROUGHT if in_range(triton, bound)), None)
    if brought is None:
        return unknown(f"packages.triton.version {triton!r} is no version")
    chosen = case.fact("torch.triton_ptxas_version")
    if chosen.is_known and in_range(triton, _TAKES_ANOTHER) and in_range(chosen.value, f">={needed}"):
        return known(True, chosen.note)
    return known(
        in_range(brought, f">={needed}") is True, f"Triton {triton} brings ptxas {brought}, {needed} is needed"
    )


def _asked(case: Case) -> tuple[str, str] | Fact[bool]:
    """The assembler that the GPU needs and the release of Triton, or the fact that answers at once."""
    capability, triton = case.fact("gpu.capability"), case.fact("packages.triton.version")
    system, backend = case.fact("system.os"), case.fact("torch.backend")
    if (system.is_known and system.value != "linux") or (backend.is_known and backend.value != "cuda"):
        return absent("no Triton of CUDA's torch on Linux")
    for fact in (capability, triton):
        if fact.is_absent:
            return absent(fact.note)
    if not capability.is_known:
        return unknown(capability.note)
    needed = _needed(str(capability.value))
    if needed is None:
        return known(True, "every Triton knows GPUs before 10.0")
    return (needed[0], str(triton.value)) if triton.is_known else unknown(f"packages.triton.version: {triton.note}")


def _needed(capability: str) -> tuple[str, str] | None:
    return next(((ptxas, torch) for bound, ptxas, torch in _FIRST if in_range(capability, bound)), None)


@derived("gpu.ptxas_for_triton", str)
def ptxas_for_triton(case: Case) -> Fact[str]:
    """A ptxas of this machine that knows this GPU: the one beside the newest nvcc, as every toolkit has it."""
    capability, nvccs = case.fact("gpu.capability"), case.fact("toolkit.nvccs")
    for fact in (capability, nvccs):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    needed = (_needed(str(capability.value)) or ("0", ""))[0]
    listed: tuple[Nvcc, ...] = nvccs.value or ()
    fitting = [nvcc for nvcc in listed if nvcc.path.endswith(_NVCC) and in_range(nvcc.version, f">={needed}")]
    if not fitting:
        return absent(f"no toolkit of CUDA {needed} or newer: {nvccs.note}")
    newest = max(fitting, key=lambda nvcc: Version(nvcc.version))
    return known(newest.path.removesuffix("nvcc") + "ptxas", f"nvcc {newest.version}")


@derived("gpu.torch_for_triton", str)
def torch_for_triton(case: Case) -> Fact[str]:
    """What to give to pip for the nearest torch whose Triton assembles for this GPU and that fits this machine."""
    capability = case.fact("gpu.capability")
    if not capability.is_known:
        return capability
    needed = _needed(str(capability.value))
    found = wheel_from(case, needed[1]) if needed else None
    return known(found, "tables torch_releases, torch_wheels") if found else absent("no wheel of the tables fits")
