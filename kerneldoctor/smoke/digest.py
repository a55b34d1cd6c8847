"""Holds every file of a build to the digest in its metadata.json, and to what the Hub sent; imports nothing of it.

Digests are base64 of sha256 or sha512 over each file's bytes; metadata.json itself, its signature and byte code are
left out, and folders behind a link are not entered (tried with `Digest.hash_variant` of kernels 0.17.2). The cache of
huggingface_hub names each file by its own hash, which is looked at as well.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..hub.metadata import METADATA, Metadata

_NOT_COVERED = frozenset({METADATA, f"{METADATA}.sigstore"})
_HASH = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
_CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """One file that is not what it should be."""

    path: str  # within the build folder
    kind: str  # missing | unknown | changed | unreadable


def check_files(folder: Path, metadata: Metadata) -> tuple[Damage, ...]:
    """Every file that differs from the digest, or whose bytes are not those that the Hub sent."""
    found: list[Damage] = []
    listed = dict(metadata.digest or {})
    for path in sorted(_files(folder)):
        wanted = listed.pop(path, None)
        covered = metadata.digest is not None and path not in _NOT_COVERED
        if covered and wanted is None:
            found.append(Damage(path, "unknown"))
            continue
        try:
            same = _is_as_digested(folder / path, metadata.algorithm, wanted) if wanted else _is_as_sent(folder / path)
        except OSError:
            found.append(Damage(path, "unreadable"))
            continue
        if not same:
            found.append(Damage(path, "changed"))
    return (*found, *(Damage(path, "missing") for path in sorted(listed)))


def odd_files(folder: Path, base: Path) -> Iterator[tuple[str, str]]:
    """Files of a build folder that are none of their own, each with what it is instead.

    A link may lead to anywhere within `base`, and to what is named by its own hash, as the cache names its files.
    """
    base = base.resolve()
    for root, folders, names in os.walk(folder):
        for name in sorted((*folders, *names)):
            path = Path(root, name)
            place = path.relative_to(folder).as_posix()
            try:
                target = path.resolve() if path.is_symlink() else path
                mode = path.stat().st_mode
            except (OSError, RuntimeError):
                yield place, "is a link that leads nowhere"
                continue
            if path.is_symlink() and not target.is_relative_to(base) and not _HASH.fullmatch(target.name):
                yield place, "is a link that leads out of the repository"
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                yield place, "is a pipe, a socket or a device"


def digests_of(folder: Path) -> dict[str, str]:
    """The sha256 of every file of a build, as `sha256:…`, by its path in the folder. Raises OSError for one unread."""
    return {path: f"sha256:{_hash(folder / path, 'sha256').hexdigest()}" for path in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[str]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(root, name).relative_to(folder).as_posix()


def _is_as_digested(path: Path, algorithm: str, wanted: str) -> bool:
    found = base64.b64encode(_hash(path, algorithm).digest()).decode()
    return hmac.compare_digest(found, wanted)


def _is_as_sent(path: Path) -> bool:
    """In the cache a file is a link to blobs/HASH: sha256 of a large file, git's sha1 of a small one."""
    name = path.resolve().name if path.is_symlink() else ""
    if re.fullmatch("[0-9a-f]{64}", name):
        return bool(_hash(path, "sha256").hexdigest() == name)
    if re.fullmatch("[0-9a-f]{40}", name):
        size = path.stat().st_size
        return bool(_hash(path, "sha1", b"blob %d\0" % size).hexdigest() == name)
    return True


def _hash(path: Path, algorithm: str, start: bytes = b"") -> Any:
    if not path.is_file():
        raise OSError(f"{path}: no regular file")  # a pipe that nobody fills would be read for ever
    state = hashlib.new(algorithm, start, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state
