"""The CUDA toolkit and its host compiler against torch. Pure functions over facts and tables."""

from __future__ import annotations

from ...environment import Fact, Nvcc, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range, major_of, parse_version
from .driver import gpu_capability, visible_nvidia_gpus

_NVCC = "/bin/nvcc"
# The first nvcc that compiles for a GPU or one that runs the same code (12.0 for 12.1), newest first. Older ones do
# for what is not listed: https://docs.nvidia.com/cuda/archive/12.8.0/cuda-toolkit-release-notes/ and 13.0.0.
_FIRST_NVCC = ((">=12", "12.8"), (">=11", "13.0"), (">=10", "12.8"), (">=8.9", "11.8"))


@derived("toolkit.same_major_as_torch", bool)
def same_major_as_torch(case: Case) -> Fact[bool]:
    """Whether nvcc and torch are of one CUDA major release; torch refuses to build an extension otherwise."""
    nvcc, cuda = case.fact("toolkit.nvcc_version"), case.fact("torch.cuda")
    for fact in (nvcc, cuda):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    one, other = major_of(nvcc.value), major_of(cuda.value)
    if one is None or other is None:
        return unknown(f"{nvcc.value!r} or {cuda.value!r} is no CUDA release")
    return known(one == other, "toolkit.nvcc_version, torch.cuda")


@derived("toolkit.cuda_home_for_torch", str)
def cuda_home_for_torch(case: Case) -> Fact[str]:
    """CUDA_HOME with whose nvcc an extension can be compiled here: of torch's CUDA major, new enough for the GPUs.

    The nvcc in force where it will do, else the newest of the machine. torch refuses another major release.
    Source: torch/utils/cpp_extension.py.
    """
    cuda, listed = case.fact("torch.cuda"), _nvccs(case)
    for fact in (cuda, listed):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    compilers: tuple[Nvcc, ...] = listed.value or ()
    fitting = [nvcc for nvcc in compilers if nvcc.path.endswith(_NVCC) and _compiles(case, nvcc, str(cuda.value))]
    if not fitting:
        return absent(f"no nvcc of CUDA {str(cuda.value).partition('.')[0]} that knows the GPUs: {listed.note}")
    chosen = fitting[0] if fitting[0] == compilers[0] else max(fitting, key=lambda nvcc: _release(nvcc.version))
    return known(chosen.path.removesuffix(_NVCC), f"nvcc {chosen.version}")


def _nvccs(case: Case) -> Fact[tuple[Nvcc, ...]]:
    """The compilers of the machine, the one in force first. A pasted report names the version of that one at best."""
    listed, version = case.fact("toolkit.nvccs"), case.fact("toolkit.nvcc_version")
    if listed.is_unknown and version.is_known:
        return known((Nvcc(f'"${{CUDA_HOME:-/usr/local/cuda}}"{_NVCC}', str(version.value)),), version.note)
    return listed


def _compiles(case: Case, nvcc: Nvcc, cuda: str) -> bool:
    """Whether its code would fit this torch and every visible GPU; one of which nothing is known asks for nothing."""
    if nvcc.version.partition(".")[0] != cuda.partition(".")[0]:
        return False
    capabilities = [gpu_capability(gpu, case) for gpu in visible_nvidia_gpus(case).value or ()]
    return all(_knows(nvcc, str(capability.value)) for capability in capabilities if capability.is_known)


def _knows(nvcc: Nvcc, capability: str) -> bool:
    first = next((release for bound, release in _FIRST_NVCC if in_range(capability, bound)), "0")
    return in_range(nvcc.version, f">={first}") is True


def _release(text: str) -> tuple[int, ...]:
    version = parse_version(text)
    return version.release if version else (0,)


@derived("toolkit.newest_gcc", str)
def newest_gcc(case: Case) -> Fact[str]:
    """The newest GCC major release that the installed nvcc accepts (nvcc_hosts), "13"."""
    nvcc = case.fact("toolkit.nvcc_version")
    if not nvcc.is_known:
        return absent(nvcc.note) if nvcc.is_absent else unknown(nvcc.note)
    release = ".".join(str(nvcc.value).split(".")[:2])
    row = next((row for row in case.table("nvcc_hosts") if row["cuda"] == release), None)
    return known(row["gcc"], f"table nvcc_hosts, CUDA {release}") if row else unknown(f"CUDA {release} is not listed")


@derived("toolkit.gcc_too_new", bool)
def gcc_too_new(case: Case) -> Fact[bool]:
    """Whether nvcc refuses the C compiler that is found first. Absent where that one is not GCC or there is no nvcc."""
    limit, compiler = case.fact("toolkit.newest_gcc"), case.fact("python.c_compiler")
    version = case.fact("python.c_compiler_version")
    for fact in (limit, compiler, version):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    if "clang" in str(compiler.value):
        return absent("the C compiler is clang")
    parsed = parse_version(str(version.value).split(" ")[0])
    if parsed is None:
        return unknown(f"{version.value!r} is no version")
    return known(parsed.major > int(str(limit.value)), limit.note)
