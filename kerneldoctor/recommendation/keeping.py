"""What a recommendation leaves in a lock file: the chosen build, its files, what was measured. Writes nothing."""

from __future__ import annotations

import datetime
from pathlib import Path

from ..hub.download import is_commit
from ..lock import Locked, LockedVerdict, fingerprint
from ..smoke.digest import digests_of
from .model import Candidate, Policy, Recommendation


def locked(recommendation: Recommendation, today: datetime.date, release: str) -> Locked | None:
    """The entry for what was chosen; None where that is no build of a Hub kernel with a commit.

    release: of kerneldoctor. Raises OSError where a file of the build cannot be read any more.
    """
    chosen = recommendation.chosen
    if chosen.kind != "kernel" or not is_commit(chosen.commit):
        return None
    subject = chosen.trial.subject if chosen.trial is not None else None
    return Locked(
        reference=recommendation.reference,
        repo=chosen.repo,
        revision=chosen.version if chosen.version != chosen.commit else "",
        commit=chosen.commit,
        variant=(subject.variant if subject is not None else "") or chosen.build,
        build_id=(subject.build_id if subject is not None else "") or chosen.build_id,
        digests=digests_of(Path(subject.folder)) if subject is not None and subject.folder else {},
        environment=fingerprint(recommendation.environment),
        verdict=_verdict(chosen, recommendation.policy),
        workload={**recommendation.workload, "backward": not recommendation.policy.inference},
        date=today.isoformat(),
        kerneldoctor=release,
    )


def _verdict(chosen: Candidate, policy: Policy) -> LockedVerdict:
    trial = chosen.trial
    if trial is None or not chosen.passes(policy.inference):
        return LockedVerdict("untested", "untested")
    passed = sum(case.outcome == "passed" for run in trial.runs for case in run.cases)
    return LockedVerdict(trial.verdict.kind, trial.verdict.text, passed)
