"""Joins what a name means and what its builds would do here into one answer, with the pin to type. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.case import Tables
from ..environment import Environment
from ..values import dataclass
from .candidates import Candidates, VersionCandidates
from .kernel_facts import kernel_row
from .naming import Meaning
from .reference import Kind

if TYPE_CHECKING:
    from .find_env import Option  # most answers need none, and it costs the start 10 ms


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that nothing speaks against here, as the text to type."""

    version: str  # "v3"
    revision: str  # the commit, or the branch where the listing names no whole commit
    build: str
    attention: bool | None  # called through attn_implementation; None: not known
    trusted: bool | None = None  # its publisher, by the Hub; False: kernels must be told to trust it

    @property
    def is_commit(self) -> bool:
        """Whether it can never mean anything else tomorrow."""
        return self.revision != self.version


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything that was found out about one kernel for one Environment."""

    meaning: Meaning
    candidates: Candidates
    environment: Environment
    asked: str  # the branch, tag or commit that is asked for; "" for any
    by_default: bool  # nobody typed a revision: it is the one that transformers passes
    pin: Pin | None
    options: tuple[Option, ...] | None  # changes that would help; None: not asked for
    notes: tuple[str, ...]

    @property
    def version(self) -> VersionCandidates | None:
        """The version asked for, where the listing has it."""
        return self.candidates.version(self.asked) if self.asked else None

    @property
    def usable(self) -> bool | None:
        """Whether what was asked for would load: that version, or any where only a repository was named.

        Nothing was run for it, and a known fault that hangs on a workload which was not given does not count.
        """
        if self.asked and not (self.by_default and self.meaning.reference.kind is Kind.KERNEL):
            return self.version.usable if self.version is not None else None
        return self.candidates.usable


def best_version(candidates: Candidates, asked: str = "") -> VersionCandidates | None:
    """The version to pin: without known faults before with, the asked one first, then the newest."""
    usable = [v for v in candidates.versions if v.usable and v.preferred is not None]
    wanted = candidates.version(asked) if asked else None
    return min(usable, key=lambda v: (v.has_known_error, v is not wanted), default=None)


def find_pin(candidates: Candidates, tables: Tables, asked: str = "") -> Pin | None:
    """The pin that an answer recommends, or None where no build is known to be usable."""
    version = best_version(candidates, asked)
    chosen = version.preferred if version is not None else None
    if version is None or chosen is None:
        return None
    row = kernel_row(candidates.listing.repo, version.version.number, tables)
    commit = version.version.commit
    return Pin(
        version=version.version.name,
        revision=commit if len(commit) == 40 else version.version.name,
        build=chosen.build.name,
        attention=None if row is None else row["contract"] == "attention",
        trusted=candidates.listing.trusted.value,
    )
