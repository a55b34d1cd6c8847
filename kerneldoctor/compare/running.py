"""Checks every implementation and measures those that are right, in rounds: each in child processes that may die.

Parent side: imports no torch, and leaves ranks and words to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..smoke.measure.plan import CHECKS, UNCHECKED, check_cases, measure_cases
from ..smoke.protocol import Case
from ..smoke.runner import Limits, Order, Progress, run_cases
from ..smoke.trial import CaseReport, Run
from .cells import Rounds, make_cells
from .model import Entry, Implementation, Peak, Ready, Standing
from .workload import Workload

_MACHINE = frozenset({"no-torch", "no-kernels", "no-device", "hub-unreachable"})
_NO_TIME = 0.001  # seconds: a run that has no more says at once that it reached nothing
_BROKEN = frozenset({"import-error", "out-of-memory"})


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how it is measured."""

    device: str
    python: str
    limits: Limits  # of one case and one load; its total is for everything
    repeats: int
    scratch: Path  # for caches of compiled code, empty at the start
    progress: Callable[[Progress], None] = lambda seen: None


@dataclass(slots=True)
class _State:
    """What is known of one implementation so far."""

    implementation: Implementation
    number: int
    standing: Standing = "unknown"
    detail: str = ""
    ready: Ready | None = None
    rounds: list[Rounds] = field(default_factory=list)  # reports by length, a round each
    notes: list[str] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)

    @property
    def may_be_measured(self) -> bool:
        return self.standing in ("right", "forward-only", "backward-failed")


class Measuring:
    """One comparison on its way."""

    def __init__(self, implementations: Sequence[Implementation], workload: Workload, setting: Setting) -> None:
        self._workload, self._setting = workload, setting
        self._states = [_State(one, number) for number, one in enumerate(implementations)]
        self._began = time.monotonic()
        self._done, self._all = 0, 0
        self.runs: list[Run] = []  # for versions and the device's name
        self.windows: list[tuple[float, float]] = []  # when something was measured, as time.time()

    def go(self) -> None:
        """Rounds, the first with the checks; every second one in reverse, so that what drifts hits all alike."""
        able = [state for state in self._states if state.implementation.request is not None]
        lengths = len(self._workload.lengths)
        self._all = len(able) * (CHECKS + lengths * self._setting.repeats)
        for state in able:
            self._first_round(state)
        for number in range(1, self._setting.repeats):
            for state in able if number % 2 == 0 else reversed(able):
                if state.may_be_measured:
                    self._round(state, number)
                else:
                    self._done += lengths

    def entries(self, peak: Peak) -> tuple[Entry, ...]:
        """What came of each."""
        return tuple(self._entry(state, peak) for state in self._states)

    def _entry(self, state: _State, peak: Peak) -> Entry:
        one = state.implementation
        if one.request is None:
            return Entry(one, one.standing, one.trouble, notes=one.notes)
        cells = (
            make_cells(self._workload, state.rounds, self._backward(state), state.detail, peak.tflops)
            if state.rounds
            else ()
        )
        notes = tuple(dict.fromkeys((*one.notes, *state.notes)))
        return Entry(one, state.standing, state.detail, cells, state.ready, state.taken, notes)

    # --- one implementation -----------------------------------------------------------------------------------------

    def _first_round(self, state: _State) -> None:
        """The checks and, in the same process where they pass, the lengths."""
        params, device = self._workload.params(), self._setting.device
        lengths = [(length, self._workload.backward) for length in self._workload.lengths]
        run = self._run(state, (*check_cases(params, device), *measure_cases(params, lengths, checked=False)))
        checks = tuple(report for report in run.cases if report.case.contract == "check")
        state.standing, state.detail = judge(replace(run, cases=checks))
        if self._left() <= _NO_TIME and state.standing != "right":
            state.standing, state.detail = "unknown", f"not reached within {self._setting.limits.total:g} s in all"
        state.ready = _ready(run, state.implementation.fetch_seconds)
        if not state.may_be_measured:
            return
        self._keep(state, run)
        # A process that died took the knowledge of the check along.
        again = [length for length, report in state.rounds[0].items() if report.detail == UNCHECKED]
        if again:
            self._done -= len(again)
            rest = self._run(state, measure_cases(params, [(n, self._backward(state)) for n in again], checked=True))
            self._keep(state, rest, in_place=True)

    def _round(self, state: _State, number: int) -> None:
        """Once more, but for what did not end well."""
        first, backward = state.rounds[0], self._backward(state)
        lengths = [
            (length, backward and "backward" in first[length].measured)
            for length in self._workload.lengths
            if length in first and first[length].measured.get("forward", {}).get("ms")
        ]
        self._done += len(self._workload.lengths) - len(lengths)
        if not lengths:
            return
        run = self._run(state, measure_cases(self._workload.params(), lengths, checked=True))
        self._keep(state, run)
        if run.problem is not None:
            state.notes.append(f"it loaded before, but not in round {number + 1}: {run.problem.message}")

    def _backward(self, state: _State) -> bool:
        return self._workload.backward and state.standing == "right"

    def _keep(self, state: _State, run: Run, in_place: bool = False) -> None:
        """What was measured, as a round of its own or in place of what was missing in the last one."""
        found = {int(report.case.params["seqlen"]): report for report in run.cases if report.case.contract == "measure"}
        if in_place:
            state.rounds[-1] = {**state.rounds[-1], **found}
        else:
            state.rounds.append(found)
        for report in found.values():
            state.notes += report.notes
            state.taken |= _texts(report.measured.get("taken"))

    def _run(self, state: _State, cases: tuple[Case, ...]) -> Run:
        one, setting = state.implementation, self._setting
        assert one.request is not None
        caches = setting.scratch / str(state.number)
        environ = {
            **one.environ, "TRITON_CACHE_DIR": str(caches / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        }  # fmt: skip
        order = Order(one.request, setting.device, setting.python, cases=cases, environ=environ)
        done = self._done

        def progress(seen: Progress) -> None:
            what = f"{one.name}, {seen.case}" if seen.case else one.name
            setting.progress(replace(seen, number=done + max(seen.number, 1), of=self._all, case=what))

        start = time.time()
        run = run_cases(order, replace(setting.limits, total=self._left()), progress)
        self.windows.append((start, time.time()))
        self._done += len(cases)
        self.runs.append(run)
        state.notes += run.notes
        return run

    def _left(self) -> float:
        """Seconds that are left of the total."""
        return max(_NO_TIME, self._setting.limits.total - (time.monotonic() - self._began))


def judge(run: Run) -> tuple[Standing, str]:
    """What the checks say of an implementation, and why."""
    if run.problem is not None:
        problem = run.problem
        text = f"{problem.kind} in {problem.stage}: {problem.message}"
        if problem.kind == "hung" and problem.stage == "start":
            return "unknown", text
        if problem.kind == "refused" and problem.reason not in _BROKEN:
            return ("unknown" if problem.reason in _MACHINE else "refused"), problem.message
        return "failed", text
    bad = [report for report in run.cases if report.outcome != "passed"]
    if not bad:
        return ("right", "") if run.cases else ("unknown", "it was not reached in time")
    blind = [report for report in bad if report.forward is not True]
    if blind:
        return _without_forward(blind)
    if all(report.outcome == "unsupported" for report in bad):
        return "forward-only", bad[0].detail
    worst = next(report for report in bad if report.outcome != "unsupported")
    return "backward-failed", f"its backward {_verb(worst)}: {worst.detail}"


def _without_forward(reports: Sequence[CaseReport]) -> tuple[Standing, str]:
    for report in reports:
        if report.failed:
            return ("wrong" if report.outcome == "wrong" else "failed"), f"it {_verb(report)}: {report.detail}"
    for report in reports:
        if report.outcome == "unsupported":
            return "unsupported", report.detail
    return "unknown", reports[0].detail


def _verb(report: CaseReport) -> str:
    return {"wrong": "is wrong", "raised": "raises", "oom": "takes too much memory"}.get(report.outcome, report.outcome)


def _ready(run: Run, fetch: float | None) -> Ready | None:
    """Of the first child, where the first case got as far as an output."""
    first = run.cases[0] if run.cases else None
    timings = run.timings
    if first is None or "forward" not in first.timings or "load-kernel" not in timings:
        return None
    return Ready(
        fetch, timings["load-kernel"], first.timings["forward"], first.timings.get("backward"),
        timings.get("import-torch", 0.0),
    )  # fmt: skip


def _texts(raw: Any) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in raw.items()} if isinstance(raw, dict) else {}
