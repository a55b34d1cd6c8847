"""What was found out about one kernel of a policy, as values. Asks nobody, judges nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..hub.answer import Answer, best_version
from ..hub.candidates import VersionCandidates
from ..lock import Locked
from .policy import WantedKernel


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was found out about one kernel of the policy on this machine."""

    kernel: WantedKernel
    now: Answer | None = None  # what its reference comes to
    why: str = ""  # there is no answer
    wrong: bool = False  # because there is no such kernel or commit, which is no open question
    package: str = ""  # the installed package that the name stands for, and no Hub kernel
    pinned: Answer | None = None  # what the locked commit comes to, where the reference comes to another one
    lost: str = ""  # why the locked commit cannot be had
    lock: str = ""  # path of the lock file, "" for none
    entry: Locked | None = None  # for this environment
    others: tuple[Locked, ...] = ()  # of this reference, for other environments
    here: Mapping[str, str] = field(default_factory=dict)  # the fingerprint of this environment
    digests: Mapping[str, str] | None = None  # of the files on disk; None: the build is not there
    local: str = ""  # the folder that LOCAL_KERNELS puts in its place
    offline: bool = False  # the job runs without the Hub
    loads_offline: bool | None = None  # and the kernel loads nevertheless, asked for as the job does

    @property
    def locked(self) -> Locked | None:
        """The entry that says which commit is meant: it is the same for every environment, as a rule."""
        return self.entry or next(iter(self.others), None)

    @property
    def answer(self) -> Answer | None:
        """The answer about the commit that is to be loaded: the locked one, and no other in its place."""
        return None if self.lost else self.pinned or self.now

    @property
    def version(self) -> VersionCandidates | None:
        """The version that is to be loaded."""
        return version_of(self.answer) if self.answer is not None else None

    @property
    def pin(self) -> str:
        """owner/name@commit as far as it is known, else the reference."""
        version = self.version
        if self.answer is None or version is None or len(version.version.commit) != 40:
            return self.kernel.reference
        return f"{self.answer.candidates.listing.repo}@{version.version.commit}"


def version_of(answer: Answer) -> VersionCandidates | None:
    """The version that an answer is about: the one asked for, else the one to pin."""
    return answer.version if answer.asked else best_version(answer.candidates)
