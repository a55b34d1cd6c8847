"""The kernels of a policy on one machine: resolved, fetched, run, through the rooms that do this for other commands.

One rank of a machine asks the Hub and fetches; the others run what lies in the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import KerneldoctorError, UndeterminedError, UsageError
from ..lock import Locked, find_locked, fingerprint
from ..report.checks import Check, Status
from .device import Machine
from .found import Found, version_of
from .kernels import STOPPED, kernel_checks
from .machine import GROUP
from .policy import Around, Policy, WantedKernel
from .running import Brought, cases_of, smoke

if TYPE_CHECKING:
    from ..hub.answer import Answer
    from .looking import Looking

_CUT_SHORT = "kernels-stopped"


class Kernels:
    """The kernels of the policy, one after the other. `builds` says what each comes to, once `checks` has returned."""

    def __init__(
        self, looking: Looking, policy: Policy, around: Around, locks: Mapping[str, tuple[Locked, ...]],
        machine: Machine,
    ) -> None:  # fmt: skip
        self._looking, self._policy, self._around, self._locks = looking, policy, around, locks
        self._machine, self._environment = machine, machine.environment
        self._here = fingerprint(machine.environment)
        self._workload: dict[str, Any] = {}
        self.builds: dict[str, str] = {}

    def checks(self) -> list[Check]:
        """All checks of all kernels."""
        if not self._looking.fetches and self._policy.run != "smoke":
            return []  # the rank that asks the Hub for this machine says it for all of it
        found: list[Check] = []
        try:
            for check in self._as_first() if self._looking.fetches else self._as_follower():
                found.append(check)  # noqa: PERF402 - those before an error are kept
        except UndeterminedError as error:
            kind = STOPPED if self._looking.over() else _CUT_SHORT
            found.append(_stopped("undetermined", str(error), kind))
        except UsageError as error:
            found.append(_stopped("failed", str(error)))
        return found

    # --- the rank that asks the Hub for its machine -------------------------------------------------------------------

    def _as_first(self) -> Iterator[Check]:
        smokes = self._policy.run == "smoke"
        brought: dict[str, Brought] = {}
        found: list[Found] = []
        try:
            self._workload = self._read_workload()
            found = [self._find(kernel) for kernel in self._policy.kernels]
            if smokes:
                brought = {f.kernel.reference: self._bring(f) for f in found}
        finally:
            self._looking.announce({"kernels": brought, "workload": self._workload})
        for number, one in enumerate(found):
            one = replace(one, digests=self._digests(one))
            checks = kernel_checks(one, self._policy)
            if not smokes:
                yield from checks
                continue
            ran = self._smoke(one.kernel, brought[one.kernel.reference], len(found) - number)
            yield from (_measured(check, ran) for check in checks)
            yield ran

    def _read_workload(self) -> dict[str, Any]:
        from ..api_try import asked_workload

        if self._policy.run == "variants" and self._around.env is not None and self._policy.workload.model:
            return {}
        return asked_workload(cases_of(self._policy, {}), self._policy.python or sys.executable)

    def _find(self, kernel: WantedKernel) -> Found:
        """What the reference comes to here, and what the lock says of it."""
        from ..hub.reference import parse_reference

        self._looking.go_on()
        self._looking.step(f"resolving {kernel.reference}")
        path = self._policy.lock_of(kernel)
        mine = [entry for entry in self._locks.get(path, ()) if _same(entry.reference, kernel.reference)]
        entry = find_locked((replace(e, reference=kernel.reference) for e in mine), kernel.reference, self._here)
        others = tuple(e for e in mine if entry is None or e.key[1:] != entry.key[1:])
        offline = self._environment.huggingface.offline.value is True
        found = Found(kernel, lock=path, entry=entry, others=others, here=self._here, offline=offline)
        package = self._package(parse_reference(kernel.reference))
        if package:
            return replace(found, package=package)
        try:
            found = replace(found, now=self._ask(kernel.reference, offline))
        except UsageError as error:
            found = replace(found, why=str(error), wrong=True)
        except UndeterminedError as error:
            found = replace(found, why=str(error))
        return self._pinned(found)

    def _pinned(self, found: Found) -> Found:
        """With the answer about the locked commit, where the reference comes to another one."""
        from ..smoke.fetch import local_override

        locked, version = found.locked, found.version
        if locked is not None and (version is None or version.version.commit != locked.commit):
            try:
                found = replace(found, pinned=self._ask(locked.pin, found.offline))
            except KerneldoctorError as error:
                found = replace(found, lost=str(error), wrong=found.wrong or isinstance(error, UsageError))
        repo = found.answer.candidates.listing.repo if found.answer is not None else ""
        self.builds[found.kernel.reference] = _build_text(found)
        loads = self._loads_offline(found) if found.offline else None
        return replace(found, loads_offline=loads, local=local_override(repo, self._environment) if repo else "")

    def _loads_offline(self, found: Found) -> bool | None:
        """Whether what the cache holds loads by the revision that the job names: a branch, or a commit."""
        from ..hub.sources import cached_snapshots, loads_offline

        version = version_of(found.now) if found.now is not None else None
        chosen = version.preferred if version is not None else None
        if found.now is None or version is None or chosen is None:
            return False
        if self._environment.huggingface.cached_kernels.is_unknown:
            return None
        revision = found.now.meaning.reference.revision or version.version.name
        answers = {
            loads_offline(snapshot, revision, self._environment)
            for snapshot in cached_snapshots(found.now.candidates.listing.repo, self._environment)
            if chosen.build.name in snapshot.variants and version.version.commit in ("", snapshot.commit)
        }
        return True if True in answers else None if None in answers else False

    def _package(self, reference: Any) -> str:
        from ..hub.naming import meaning

        meant = meaning(reference, self._environment, self._machine.case.tables)
        return "flash-attn" if meant.source == "package" else ""

    def _ask(self, reference: str, offline: bool) -> Answer:
        """Where the Hub is not asked, what is on disk counts before the index: that is what loads."""
        if offline:
            try:
                answer = self._variants(reference, "cache")
                if answer.version is not None or not answer.asked:
                    return answer
            except UndeterminedError:
                pass
        answer = self._variants(reference, "auto")
        if answer.asked and answer.version is None and answer.candidates.listing.source == "index" and not offline:
            try:
                cached = self._variants(reference, "cache")
            except UndeterminedError:
                return answer
            return cached if cached.version is not None else answer
        return answer

    def _variants(self, reference: str, source: Any) -> Answer:
        from ..api_hub import Asking, variants
        from ..smoke.weigh import workload_facts

        asking = Asking(source, max(1.0, min(20.0, self._looking.left)))
        backward = self._policy.workload.training is not False
        return variants(
            reference, environment=self._environment, asking=asking, rules=self._policy.rules,
            workload=workload_facts(self._workload, backward),
        )  # fmt: skip

    def _bring(self, found: Found) -> Brought:
        """The build into the cache; what the other ranks of this machine are told of it."""
        from ..smoke.fetch import Patience, fetch_from_hub

        answer, version = found.answer, found.version
        if found.package:
            return {"reference": found.kernel.reference}
        if found.local:
            return {"local": found.local}
        if answer is None or version is None or version.preferred is None:
            return {"why": found.lost or found.why or "there is no build that would load"}
        self._looking.step(f"fetching {found.pin}")
        try:
            patience = Patience(max(1.0, min(600.0, self._looking.left)))
            trust = found.kernel.trust
            fetched = self._looking.unless_over(
                lambda: fetch_from_hub(answer, version, self._environment, trust, patience)
            )
        except UndeterminedError as error:
            return {"why": str(error)}
        assert fetched.folder is not None
        return {"reference": found.pin, "local": str(fetched.folder.parents[1])}

    def _digests(self, found: Found) -> Mapping[str, str] | None:
        from ..hub.download import BuildAddress
        from ..smoke.digest import digests_of

        answer, version, cache = found.answer, found.version, self._environment.huggingface.kernels_cache.value
        chosen = version.preferred if version is not None else None
        if self._around.env is not None or answer is None or version is None or chosen is None or cache is None:
            return None
        address = BuildAddress(answer.candidates.listing.repo, version.version.commit, chosen.build.name, cache)
        try:
            return digests_of(address.folder) if address.folder.is_dir() else None
        except OSError:
            return None

    # --- the other ranks of that machine ------------------------------------------------------------------------------

    def _as_follower(self) -> Iterator[Check]:
        """Runs what was fetched: nothing is asked of the Hub."""
        self._looking.step("waiting for the kernels to be fetched")
        brought = self._looking.brought()
        told, self._workload = brought.get("kernels", {}), dict(brought.get("workload", {}))
        for number, kernel in enumerate(self._policy.kernels):
            one = told.get(kernel.reference, {"why": "the rank that fetches for this machine did not resolve it"})
            one = {"local": one["local"]} if "local" in one else one
            yield self._smoke(kernel, one, len(self._policy.kernels) - number)

    def _smoke(self, kernel: WantedKernel, what: Brought, rest: int) -> Check:
        return smoke(kernel, what, rest, self._workload, self._looking, self._policy, self._machine)


def _stopped(status: Status, why: str, kind: str = _CUT_SHORT) -> Check:
    """What ended the look at the kernels: the model of the workload, the rank that fetches, the end of the job."""
    return Check("kernels", GROUP, "the kernels were not looked at to the end", status, "error", why, kind=kind)


def _same(one: str, other: str) -> bool:
    """Whether two references mean the same, however they are written."""
    from ..hub.reference import parse_reference

    try:
        return parse_reference(one) == parse_reference(other)
    except UsageError:
        return False


def _build_text(found: Found) -> str:
    version = found.version
    chosen = version.preferred if version is not None else None
    if version is None or chosen is None:
        return "no build"
    return f"{version.version.commit[:12] or version.version.name} {chosen.build.name}"


def _measured(check: Check, smoke: Check) -> Check:
    """A prediction that the run contradicts: what was measured counts."""
    if smoke.status == "passed" and check.id.endswith("/resolves") and check.status != "passed":
        return replace(check, status="passed", detail=f"{check.detail}; but it ran here, and was right")
    return check
