"""Looks at the C and C++ runtime libraries in force and at those that variables put first. It loads none of them."""

from __future__ import annotations

import mmap
import re
from typing import cast

from ..environment import Fact, LibraryOverride, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists
from .loader import FAMILIES, find_library, list_folder, path_entries, stem
from .scene import Target

_LIBSTDCXX = "libstdc++.so.6"
_GLIBCXX = re.compile(rb"GLIBCXX_(3(?:\.[0-9]{1,3}){1,2})\0")
_MUSL_TIME_LIMIT = 1.0  # seconds


def libc(host: Host, confstr: str | None) -> tuple[Fact[str], Fact[str]]:
    """Name and version of the C library; `confstr` is what `CS_GNU_LIBC_VERSION` gave ("glibc 2.36")."""
    name, _, version = (confstr or "").partition(" ")
    if name == "glibc" and version:
        source = "confstr CS_GNU_LIBC_VERSION"
        return known("glibc", source), known(version, source)
    loader = next((f"/lib/{n}" for n in list_folder(host, "/lib") if n.startswith("ld-musl-")), None)
    if loader is None:
        reason = "neither glibc nor musl answered"
        return unknown(reason), unknown(reason)
    # Its loader prints the version when it is started without a program; no file holds it.
    found = re.search(r"^Version (\S+)", host.run((loader,), _MUSL_TIME_LIMIT).stderr, re.MULTILINE)
    return known("musl", loader), known(found[1], loader) if found else unknown(f"{loader} did not say its version")


def glibcxx(host: Host, target: Target) -> Fact[str]:
    """The newest GLIBCXX version of the libstdc++ that an extension module of the target would get."""
    path = _libstdcxx(host, target)
    if path is None:
        return absent(f"no {_LIBSTDCXX} on LD_LIBRARY_PATH, in the interpreter's prefix or in a system folder")
    try:
        version = host.observe("glibcxx", path, lambda: newest_glibcxx(path))
    except ProbeError as error:
        return unknown(str(error))
    return known(cast(str, version), path) if version else unknown(f"{path} names no GLIBCXX version")


def _libstdcxx(host: Host, target: Target) -> str | None:
    system = find_library(host, _LIBSTDCXX)
    if system and system.by == "LD_LIBRARY_PATH":
        return system.path
    # conda's python carries an RPATH to its own lib, which comes before the loader's cache.
    for prefix in dict.fromkeys((target.prefix, target.base_prefix)):
        if exists(host, f"{prefix}/conda-meta") and exists(host, f"{prefix}/lib/{_LIBSTDCXX}"):
            return f"{prefix}/lib/{_LIBSTDCXX}"
    return system.path if system else None


def newest_glibcxx(path: str) -> str | None:
    """The highest GLIBCXX_3.4.x in the version strings of a libstdc++. Raises ProbeError."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            versions = {match[1].decode() for match in _GLIBCXX.finditer(data)}
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise ProbeError(f"{path}: {error}") from None
    return max(versions, key=lambda v: [int(n) for n in v.split(".")], default=None)


def overrides(host: Host) -> Fact[tuple[LibraryOverride, ...]]:
    """GPU and C++ runtime libraries that LD_PRELOAD and LD_LIBRARY_PATH put before those of the wheels."""
    found = [*_preloaded(host), *_on_library_path(host)]
    if found:
        return known(tuple(found), "LD_PRELOAD, LD_LIBRARY_PATH")
    named = [v for v in ("LD_PRELOAD", "LD_LIBRARY_PATH") if host.environ.get(v)]
    return absent(f"{' and '.join(named)}: no such library" if named else "LD_LIBRARY_PATH and LD_PRELOAD are not set")


def _preloaded(host: Host) -> list[LibraryOverride]:
    files = re.split(r"[:\s]+", host.environ.get("LD_PRELOAD", ""))
    families = ((file, FAMILIES.get(stem(file.rpartition("/")[2]))) for file in files)
    return [LibraryOverride("LD_PRELOAD", file, family) for file, family in families if family]


def _on_library_path(host: Host) -> list[LibraryOverride]:
    """One entry a library and folder: the file that programs ask for, not every link to it."""
    found: list[LibraryOverride] = []
    for folder in path_entries(host.environ.get("LD_LIBRARY_PATH")):
        names: dict[str, str] = {}
        for name in list_folder(host, folder):
            library = stem(name)
            # libcudart.so is for the linker, libcudart.so.12 is asked for, libcudart.so.12.8.90 is behind it.
            if library in FAMILIES and name.count(".") > library.count(".") + 1:
                names[library] = min(names.get(library, name), name, key=lambda n: (n.count("."), n))
        found += [LibraryOverride("LD_LIBRARY_PATH", f"{folder}/{n}", FAMILIES[k]) for k, n in names.items()]
    return found
