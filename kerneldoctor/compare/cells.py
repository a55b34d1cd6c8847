"""From the reports of all rounds to the cells of a table: numbers where there are any, and why there are none. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..smoke.trial import CaseReport
from .model import Cell, Outcome
from .ranking import pool
from .workload import Direction, Workload

Rounds = Mapping[int, CaseReport]  # of one round, by length


def make_cells(
    workload: Workload, rounds: Sequence[Rounds], backward: bool, why_no_backward: str, peak: float | None
) -> tuple[Cell, ...]:
    """Every length in every direction of one implementation. peak: the device's, in 10^12 operations a second."""
    made = []
    for length in workload.lengths:
        reports = [one[length] for one in rounds if length in one]
        for direction in workload.directions:
            if direction != "forward" and not backward:
                made.append(Cell(length, direction, "unsupported", why_no_backward))
            elif not reports:
                made.append(Cell(length, direction, "skipped", "it was not loaded again"))
            else:
                made.append(_cell(workload, length, direction, reports, peak))
    return tuple(made)


def _cell(
    workload: Workload, length: int, direction: Direction, reports: Sequence[CaseReport], peak: float | None
) -> Cell:
    bad = next((report for report in reports if _speaks_against(report, direction)), None)
    if bad is not None:
        return Cell(length, direction, "failed", bad.detail)
    found = [report.measured.get(direction) or {} for report in reports]
    timing = pool([_numbers(one.get("ms")) for one in found], bool(found[0].get("cold")))
    if timing is None:
        outcome, detail = _why_not(reports[0])
        return Cell(length, direction, outcome, detail)
    per_second = 1e3 / timing.median if timing.median > 0 else 0.0
    tflops = workload.operations(length, direction) * per_second / 1e12
    return Cell(
        length, direction, "measured", "", timing,
        _whole(found[0].get("peak_bytes")), _whole(found[0].get("total_bytes")),
        _seconds(found[0].get("first_call_s")), workload.tokens(length) * per_second, tflops,
        tflops / peak if peak else None,
    )  # fmt: skip


def _speaks_against(report: CaseReport, direction: Direction) -> bool:
    """Whether it broke in this direction, or before it came to it. Running out of memory does not count."""
    if report.outcome == "oom" or not report.failed:
        return False
    return direction != "forward" or report.direction != "backward"


def _why_not(report: CaseReport) -> tuple[Outcome, str]:
    if report.outcome == "oom":
        return "oom", report.detail
    return ("unsupported" if report.outcome == "unsupported" else "skipped"), report.detail


def _numbers(raw: Any) -> list[float]:
    return [float(value) for value in raw if isinstance(value, (int, float))] if isinstance(raw, list) else []


def _whole(raw: Any) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None


def _seconds(raw: Any) -> float | None:
    return float(raw) if isinstance(raw, (int, float)) else None
