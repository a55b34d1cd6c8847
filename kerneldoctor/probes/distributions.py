"""Lists the distributions on a path and reads one of them, from their metadata files.

Folder names answer for name and version, so that hundreds of distributions cost one listing a folder; files are
opened only for a distribution that is asked about, and every one of them may be rubbish.
"""

from __future__ import annotations

import csv
import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..environment import Fact, absent, known, unknown
from ..errors import ProbeError
from ..host import Host
from ..values import dataclass
from .scene import Distribution

METADATA_LIMIT = 512 * 1024  # bytes; with its README the largest METADATA met has 100 KiB
RECORD_LIMIT = 8 * 1024 * 1024  # bytes; torch's RECORD has 1.5 MiB

# Distribution names as in https://packaging.python.org/en/latest/specifications/name-normalization/
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SEPARATORS = re.compile(r"[-_.]+")

# Conda's names of what PyPI calls otherwise, as far as packages that matter here go.
_CONDA_NAMES = {"pytorch": "torch", "libtorch": "torch"}


def list_distributions(host: Host, sys_path: tuple[str, ...]) -> tuple[Distribution, ...]:
    """Every distribution on the path, in import order: the first of a name is the one in force.

    Raises ProbeError when a folder could not be listed and nothing was found in the others: an empty answer
    would then read as "nothing is installed". See `unreadable_folders` for a list that has only gaps.
    """
    refused: list[str] = []
    found = [d for root, names in _folders(host, sys_path, refused) for d in _in_folder(host, root, names)]
    if refused and not found:
        raise ProbeError(refused[0])
    return tuple(found)


def unreadable_folders(host: Host, sys_path: tuple[str, ...]) -> tuple[str, ...]:
    """Why folders of the path could not be listed, one reason each; what is in them is unknown, not absent."""
    refused: list[str] = []
    for _ in _folders(host, sys_path, refused):
        continue
    return tuple(refused)


def not_installed(host: Host, sys_path: tuple[str, ...]) -> Fact[Any]:
    """The fact for a distribution that is not in the list: absent, or unknown where the list has gaps."""
    refused = unreadable_folders(host, sys_path)
    return unknown(refused[0]) if refused else absent("installed distributions")


def editable_names(host: Host, sys_path: tuple[str, ...]) -> frozenset[str]:
    """Normalised names of what setuptools installed as a link to a source folder (`__editable__…`, `.egg-link`)."""
    found: set[str] = set()
    for _, names in _folders(host, sys_path, []):
        for name in names:
            if name.endswith(".egg-link"):
                found.add(normalise(name.removesuffix(".egg-link")))
            elif name.startswith("__editable__.") and name.endswith(".pth"):
                found.add(normalise(name.removeprefix("__editable__.").rpartition("-")[0]))
    return frozenset(found)


def normalise(name: str) -> str:
    """A distribution's name as installers compare it: "Flash_Attn" is "flash-attn"."""
    return _SEPARATORS.sub("-", name).lower()


def _folders(host: Host, sys_path: tuple[str, ...], refused: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The folders of a path that can be listed, each once, with their names; why others cannot goes to `refused`."""
    seen: set[str] = set()
    for root in sys_path:
        try:
            info = host.stat(root)
            if info.kind != "dir" or info.real in seen:  # a zip file, nothing at all, or lib64 -> lib
                continue
            seen.add(info.real)
            names = host.listdir(root)
        except ProbeError as error:
            refused.append(str(error))
            continue
        yield root, names


def _in_folder(host: Host, root: str, names: Sequence[str]) -> list[Distribution]:
    entries = [name for name in names if name.endswith((".dist-info", ".egg-info")) or name == "EGG-INFO"]
    found = [d for d in (_from_name(host, root, entry) for entry in entries) if d is not None]
    if len({d.name for d in found}) < len(found):
        # Two folders for one name: pip and importlib.metadata pass over the one that has lost its METADATA.
        found.sort(key=lambda d: (d.name, not _has_metadata(host, d)))
    return found


def _from_name(host: Host, root: str, entry: str) -> Distribution | None:
    path = posixpath.join(root, entry)
    stem = entry.rpartition(".")[0]
    if entry.endswith(".egg-info"):
        stem = re.sub(r"-py\d[\d.]*(?:-[A-Za-z0-9_.-]+)?$", "", stem)
    name, _, version = stem.rpartition("-")
    if not version[:1].isdigit():  # a development install has no version in its name, an .egg no name at all
        read = _read_metadata(host, path)
        name, version = read.name or stem, read.version
    # pip renames what it removes to "~orch-2.9.0.dist-info" and leaves that behind when it is stopped.
    return Distribution(normalise(name), version, root, path) if _NAME.fullmatch(name) else None


def _has_metadata(host: Host, distribution: Distribution) -> bool:
    try:
        info = host.stat(_metadata_file(host, distribution.metadata))
    except ProbeError:
        return False
    return info.kind == "file" and info.size > 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """The core metadata of one distribution, as far as it can be read."""

    name: str = ""  # as written
    version: str = ""
    requires: tuple[str, ...] = ()  # requirement lines, with their markers
    requires_python: str = ""
    problem: str = ""  # what is wrong with the file; "" when nothing is


def metadata(host: Host, distribution: Distribution) -> Metadata:
    """Read METADATA or PKG-INFO. Never raises: a missing, empty or binary file shows in `problem`."""
    return _read_metadata(host, distribution.metadata)


def _metadata_file(host: Host, path: str) -> str:
    if path.endswith(".dist-info"):
        return posixpath.join(path, "METADATA")
    # distutils wrote PKG-INFO under the egg-info name itself
    return path if _kind(host, path) == "file" else posixpath.join(path, "PKG-INFO")


def _read_metadata(host: Host, path: str) -> Metadata:
    file = _metadata_file(host, path)
    try:
        raw = host.read(file, METADATA_LIMIT)
    except ProbeError as error:
        return Metadata(problem=str(error))
    if not raw.strip():
        return Metadata(problem=f"{file} is empty")
    headers = re.split(rb"\r?\n\r?\n", raw, maxsplit=1)[0]  # what follows is the README
    if b"\0" in headers:
        return Metadata(problem=f"{file} is no text")
    fields: dict[str, list[str]] = {}
    for key, value in _headers(headers.decode("utf-8", "replace")):
        fields.setdefault(key, []).append(value)
    name, version = (fields.get(key, [""])[0] for key in ("name", "version"))
    requires = tuple(fields.get("requires-dist", ()))
    if not path.endswith(".dist-info") and not requires:
        requires = _egg_requirements(host, path)
    problem = "" if name and version else f"{file} names no {'version' if name else 'distribution'}"
    return Metadata(name, version, requires, fields.get("requires-python", [""])[0], problem)


def _headers(text: str) -> Iterator[tuple[str, str]]:
    """Header fields, long ones joined. The email parser does the same at 20 times the cost, imports included."""
    key, value = "", ""
    for line in text.splitlines():
        if line[:1] in (" ", "\t"):
            value += " " + line.strip()
            continue
        if key:
            yield key, value
        key, colon, value = line.partition(":")
        key, value = (key.strip().lower(), value.strip()) if colon else ("", "")
    if key:
        yield key, value


def _egg_requirements(host: Host, path: str) -> tuple[str, ...]:
    """requires.txt of setuptools: plain lines, then `[extra:marker]` sections."""
    try:
        text = host.read(posixpath.join(path, "requires.txt"), METADATA_LIMIT).decode("utf-8", "replace")
    except ProbeError:
        return ()
    found: list[str] = []
    marker, wanted = "", True
    for line in (raw.strip() for raw in text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            extra, _, marker = line[1:-1].partition(":")
            wanted = not extra
        elif line and wanted:
            found.append(f"{line} ; {marker}" if marker else line)
    return tuple(found)


def installer(host: Host, distribution: Distribution) -> Fact[str]:
    """Who installed it: "pip", "uv", "conda", … from INSTALLER, else from the environment's conda-meta."""
    file = posixpath.join(distribution.metadata, "INSTALLER")
    try:
        said = _optional(host, file, 256).decode("utf-8", "replace").split()
        if said:
            return known(said[0].lower(), file)
        prefix = conda_prefix(host, distribution.root)
        if prefix and distribution.name in conda_names(host, prefix):
            return known("conda", posixpath.join(prefix, "conda-meta"))
    except ProbeError as error:
        return unknown(str(error))
    return absent(file)


def conda_prefix(host: Host, site_packages: str) -> str:
    """The conda environment that a site-packages folder belongs to, or ""."""
    folder = site_packages
    for _ in range(3):  # PREFIX/lib/python3.12/site-packages
        folder = posixpath.dirname(folder)
        if folder and _kind(host, posixpath.join(folder, "conda-meta")) == "dir":
            return folder
    return ""


def conda_names(host: Host, prefix: str) -> frozenset[str]:
    """Normalised names of what conda installed into `prefix`, by their PyPI names. Raises ProbeError."""
    files = (name for name in host.listdir(posixpath.join(prefix, "conda-meta")) if name.endswith(".json"))
    names = (normalise(file.rsplit("-", 2)[0]) for file in files)  # numpy-2.1.0-py312h1234_0.json
    return frozenset(_CONDA_NAMES.get(name, name) for name in names)


def direct_url(host: Host, distribution: Distribution) -> Mapping[str, Any] | None:
    """What direct_url.json says: where a distribution that did not come from an index came from.

    None when there is no such file. Raises ProbeError when it cannot be read.
    See https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
    """
    file = posixpath.join(distribution.metadata, "direct_url.json")
    raw = _optional(host, file, METADATA_LIMIT)
    if not raw:
        return None
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ProbeError(f"{file} is no JSON object")
    return content


def editable(host: Host, distribution: Distribution, marked: frozenset[str] = frozenset()) -> Fact[bool]:
    """Whether it is a link to a source folder. `marked` are the names that `editable_names` found."""
    if distribution.name in marked:
        return known(True, "__editable__ or .egg-link beside it")
    try:
        origin = direct_url(host, distribution)
    except ProbeError as error:
        return unknown(str(error))
    folder = origin.get("dir_info") if origin else None
    return known(isinstance(folder, dict) and folder.get("editable") is True, "direct_url.json")


def record_paths(host: Host, distribution: Distribution) -> tuple[str, ...]:
    """Files of a distribution as RECORD (or installed-files.txt) lists them, relative to its `root`.

    At most 8 MiB of the list are read. Raises ProbeError when there is no such list or it cannot be read.
    """
    if distribution.metadata.endswith(".dist-info"):
        text = host.read(posixpath.join(distribution.metadata, "RECORD"), RECORD_LIMIT).decode("utf-8", "replace")
        try:
            return tuple(row[0] for row in csv.reader(text.splitlines()) if row and row[0])
        except csv.Error as error:
            raise ProbeError(f"{distribution.metadata}/RECORD is no list of files: {error}") from None
    raw = host.read(posixpath.join(distribution.metadata, "installed-files.txt"), RECORD_LIMIT)
    folder = posixpath.basename(distribution.metadata)
    return tuple(posixpath.normpath(f"{folder}/{line}") for line in raw.decode("utf-8", "replace").splitlines() if line)


def _kind(host: Host, path: str) -> str:
    try:
        return host.stat(path).kind
    except ProbeError:
        return "unknown"


def _optional(host: Host, path: str, limit: int) -> bytes:
    """A file's content; nothing when it is not there. Raises ProbeError when it is there and cannot be read."""
    try:
        return host.read(path, limit)
    except ProbeError:
        if host.stat(path).kind == "missing":
            return b""
        raise
