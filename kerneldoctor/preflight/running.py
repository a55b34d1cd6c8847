"""Runs one kernel of a policy on this rank's device, within the time that is left. Fetches nothing and asks no Hub."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import UndeterminedError, UsageError
from ..report.checks import Check
from .device import Machine
from .kernels import smoke_check, stopped_check, unrun_check
from .policy import Policy, WantedKernel

if TYPE_CHECKING:
    from ..smoke.trial import Trial
    from ..smoke.wish import Cases
    from .looking import Looking

_LEAST = 5.0  # seconds: with less than that a kernel is not even begun
Brought = Mapping[str, Any]  # what the rank that fetches says of one kernel


def smoke(
    kernel: WantedKernel, what: Brought, rest: int, workload: Mapping[str, Any], looking: Looking, policy: Policy,
    machine: Machine,
) -> Check:  # fmt: skip
    """The smoke test of one kernel; `rest` kernels share the time that is left. It ends when the job does."""
    name = kernel.reference
    if "why" in what:
        return unrun_check(name, f"it was not run: {what['why']}")
    if machine.usable:
        return unrun_check(name, machine.usable)
    if over := looking.over():
        return stopped_check(name, over)
    if looking.left < _LEAST:
        return unrun_check(name, f"not reached within the time limit of {policy.timeout:g} s")
    looking.step(f"running {name}")
    began = time.monotonic()
    try:
        trial = _try(kernel, what, looking.left / rest, cases_of(policy, workload), looking, policy, machine)
    except UndeterminedError as error:
        over = looking.over()
        return stopped_check(name, over) if over else unrun_check(name, str(error))
    except UsageError as error:
        return unrun_check(name, str(error), "failed")
    if trial.exit_code == 3 and (over := looking.over()):
        return stopped_check(name, over)
    return smoke_check(name, trial, time.monotonic() - began)


def cases_of(policy: Policy, workload: Mapping[str, Any]) -> Cases:
    """What is to be tried: the workload as it was worked out, else as the policy gives it."""
    from ..api_try import Cases

    wanted = policy.workload
    backward = wanted.training is not False
    if workload:
        return Cases(backward=backward, workload=workload)
    return Cases(backward=backward, model=wanted.model, workload=wanted.shape)


def _try(
    kernel: WantedKernel, what: Brought, total: float, cases: Cases, looking: Looking, policy: Policy, machine: Machine
) -> Trial:
    from ..api_try import Bounds, Listener, try_kernel
    from ..hub.reference import parse_reference

    bounds = Bounds(min(120.0, total), min(300.0, total), total, min(20.0, total), min(600.0, total))
    named = str(parse_reference(kernel.reference).repo or "")
    repo = what["reference"].partition("@")[0] if "reference" in what else named
    return try_kernel(
        what.get("reference"), local=None if "reference" in what else what["local"], python=policy.python,
        device=machine.device, cases=cases, trust_remote_code=(repo,) if kernel.trust else (), bounds=bounds,
        rules=policy.rules, environment=machine.environment,
        listener=Listener(progress=lambda seen: looking.go_on()),
    )  # fmt: skip
