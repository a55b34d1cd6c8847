"""Finds which changes of an environment, smallest first, would give a kernel a usable build; changes nothing itself.

Only wheels and releases of the tables are offered: those that exist, hold code for the GPUs, and are carried by the
driver; kernels and transformers always as a pair that agrees. Each environment is tried through whatif and candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..engine.case import Case, Tables, Workload
from ..engine.facts.releases import installed
from ..engine.model import Rule
from ..environment import Environment, Package, known
from ..values import dataclass
from .beyond import VerdictCode
from .candidates import Judge, VersionCandidates
from .listing import Listing
from .moves import StackMove, TorchMove, commands, stack_moves, torch_moves
from .whatif import Changes, apply

MAX_TRIED = 400  # environments looked at; each costs about a millisecond


@dataclass(frozen=True, slots=True)
class Change:
    """One package that would change. `before` is "" where it is not installed."""

    package: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Option:
    """One environment that would do."""

    changes: tuple[Change, ...]  # none: it does already
    commands: tuple[str, ...]
    version: str  # the kernel's version that it makes usable, "v3"
    build: str
    usable: bool | None  # None: nothing speaks against it, and `missing` facts would settle it
    missing: tuple[str, ...]
    issues: tuple[str, ...]  # rules about faults that depend on the workload
    flawed: bool  # one of them is an error
    rebuild: tuple[str, ...]  # installed distributions with code compiled against the torch that would go


def find_environments(
    listing: Listing,
    environment: Environment,
    tables: Tables,
    rules: Iterable[Rule] = (),
    workload: Workload | None = None,
    version: str = "",
    limit: int = 5,
) -> tuple[Option, ...]:
    """The smallest changes that give a usable build of `version` (of any version where it is ""), cheapest first.

    One whose build has a known error for some workloads is offered first where it is the cheapest, and else only where
    no other was found; environments about which a fact is missing only where none is certain.
    """
    return _Search(listing, environment, tables, tuple(rules), workload, version).options(limit)


class _Search:
    def __init__(
        self,
        listing: Listing,
        environment: Environment,
        tables: Tables,
        rules: tuple[Rule, ...],
        workload: Workload | None,
        version: str,
    ) -> None:
        self._listing, self._environment, self._tables = listing, environment, tables
        self._rules, self._workload, self._wanted = rules, workload, version
        self._case = Case(environment, tables)

    def options(self, limit: int) -> tuple[Option, ...]:
        sure: list[Option] = []
        flawed: list[Option] = []
        doubtful: list[Option] = []
        cheaper: list[Option] = []
        steps = sorted(self._steps(), key=lambda step: step[0].cost + (step[1].cost if step[1] is not None else 0.0))
        for pair, torch in steps[:MAX_TRIED]:
            option = self._try(pair, torch)
            if option is None:
                continue
            offered = doubtful if not option.usable else flawed if option.flawed else sure
            if offered is sure and not sure:
                cheaper = flawed[:1]
            if not any(_packages(other) < _packages(option) for other in offered):
                offered.append(option)
            if len(sure) >= limit or (sure and not sure[0].changes):
                break
        return tuple(([*cheaper, *sure] or flawed or doubtful)[:limit])

    def _steps(self) -> Iterator[tuple[StackMove, TorchMove | None]]:
        torches = (None, *torch_moves(self._case))
        for pair in stack_moves(self._case):
            for torch in torches:
                yield pair, torch

    def _try(self, pair: StackMove, torch: TorchMove | None) -> Option | None:
        changes = Changes(
            torch=f"{torch.release}+{torch.wheel}" if torch else None,
            kernels=pair.kernels or None,
            transformers=pair.transformers or None,
        )
        environment, _ = apply(self._environment, changes, self._tables) if changes else (self._environment, ())
        versions = self._versions(environment)
        best = _best(versions)
        if best is not None:
            return self._option(pair, torch, best, "")
        for depends in dict.fromkeys(filter(None, map(_lacking, versions))):
            best = _best(self._versions(_with_packages(environment, depends.split())))
            if best is not None:
                return self._option(pair, torch, best, depends)
        return None

    def _versions(self, environment: Environment) -> list[VersionCandidates]:
        """The versions that count, those without known faults first."""
        judged = Judge(environment, self._tables, self._rules, self._workload).judge(self._listing)
        wanted = judged.version(self._wanted) if self._wanted else None
        versions = judged.versions if not self._wanted else (wanted,) if wanted is not None else ()
        return sorted(versions, key=lambda version: version.has_known_error)

    def _option(
        self, pair: StackMove, torch: TorchMove | None, version: VersionCandidates, depends: str
    ) -> Option | None:
        chosen = version.preferred
        if chosen is None:
            return None
        missing = tuple(
            dict.fromkeys((*(m.fact for m in chosen.missing), *(p for i in chosen.issues for p in i.missing)))
        )
        return Option(
            changes=tuple(self._changes(pair, torch, depends)),
            commands=tuple(commands(pair, torch, depends)),
            version=version.version.name,
            build=chosen.build.name,
            usable=version.usable,
            missing=() if version.usable else missing,
            issues=tuple(issue.rule for issue in chosen.issues if issue.depends_on_workload),
            flawed=version.has_known_error,
            rebuild=self._rebuild() if torch else (),
        )

    def _changes(self, pair: StackMove, torch: TorchMove | None, depends: str) -> Iterator[Change]:
        for name in depends.split():
            yield Change(name, "", "any release")
        if pair.kernels:
            yield Change("kernels", self._here("kernels"), pair.kernels)
        if pair.transformers:
            yield Change("transformers", self._here("transformers"), pair.transformers)
        if pair.hub:
            yield Change("huggingface_hub", self._here("huggingface_hub"), pair.hub)
        if torch is not None:
            before = str(self._case.fact("torch.version").value or "")
            yield Change("torch", before, f"{torch.release}+{torch.wheel}")

    def _here(self, project: str) -> str:
        return str(installed(self._case, project).value or "")

    def _rebuild(self) -> tuple[str, ...]:
        listed = self._environment.extensions.value or ()
        return tuple(sorted({str(e.distribution.value) for e in listed if e.distribution.is_known}))


def _packages(option: Option) -> frozenset[str]:
    """What an option changes: one that changes more than another that does is not worth offering."""
    return frozenset(change.package for change in option.changes)


def _best(versions: list[VersionCandidates]) -> VersionCandidates | None:
    """The first that is usable, else the first that may be; None where none is."""
    chosen = [v for v in versions if v.preferred is not None and v.usable is not False]
    return next((v for v in chosen if v.usable), chosen[0] if chosen else None)


def _lacking(version: VersionCandidates) -> str:
    """The distributions that the preferred build of a version lacks, as pip takes them."""
    verdicts = version.preferred.verdicts if version.preferred is not None else ()
    return next((v.wanted for v in verdicts if v.code is VerdictCode.PYTHON_DEPENDS_MISSING), "")


def _with_packages(environment: Environment, names: list[str]) -> Environment:
    added = {name: Package(version=known("0", "what if: it is installed")) for name in names}
    packages = environment.packages
    return replace(environment, packages=replace(packages, items={**packages.items, **added}))
