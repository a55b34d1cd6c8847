"""Holds what a kernel comes to here to its lock and the policy. Pure: Hub, cache and files were asked before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from packaging.version import Version as Release

from ..engine.model import Severity
from ..hub.answer import Answer
from ..hub.reference import Kind, parse_reference
from ..hub.surroundings import Hindrance
from ..lock import Locked, differences
from ..report.checks import Check, Status
from ..report.loading import hindrance, hindrance_text
from ..report.text import listing
from ..report.trial import where
from ..report.variants import headline
from ..smoke.trial import Trial
from .found import Found, version_of
from .policy import Policy

_SHOWN = 4  # files of a build, or cases, that are named
STOPPED = "stopped"  # the kind of checks that came to no end because the job did
# What a check found, and what it found where it failed; both read on after the kernel's name.
_RESOLVES = "has a build that would load here", "has no build that would load here"
_TRUSTED = "comes from a publisher that may be loaded from", "comes from a publisher that kernels does not trust"
_LOCKED = "can be had at the commit of the lock", "cannot be had at the commit of the lock"
_PUBLISHER = "comes from an allowed publisher", "does not come from an allowed publisher"
_UPGRADE = "means the same after an upgrade of transformers", "means something else after an upgrade of transformers"
_VARIANT = "is the build of the lock", "is another build than that of the lock"
_RUNS = "runs and is right", "does not run right"


def kernel_checks(found: Found, policy: Policy) -> tuple[Check, ...]:
    """Every check of one kernel but its smoke test."""
    return tuple(_Checks(found, policy).all())


def smoke_check(reference: str, trial: Trial, seconds: float) -> Check:
    """The verdict of a smoke test, with what failed."""
    status: Status = {0: "passed", 3: "undetermined"}.get(trial.exit_code, "failed")  # type: ignore[assignment]
    failed = [
        f"{report.case.id}: {report.detail}" for run in trial.runs for report in run.cases if report.failed
    ]  # fmt: skip
    problems = [run.problem.message for run in trial.runs if run.problem is not None]
    more = f"; and {len(failed) - _SHOWN} more cases" if len(failed) > _SHOWN else ""
    detail = "; ".join((trial.verdict.text, *problems, *failed[:_SHOWN])) + more
    steps = tuple((step, "") for step in trial.next_steps) if status != "passed" else ()
    ran = tuple((f"ran on {run.device}", where(run)) for run in trial.runs)
    return Check(
        f"kernel:{reference}/smoke", group_of(reference), _titled(reference, status, _RUNS), status, "error", detail,
        steps, kind="smoke", seconds=seconds, seen=ran,
    )  # fmt: skip


def unrun_check(reference: str, why: str, status: Status = "undetermined") -> Check:
    """A smoke test that gave no verdict."""
    title = _titled(reference, status, _RUNS)
    return Check(f"kernel:{reference}/smoke", group_of(reference), title, status, "error", why, kind="smoke")


def stopped_check(reference: str, why: str) -> Check:
    """A smoke test that was not begun, or not ended, because the job ends: `why`."""
    return replace(unrun_check(reference, f"it was not run to the end: {why}"), kind=STOPPED)


def _titled(reference: str, status: Status, words: tuple[str, str]) -> str:
    """What was found: the first of the words, the second where it failed, or that it is not known."""
    if status == "undetermined":
        return f"{reference}: not known whether it {words[0]}"
    return f"{reference} {words[status == 'failed']}"


def group_of(reference: str) -> str:
    """The suite of a kernel's checks."""
    return f"kernel {reference}"


class _Checks:
    def __init__(self, found: Found, policy: Policy) -> None:
        self._found, self._policy = found, policy
        self._reference = found.kernel.reference

    def all(self) -> Iterator[Check]:
        found = self._found
        if found.package:
            yield self._check("resolves", "passed", _RESOLVES, f"it is the installed package {found.package} here")
            return
        yield self._resolves()
        if found.now is not None:
            yield from self._trusted(found.now)
            if self._policy.allowed_publishers is not None:
                yield self._publisher(found.now)
            if found.local:
                yield self._overridden()
            yield from self._upgrade(found.now)
        if found.lock:
            yield self._in_lock()
            yield from self._against_lock()
        elif found.now is not None and not found.now.meaning.reference.is_pinned:
            yield self._not_pinned()
        if found.offline and found.now is not None:
            yield self._offline()

    def _check(
        self, name: str, status: Status, words: tuple[str, str], detail: str, severity: Severity = "error",
        remedies: tuple[tuple[str, str], ...] = (),
    ) -> Check:  # fmt: skip
        title = _titled(self._reference, status, words)
        return Check(
            f"kernel:{self._reference}/{name}", group_of(self._reference), title, status, severity, detail,
            remedies if status != "passed" else (), kind=f"kernel-{name}",
        )  # fmt: skip

    def _resolves(self) -> Check:
        found, answer = self._found, self._found.answer
        if answer is None:
            status: Status = "failed" if found.wrong else "undetermined"
            if found.lost:
                return self._check("resolves", status, _LOCKED, found.lost, remedies=(self._renew,))
            return self._check("resolves", status, _RESOLVES, found.why)
        version = found.version
        usable = version.usable if version is not None else answer.usable
        status = "passed" if usable else "undetermined" if usable is None else "failed"
        notes = "" if usable else "".join(f"; {note}" for note in answer.notes)
        command = f"kerneldoctor variants {found.pin} --find-env"
        return self._check(
            "resolves", status, _RESOLVES, headline(answer) + notes,
            remedies=(("See what would fit", command),),
        )  # fmt: skip

    def _trusted(self, answer: Answer) -> Iterator[Check]:
        """Whether kernels would take it from its publisher; nothing where it does so unasked, or asks nobody."""
        found, version = self._found, self._found.version
        if version is None or found.local or hindrance(answer, version) is not Hindrance.NOT_TRUSTED:
            return
        repo = answer.candidates.listing.repo
        told = "kernels is told to trust it, by name" if found.kernel.trust else ""
        detail = told or f"{repo} {hindrance_text(answer, version)}"
        steps = (
            ("If you trust it, name it: here, and in the code that loads it", f"--trust-remote-code {repo}"),
            ("In the policy", f'kernels = [{{reference = "{self._reference}", trust-remote-code = true}}]'),
        )
        yield self._check("trusted", "passed" if told else "failed", _TRUSTED, detail, remedies=steps)

    def _publisher(self, answer: Answer) -> Check:
        publisher = answer.candidates.listing.repo.split("/")[0]
        allowed = self._policy.allowed_publishers or ()
        status: Status = "passed" if publisher in allowed else "failed"
        detail = f"{publisher} is {'' if status == 'passed' else 'not '}among {', '.join(allowed) or 'none'}"
        return self._check("publisher", status, _PUBLISHER, detail)

    def _overridden(self) -> Check:
        detail = f"LOCAL_KERNELS puts {self._found.local} in its place: that is what the job loads"
        return self._check(
            "local", "failed", ("is the kernel of the Hub", "is replaced by a folder"), detail, "warning"
        )

    def _upgrade(self, answer: Answer) -> Iterator[Check]:
        """What the newest known transformers would load in the place of this one."""
        meant = answer.meaning
        eras = [era for era in meant.eras if era.repo]
        if not eras or not meant.repo or meant.reference.revision or not meant.transformers:
            return
        here, newest = Release(meant.transformers), eras[-1]
        current = next((era for era in reversed(eras) if Release(era.first) <= here), newest)
        same = (newest.repo, newest.version) == (current.repo, current.version)
        detail = f"transformers {newest.first} loads {newest.repo}@{newest.version} in its place"
        detail = f"it does with every newer transformers up to {newest.last}" if same else detail
        yield self._check("upgrade", "passed" if same else "failed", _UPGRADE, detail, "info")

    def _not_pinned(self) -> Check:
        pin, named = self._found.pin, parse_reference(self._reference).kind is Kind.FLASH_ATTENTION
        what = "it means what the installed transformers makes of it" if named else "it is a branch"
        detail = f"{what}, which can be something else tomorrow, and there is no lock"
        step = ("Pin the commit", pin) if pin != self._reference else self._renew
        return self._check("pinned", "failed", ("is pinned", "is not pinned"), detail, "info", (step,))

    @property
    def _renew(self) -> tuple[str, str]:
        return "Measure it here and write it down", f"kerneldoctor recommend {self._reference} --write"

    def _in_lock(self) -> Check:
        found = self._found
        title = f"is in {found.lock}", f"is not in {found.lock}"
        renew = (self._renew,)
        if found.entry is not None:
            verdict = found.entry.verdict
            detail = f"{found.entry.variant} of {found.entry.date}: {verdict.text}"
            return self._check("lock", "passed", title, detail)
        if not found.others:
            return self._check("lock", "failed", title, "the lock does not know it", remedies=renew)
        known = "; ".join(
            listing([f"{d.name} {d.locked or 'unknown'}, here {d.now or 'unknown'}" for d in changed[:3]])
            for entry in found.others
            if (changed := differences(entry.environment, found.here))
        )
        detail = f"its lock differs from here in {known}"
        elsewhere = title[0], f"is in {found.lock} for other environments only"
        return self._check("lock", "failed", elsewhere, detail, "warning", renew)

    def _against_lock(self) -> Iterator[Check]:
        found, locked = self._found, self._found.locked
        if locked is None or found.now is None:
            return
        yield self._drift(locked, found.now)
        if found.lost:
            return
        version = found.version
        chosen = version.preferred if version is not None else None
        if found.entry is not None:
            name = chosen.build.name if chosen is not None else ""
            status: Status = "passed" if name == locked.variant else "failed" if name else "undetermined"
            detail = f"{name or 'no build'} would load; locked is {locked.variant}"
            yield self._check("variant", status, _VARIANT, detail)
            yield from self._workload(found.entry)
        if found.entry is not None and locked.digests and status == "passed":
            yield self._digests(locked.digests)

    def _drift(self, locked: Locked, now: Answer) -> Check:
        title = "is at the commit of the lock", "is no longer at the commit of the lock"
        version, repo = version_of(now), now.candidates.listing.repo
        commit = version.version.commit if version is not None else ""
        name = now.asked or (version.version.name if version is not None else "")
        steps = (
            *(() if self._found.lost else (("Load the commit that was measured", locked.pin),)),
            ("Or measure the new one", f"kerneldoctor recommend {self._reference} --write"),
        )
        if repo != locked.repo:
            detail = f"it is {repo} now; locked is {locked.repo}"
            return self._check("drift", "failed", title, detail, "error", steps)
        if not commit or now.candidates.listing.source == "index":
            detail = f"where {name or 'it'} points now is not known: {'; '.join(now.notes) or 'the Hub was not asked'}"
            same = commit == locked.commit
            return self._check("drift", "passed" if same else "undetermined", title, detail, "warning")
        if commit == locked.commit:
            return self._check("drift", "passed", title, f"{name} is {commit[:12]}", "warning")
        detail = f"{name} is {commit} now; locked is {locked.commit} of {locked.date}"
        return self._check("drift", "failed", title, detail, "warning", steps)

    def _workload(self, entry: Locked) -> Iterator[Check]:
        """Whether it was measured for what the policy wants it for, as far as both say."""
        wanted = {**self._policy.workload.shape, "backward": self._policy.workload.training}
        both = {name: (entry.workload[name], value) for name, value in wanted.items()
                if value is not None and name in entry.workload}  # fmt: skip
        changed = [f"{name} {locked}, here {value}" for name, (locked, value) in both.items() if locked != value]
        if both:
            title = "was locked for this workload", "was locked for another workload"
            detail = listing(changed) or listing([f"{name} {value}" for name, (_, value) in both.items()])
            yield self._check("workload", "failed" if changed else "passed", title, detail, "warning")

    def _digests(self, locked: Mapping[str, str]) -> Check:
        files = self._found.digests
        title = "has the files of the lock", "has other files than those of the lock"
        if files is None:
            return self._check("digests", "skipped", title, "the build is not on disk, and nothing fetches it")
        words = [f"{name} is missing" for name in sorted(locked.keys() - files.keys())]
        words += [f"{name} is new" for name in sorted(files.keys() - locked.keys())]
        words += [f"{name} changed" for name in sorted(locked) if files.get(name, locked[name]) != locked[name]]
        more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
        detail = "; ".join(words[:_SHOWN]) + more or f"{len(locked)} files"
        return self._check("digests", "failed" if words else "passed", title, detail)

    def _offline(self) -> Check:
        version = self._found.version
        title = "loads without the Hub", "would not load without the Hub"
        loads = self._found.loads_offline
        status: Status = "passed" if loads else "undetermined" if loads is None else "failed"
        held = version is not None and version.cached
        detail = {
            "passed": "its build is in the cache, and would load with HF_HUB_OFFLINE=1",
            "undetermined": "whether what is in the cache would load offline is not known",
            "failed": f"its build is {'in the cache, but would not load' if held else 'not in the cache'} offline",
        }[status]
        fetch = (("Bring it into the cache where the Hub can be reached", f"kerneldoctor prefetch {self._found.pin}"),)
        return self._check("offline", status, title, detail, remedies=fetch)
