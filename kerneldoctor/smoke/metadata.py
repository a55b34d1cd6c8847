"""Reads metadata.json of a build and checks every file against it; imports and judges nothing.

The format is that of kernels 0.17.2 (https://huggingface.co/docs/kernels/kernel-requirements): required are name, id,
version, license, python-depends and backend.type. Digests are base64 of sha256 or sha512 over each file's bytes;
metadata.json itself, its signature and byte code are left out, and folders behind a link are not entered (tried with
`Digest.hash_variant`). The cache of huggingface_hub names each file by its own hash, which is looked at as well.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

METADATA = "metadata.json"
_NOT_COVERED = frozenset({METADATA, f"{METADATA}.sigstore"})
_LIMIT = 4 * 1024 * 1024  # bytes; a digest of a thousand files has a tenth of it
_CHUNK = 4 * 1024 * 1024
_REQUIRED: tuple[tuple[str, type], ...] = (
    ("name", str), ("id", str), ("version", int), ("license", str), ("python-depends", list), ("backend", dict),
)  # fmt: skip


class MetadataError(ValueError):
    """A metadata.json that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a build says of itself. None and empty where it does not say."""

    name: str = ""
    id: str = ""
    version: int | None = None
    minver: str = ""
    python_depends: tuple[str, ...] = ()
    backend: str = ""
    archs: tuple[str, ...] = ()
    algorithm: str = ""  # of the digest, "" where there is none
    digest: Mapping[str, str] | None = None
    lacks: tuple[str, ...] = ()  # required fields that are not there, or not of their type


@dataclass(frozen=True, slots=True)
class Damage:
    """One file that is not what it should be."""

    path: str  # within the build folder
    kind: str  # missing | unknown | changed | unreadable


def read_metadata(folder: Path) -> Metadata:
    """metadata.json of a build folder. Raises MetadataError; what is merely missing in it is listed in `lacks`."""
    path = folder / METADATA
    try:
        if path.stat().st_size > _LIMIT:
            raise MetadataError(f"{METADATA} is larger than {_LIMIT // 2**20} MiB")
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise MetadataError(f"there is no {METADATA}") from None
    except OSError as error:
        raise MetadataError(f"{METADATA}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{METADATA} is no JSON: {error}") from None
    if not isinstance(raw, dict):
        raise MetadataError(f"{METADATA} holds no object")
    return _metadata(raw)


def _metadata(raw: Mapping[str, Any]) -> Metadata:
    said = raw.get("backend")
    backend: Mapping[str, Any] = said if isinstance(said, dict) else {}
    digest = raw.get("digest")
    algorithm, files = "", None
    if digest is not None:
        algorithm, files = _digest(digest)
    lacks = [name for name, kind in _REQUIRED if not isinstance(raw.get(name), kind)]
    if "backend" not in lacks and not isinstance(backend.get("type"), str):
        lacks.append("backend.type")
    version = raw.get("version")
    return Metadata(
        name=_text(raw.get("name")),
        id=_text(raw.get("id")),
        version=version if isinstance(version, int) else None,
        minver=_text(raw.get("kernels-minver")),
        python_depends=_texts(raw.get("python-depends")),
        backend=_text(backend.get("type")),
        archs=_texts(backend.get("archs")),
        algorithm=algorithm,
        digest=files,
        lacks=tuple(lacks),
    )


def _digest(raw: Any) -> tuple[str, Mapping[str, str]]:
    match raw:
        case {"algorithm": "sha256" | "sha512" as algorithm, "files": dict(files)} if all(
            isinstance(value, str) for value in files.values()
        ):
            return algorithm, files
    raise MetadataError(f"the digest in {METADATA} is of no known form")


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
    state = hashlib.new(algorithm, start, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
