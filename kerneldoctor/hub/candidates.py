"""Everything that can be said of the listed builds of a kernel for one Environment: what `kernels` would take, and what
would come of it. Pure: the listing was fetched before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from packaging.version import Version as Release

from ..engine import facts  # noqa: F401 - registers the derived facts that rules and verdicts name
from ..engine.case import Case, Row, Tables, Workload
from ..engine.model import Rule
from ..environment import CachedKernel, Environment
from ..values import dataclass
from .acceptance import Missing, Reason
from .beyond import Beyond, Machine, Verdict
from .eras import NEWEST_KNOWN, Rules, rules_of
from .issues import Faults, KnownIssue
from .kernel_facts import kernel_facts, kernel_row
from .listing import Build, Listing, Version
from .metadata import Metadata
from .resolve import Resolution, resolve
from .sources import cached_snapshots, loads_offline
from .system import describe
from .variant import Variant, parse_variant


@dataclass(frozen=True, slots=True)
class Candidate:
    """One listed build on one machine."""

    build: Build
    variant: Variant | None  # None: no name that `kernels` reads
    accepted: bool | None  # by the resolver of the kernels release; None: undetermined
    preferred: bool  # the one that would be taken
    reason: Reason | None  # why not, where it is rejected
    missing: tuple[Missing, ...]  # what acceptance and verdicts would need to know
    verdicts: tuple[Verdict, ...]  # what stops it nevertheless; empty where it is rejected
    issues: tuple[KnownIssue, ...]  # known faults; not looked for where it is rejected
    cached: bool | None  # on disk; None: the cache was not looked at

    @property
    def usable(self) -> bool | None:
        """Whether it would load and run here; None where that cannot be told.

        A fault that hangs on the workload alone does not make a build useless: it is listed among the issues.
        """
        blocked: list[bool | None] = [True if v.certainty == "confirmed" else None for v in self.verdicts]
        blocked += [issue.blocks for issue in self.issues]
        if self.accepted is False or True in blocked:
            return False
        return None if self.accepted is None or self.missing or None in blocked else True


@dataclass(frozen=True, slots=True)
class VersionCandidates:
    """One version of a kernel on one machine."""

    version: Version
    candidates: tuple[Candidate, ...]  # in the order of the listing
    cached: bool | None  # the build that would be taken is on disk
    loads_offline: bool | None  # and would load with HF_HUB_OFFLINE=1; None where that cannot be told

    @property
    def preferred(self) -> Candidate | None:
        """The build that `kernels` would take, where that is certain."""
        return next((c for c in self.candidates if c.preferred), None)

    @property
    def has_known_error(self) -> bool:
        """Whether an error is on record for the build that would be taken, be it for some workloads only."""
        return self.preferred is not None and any(issue.severity == "error" for issue in self.preferred.issues)

    @property
    def usable(self) -> bool | None:
        """Whether this version would load and run. `kernels` takes the preferred build, so no other one counts."""
        if self.preferred is not None:
            return self.preferred.usable
        whole = self.version.complete or self.version.how == "cache"
        return None if not whole or any(c.accepted is not False for c in self.candidates) else False


@dataclass(frozen=True, slots=True)
class Candidates:
    """A listing, judged for one Environment."""

    listing: Listing
    rules: Rules  # of the kernels release that was asked
    kernels_installed: bool | None  # False: the release is the one that would be installed
    versions: tuple[VersionCandidates, ...]

    def version(self, name: str) -> VersionCandidates | None:
        """The version of that branch, tag or commit."""
        found = self.listing.version(name)
        return next((v for v in self.versions if v.version == found), None) if found else None

    @property
    def usable(self) -> bool | None:
        """Whether any version would load and run here."""
        answers = {version.usable for version in self.versions}
        if not answers:
            return False if self.listing.source == "live" else None
        return True if True in answers else None if None in answers else False


def candidates(
    listing: Listing,
    environment: Environment,
    tables: Tables,
    rules: Iterable[Rule] = (),
    workload: Workload | None = None,
) -> Candidates:
    """Judge a listing. `workload` narrows the known faults; without it those that depend on it are possible.

    Raises UsageError when the installed kernels release is older than any known one.
    """
    return Judge(environment, tables, rules, workload).judge(listing)


class Judge:
    """One Environment, asked about many listings."""

    def __init__(
        self, environment: Environment, tables: Tables, rules: Iterable[Rule] = (), workload: Workload | None = None
    ) -> None:
        case = Case(environment, tables)
        self._environment = environment
        self._tables = tables
        self._system = describe(environment)
        self._kernels, self._installed = kernels_release(case)
        self._machine = Machine(case, release_row(tables, self._kernels))
        self._faults = Faults(rules, case, workload)
        self._rows: dict[tuple[str, int | None], Row | None] = {}

    def judge(self, listing: Listing) -> Candidates:
        """Judge one listing."""
        resolver = resolve((), self._system, self._kernels).rules
        versions = tuple(self._version(listing, version) for version in listing.versions)
        return Candidates(listing, resolver, self._installed, versions)

    def _version(self, listing: Listing, version: Version) -> VersionCandidates:
        parsed = {build.name: parse_variant(build.name) for build in version.builds}
        resolution = resolve((v for v in parsed.values() if v is not None), self._system, self._kernels)
        outcomes = _outcomes(resolution)
        whole = version.complete or version.how == "cache"
        preferred = resolution.preferred.name if resolution.preferred is not None and whole else ""
        snapshots = self._snapshots(listing.repo, version)
        judged = []
        for build in version.builds:
            candidate = _resolved(build, parsed[build.name], outcomes, preferred, snapshots)
            if candidate.variant is not None and candidate.accepted is not False:
                candidate = self._look_further(candidate, candidate.variant, listing, version)
            judged.append(candidate)
        return VersionCandidates(version, tuple(judged), *self._offline(judged, version, snapshots))

    def _look_further(self, candidate: Candidate, variant: Variant, listing: Listing, version: Version) -> Candidate:
        build = candidate.build
        said: Metadata | None = build.metadata.value
        number = version.number if version.number is not None or said is None else said.version
        row = self._row(listing.repo, number)
        kernel = kernel_facts(listing, version, build, variant, row)
        beyond: Beyond = self._machine.beyond(version, build, variant, kernel, row)
        return replace(
            candidate,
            missing=candidate.missing + beyond.missing,
            verdicts=beyond.verdicts,
            issues=self._faults.of_build(kernel, candidate.build),
        )

    def _row(self, repo: str, number: int | None) -> Row | None:
        if (repo, number) not in self._rows:
            self._rows[repo, number] = kernel_row(repo, number, self._tables)
        return self._rows[repo, number]

    def _snapshots(self, repo: str, version: Version) -> tuple[CachedKernel, ...] | None:
        """What is on disk of a version; None where the cache was not looked at."""
        if self._environment.huggingface.cached_kernels.is_unknown:
            return None
        found = cached_snapshots(repo, self._environment)
        return tuple(s for s in found if s.commit == version.commit or version.name in (s.commit, *s.branches))

    def _offline(
        self, judged: list[Candidate], version: Version, snapshots: tuple[CachedKernel, ...] | None
    ) -> tuple[bool | None, bool | None]:
        chosen = next((c for c in judged if c.preferred), None)
        if snapshots is None:
            return None, None
        held = [s for s in snapshots if chosen is not None and chosen.build.name in s.variants]
        if not held:
            return False, False
        answers = {loads_offline(snapshot, version.name, self._environment) for snapshot in held}
        return True, True if True in answers else None if None in answers else False


def kernels_release(case: Case) -> tuple[str, bool | None]:
    """The kernels release whose rules count, and whether it is installed.

    Where it is not installed, the newest one that fits the installed transformers; where nothing is known, the
    newest one that is known here.
    """
    here = case.fact("packages.kernels.version")
    if here.value is not None:
        return str(here.value), True
    fitting = case.fact("transformers.kernels_in_range")
    return str(fitting.value or NEWEST_KNOWN), False if here.is_absent else None


def release_row(tables: Tables, kernels: str) -> Row:
    """What a kernels release does: its row of the table, or that of the newest release below it.

    Raises UsageError for text that is no release.
    """
    wanted = Release(rules_of(kernels).release)
    rows = [row for row in tables.get("kernels", ()) if Release(row["version"]) <= wanted]
    best = max(rows, key=lambda row: Release(row["version"]), default={})
    return {**best, "version": kernels}


Outcome = Reason | tuple[Missing, ...]


def _outcomes(resolution: Resolution) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {variant.name: () for variant in resolution.accepted}
    found |= {item.variant.name: item.missing for item in resolution.undetermined}
    return found | {item.variant.name: item.reason for item in resolution.rejected}


def _resolved(
    build: Build,
    variant: Variant | None,
    outcomes: dict[str, Outcome],
    preferred: str,
    snapshots: tuple[CachedKernel, ...] | None,
) -> Candidate:
    cached = None if snapshots is None else any(build.name in snapshot.variants for snapshot in snapshots)
    outcome = outcomes.get(build.name)
    rejected = variant is None or isinstance(outcome, Reason)
    missing = outcome if isinstance(outcome, tuple) else ()
    return Candidate(
        build=build,
        variant=variant,
        accepted=False if rejected else None if missing else True,
        preferred=bool(preferred) and build.name == preferred,
        reason=outcome if isinstance(outcome, Reason) else None,
        missing=missing,
        verdicts=(),
        issues=(),
        cached=cached,
    )
