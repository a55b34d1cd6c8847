"""A comparison as it comes out of a GPU, made by hand: every kind of ending is in it."""

from __future__ import annotations

from kerneldoctor.compare.cells import make_cells
from kerneldoctor.compare.model import BuildCost, Comparison, Entry, Implementation, Peak, Rank, Ready
from kerneldoctor.compare.ranking import rank
from kerneldoctor.compare.workload import Workload, make_workload
from kerneldoctor.smoke.protocol import Case
from kerneldoctor.smoke.trial import CaseReport

LENGTHS = (1024, 2048, 4096)
WORK = make_workload("cuda:0", {"lengths": LENGTHS}, {})
PEAK = Peak(989.0, "https://www.nvidia.com/en-us/data-center/h200/")
BUILD = BuildCost(180, 7200, "minutes to hours", "https://github.com/Dao-AILab/flash-attention/blob/main/README.md")


def report(length: int, forward: float, step: float | None, outcome: str = "passed", detail: str = "") -> CaseReport:
    """One length of one round; `step` None: only the forward was measured."""
    measured = {"forward": _measured(forward, 1)}
    if step is not None:
        measured |= {"step": _measured(step, 3), "backward": _measured(step - forward, 0)}
    direction = "backward" if outcome != "passed" and forward else None
    case = Case(f"length-{length}", "measure", {"seqlen": length}, 0)
    return CaseReport(case, outcome, detail, direction=direction, measured=measured if forward else {})  # type: ignore[arg-type]


def _measured(ms: float, gib: int) -> dict[str, object]:
    sizes = {"peak_bytes": gib << 30, "total_bytes": (gib + 1) << 30, "first_call_s": 2.0} if gib else {}
    return {"ms": [ms * factor for factor in (0.99, 1.0, 1.0, 1.01)], "cold": gib > 0, **sizes}


def entry(name: str, rounds: list[dict[int, CaseReport]], standing: str = "right", **more: object) -> Entry:
    """What came of one implementation."""
    why = str(more.pop("detail", ""))
    cells = make_cells(WORK, rounds, standing == "right", why, PEAK.tflops) if rounds else ()
    one = Implementation(name, "kernel" if "/" in name or name == "bad" else "built-in")
    return Entry(one, standing, why, cells, **more)  # type: ignore[arg-type]


def every(base: float) -> list[dict[int, CaseReport]]:
    """Two rounds in which every length was measured; `base` is the forward at 1k."""
    return [
        {length: report(length, base * (length / 1024) ** 2 * drift, base * (length / 1024) ** 2 * 3.5 * drift)
         for length in LENGTHS}
        for drift in (1.0, 1.005)
    ]  # fmt: skip


def comparison(workload: Workload = WORK) -> Comparison:
    """The whole."""
    greedy = [{
        1024: report(1024, 3.0, 11.0),
        2048: report(2048, 12.0, None, "oom", "OutOfMemoryError: CUDA out of memory"),
        4096: report(4096, 0, None, "skipped", "out of memory at 2048 already"),
    }]  # fmt: skip
    entries = (
        entry("eager", greedy * 2),
        entry("sdpa", every(0.5), taken={"forward": "flash", "step": "flash"}, ready=Ready(None, 0.0, 0.1, 0.2, 3.0)),
        entry("kernels-community/flash-attn2@v2", every(0.4), ready=Ready(2.5, 0.4, 0.1, 0.1, 3.0)),
        entry("fa3-fwd", every(0.3), "forward-only", detail="it has no backward"),
        entry("bad", [], "wrong", detail="it is wrong: out is off by 0.05"),
    )
    ranks: list[Rank | None] = [rank(entries, length, kind) for kind in workload.directions for length in LENGTHS]
    return Comparison(
        workload, "cuda:0", "NVIDIA H200", 150 << 30, "2.11.0+cu130", {"triton": "3.6.0"}, entries,
        tuple(one for one in ranks if one is not None), PEAK, BUILD, 2, 61.5,
        ("the clocks were held down by the power limit in 40 % of the time",), ("a note",),
    )  # fmt: skip
