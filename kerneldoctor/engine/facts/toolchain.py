"""The CUDA toolkit and its host compiler against torch. Pure functions over facts and tables."""

from __future__ import annotations

from ...environment import Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import parse_version


@derived("toolkit.same_major_as_torch", bool)
def same_major_as_torch(case: Case) -> Fact[bool]:
    """Whether nvcc and torch are of one CUDA major release; torch refuses to build an extension otherwise."""
    nvcc, cuda = case.fact("toolkit.nvcc_version"), case.fact("torch.cuda")
    for fact in (nvcc, cuda):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    one, other = str(nvcc.value).partition(".")[0], str(cuda.value).partition(".")[0]
    return known(one == other, "toolkit.nvcc_version, torch.cuda")


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
