"""From what happened to the cases to one verdict, its line, and the pin that goes with a pass. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..hub.download import is_commit
from .trial import FAILURES, CaseReport, LoadProblem, Pin, Refusal, Run, Subject, Verdict

# What lies with the machine or the request: nothing was learnt about the kernel.
_MACHINE = frozenset({"no-torch", "no-kernels", "no-device", "hub-unreachable"})
_ATTENTION = ("flash_attn",)


def judge_runs(refusals: Sequence[Refusal], runs: Sequence[Run]) -> Verdict:
    """The verdict over every device: of several the worst."""
    if refusals:
        return Verdict("refused", f"refused ({'; '.join(refusal.why for refusal in refusals)})")
    verdicts = [judge_run(run) for run in runs]
    worst = max(verdicts, key=_badness, default=Verdict("untested", "untested", True))
    if len(runs) < 2:
        return worst
    return Verdict(worst.kind, f"{worst.text} on {_devices(runs, verdicts, worst)}", worst.undetermined)


def judge_run(run: Run) -> Verdict:
    """The verdict on one device."""
    if run.problem is not None:
        return _not_loaded(run.problem)
    if not run.cases:
        return _no_cases(run)
    by_outcome: dict[str, list[CaseReport]] = {}
    for case in run.cases:
        by_outcome.setdefault(case.outcome, []).append(case)
    passed, skipped = by_outcome.get("passed", []), by_outcome.get("skipped", [])
    unsupported = by_outcome.get("unsupported", [])
    bad = [case for case in run.cases if case.failed]
    if bad:
        return _failed(bad, passed, skipped)
    refused = [case for case in unsupported if case.direction == "backward"]
    trains = any(case.case.params.get("backward") for case in passed)
    seen = passed or any(case.errors for case in refused)  # a forward that was compared
    if refused and not trains and seen and not skipped:
        return _partial(f"the kernel has no backward: {refused[0].detail}")
    if skipped:
        text = f"untested ({len(passed)} passed, {len(skipped)} not run: {skipped[0].detail})"
        return Verdict("untested", text, True)
    if not passed:
        return Verdict("untested", f"untested (not supported by the kernel: {unsupported[0].detail})", True)
    rest = f", {len(unsupported)} not supported by the kernel" if unsupported else ""
    return Verdict("passed", f"passed ({len(passed)} of {len(passed)}){rest}")


def _failed(bad: Sequence[CaseReport], passed: Sequence[CaseReport], skipped: Sequence[CaseReport]) -> Verdict:
    """Partial when everything that inference needs is right, and only the backward is not.

    A case that is found wrong in its backward was right in its forward; one that died in it did not get to say so.
    """
    forward_seen = passed or any(case.outcome in ("wrong", "raised", "oom") for case in bad)
    if all(case.direction == "backward" for case in bad) and forward_seen and not skipped:
        return _partial(_kinds(bad))
    more = f"; {len(passed)} of {len(passed) + len(bad)} passed" if passed else ""
    return Verdict("failed", f"failed ({_kinds(bad)}{more})")


def _partial(why: str) -> Verdict:
    return Verdict("partial", f"partial (inference fine, training not: {why})")


def _kinds(bad: Sequence[CaseReport]) -> str:
    """Which kinds of failure, and how often: "2 crashed, 1 wrong"."""
    counts = Counter(case.outcome for case in bad)
    return ", ".join(f"{counts[kind]} {_WORDS.get(kind, kind)}" for kind in FAILURES if counts[kind])


_WORDS = {"oom": "out of memory"}


def _not_loaded(problem: LoadProblem) -> Verdict:
    if problem.kind == "refused":
        undetermined = problem.reason in _MACHINE
        kind = "untested" if undetermined else "refused"
        return Verdict(kind, f"{kind} ({problem.reason}: {problem.message})", undetermined)  # type: ignore[arg-type]
    if problem.stage in ("start", "import-torch"):
        return Verdict("untested", f"untested (torch itself: {problem.message})", True)
    return Verdict("failed", f"failed ({problem.kind} while loading: {problem.message})")


def _no_cases(run: Run) -> Verdict:
    if run.loaded is not None and not run.loaded.contracts:
        return Verdict("loaded, no contract", "loaded, no contract", True)
    return Verdict("untested", "untested (no case was asked for)", True)


def _badness(verdict: Verdict) -> int:
    order = ("passed", "loaded, no contract", "untested", "partial", "refused", "failed")
    return order.index(verdict.kind)


def _devices(runs: Sequence[Run], verdicts: Sequence[Verdict], worst: Verdict) -> str:
    names = [run.device for run, verdict in zip(runs, verdicts, strict=True) if verdict.kind == worst.kind]
    return ", ".join(names)


def find_pin(verdict: Verdict, subject: Subject, runs: Sequence[Run], inference: bool) -> Pin | None:
    """The pin of a build that passed here; of one that passed in inference only, so marked."""
    if verdict.kind not in ("passed", "partial") or not subject.repo or not is_commit(subject.commit):
        return None
    contracts = {case.case.contract for run in runs for case in run.cases}
    return Pin(
        repo=subject.repo,
        commit=subject.commit,
        branch=subject.revision if subject.revision != subject.commit else "",
        attention=any(name.startswith(_ATTENTION) for name in contracts),
        inference_only=inference or verdict.kind == "partial",
        trust=subject.trusted_by_name,
    )
