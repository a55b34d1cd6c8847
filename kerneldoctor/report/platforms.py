"""Tells builds for this kind of machine from those for others; whether one is taken is not decided here."""

from __future__ import annotations

from ..environment import Environment
from ..hub.acceptance import ReasonCode
from ..hub.candidates import Candidate
from ..hub.system import SystemDescription, describe
from ..values import dataclass

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


@dataclass(frozen=True, slots=True)
class Platform:
    """What a build must be for to count here; "" where that is not known."""

    machine: str  # x86_64 | aarch64
    os: str  # linux | windows | darwin
    backend: str  # of torch

    @property
    def tag(self) -> str:
        """As names of builds end: "x86_64-linux"."""
        return f"{self.machine}-{self.os}"

    def is_foreign(self, candidate: Candidate) -> bool:
        """Whether a refused build is for another machine, system or kind of GPU: no matter of releases."""
        variant = candidate.variant
        if candidate.accepted is not False or variant is None:
            return False
        if variant.is_noarch:
            return candidate.reason is not None and candidate.reason.code is ReasonCode.BACKEND
        wanted = ((variant.backend, self.backend), *self._parts(candidate))
        return any(here and there != here for there, here in wanted)

    def has_none_for(self, candidates: tuple[Candidate, ...]) -> bool:
        """Whether every build is compiled for another machine or system."""
        return all(any(here and there != here for there, here in self._parts(c)) for c in candidates)

    def _parts(self, candidate: Candidate) -> tuple[tuple[str, str], ...]:
        variant = candidate.variant
        if variant is None or variant.is_noarch:
            return ()
        return (variant.machine, self.machine), (variant.os, self.os)


def platform_of(environment: Environment) -> Platform:
    """The platform of a machine."""
    system: SystemDescription = describe(environment)
    machine = str(system.machine.value or "")
    return Platform(_MACHINES.get(machine.lower(), machine), system.os.value or "", system.backend.value or "")
