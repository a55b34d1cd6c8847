"""Goes through candidates from the first to the last until one passes, and chooses. Runs none itself: that is injected.

Pure but for what `attempt` does. A measurement outranks a prediction; what was not run is never called right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..errors import UndeterminedError
from ..smoke.trial import Trial
from .model import Candidate, Policy

Attempt = Callable[[Candidate], Trial]
_NOTHING_LEARNT = ("untested", "loaded, no contract")


def walk(candidates: Iterable[Candidate], attempt: Attempt, policy: Policy) -> tuple[Candidate, ...]:
    """The candidates, those that were run with what came of it.

    What is ruled out is not run unless the policy says so, and of a publisher that is refused only the first version.
    `attempt` may raise UndeterminedError: that says nothing of the candidate.
    """
    found: list[Candidate] = []
    passed = False
    for candidate in candidates:
        refused = _refusal_of(candidate.repo, found)
        if refused:
            candidate = replace(candidate, predicted=False, why=refused)
        elif _may_run(candidate, policy) and (policy.try_all or not passed):
            candidate = _run(candidate, attempt)
            passed = passed or candidate.passes(policy.inference)
        found.append(candidate)
    return tuple(found)


def choose(candidates: Sequence[Candidate], policy: Policy) -> Candidate:
    """The first that passed; else the first that should, one without known faults before; else the floor."""
    passed = next((c for c in candidates if c.passes(policy.inference)), None)
    if passed is not None:
        return passed
    likely = sorted((c for c in candidates if c.basis == "predicted"), key=lambda c: bool(c.rules))
    return likely[0] if likely else candidates[-1]


def exit_code(chosen: Candidate, candidates: Sequence[Candidate], policy: Policy, ran: bool) -> int:
    """0 a pin was found, 1 only the floor is left, 3 that could not be told."""
    if chosen.passes(policy.inference):
        return 0
    if chosen.basis == "predicted":
        return 3 if ran else 0
    return 3 if any(c.basis in ("predicted", "not determined") for c in candidates) else 1


def _may_run(candidate: Candidate, policy: Policy) -> bool:
    if candidate.kind == "floor" or (candidate.kind == "kernel" and not candidate.build):
        return False
    return candidate.predicted is not False or policy.try_all


def _run(candidate: Candidate, attempt: Attempt) -> Candidate:
    try:
        trial = attempt(candidate)
    except UndeterminedError as error:
        return replace(candidate, obstacle=str(error))
    obstacle = trial.verdict.text if trial.verdict.kind in _NOTHING_LEARNT else ""
    return replace(candidate, trial=trial, obstacle=obstacle)


def _refusal_of(repo: str, found: Sequence[Candidate]) -> str:
    """Why the publisher of a repository was refused already, or ""."""
    trials = (c.trial for c in found if c.repo == repo and c.trial is not None)
    refusals = (refusal for trial in trials for refusal in trial.refusals)
    return next((refusal.why for refusal in refusals if refusal.code == "untrusted"), "")
