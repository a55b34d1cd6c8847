"""Reads metadata.json, what a build of a Hub kernel says of itself; fetches nothing and judges nobody's machine.

The format is that of kernels 0.17.2 (https://huggingface.co/docs/kernels/kernel-requirements). Required are name, id,
version, license, python-depends and backend.type, as they have been since kernels 0.14.0 (tried with kernels-data
0.14.0, 0.15.1 and 0.16.2, which read the file for the releases before 0.17).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..values import dataclass
from .listing import build_id

METADATA = "metadata.json"
CONTENT = "content"  # what a file lacks of which nothing can be read
SIZE_LIMIT = 4 * 1024 * 1024  # bytes; a digest of a thousand files has a tenth of it

_NAME = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]", re.ASCII)
_MINVER = re.compile(r"\+?\d+(?:\.\+?\d+){2}", re.ASCII)
_BACKENDS = frozenset({"cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"})


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
    lacks: tuple[
        str, ...
    ] = ()  # CONTENT, or fields that `kernels` asks for and that are not there, or not of their form

    malformed: tuple[str, ...] = ()  # those of `lacks` that are there, but not of their form
    kernel_depends: tuple[str, ...] = ()  # kernels that it loads in turn, "owner/name@v1"

    @property
    def build_id(self) -> str:
        """The builder's source commit at the end of the id, or ""."""
        return build_id(f"{self.id}.abi3.so")


def read_metadata(folder: Path) -> Metadata:
    """metadata.json of a build folder. Raises MetadataError; what is merely missing in it is listed in `lacks`."""
    path = folder / METADATA
    try:
        if path.stat().st_size > SIZE_LIMIT:
            raise MetadataError(f"{METADATA} is larger than {SIZE_LIMIT // 2**20} MiB")
        content = path.read_bytes()
    except FileNotFoundError:
        raise MetadataError(f"there is no {METADATA}") from None
    except OSError as error:
        raise MetadataError(f"{METADATA}: {error.strerror or error}") from None
    return parse_metadata(content)


def parse_metadata(content: bytes) -> Metadata:
    """What the bytes of a metadata.json say. Raises MetadataError for what is no JSON object."""
    try:
        raw = json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"{METADATA} is no JSON: {error}") from None
    if not isinstance(raw, dict):
        raise MetadataError(f"{METADATA} holds no object")
    return _metadata(raw)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _metadata(raw: Mapping[str, Any]) -> Metadata:
    said = raw.get("backend")
    backend: Mapping[str, Any] = said if isinstance(said, dict) else {}
    digest = raw.get("digest")
    algorithm, files = ("", None) if digest is None else _digest(digest)
    version = raw.get("version")
    lacks = tuple(_lacking(raw, backend))
    return Metadata(
        name=_text(raw.get("name")),
        id=_text(raw.get("id")),
        version=version if _is_version(version) else None,
        minver=_text(raw.get("kernels-minver")),
        python_depends=_texts(raw.get("python-depends")),
        backend=_text(backend.get("type")),
        archs=_texts(backend.get("archs")),
        algorithm=algorithm,
        digest=files,
        lacks=lacks,
        malformed=tuple(name for name in lacks if _is_there(name, raw, backend)),
        kernel_depends=tuple(_kernels(raw.get("kernel-depends"))),
    )


def _kernels(said: Any) -> Iterator[str]:
    for item in said if isinstance(said, list) else ():
        match item:
            case {"repo-id": str(repo), "version": int(number)}:
                yield f"{repo}@v{number}"
            case {"repo-id": str(repo), "revision": str(revision)}:
                yield f"{repo}@{revision}"


def _is_there(name: str, raw: Mapping[str, Any], backend: Mapping[str, Any]) -> bool:
    place, _, part = name.rpartition(".")
    return part in (backend if place else raw)


def _lacking(raw: Mapping[str, Any], backend: Mapping[str, Any]) -> list[str]:
    found = [name for name, is_right in _REQUIRED.items() if not is_right(raw.get(name))]
    if "backend" not in found and backend.get("type") not in _BACKENDS:
        found.append("backend.type")
    if backend.get("archs") is not None and not _is_texts(backend["archs"]):
        found.append("backend.archs")
    minver = raw.get("kernels-minver")
    if minver is not None and not _is_like(minver, _MINVER):
        found.append("kernels-minver")
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _is_like(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


_REQUIRED: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda value: _is_like(value, _NAME),
    "id": _is_text,
    "version": _is_version,
    "license": _is_text,
    "python-depends": _is_texts,
    "backend": lambda value: isinstance(value, dict),
}


def _digest(raw: Any) -> tuple[str, Mapping[str, str]]:
    match raw:
        case {"algorithm": "sha256" | "sha512" as algorithm, "files": dict(files)} if all(
            isinstance(value, str) for value in files.values()
        ):
            return algorithm, files
    raise MetadataError(f"the digest in {METADATA} is of no known form")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
