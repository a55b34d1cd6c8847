"""Says what happened to one case, or to the load, from what the child said and how it ended. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Literal

from .process import signal_name
from .protocol import Case, Compared, Refused, Result, Stage
from .trial import CaseReport, LoadProblem

_SAID = 4000  # characters of output that are kept as evidence


class How(enum.Enum):
    """Why a child is over."""

    EXIT = "it ended by itself"
    HUNG = "no answer within its time"
    MEMORY = "it took too much memory"
    TOTAL = "the time of the whole run was up"
    STOPPED = "we were asked to stop"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one child."""

    how: How
    code: int | None  # negative: the signal; None: it could not be ended
    words: str  # the end of what it printed
    stage: Stage | None  # the last one that it announced
    judged: bool  # the case of that stage has its result
    stages: tuple[str, ...] = ()  # every stage of that case
    seconds: float = 0.0  # since that case began
    said: set[type[Any]] = field(default_factory=set)  # kinds of events
    lost_parent: bool = False  # the process that had started it was killed
    for_memory: bool | None = None  # the system has killed a process for want of memory meanwhile; None: not known

    @property
    def signal(self) -> str:
        """The signal it died of by itself, or ""."""
        return signal_name(self.code or 0) if self.how is How.EXIT else ""

    @property
    def text(self) -> str:
        """How it ended, after "it"."""
        if self.how is How.HUNG:
            return "did not answer"
        if self.how is How.MEMORY:
            return "took too much memory"
        if self.lost_parent:
            return "killed the process that had started it"
        if self.signal:
            return f"died of {self.signal}"
        return f"ended with exit code {self.code}"


def case_report(case: Case, result: Result) -> CaseReport:
    """The child's own words on a case."""
    return CaseReport(
        case=case,
        outcome=result.outcome,
        detail=result.detail,
        stage=result.stage,
        seconds=result.seconds,
        direction=result.direction,
        forward=result.forward,
        errors=result.errors,
        said=result.traceback_tail[-_SAID:],
        notes=(*result.notes, *(("the device context was broken after it",) if result.poisoned else ())),
        timings=result.timings,
        measured=result.measured,
    )


def dead_case(case: Case, ending: Ending, limit: float, compared: Compared | None = None) -> CaseReport:
    """A case that took the child along. `limit`: seconds that a case may take; `compared`: its forward, if it was."""
    stage = ending.stage.name if ending.stage is not None and ending.stage.case == case.id else ""
    where = f" in {stage}" if stage else ""
    direction = _direction(ending.stages) if stage else None
    outcome: Any
    if ending.how is How.HUNG:
        outcome, detail = "hung", f"no answer within {limit:g} s{where}; ended by force"
    elif ending.how is How.MEMORY:
        outcome, detail = "oom", f"took too much memory of the host{where}; ended by force"
    elif ending.lost_parent:
        outcome, detail = "crashed", f"{ending.text}{where}"
    elif ending.signal == "SIGKILL":
        outcome, detail = "oom" if ending.for_memory else "crashed", _killed(ending, where)
    elif ending.signal:
        outcome, detail = "crashed", f"{ending.signal}{where}{_first_words(ending.words)}"
    else:
        outcome, detail = (
            "crashed",
            f"ended the process with exit code {ending.code}{where}{_first_words(ending.words)}",
        )
    if compared is not None and compared.found:
        direction, detail = "forward", f"{detail}; before that its forward was wrong: {compared.found}"
    return CaseReport(
        case, outcome, detail, stage, ending.seconds, direction,
        forward=None if compared is None else not compared.found,
        errors={} if compared is None else compared.errors,
        signal=ending.signal, said=ending.words[-_SAID:],
    )  # fmt: skip


def _direction(stages: tuple[str, ...]) -> Literal["forward", "backward"] | None:
    """What had been called of the kernel: a device reports its faults late, perhaps only when results are compared."""
    called = [name for name in stages if name.endswith(("forward", "backward"))]
    if not called:
        return None
    return "backward" if called[-1].endswith("backward") else "forward"


def load_problem(end: Refused | Ending) -> LoadProblem:
    """Why there is nothing to judge."""
    if isinstance(end, Refused):
        return LoadProblem("refused", end.reason, end.message, end.stage, end.traceback_tail[-_SAID:])
    stage = end.stage.name if end.stage is not None else "start"
    said = end.words[-_SAID:]
    if end.how in (How.HUNG, How.TOTAL):
        return LoadProblem("hung", "", f"no answer in {stage}; ended by force", stage, said)
    if end.signal == "SIGKILL" and not end.lost_parent:
        kind: Any = "oom" if end.for_memory else "crashed"
        return LoadProblem(kind, end.signal, _killed(end, f" in {stage}"), stage, said)
    if end.how is How.MEMORY:
        return LoadProblem("oom", end.signal, f"took too much memory in {stage}", stage, said)
    return LoadProblem("crashed", end.signal, f"{end.text} in {stage}{_first_words(end.words)}", stage, said)


def _killed(ending: Ending, where: str) -> str:
    if ending.for_memory:
        return f"killed by the system{where}, for want of memory"
    doubt = ", or the system did for want of memory, which cannot be seen here" if ending.for_memory is None else ""
    return f"SIGKILL{where}: the kernel or somebody else sent it{doubt}"


def _first_words(words: str) -> str:
    """What native code says when it gives up stands at the end of its output."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    found = next((line for line in reversed(lines) if _telling(line)), "")
    return f": {found[:200]}" if found else ""


def _telling(line: str) -> bool:
    lower = line.lower()
    words = ("error", "assert", "abort", "terminate", "what()")
    return any(word in lower for word in words) and not lower.startswith("fatal python error")
