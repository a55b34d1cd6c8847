"""What to do after a failed try: see it again, what rules advise, what else there is. Words only; tries nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .trial import Note, Run, Subject
from .wish import Cases

_LIBRARIES = ("transformers", "trl")  # contracts of a kernel within a model
_TYPED = ("heads", "kv_heads", "head_dim", "dtype")  # of a workload: what the command has options for


def next_steps(
    subject: Subject, runs: Sequence[Run], findings: Sequence[Note], reproduced: bool, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """What to try after a failure, most helpful first. `reproduced`: single cases were asked for by name.

    options: the arguments without which the same case would not run again, see `options_of`.
    """
    failed = [report for run in runs for report in run.cases if report.failed]
    if not failed and not any(run.problem for run in runs):
        return ()
    steps: list[str] = []
    if failed and not reproduced:
        worst = failed[0].case
        name = {"local": ["--local", subject.folder], "module": ["--module", subject.reference]}.get(
            subject.source, [subject.reference]
        )
        through = ["--through", worst.contract] if worst.contract in _LIBRARIES else []
        words = [*name, *through, *options, "--case", worst.id, "--seed", str(worst.seed)]
        steps.append(f"see it again: kerneldoctor try {shlex.join(words)}")
    for note in findings:
        if note.standing == "agrees":
            steps += [_advice_text(advice) for advice in note.remedies[:2]]
    if subject.repo:
        steps.append(f"other versions that fit here: kerneldoctor variants {subject.repo}")
    if any(report.case.contract.startswith(("flash_attn", *_LIBRARIES)) for report in failed):
        steps.append('what torch brings always works: attn_implementation="sdpa"')
    return tuple(dict.fromkeys(steps))


def options_of(python: str | None, device: str, cases: Cases, trust: Sequence[str]) -> tuple[str, ...]:
    """What was asked for, as arguments: the interpreter (None: ours), the device, the workload, whom to trust."""
    single = {"--" + name.replace("_", "-"): value for name, value in cases.workload.items() if name in _TYPED}
    given = {"--python": python, "--device": None if device == "auto" else device, "--model": cases.model, **single}
    words = [word for name, value in given.items() if value is not None for word in (name, str(value))]
    words += [word for repo in trust for word in ("--trust-remote-code", repo)]
    return (*words, *(() if cases.backward else ("--inference",)))


def _advice_text(advice: Mapping[str, Any]) -> str:
    how = advice.get("command") or advice.get("snippet") or ""
    return f"{advice['title']}: {how}" if how else str(advice["title"])
