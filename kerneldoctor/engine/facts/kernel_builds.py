"""What is known of the build of a Hub kernel that a question is about: GPU code, dependencies, known faults.

Faults are keyed by build id or commit, never by branch: one revision can hold a good binary for one CUDA and a bad
one for another. Rests on kernel_faults.toml.
"""

from __future__ import annotations

import re

from ...archs import supports_gpu
from ...environment import Fact, absent, known, unknown
from ..case import Case, Row, derived

# Names in metadata.json -> distribution, where the two differ (kernels' python_depends.json, read in 0.17.2).
_DEPENDS = {"tvm-ffi": "apache-tvm-ffi", "onednn": "onednn-devel"}


@derived("kernel.supports_gpu", bool)
def build_supports_gpu(case: Case) -> Fact[bool]:
    """Whether the build holds code for the GPU of an `each = "gpus"` rule, by the architectures in its metadata.

    Absent where the build lists none, as Triton kernels do.
    """
    archs, capability = case.fact("kernel.archs"), case.fact("gpu.capability")
    if archs.is_absent or (archs.is_known and not archs.value):
        return absent("the build lists no architectures")
    for fact in (archs, capability):
        if not fact.is_known:
            return fact if fact.is_absent else unknown(fact.note)
    answer = supports_gpu(archs.value or (), str(capability.value))
    return known(answer, archs.note) if answer is not None else unknown(f"{archs.value} is not understood")


@derived("kernel.missing_python_depends", tuple[str, ...])
def missing_python_depends(case: Case) -> Fact[tuple[str, ...]]:
    """Python distributions that the build declares and that are not installed; absent where none is missing."""
    depends = case.fact("kernel.python_depends")
    if not depends.is_known:
        return absent("no dependencies") if depends.is_absent else unknown(depends.note)
    names = [_distribution(declared) for declared in depends.value or ()]
    if not all(names):
        return unknown(f"{depends.value} is not understood")
    versions = {name: case.fact(f"packages.{name}.version") for name in names}
    missing = tuple(name for name, version in versions.items() if version.is_absent)
    if missing:
        return known(missing, depends.note)
    doubt = next((name for name, version in versions.items() if version.is_unknown), None)
    return absent("all are installed") if doubt is None else unknown(f"whether {doubt} is installed is not known")


def _distribution(declared: str) -> str:
    """The normalised distribution of a declared dependency; "" where it is none (metadata is somebody else's)."""
    name = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", declared.strip())
    text = re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
    return _DEPENDS.get(text, text)


@derived("kernel.stale_build_fault", str)
def stale_build_fault(case: Case) -> Fact[str]:
    """The wrong results (or crash) that this build is known for, fixed in a later build of the same version.

    Unknown where the version had such builds and this one is not told apart; absent where none is on record.
    Source: kernel_faults.toml.
    """
    repo = case.fact("kernel.repo")
    if not repo.is_known:
        return repo if repo.is_absent else unknown(repo.note)
    rows = [row for row in case.table("kernel_faults") if row["repo"] == repo.value and _same_version(case, row)]
    for row in rows:
        if _is_bad(case, row):
            return known(row["fault"], row["source"])
    rows = [row for row in rows if not row.get("only_listed", False)]
    if not rows:
        return absent(f"no fault of {repo.value} is on record for this version")
    text = "; ".join(f"{row['fault']} (fixed {row['fixed']})" for row in rows)
    return unknown(f"whether this build is older than the fix is not known: {text}")


def _same_version(case: Case, row: Row) -> bool:
    """Whether a row may be about the version asked for; a row without versions is about all of them."""
    version, backend = case.fact("kernel.version"), case.fact("kernel.backend")
    if version.is_known and "versions" in row and version.value not in row["versions"]:
        return False
    return not (backend.is_known and "backend" in row and backend.value != row["backend"])


def _is_bad(case: Case, row: Row) -> bool:
    commit, build = case.fact("kernel.commit"), case.fact("kernel.build_id")
    listed = any(str(commit.value).startswith(bad) for bad in row.get("commits", ())) if commit.is_known else False
    return listed or (build.is_known and build.value in row.get("build_ids", ()))
