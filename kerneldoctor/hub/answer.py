"""Joins what a name means and what its builds would do here into one answer, with the pin to type. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from ..engine.case import Case, Tables
from ..engine.facts.releases import row_of
from ..environment import Environment
from ..values import dataclass
from .candidates import Candidates, VersionCandidates
from .kernel_facts import kernel_row
from .listing import TRUSTED
from .naming import Meaning
from .reference import Kind
from .surroundings import Surroundings

if TYPE_CHECKING:
    from .find_env import Option  # most answers need none, and it costs the start 10 ms


# What transformers must be told for a kernel of somebody else: nothing, allow_all_kernels=True, or it cannot be told.
Consent = Literal["none", "allow", "impossible"]


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that nothing speaks against here, as the text to type."""

    version: str  # "v3"
    revision: str  # the commit, or the branch where the listing names no whole commit
    build: str
    attention: bool | None  # called through attn_implementation; None: not known
    trusted: bool | None = None  # its publisher, by the Hub; False: kernels must be told to trust it
    consent: Consent = "none"

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
    around: Surroundings | None = field(default=None, repr=False)

    @property
    def version(self) -> VersionCandidates | None:
        """The version asked for, where the listing has it."""
        return self.candidates.version(self.asked) if self.asked else None

    @property
    def usable(self) -> bool | None:
        """Whether what was asked for would load: that version, or any where only a repository was named.

        A name of transformers, flash_attention_2, asks whether transformers would load it; a repository, whether
        get_kernel would: see `through_transformers`. Nothing was run for it, and a known fault that hangs on a workload
        which was not given does not count.
        """
        if self.meaning.reference.kind is Kind.FLASH_ATTENTION and self.meaning.works is False:
            return False
        if self.names_version:
            if self.version is None:
                return False if self.candidates.listing.source == "live" else None
            return self.loads(self.version)
        answers = {self.loads(version) for version in self.candidates.versions}
        if not answers:
            return self.candidates.usable
        return True if True in answers else None if None in answers else False

    @property
    def names_version(self) -> bool:
        """Whether the question is about one version; else any will do."""
        return bool(self.asked) and not (self.by_default and self.meaning.reference.kind is Kind.KERNEL)

    @property
    def through_transformers(self) -> bool | None:
        """Whether the installed transformers would load what the name means, as far as its own checks go."""
        return self.meaning.works

    def loads(self, version: VersionCandidates) -> bool | None:
        """Whether a version would load here, by get_kernel."""
        asked = self.asked if version is self.version else ""
        return version.usable if self.around is None else self.around.loads(version, asked)


def best_version(
    candidates: Candidates, asked: str = "", around: Surroundings | None = None
) -> VersionCandidates | None:
    """The version to pin: what would load before what would not, without known faults before with, the asked one first,
    then the newest.
    """
    usable = [v for v in candidates.versions if v.usable and v.preferred is not None]
    wanted = candidates.version(asked) if asked else None
    hindered = {id(v): around is not None and around.loads(v) is not True for v in usable}
    return min(usable, key=lambda v: (hindered[id(v)], v.has_known_error, v is not wanted), default=None)


def find_pin(candidates: Candidates, tables: Tables, asked: str = "", around: Surroundings | None = None) -> Pin | None:
    """The pin that an answer recommends, or None where no build is known to be usable."""
    version = best_version(candidates, asked, around)
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
        consent=_consent(candidates, around, Case(around.environment, tables)) if around is not None else "none",
    )


def _consent(candidates: Candidates, around: Surroundings, case: Case) -> Consent:
    """By what each transformers release does; where none is installed, as the newest ones do."""
    listing = candidates.listing
    if listing.repo.startswith(f"{TRUSTED}/"):
        return "none"
    refused = listing.trusted.value is False and around.checks_publisher
    row = row_of(case, "transformers").value
    match row["allow_all_kernels"] if row is not None else "passed":
        case "passed":
            return "allow" if refused else "none"
        case "own":
            return "impossible" if refused else "allow"
        case _:
            return "impossible" if refused else "none"
