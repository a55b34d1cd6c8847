"""Says what keeps a version whose build fits from being loaded: offline mode, the Hub, its publisher. Pure.

What transformers itself refuses is the business of naming.py, what stops a build that of beyond.py.
"""

from __future__ import annotations

import enum

from ..engine.case import Case, Tables
from ..environment import Environment
from ..values import dataclass
from .candidates import Candidates, VersionCandidates
from .sources import cached_snapshots, loads_offline


class Hindrance(enum.Enum):
    """Why a version would not be loaded although its build fits."""

    OFFLINE = "offline"  # offline mode is on, and the cache does not hold it
    OFFLINE_PARTLY = "offline_partly"  # the cache holds its build alone, which the installed huggingface_hub refuses
    OFFLINE_UNKNOWN = "offline_unknown"  # offline mode is on, and what the cache holds of it is not known
    REFUSED = "refused"  # the Hub does not show the repository to us
    NOT_TRUSTED = "not_trusted"  # kernels wants to be told to trust the publisher

    @property
    def loads(self) -> bool | None:
        """What is left of the answer that it would load."""
        return None if self in (Hindrance.OFFLINE_UNKNOWN, Hindrance.REFUSED) else False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What counts for every version of a repository on one machine."""

    environment: Environment
    candidates: Candidates
    checks_publisher: bool = True  # by the kernels release; the first one that does is 0.14.0

    @property
    def offline(self) -> bool:
        """Whether offline mode is in force, and LOCAL_KERNELS names no folder for the repository."""
        facts = self.environment.huggingface
        repo = self.candidates.listing.repo
        local = any(str(entry).partition("=")[0] == repo for entry in facts.local_kernels.value or ())
        return facts.offline.value is True and not local

    def hindrance(self, version: VersionCandidates, asked: str = "") -> Hindrance | None:
        """What hinders a version whose build is usable; of one that cannot be judged, whether it is there at all."""
        if version.usable is False:
            return None
        if self.offline:
            return self._offline(version, asked)
        if version.usable is None:
            return None
        listing = self.candidates.listing
        if listing.refused and version.loads_offline is not True:
            return Hindrance.REFUSED
        if listing.trusted.value is False and self.checks_publisher:
            return Hindrance.NOT_TRUSTED
        return None

    def loads(self, version: VersionCandidates, asked: str = "") -> bool | None:
        """Whether a version would be loaded and run here."""
        found = self.hindrance(version, asked)
        return version.usable if found is None else found.loads

    def _offline(self, version: VersionCandidates, asked: str) -> Hindrance | None:
        if self.environment.huggingface.cached_kernels.is_unknown:
            return Hindrance.OFFLINE_UNKNOWN if version.usable else None
        names = {name for name in (asked, version.version.name, version.version.commit) if name}
        cached = cached_snapshots(self.candidates.listing.repo, self.environment)
        there = [snapshot for snapshot in cached if names & {snapshot.commit, *snapshot.branches}]
        if not there:
            return Hindrance.OFFLINE
        chosen, revision = version.preferred, asked or version.version.name
        if version.usable is None or chosen is None:
            return None
        held = [snapshot for snapshot in there if chosen.build.name in snapshot.variants]
        answers = {loads_offline(snapshot, revision, self.environment) for snapshot in held}
        if True in answers:
            return None
        if None in answers:
            return Hindrance.OFFLINE_UNKNOWN
        named = any(revision in (snapshot.commit, *snapshot.branches) for snapshot in held)
        return Hindrance.OFFLINE_PARTLY if named else Hindrance.OFFLINE


def surroundings(candidates: Candidates, environment: Environment, tables: Tables) -> Surroundings:
    """The surroundings of a judged listing."""
    trust = Case(environment, tables).fact("kernels.trust").value
    return Surroundings(environment, candidates, trust != "none")
