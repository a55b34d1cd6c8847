"""What to do after a failed try: see it again, what rules advise, what else there is. Words only; tries nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .trial import Note, Run, Subject

_LIBRARIES = ("transformers", "trl")  # contracts of a kernel within a model


def next_steps(subject: Subject, runs: Sequence[Run], findings: Sequence[Note], reproduced: bool) -> tuple[str, ...]:
    """What to try after a failure, most helpful first. `reproduced`: single cases were asked for by name."""
    failed = [report for run in runs for report in run.cases if report.failed]
    if not failed and not any(run.problem for run in runs):
        return ()
    steps: list[str] = []
    if failed and not reproduced:
        worst = failed[0].case
        name = f"--local {subject.folder}" if subject.source == "local" else subject.reference
        name = f"--module {subject.reference}" if subject.source == "module" else name
        through = f" --through {worst.contract}" if worst.contract in _LIBRARIES else ""
        steps.append(f"see it again: kerneldoctor try {name}{through} --case {worst.id} --seed {worst.seed}")
    for note in findings:
        if note.standing == "agrees":
            steps += [_advice_text(advice) for advice in note.remedies[:2]]
    if subject.repo:
        steps.append(f"other versions that fit here: kerneldoctor variants {subject.repo}")
    if any(report.case.contract.startswith(("flash_attn", *_LIBRARIES)) for report in failed):
        steps.append('what torch brings always works: attn_implementation="sdpa"')
    return tuple(dict.fromkeys(steps))


def _advice_text(advice: Mapping[str, Any]) -> str:
    how = advice.get("command") or advice.get("snippet") or ""
    return f"{advice['title']}: {how}" if how else str(advice["title"])
