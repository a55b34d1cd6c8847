"""What came of a smoke run, as values: cases, runs on one device, the trial of one kernel. Decides nothing.

Parent side: imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .protocol import Case, Loaded, RefusalReason, TensorError, Versions

Outcome = Literal["passed", "wrong", "raised", "crashed", "hung", "oom", "unsupported", "skipped", "refused"]
#: Outcomes that speak against the kernel, worst first: the order in which a verdict names them.
FAILURES: tuple[Outcome, ...] = ("crashed", "hung", "wrong", "raised", "oom")


@dataclass(frozen=True, slots=True)
class CaseReport:
    """What happened to one case."""

    case: Case
    outcome: Outcome
    detail: str
    stage: str = ""
    seconds: float = 0.0
    direction: Literal["forward", "backward"] | None = None  # where it went wrong
    forward: bool | None = None  # compared and right; None: not compared
    errors: Mapping[str, TensorError] = field(default_factory=dict)
    signal: str = ""  # "SIGSEGV", where it crashed with one
    said: str = ""  # traceback or last words: evidence, and what symptoms are looked for in
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)  # of a case that measures

    @property
    def failed(self) -> bool:
        """Whether it speaks against the kernel."""
        return self.outcome in FAILURES


@dataclass(frozen=True, slots=True)
class LoadProblem:
    """Why no case ran: the kernel was refused, or took its process along while it was loaded."""

    kind: Literal["refused", "crashed", "hung", "oom"]
    reason: RefusalReason | str  # of a refusal; otherwise the signal or ""
    message: str
    stage: str
    said: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One kernel on one device."""

    device: str  # as torch names it, "cuda:0"
    cases: tuple[CaseReport, ...] = ()
    problem: LoadProblem | None = None
    loaded: Loaded | None = None
    versions: Versions | None = None
    packages: Mapping[str, str] = field(default_factory=dict)  # of the interpreter that ran it
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    timings: Mapping[str, float] = field(default_factory=dict)  # of the first child, by stage
    peak_memory: int | None = None  # bytes
    children: int = 0  # processes that it took


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason not to import the kernel, found before it was imported."""

    code: str  # "untrusted", "digest", "metadata", "minver", "missing-dependency", "wrong-architecture", …
    why: str
    remedy: str = ""
    files: tuple[str, ...] = ()  # the files that it is about


@dataclass(frozen=True, slots=True)
class Subject:
    """What was tried, as far as it could be resolved."""

    reference: str
    repo: str = ""
    revision: str = ""  # as asked: "v3", a commit
    commit: str = ""
    variant: str = ""
    build_id: str = ""
    source: Literal["live", "cache", "index", "local", "module", ""] = ""
    folder: str = ""  # of the build, on disk
    trusted_by_name: bool = False  # --trust-remote-code


Measured = Literal["passed", "failed", "partial", "refused", "untested", "loaded, no contract"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The one answer over all cases. `text` is the whole line."""

    kind: Measured
    text: str
    undetermined: bool = False  # a question about the machine is open: exit code 3 instead of 1


@dataclass(frozen=True, slots=True)
class Pin:
    """A build that was measured here, in the forms that people type."""

    repo: str
    commit: str
    branch: str
    attention: bool
    inference_only: bool
    trust: bool  # get_kernel needs trust_remote_code

    @property
    def reference(self) -> str:
        """owner/name@commit"""
        return f"{self.repo}@{self.commit}"

    def forms(self) -> dict[str, str]:
        """Each form by its name, to be copied as it is."""
        trust = f", trust_remote_code=[{self.repo!r}]".replace("'", '"') if self.trust else ""
        forms = {"get_kernel": f'get_kernel("{self.repo}", revision="{self.commit}"{trust})'}
        if self.attention:
            forms = {
                "attn_implementation": f'attn_implementation="{self.reference}"',
                "trl": f"--attn_implementation {self.reference}",
                **forms,
            }
        return forms


@dataclass(frozen=True, slots=True)
class Note:
    """A rule that speaks of what was tried, weighed against what was measured."""

    rule: str
    title: str
    severity: str
    basis: Literal["build", "symptom"]  # the build itself, or the text of a failure
    standing: Literal["agrees", "disagrees", "open"]  # with the measurement
    text: str
    remedies: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One kernel, tried on one or more devices of one machine."""

    subject: Subject
    runs: tuple[Run, ...]
    refusals: tuple[Refusal, ...]
    verdict: Verdict
    pin: Pin | None
    findings: tuple[Note, ...]
    notes: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a failed try, 3 could not be determined."""
        if self.verdict.kind == "passed":
            return 0
        return 3 if self.verdict.undetermined else 1
