"""What `preflight` does, for Python programs: hold this machine, and every rank of the job, to a policy.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import __version__
from .errors import KerneldoctorError, UndeterminedError, UsageError
from .preflight.policy import Around, Policy

if TYPE_CHECKING:
    from .lock import Locked
    from .preflight.assembly import Assembly, Present
    from .preflight.launch import Launch
    from .preflight.ranks import Rank
    from .report.checks import Check, Checks

_SPARE = 0.1  # share of the time limit that is left for handing results around
_MOST_SPARE = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Preflight:
    """What came of it. Of a job with several ranks only rank 0 has the checks of all."""

    checks: Checks
    exit_code: int  # the same for every rank
    about: Mapping[str, Any]  # policy, launch and ranks, as plain values


USUAL_AROUND = Around()


def run_preflight(
    policy: Policy, around: Around = USUAL_AROUND, report: Callable[[Preflight], None] = lambda found: None
) -> int:
    """Check everything that the policy demands, here and on every rank of the job, and say how the process should end.

    report: gets the result, on rank 0 alone where there are several, and before the other ranks learn the exit code.

    Raises UsageError for a policy that cannot be followed. A rank that hears nothing from rank 0 ends with 3.
    """
    import os

    from .preflight.launch import find_launch

    locks = _read(policy)
    launch = find_launch(os.environ)
    if around.env is not None and policy.run == "smoke":
        policy = replace(policy, run="variants")  # somebody else's machine: nothing can be run on it
    if launch is None:
        found = _alone(policy, around, locks)
        report(found)
        return found.exit_code
    from .preflight.assembly import meet

    python = policy.python or sys.executable
    return meet(launch, python, policy.timeout, lambda assembly: _Attending(
        policy, around, locks, launch, assembly, report).attend())  # fmt: skip


def is_launched() -> bool:
    """Whether this process is one of several ranks. Raises UsageError where what the launcher says makes no sense."""
    import os

    from .preflight.launch import find_launch

    return find_launch(os.environ) is not None


def _read(policy: Policy) -> dict[str, tuple[Locked, ...]]:
    """The lock files by path; and whether the rules that are to be ignored exist. All mistakes at once."""
    from .api import find_rule
    from .lock import read_lock

    mistakes: list[str] = []
    locks: dict[str, tuple[Locked, ...]] = {}
    for path in dict.fromkeys(policy.lock_of(kernel) for kernel in policy.kernels):
        try:
            locks[path] = read_lock(path) if path else ()
        except UsageError as error:
            mistakes.append(str(error))
    for ignore in policy.ignore:
        try:
            find_rule(ignore.rule, policy.rules)
        except UsageError as error:
            mistakes.append(f"{policy.source}: ignore: {error}" if policy.source else str(error))
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return locks


def _alone(policy: Policy, around: Around, locks: Mapping[str, tuple[Locked, ...]]) -> Preflight:
    from .preflight.looking import Looking

    looking = Looking(policy, around, locks, time.monotonic() + policy.timeout)
    rank = looking.rank()
    return _preflight(policy, around, looking, rank.checks, {"launch": None, "ranks": [_rank_json(rank)]})


class _Attending:
    """This process as one rank of a job."""

    def __init__(
        self, policy: Policy, around: Around, locks: Mapping[str, tuple[Locked, ...]], launch: Launch,
        assembly: Assembly, report: Callable[[Preflight], None],
    ) -> None:  # fmt: skip
        from .preflight.looking import Looking

        spare = min(_MOST_SPARE, policy.timeout * _SPARE)
        end = time.monotonic() + policy.timeout - spare
        self._policy, self._around, self._launch, self._assembly = policy, around, launch, assembly
        self._report = report
        self._looking = Looking(policy, around, locks, end, launch, assembly)

    def attend(self) -> int:
        """Look, hand in, and end as all do."""
        own = self._look()
        if not self._launch.leads:
            self._assembly.hand_in(own)
            try:
                return self._assembly.learn()
            except UndeterminedError as error:
                self._around.warn(str(error))
                return 3
        code = 4  # for the others, should anything of ours go wrong now
        try:
            found = self._all(own, self._assembly.gather(own))
            self._report(found)
            code = found.exit_code
        finally:
            self._assembly.decide(code)
        return code

    def _look(self) -> Rank:
        from .preflight.ranks import Rank
        from .report.checks import Check

        try:
            return self._looking.rank()
        except KerneldoctorError as error:
            # What stops one rank is a finding about the job, not the end of everybody's report.
            status: Any = "failed" if isinstance(error, UsageError) else "undetermined"
            check = Check("machine", "policy", "can be looked at", status, "error", str(error), kind="not-looked-at")
            return Rank(self._launch.rank, platform.node(), "", checks=(check,))

    def _all(self, own: Rank, present: Present) -> Preflight:
        from .preflight.machine import settled
        from .preflight.ranks import merge, without_meeting

        nodes = dict.fromkeys(rank.node for rank in sorted(present.ranks, key=lambda rank: rank.rank))
        names = {node: f"machine {n}" for n, node in enumerate(nodes, 1)}
        ranks = [replace(r, node=names[r.node]) if self._around.redact else r for r in present.ranks]
        checks = merge(ranks, present.missing, self._launch.size)
        ours = ("ranks", "rank")
        checks = tuple(settled(c, self._policy.fail_on) if c.id.startswith(ours) else c for c in checks)
        if present.trouble:
            checks = without_meeting(checks, present.missing, present.trouble)
        launch = {"how": self._launch.how, "size": self._launch.size, "machines": len(names)}
        missing = [{"rank": m.rank, "how": m.how, "stage": m.stage} for m in present.missing]
        about = {"launch": launch, "ranks": [_rank_json(rank) for rank in ranks], "missing": missing}
        return _preflight(self._policy, self._around, self._looking, checks, about)


def _rank_json(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.rank, "machine": rank.node, "device": rank.device, "environment": dict(rank.fingerprint),
        "kernels": dict(rank.builds), "seconds": round(rank.seconds, 3),
    }  # fmt: skip


def _preflight(
    policy: Policy, around: Around, looking: Any, checks: tuple[Check, ...], about: Mapping[str, Any]
) -> Preflight:
    from .report.checks import code_of
    from .report.preflight import assemble

    code = code_of(checks)
    told = {
        "policy": {
            "file": policy.source, "run": policy.run, "fail_on": policy.fail_on, "timeout": policy.timeout,
            "kernels": [kernel.reference for kernel in policy.kernels],
        },
        **about,
    }  # fmt: skip
    found = assemble(looking.base, checks, told, looking.notes, __version__)
    return Preflight(found, code, told)
