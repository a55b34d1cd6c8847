"""Holds one machine to the policy: oldest releases, the GPU. Pure functions over facts; they look at no machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ..engine import facts  # noqa: F401 - registers the derived facts of GPUs
from ..engine.case import Case
from ..engine.conditions import parse_version
from ..engine.facts.driver import gpu_capability, visible_nvidia_gpus
from ..engine.model import SEVERITIES
from ..environment import Fact, Gpu
from ..report.checks import Check, Status
from ..report.model import FailOn
from ..report.text import gib, plural
from .policy import NO_PACKAGES, Policy, RequiredGpu

GROUP = "policy"
_FACTS = {"torch": "torch.version", "driver": "driver.version", "cuda": "torch.cuda", "python": "python.version"}


def settled(check: Check, fail_on: FailOn) -> Check:
    """The check, deciding the exit code or not as the policy wants it."""
    if check.status == "failed":
        decisive = fail_on != "never" and SEVERITIES.index(check.severity) <= SEVERITIES.index(fail_on)
    else:
        decisive = fail_on != "never" and check.status == "undetermined" and check.severity == "error"
    return replace(check, decisive=decisive)


def machine_checks(policy: Policy, case: Case) -> tuple[Check, ...]:
    """Every demand on the machine with its answer."""
    return (*_minimum(policy, case), *(_gpu(policy.gpu, case) if policy.gpu is not None else ()))


def _minimum(policy: Policy, case: Case) -> Iterator[Check]:
    for name, wanted in policy.minimum.items():
        fact = case.fact(_FACTS.get(name, f"packages.{name}.version"))
        status, detail = _at_least(fact, wanted)
        title = _said(f"{name} is {{}}{wanted} or newer", status)
        command = f'pip install "{name}>={wanted}"' if name not in NO_PACKAGES else ""
        remedies = ((f"Bring {name} to {wanted} or newer", command),) if status == "failed" else ()
        yield Check(f"minimum:{name}", GROUP, title, status, "error", detail, remedies, kind="minimum-version")


def _at_least(fact: Fact[Any], wanted: str) -> tuple[Status, str]:
    if fact.is_absent:
        return "failed", f"it is not there ({fact.note})"
    if fact.is_unknown:
        return "undetermined", f"its release is not known: {fact.note}"
    here = parse_version(str(fact.value))
    if here is None:
        return "undetermined", f"{fact.value} is no release that can be compared"
    # A nightly counts as the release that it leads to, as torch's own users compare.
    fine = Version(here.base_version) >= Version(wanted)
    return ("passed" if fine else "failed"), f"here is {fact.value}"


def _gpu(wanted: RequiredGpu, case: Case) -> Iterator[Check]:
    gpus = visible_nvidia_gpus(case)
    number = plural(wanted.count, "GPU")
    if not gpus.is_known:
        yield Check("gpu:count", GROUP, f"not known whether {number} are visible", "undetermined", "error", gpus.note,
                    kind="required-gpu")  # fmt: skip
        return
    seen = gpus.value or ()
    enough: Status = "passed" if len(seen) >= wanted.count else "failed"
    names = ", ".join(str(gpu.name.value) for gpu in seen) or "none"
    title = f"{number} visible" if enough == "passed" else f"fewer than {number} visible"
    yield Check("gpu:count", GROUP, title, enough, "error", f"here: {names}", kind="required-gpu")
    if seen:
        yield from (check for check in _kinds(wanted, seen, case))


def _kinds(wanted: RequiredGpu, seen: tuple[Gpu, ...], case: Case) -> Iterator[Check]:
    """Demands on every GPU: one that is not of the kind could be the one that the job gets."""
    if wanted.names:
        answers = [_named(gpu.name, wanted.names) for gpu in seen]
        yield _of_all("gpu:name", f"the GPU is {{}}{' or '.join(wanted.names)}", answers)
    if wanted.compute_capability:
        answers = [_within(gpu_capability(gpu, case), wanted.compute_capability) for gpu in seen]
        yield _of_all("gpu:compute-capability", f"compute capability is {{}}{wanted.compute_capability}", answers)
    if wanted.memory_gib:
        answers = [_holds(gpu.memory_bytes, wanted.memory_gib) for gpu in seen]
        yield _of_all("gpu:memory", f"the GPU has {{}}{wanted.memory_gib:g} GiB of memory", answers)


def _of_all(identity: str, title: str, answers: list[tuple[bool | None, str]]) -> Check:
    verdicts = [fine for fine, _ in answers]
    status: Status = "failed" if False in verdicts else "undetermined" if None in verdicts else "passed"
    detail = "here: " + ", ".join(dict.fromkeys(text for _, text in answers))
    return Check(identity, GROUP, _said(title, status), status, "error", detail, kind="required-gpu")


def _said(title: str, status: Status) -> str:
    """A title with room for a "not", as what was found."""
    text = title.format("not " if status == "failed" else "")
    return f"not known whether {text}" if status == "undetermined" else text


def _named(name: Fact[str], names: tuple[str, ...]) -> tuple[bool | None, str]:
    if name.value is None:
        return None, f"unknown ({name.note})"
    return any(wanted.lower() in name.value.lower() for wanted in names), name.value


def _within(capability: Fact[str], wanted: str) -> tuple[bool | None, str]:
    parsed = parse_version(str(capability.value)) if capability.is_known else None
    if parsed is None:
        return None, f"unknown ({capability.note})"
    return SpecifierSet(wanted).contains(parsed, prereleases=True), str(capability.value)


def _holds(memory: Fact[int], wanted: float) -> tuple[bool | None, str]:
    if memory.value is None:
        return None, f"unknown ({memory.note})"
    # Cards are sold by a round figure of which the driver keeps a part: an 80 GB card shows 79.1 GiB.
    return memory.value >= wanted * 2**30, gib(memory.value)
