"""The libraries that torch brings, against others that come first or lie over them. Pure functions over facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from ...environment import Fact, LibraryOverride, absent, known, unknown
from ..case import Case, derived
from ..conditions import parse_version

# Companions whose cu12 and cu13 wheels hold the very same file, nvidia/<folder>/lib/lib<name>.so.N, so that the one
# installed last is in force and uninstalling either breaks both. Read from the wheels of nvidia-nccl 2.32.3 and
# nvidia-cusparselt 0.7.1 and 0.8.0 on PyPI; the others of CUDA 13 lie apart, in nvidia/cu13.
_ONE_FOLDER = ("nvidia-cudnn", "nvidia-nccl", "nvidia-cusparselt", "nvidia-nvshmem")
_FOLDER_VERSION = re.compile(r"/(?:cuda|CUDA)[-_/]v?(\d{1,2}\.\d{1,2})(?:[./]|$)")
_FILE_VERSION = re.compile(r"\.so\.(\d{1,2}\.\d{1,2})")


@derived("torch.clashing_companions", tuple[str, ...])
def clashing_companions(case: Case) -> Fact[tuple[str, ...]]:
    """Libraries of torch that are installed for two CUDA releases over the same file. Absent where none is."""
    doubled = case.fact("torch.duplicate_companions")
    if doubled.is_unknown:
        return unknown(f"torch.duplicate_companions: {doubled.note}")
    found = tuple(entry for entry in doubled.value or () if entry.partition(":")[0].strip() in _ONE_FOLDER)
    return known(found, doubled.note) if found else absent(doubled.note or "none is doubled")


@derived("torch.companions_not_installed", tuple[str, ...])
def companions_not_installed(case: Case) -> Fact[tuple[str, ...]]:
    """Libraries that torch's metadata requires and that are not installed at all. Absent where none is."""
    missing = case.fact("torch.missing_companions")
    if missing.is_unknown:
        return unknown(f"torch.missing_companions: {missing.note}")
    found = tuple(e for e in missing.value or () if e.startswith("nvidia-") and "not installed" in e)
    return known(found, missing.note) if found else absent(missing.note or "none is missing")


@derived("torch.metadata_versions", str)
def metadata_versions(case: Case) -> Fact[str]:
    """The versions of torch's metadata folders where there is more than one, "2.8.0, 2.9.1"; absent otherwise."""
    doubled = case.fact("requirements.duplicates")
    if doubled.is_unknown:
        return unknown(f"requirements.duplicates: {doubled.note}")
    found = next((entry for entry in doubled.value or () if entry.split(" ")[0] == "torch"), None)
    return known(found.removeprefix("torch "), doubled.note) if found else absent("one metadata folder or none")


@derived("torch.older_nvjitlink", str)
def older_nvjitlink(case: Case) -> Fact[str]:
    """A libnvJitLink of an older CUDA release of the same major that LD_LIBRARY_PATH or LD_PRELOAD puts first."""
    cuda = case.fact("torch.cuda")
    if not cuda.is_known:
        return absent(cuda.note) if cuda.is_absent else unknown(f"torch.cuda: {cuda.note}")
    wanted = parse_version(str(cuda.value))
    found = _foreign(case, "nvjitlink", f".so.{str(cuda.value).partition('.')[0]}")
    if isinstance(found, Fact) or wanted is None:
        return found if isinstance(found, Fact) else unknown(f"torch.cuda {cuda.value!r} is no version")
    for override in found:
        version = _cuda_release(case, override.path)
        if version is None:
            return unknown(f"the CUDA release of {override.path} cannot be told from its path")
        if version < Version(f"{wanted.major}.{wanted.minor}"):
            return known(override.path, f"{override.variable}; CUDA {version}")
    return absent("no older libnvJitLink comes first")


@derived("torch.foreign_cudnn", str)
def foreign_cudnn(case: Case) -> Fact[str]:
    """A cuDNN 9 outside of torch's wheels that LD_LIBRARY_PATH or LD_PRELOAD puts first; absent where none does."""
    return _first(_foreign(case, "cudnn", ".so.9"))


@derived("torch.foreign_nccl", str)
def foreign_nccl(case: Case) -> Fact[str]:
    """An NCCL outside of torch's wheels that LD_LIBRARY_PATH or LD_PRELOAD puts first; absent where none does."""
    return _first(_foreign(case, "nccl", ".so.2"))


def _first(found: Fact[str] | tuple[LibraryOverride, ...]) -> Fact[str]:
    if isinstance(found, Fact):
        return found
    return known(found[0].path, found[0].variable) if found else absent("none comes first")


def _foreign(case: Case, family: str, suffix: str) -> Fact[str] | tuple[LibraryOverride, ...]:
    """Overrides of one family that a wheel of torch would take by name, or a fact that says why none can be named."""
    backend, overrides = case.fact("torch.backend"), case.fact("system.library_overrides")
    if backend.is_absent or (backend.is_known and backend.value != "cuda"):
        return absent(backend.note or f"torch is a {backend.value} build")
    if case.fact("torch.installer").value == "conda":
        return absent("conda's torch brings no libraries of its own")
    if overrides.is_unknown:
        return unknown(f"system.library_overrides: {overrides.note}")
    chosen = tuple(_of_family(overrides.value or (), family, suffix))
    if chosen and backend.is_unknown:
        return unknown(f"torch.backend: {backend.note}")
    return chosen


def _of_family(overrides: tuple[LibraryOverride, ...], family: str, suffix: str) -> Iterator[LibraryOverride]:
    for override in overrides:
        # A path into the wheels' own folders is the usual way to lend them to other programs.
        if override.family == family and suffix in override.path and "/site-packages/nvidia/" not in override.path:
            yield override


def _cuda_release(case: Case, path: str) -> Version | None:
    """The CUDA release that a library belongs to, by its folder, its file name, or the nvcc beside it."""
    for pattern in (_FOLDER_VERSION, _FILE_VERSION):
        if found := pattern.search(path):
            return Version(found[1])
    for nvcc in case.fact("toolkit.nvccs").value or ():
        if path.startswith(nvcc.path.removesuffix("/bin/nvcc") + "/"):
            return parse_version(nvcc.version)
    return None
