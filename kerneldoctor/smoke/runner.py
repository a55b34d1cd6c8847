"""Runs the cases of one kernel on one device in child processes that may die, and says what happened to each.

Parent side: imports no torch, trusts the journal alone, and never gives a verdict. Whatever one case does, every
other case is judged: after a crash, a hang or a broken device context a new child goes on with the next case.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import UndeterminedError
from .memory import host_limit, kills
from .outcome import Ending, How, case_report, dead_case, load_problem
from .process import Child
from .protocol import (
    EXIT_BAD_JOB,
    EXIT_DONE,
    EXIT_POISONED,
    Case,
    Compared,
    Done,
    Event,
    Hello,
    Job,
    KernelRequest,
    Loaded,
    Planned,
    Refused,
    Result,
    Selection,
    Stage,
    Versions,
)
from .scratch import scratch_folder
from .stopping import Stopping
from .trial import CaseReport, LoadProblem, Run
from .watch import Watch

WORKER = Path(__file__).with_name("worker.py")
_EXIT = 15.0  # seconds that a child may take to exit after it has said everything
_TRIES = 2  # children in a row that may die without having judged a case


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds, and how much memory of the host, in bytes (None: worked out)."""

    case: float = 120.0  # a Triton kernel that is tuned on its first call takes most of a minute
    load: float = 300.0  # from the start of a child to its first case: import of torch, load of the kernel
    total: float = 1200.0
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is. `number` counts from 1; 0 before the first case."""

    device: str
    number: int
    of: int
    case: str
    stage: str
    seconds: float  # since this case, or the load, began


@dataclass(frozen=True, slots=True)
class Order:
    """What to run: the kernel, where, and which cases."""

    kernel: KernelRequest
    device: str
    python: str = sys.executable
    selection: Selection | None = None
    cases: tuple[Case, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)  # added to that of this process
    worker: Path = WORKER


def run_cases(
    order: Order,
    limits: Limits = Limits(),
    progress: Callable[[Progress], None] = lambda seen: None,
) -> Run:
    """Run the cases and report each. Children, folders and device memory are gone when it returns or raises.

    Raises UndeterminedError when the interpreter cannot run the worker at all. Ctrl-C and SIGTERM end the children
    first and do then what they always do.
    """
    with Stopping() as stopping, scratch_folder() as folder:
        return Room(order, limits, progress, folder, stopping).run()


class Room:
    """One run: its children one after the other, and what is known of the cases."""

    def __init__(
        self, order: Order, limits: Limits, progress: Callable[[Progress], None], folder: Path, stopping: Stopping
    ) -> None:
        self._order, self._limits, self._progress = order, limits, progress
        self._folder, self._stopping = folder, stopping
        self._began = time.monotonic()
        self._memory = limits.memory or host_limit()
        self._planned: tuple[Case, ...] | None = order.cases or None
        self._reports: dict[str, CaseReport] = {}
        self._compared: dict[str, Compared] = {}
        self._run = Run(order.device)
        self._notes: list[str] = []
        self._problem: LoadProblem | None = None
        self._refused: Refused | None = None  # by the child at hand
        self._failed_loads = 0  # in a row
        self._cut: Ending | None = None  # the child that was at work when the time was up

    def run(self) -> Run:
        """Children until every case is judged, nothing can be done, or the time is up."""
        barren = 0
        while self._stopping.requested is None:
            before = len(self._reports)
            ending = self._child()
            self._judge(ending)
            barren = barren + 1 if len(self._reports) == before else 0
            if self._problem is not None or not self._rest() or ending.how is How.TOTAL:
                break
            if barren >= _TRIES:
                # Children die before the first stage of a case: it must be this case, or there would be no end.
                self._blame(self._rest()[0].id, ending)
                barren = 0
        if self._problem is None:
            self._skip_rest()
        cases = tuple(self._reports[case.id] for case in self._planned or () if case.id in self._reports)
        return replace(
            self._run,
            cases=cases,
            problem=self._problem,
            notes=tuple(dict.fromkeys(self._notes)),
            seconds=time.monotonic() - self._began,
        )

    def _rest(self) -> tuple[Case, ...]:
        return tuple(case for case in self._planned or () if case.id not in self._reports)

    def _child(self) -> Ending:
        """One child, from its start to its end."""
        nonce = secrets.token_hex(16)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        job = Job(
            nonce=nonce,
            kernel=self._order.kernel,
            device=self._order.device,
            journal=str(folder / "journal"),
            cases=self._rest(),
            selection=None if self._planned is not None else self._order.selection,
            memory_limit=self._memory if self._order.device == "cpu" else None,
        )
        (folder / "job.json").write_text(job.to_json(), "utf-8")
        argv = (self._order.python, str(self._order.worker), str(folder / "job.json"))
        try:
            child = Child(argv, nonce, {**os.environ, **self._order.environ}, folder)
        except OSError as error:
            raise UndeterminedError(f"{self._order.python} cannot be started: {error.strerror or error}") from None
        self._run = replace(self._run, children=self._run.children + 1)
        killed_before = kills()
        watch = Watch(self, child, Path(job.journal), nonce)
        try:
            how = watch.until_over()
        finally:
            code = child.end()
        watch.catch_up()
        killed = kills()
        return Ending(
            how, code, child.last_words, watch.stage, watch.judged, tuple(watch.stages), watch.seconds, watch.said,
            child.lost_parent, None if killed is None or killed_before is None else killed > killed_before,
        )  # fmt: skip

    def hear(self, event: Event) -> None:
        """Keep what an event says."""
        match event:
            case Hello():
                self._run = replace(self._run, packages=event.versions)
            case Versions():
                self._run = replace(self._run, versions=event)
            case Loaded():
                self._run = replace(self._run, loaded=event)
            case Planned():
                self._failed_loads = 0
                self._planned = event.cases if self._planned is None else self._planned
            case Refused():
                self._refused = event
            case Compared():
                self._compared[event.id] = event
            case Result():
                case = next((c for c in self._planned or () if c.id == event.id), None)
                if case is not None:
                    self._reports.setdefault(case.id, case_report(case, event))
            case Done() if self._run.children == 1:
                self._run = replace(self._run, timings=event.timings, peak_memory=event.peak_memory)
            case _:
                pass

    def _judge(self, ending: Ending) -> None:
        """Lay what the child died of at the door of a case, or of the load."""
        # No code of the kernel runs while cases are chosen: what ends there with an exception is our own fault.
        ours = ending.stage is not None and ending.stage.name == "plan" and (ending.code or 0) > 0
        if ending.code == EXIT_BAD_JOB or (ours and Planned not in ending.said):
            raise AssertionError(f"the worker could not read its job: {_last_line(ending.words)}")
        if Hello not in ending.said and ending.how is How.EXIT:
            raise UndeterminedError(
                f"{self._order.python} did not start the worker: {_last_line(ending.words) or ending.text}"
            )
        if ending.code is None:
            self._notes.append("a child did not die of SIGKILL: it hangs inside the driver; look for it with ps")
        if Done in ending.said:
            self._after_the_end(ending)
            return
        if ending.how is How.STOPPED or ending.code == EXIT_POISONED:
            return
        if Planned not in ending.said:
            self._not_loaded(self._refused or ending)
        elif ending.how is How.TOTAL:
            self._cut = ending
        elif ending.stage is not None and ending.stage.case is not None and not ending.judged:
            self._blame(ending.stage.case, ending)
        else:
            self._notes.append(f"a process {ending.text} between two cases; the next one went on")

    def _not_loaded(self, end: Refused | Ending) -> None:
        """No case was judged yet: nothing will be. Otherwise try again once: a dying process may hold the device."""
        problem = load_problem(end)
        self._failed_loads += 1
        self._refused = None
        if not self._reports:
            self._problem = problem
        elif self._failed_loads >= _TRIES:
            for case in self._rest():
                detail = f"the kernel was loaded before, but not again: {problem.message}"
                self._reports[case.id] = CaseReport(case, "skipped", detail, said=problem.said)

    def _after_the_end(self, ending: Ending) -> None:
        """Everything was said, so no case is to blame; but a crash at exit ends a training run with an error."""
        if ending.how is How.HUNG:
            self._notes.append("the process did not exit by itself when all was done")
        elif ending.how is How.EXIT and ending.code not in (EXIT_DONE, EXIT_POISONED, None):
            self._notes.append(f"the process {ending.text} at its exit, after all cases")

    def _blame(self, identity: str, ending: Ending) -> None:
        case = next((c for c in self._rest() if c.id == identity), None)
        if case is not None:
            self._reports[case.id] = dead_case(case, ending, self._limits.case, self._compared.get(identity))

    def _skip_rest(self) -> None:
        for case in self._rest():
            limit = f"the total time limit of {self._limits.total:g} s"
            detail = f"not reached within {limit}"
            if self._cut is not None and self._cut.stage is not None and self._cut.stage.case == case.id:
                had = f"{self._cut.seconds:.0f} s, in {self._cut.stage.name},"
                detail = f"{case.id} had been running for {had} when {limit} was over"
            self._reports[case.id] = CaseReport(case, "skipped", detail)

    # --- what the watch asks ---------------------------------------------------------------------------------------

    def overdue(self, stage: Stage | None, planned: bool, over: bool, since: float) -> How | None:
        """Whether a child has had its time, and of which limit."""
        now = time.monotonic()
        if self._stopping.requested is not None:
            return How.STOPPED
        if now - self._began > self._limits.total:
            return How.TOTAL
        limit = _EXIT if over else self._limits.case if planned else self._limits.load
        return How.HUNG if now - since > limit else None

    def too_big(self, child: Child) -> bool:
        """Whether a child holds more memory of the host than is good for the machine."""
        return child.resident_bytes() > self._memory

    def show(self, stage: Stage | None, since: float) -> None:
        """Pass on where we are."""
        planned = self._planned or ()
        case = stage.case if stage is not None and stage.case else ""
        number = next((n for n, c in enumerate(planned, 1) if c.id == case), 0)
        name = stage.name if stage is not None else "start"
        self._progress(Progress(self._order.device, number, len(planned), case, name, time.monotonic() - since))


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""
