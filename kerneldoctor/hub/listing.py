"""What is asked and known of a kernel repository: versions (branches), their commits and build folders. Values only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from ..environment import Fact, unknown
from ..values import dataclass

Source = Literal["live", "cache", "index"]
How = Literal["live", "cache", "observed", "derived", "partial"]

NOT_READ: Fact[Any] = unknown("metadata.json was not read")
NOT_ASKED: Fact[Any] = unknown("whether the Hub marks this publisher as trusted was not asked")
TIMEOUT = 20.0  # seconds for one listing
TRUSTED = "kernels-community"  # the Hub marks more publishers; of this one kernels itself says so

_VERSION = re.compile(r"v(\d+)", re.ASCII)
# `_flash_attn2_cuda_48628c8.abi3.so`, `_relu_cpu_1a2b3c4_dirty.so`: the builder ends the name with its source commit.
_BINARY = re.compile(
    r"_([0-9a-z]{6,40}?)(?:_dirty)?(?:\.abi3|\.cpython-[^.]+(?:-[^.]+)*|\.cp\d+[^.]*)?\.(?:so|pyd|dylib)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Build:
    """One build folder of a version."""

    name: str  # "torch-stable-abi210-cu130-x86_64-linux"
    build_id: str = ""  # suffix of the compiled file; "" where no listing of the folder was seen
    build_id_note: str = ""  # where and when that was seen
    build_id_elsewhere: bool = False  # it was seen in another commit than the listed one, or in one that is not known
    metadata: Fact[Any] = NOT_READ  # a Metadata, what the build says of itself; absent: it has no metadata.json


@dataclass(frozen=True, slots=True)
class Version:
    """One branch, tag or commit of a repository, with what is built there."""

    name: str  # "v3", "main", or the commit
    commit: str  # 40 hex digits, or "" where it was not seen
    builds: tuple[Build, ...]
    how: How
    as_of: str  # date of the look, ISO; for the index of the observation
    complete: bool  # the builds are all there are; otherwise a lower bound
    note: str = ""

    @property
    def number(self) -> int | None:
        """The version number of a branch `v<N>`, None for any other revision."""
        found = _VERSION.fullmatch(self.name)
        return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository as one source shows it. `notes` says what else was tried and why it did not answer."""

    repo: str
    source: Source
    as_of: str
    versions: tuple[Version, ...]  # newest version first, then other revisions by name
    notes: tuple[str, ...] = ()
    trusted: Fact[bool] = NOT_ASKED
    refreshed: bool = False  # of source "index": taken from the Hub by the user, not shipped
    refused: bool = False  # the Hub was asked, and does not show the repository to us

    def version(self, name: str) -> Version | None:
        """The version of that branch, tag or commit (a prefix of a commit counts from seven digits on)."""
        for version in self.versions:
            if version.name == name or version.commit == name:
                return version
            if len(name) >= 7 and version.commit.startswith(name):
                return version
        return None


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask: a repository, perhaps one revision that is no `v<N>` branch, and for how long."""

    repo: str
    revision: str = ""
    timeout: float = TIMEOUT
    progress: Callable[[str], None] = lambda text: None
    first: str = ""  # the version that matters most: read before the others
    whole: bool = False  # an answer in which a version was not read is none


def in_order(versions: list[Version]) -> tuple[Version, ...]:
    """Newest version number first, then the other revisions by name."""
    return tuple(sorted(versions, key=lambda v: (-(v.number if v.number is not None else -1), v.name)))


def is_version(name: str) -> bool:
    """Whether a branch or tag names a kernel version: `v<N>`."""
    return _VERSION.fullmatch(name) is not None


def build_id(path: str) -> str:
    """The build id in a compiled file's name, or ""."""
    found = _BINARY.search(path.rsplit("/", 1)[-1])
    # A hash has a digit and only hex letters: `_C.abi3.so` or `_fwd_cuda.so` carry none.
    return found[1] if found and re.fullmatch(r"(?=.*\d)[0-9a-z]+", found[1]) else ""
