"""Tells which file the dynamic loader would take for a library name, from files alone. It loads nothing.

Order of the loader, as far as it can be known before an object asks (ld.so(8)): LD_LIBRARY_PATH, the cache
`/etc/ld.so.cache`, the default folders. RPATH belongs to the object that asks and is not modelled here.
The cache is read as a file: `ldconfig -p` prints the same table but costs a process and is missing on small images.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..errors import ProbeError
from ..host import Host, exists
from ..values import dataclass

CACHE = "/etc/ld.so.cache"
DEFAULT_FOLDERS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
)
# Library name (before ".so") -> the family that reports speak of.
FAMILIES = {
    "libcudart": "cuda",
    "libnvrtc": "cuda",
    "libcuda": "libcuda",
    "libcudnn": "cudnn",
    "libnccl": "nccl",
    "libnvJitLink": "nvjitlink",
    "libcublas": "cublas",
    "libcublasLt": "cublas",
    "libstdc++": "libstdc++",
}
_CACHED_STEMS = frozenset({*FAMILIES, "libnvidia-ml"})
_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_LIMIT = 16 * 1024 * 1024  # bytes; the largest seen is under 1 MiB


@dataclass(frozen=True, slots=True)
class Located:
    """A library file and who leads the loader to it."""

    path: str
    by: str  # LD_LIBRARY_PATH | loader cache | default folder


def stem(file_name: str) -> str:
    """`libcudart.so.12` and `libcudart.so` are both `libcudart`; a file that is no shared library is ""."""
    name, dot, rest = file_name.partition(".so")
    version_only = rest.replace(".", "").isdecimal() and rest.startswith(".")  # not libstdc++.so.6.0.30-gdb.py
    return name if dot and (not rest or version_only) else ""


def path_entries(value: str | None) -> tuple[str, ...]:
    """The folders of a colon-separated search path, without empty and relative ones, each once."""
    folders = (entry.rstrip("/") or "/" for entry in (value or "").split(":") if entry.startswith("/"))
    return tuple(dict.fromkeys(folders))


def cached_libraries(host: Host) -> Mapping[str, tuple[str, ...]]:
    """GPU and C++ runtime libraries in the loader's cache: name -> files, first choice first. Raises ProbeError."""
    table = host.observe("loader_cache", CACHE, lambda: _read_cache(CACHE))
    return {name: tuple(paths) for name, paths in cast("dict[str, list[str]]", table).items()}


def find_library(host: Host, soname: str) -> Located | None:
    """The file for an exact name such as `libcuda.so.1`."""
    for folder in path_entries(host.environ.get("LD_LIBRARY_PATH")):
        if exists(host, f"{folder}/{soname}"):
            return Located(f"{folder}/{soname}", "LD_LIBRARY_PATH")
    for path in _cached(host).get(soname, ()):
        if exists(host, path):
            return Located(path, "loader cache")
    for folder in DEFAULT_FOLDERS:
        if exists(host, f"{folder}/{soname}"):
            return Located(f"{folder}/{soname}", "default folder")
    return None


def find_newest(host: Host, library: str) -> Located | None:
    """The versioned file of a library such as `libcudart` whose name carries the highest number.

    The first place of the loader's order that has any is the one that counts.
    """
    for folder in path_entries(host.environ.get("LD_LIBRARY_PATH")):
        if best := _newest(f"{folder}/{name}" for name in list_folder(host, folder) if _is_versioned(name, library)):
            return Located(best, "LD_LIBRARY_PATH")
    cached = _cached(host)
    if best := _newest(p for name, paths in cached.items() if _is_versioned(name, library) for p in paths):
        return Located(best, "loader cache")
    for folder in DEFAULT_FOLDERS:
        if best := _newest(f"{folder}/{name}" for name in list_folder(host, folder) if _is_versioned(name, library)):
            return Located(best, "default folder")
    return None


def list_folder(host: Host, folder: str) -> tuple[str, ...]:
    """Names in a folder; nothing where it cannot be listed (a search path may name folders that are not there)."""
    try:
        return host.listdir(folder)
    except ProbeError:
        return ()


def _cached(host: Host) -> Mapping[str, tuple[str, ...]]:
    try:
        return cached_libraries(host)
    except ProbeError:  # musl and NixOS have none; the folders still answer
        return {}


def _is_versioned(name: str, library: str) -> bool:
    return stem(name) == library and not name.endswith(".so")


def _newest(paths: Iterator[str]) -> str | None:
    return max(paths, key=_soname_rank, default=None)


def _soname_rank(path: str) -> tuple[int, int, str]:
    """By the first number after `.so`; among equals the shortest name, which is the one that programs ask for."""
    first, *rest = path.rpartition(".so.")[2].split(".")
    return (int(first) if first.isdecimal() else -1, -len(rest), path)


def _read_cache(path: str) -> dict[str, list[str]]:
    try:
        with open(path, "rb") as file:
            data = file.read(_CACHE_LIMIT)
    except OSError as error:
        raise ProbeError(f"{path}: {error.strerror}") from None
    return parse_cache(data)


@functools.lru_cache(maxsize=1)  # several probes ask for libraries, and a cache has thousands of entries
def parse_cache(data: bytes) -> dict[str, list[str]]:
    """The libraries of interest in the bytes of a loader cache of glibc 2.2 or newer. Raises ProbeError."""
    start = data.find(_MAGIC)  # an older table may come first
    if start < 0:
        raise ProbeError(f"{CACHE} is in no known form")
    body = memoryview(data)[start:]
    try:
        (count,) = struct.unpack_from("<I", body, 20)
        entries = struct.iter_unpack("<iIIIQ", body[48 : 48 + 24 * min(count, len(body) // 24)])
        return _interesting(entries, bytes(body))
    except (struct.error, ValueError):
        raise ProbeError(f"{CACHE} is damaged") from None


def _interesting(entries: Iterator[tuple[Any, ...]], body: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for flags, key, value, _, _ in entries:
        if not flags & 0xFF00:  # 32-bit library on a 64-bit machine
            continue
        name = body[key : body.index(b"\0", key)].decode("utf-8", "replace")
        if stem(name) in _CACHED_STEMS:
            target = body[value : body.index(b"\0", value)].decode("utf-8", "replace")
            found.setdefault(name, []).append(target)
    return found
