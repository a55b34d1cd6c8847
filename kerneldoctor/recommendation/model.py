"""What can be recommended and what speaks for it, as values. Asks nobody, runs nothing, words nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..environment import Environment
from ..hub.download import is_commit
from ..hub.find_env import Option
from ..hub.naming import Meaning
from ..lock import Locked
from ..smoke.trial import Trial

Kind = Literal["kernel", "package", "floor"]
Basis = Literal["measured", "predicted", "ruled out", "not determined", "always there"]
_MEASURED = ("passed", "partial", "failed")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that could be used: a version of a Hub kernel, an installed package, or what torch brings itself."""

    kind: Kind
    repo: str = ""  # of a kernel; of a package its name, "flash-attn 2.8.3"
    version: str = ""  # "v3", or a commit that no branch names
    commit: str = ""  # 40 hex digits, "" where the listing names none
    build: str = ""  # the one that would load, "" where none would
    build_id: str = ""
    predicted: bool | None = None  # whether it would load and run by what is known without running it
    why: str = ""  # that prediction in words
    rules: tuple[str, ...] = ()  # of errors that are known of the build, some for other workloads only
    alternative: bool = False  # another repository than the one that was asked for
    attention: bool = True
    trust: bool = False  # get_kernel needs trust_remote_code
    name_to_type: str = ""  # of a package and of the floor: what attn_implementation takes
    trial: Trial | None = None  # None: it was not run
    obstacle: str = ""  # why a run said nothing of it

    @property
    def name(self) -> str:
        """What a person calls it."""
        return f"{self.repo}@{self.version}" if self.kind == "kernel" and self.version else self.repo

    @property
    def reference(self) -> str:
        """The kernel as it is to be asked for: by its commit where that is known."""
        return f"{self.repo}@{self.revision}" if self.revision else self.repo

    @property
    def revision(self) -> str:
        """The commit, else the branch."""
        return self.commit if is_commit(self.commit) else self.version

    @property
    def basis(self) -> Basis:
        """What is known of it, and how."""
        if self.kind == "floor" and self.predicted:
            return "always there"
        if self.trial is not None and self.trial.verdict.kind in _MEASURED:
            return "measured"
        if self.predicted is False or (self.trial is not None and self.trial.verdict.kind == "refused"):
            return "ruled out"
        return "predicted" if self.predicted else "not determined"

    @property
    def infers(self) -> bool:
        """Whether it was run here and is right, if only forward."""
        return self.trial is not None and self.trial.verdict.kind in ("passed", "partial")

    def passes(self, inference: bool) -> bool:
        """Whether it was run here and is right for what it is wanted for: training, unless for inference alone."""
        if self.trial is None or inference:
            return self.infers
        forward_only = self.trial.pin is not None and self.trial.pin.inference_only
        return self.trial.verdict.kind == "passed" and not forward_only


@dataclass(frozen=True, slots=True)
class Policy:
    """How to look for the one to use."""

    inference: bool = False
    try_all: bool = False  # also run what rules rule out, and go on after a pass
    trusted: tuple[str, ...] = ()  # repositories whose publisher need not be trusted by the Hub


@dataclass(frozen=True, slots=True)
class PinForms:
    """The chosen one as people type it."""

    forms: Mapping[str, str]  # by name: attn_implementation, trl, get_kernel
    comment: str  # "v4", "v4, untested", "v4, for inference only"
    tested: bool
    is_commit: bool  # else it is a branch, which can move, or no kernel
    kernels_lock: tuple[str, ...] = ()  # lines for pyproject.toml, from which `kernels lock` makes its file


@dataclass(frozen=True, slots=True)
class Written:
    """What a lock file holds for a recommendation now."""

    path: str
    entry: Locked | None  # None: nothing was written, because what was chosen is no build of a Hub kernel with a commit
    kept: bool = False  # nothing was written: the entry of before was measured, and what was chosen now was not run


@dataclass(frozen=True, slots=True)
class Wheel:
    """A flash-attn wheel that was published for this torch, CUDA, Python and C++ ABI."""

    file: str
    url: str
    command: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Every candidate with its evidence, and the one to use."""

    reference: str  # as it was asked for
    meaning: Meaning | None  # of that name for the installed transformers
    chosen: Candidate
    pin: PinForms
    candidates: tuple[Candidate, ...]  # in the order in which they were considered; the floor last
    environment: Environment  # as the child sees it
    policy: Policy
    workload: Mapping[str, Any]  # empty: the usual cases
    device: str  # as it was asked for
    ran: bool  # False: nothing was to be run
    exit_code: int
    machine: str  # the machine in one line
    sources: tuple[str, ...]  # where the listings come from
    wheel: Wheel | None = None
    options: tuple[Option, ...] = ()  # changes of the environment that would give a build
    notes: tuple[str, ...] = field(default=())
