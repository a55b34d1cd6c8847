"""Finds which changes of an environment, smallest first, would give a kernel a usable build; changes nothing itself.

Only wheels and releases of the tables are offered: those that exist, hold code for the GPUs, and are carried by the
driver; kernels and transformers always as a pair that agrees. Each environment is tried through whatif and candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from packaging.version import Version

from ..archs import supports_gpu
from ..engine.case import Case, Row, Tables, Workload
from ..engine.conditions import in_range, parse_version
from ..engine.facts.driver import driver_carries, gpu_capability, visible_nvidia_gpus
from ..engine.facts.releases import agreement, fits_python, installed, row_of, rows_newest_first
from ..engine.model import Rule
from ..environment import Environment, Package, known
from .beyond import VerdictCode
from .candidates import Judge, VersionCandidates
from .eras import rules_of
from .listing import Listing
from .whatif import Changes, apply

MAX_TRIED = 400  # environments looked at; each costs about a millisecond
_INDEX = "https://download.pytorch.org/whl"
_WEIGHTS = {
    "depends": 0.5,
    "kernels patch": 1.0,
    "kernels minor": 2.0,
    "transformers": 4.0,
    "torch": 10.0,
    "cuda": 25.0,
}


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
    rebuild: tuple[str, ...]  # installed distributions with code compiled against the torch that would go


@dataclass(frozen=True, slots=True)
class _Torch:
    release: str
    wheel: str  # "cu130"
    cost: float
    plain: bool  # the wheel that PyPI offers, so that no index need be named


@dataclass(frozen=True, slots=True)
class _Pair:
    """A kernels release with the transformers release that lets it in; "" leaves one as it is."""

    kernels: str
    transformers: str
    hub: str
    cost: float


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

    Environments about which a fact is missing are offered only where no certain one was found.
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
        doubtful: list[Option] = []
        steps = sorted(self._steps(), key=lambda step: _cost(*step))
        for pair, torch in steps[:MAX_TRIED]:
            option = self._try(pair, torch)
            offered = sure if option is not None and option.usable else doubtful
            if option is not None and not any(_packages(other) < _packages(option) for other in offered):
                offered.append(option)
            if len(sure) >= limit or (sure and not sure[0].changes):
                break
        return tuple((sure or doubtful)[:limit])

    def _steps(self) -> Iterator[tuple[_Pair, _Torch | None]]:
        torches = (None, *_torches(self._case))
        for pair in _pairs(self._case):
            for torch in torches:
                yield pair, torch

    def _try(self, pair: _Pair, torch: _Torch | None) -> Option | None:
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
        return sorted(versions, key=_has_faults)

    def _option(self, pair: _Pair, torch: _Torch | None, version: VersionCandidates, depends: str) -> Option | None:
        chosen = version.preferred
        if chosen is None:
            return None
        missing = tuple(
            dict.fromkeys((*(m.fact for m in chosen.missing), *(p for i in chosen.issues for p in i.missing)))
        )
        return Option(
            changes=tuple(self._changes(pair, torch, depends)),
            commands=tuple(_commands(pair, torch, depends)),
            version=version.version.name,
            build=chosen.build.name,
            usable=version.usable,
            missing=() if version.usable else missing,
            issues=tuple(issue.rule for issue in chosen.issues if issue.depends_on_workload),
            rebuild=self._rebuild() if torch else (),
        )

    def _changes(self, pair: _Pair, torch: _Torch | None, depends: str) -> Iterator[Change]:
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


def _has_faults(version: VersionCandidates) -> bool:
    chosen = version.preferred
    return chosen is not None and any(issue.severity == "error" for issue in chosen.issues)


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


def _torches(case: Case) -> Iterator[_Torch]:
    """Every published torch wheel that this machine, its driver and its GPUs take."""
    here = parse_version(str(case.fact("torch.version").value or ""))
    python, system = case.fact("python.version"), case.fact("system.os")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(str(case.fact("system.machine").value).lower())
    machine = machine or str(case.fact("system.machine").value)
    if system.value not in ("linux", "windows"):
        return
    minors = [_minor(row["torch"]) for row in case.table("torch_releases")]
    for row in case.table("torch_releases"):
        if python.is_known and in_range(python.value, row["python"]) is False:
            continue
        for wheel in row["wheels"]:
            if _wheel_runs(case, row, wheel, machine):
                same_minor = here is not None and (here.major, here.minor) == _minor(row["torch"])
                plain = system.value == "linux" and wheel == "cu" + row["pypi_cuda"].replace(".", "")
                plain = plain and (machine == "x86_64" or row["pypi_aarch64"] == "cuda")
                plain = (
                    plain and not same_minor
                )  # pip takes the installed release of another CUDA for the one asked for
                release = here.base_version if same_minor and here is not None else row["torch"]
                cost = _torch_cost(here, row, wheel, minors, case)
                if cost:
                    yield _Torch(release, wheel, cost, plain)


def _wheel_runs(case: Case, row: Row, wheel: str, machine: str) -> bool:
    cuda = f"{wheel[2:-1]}.{wheel[-1]}"
    minor = ".".join(row["torch"].split(".")[:2])
    found = next(
        (r for r in case.table("torch_wheels") if (r["torch"], r["wheel"], r["machine"]) == (minor, wheel, machine)),
        None,
    )
    if found is None or driver_carries(case, cuda).value is False:
        return False
    capabilities = [gpu_capability(gpu, case) for gpu in visible_nvidia_gpus(case).value or ()]
    return all(supports_gpu(found["archs"], str(c.value)) for c in capabilities if c.is_known)


def _torch_cost(here: Version | None, row: Row, wheel: str, minors: list[tuple[int, int]], case: Case) -> float:
    """0 for the torch that is installed; a minor release away counts less than another CUDA release."""
    installed_cuda = str(case.fact("torch.cuda").value or "")
    cuda = f"{wheel[2:-1]}.{wheel[-1]}"
    cost = 0.0
    if here is None or (here.major, here.minor) != _minor(row["torch"]):
        mine = _minor(row["torch"])
        here_minor = (here.major, here.minor) if here is not None else mine
        between = sum(min(mine, here_minor) < minor <= max(mine, here_minor) for minor in minors)
        cost += _WEIGHTS["torch"] + between + (0.1 if mine < here_minor else 0.0)
    if cuda != installed_cuda:
        jump = cuda.partition(".")[0] != installed_cuda.partition(".")[0]
        cost += _WEIGHTS["cuda"] + (2.0 if jump else 0.0) + (0.2 if cuda < installed_cuda else 0.0)
    return cost


def _pairs(case: Case) -> Iterator[_Pair]:
    """Every way to keep or change kernels and transformers so that they agree; one kernels release a set of rules."""
    here, transformers = installed(case, "kernels"), row_of(case, "transformers")
    mine = parse_version(str(here.value or ""))
    seen: set[object] = set()
    # Listings speak of repositories of type "kernel", which kernels has read since 0.14.
    if _may_stay(case, transformers.value):
        yield _Pair("", "", "", 0.0)
        seen.add(rules_of(str(here.value)).features)
    choices = [(v, row) for v, row in rows_newest_first(case, "kernels") if row["repo_type"] == "kernel"]
    for version, row in sorted(choices, key=lambda item: _kernels_cost(mine, item[0])):
        if version == mine or not fits_python(case, row):
            continue
        pair = _pair(case, row, transformers.value, _kernels_cost(mine, version))
        kind = (rules_of(row["version"]).features, bool(pair and pair.transformers))
        if pair is not None and kind not in seen:
            seen.add(kind)
            yield pair
    yield from _other_transformers(case, here.value, transformers.value)


def _may_stay(case: Case, transformers: Row | None) -> bool:
    """Whether installed kernels and transformers agree already, or nothing is known against it."""
    kernels = row_of(case, "kernels")
    if installed(case, "kernels").value is None:
        return False
    if transformers is None or kernels.value is None:
        return True
    return agreement(case, transformers, kernels.value) is not None


def _pair(case: Case, kernels: Row, transformers: Row | None, cost: float) -> _Pair | None:
    if transformers is None:
        return _Pair(kernels["version"], "", "", cost)
    hub = agreement(case, transformers, kernels)
    if hub is not None:
        return _Pair(kernels["version"], "", _new_hub(case, hub), cost)
    nearest = _nearest_transformers(case, transformers, kernels)
    if nearest is None:
        return None
    version, hub = nearest
    return _Pair(kernels["version"], version, _new_hub(case, hub), cost + _WEIGHTS["transformers"])


def _other_transformers(case: Case, kernels: str | None, transformers: Row | None) -> Iterator[_Pair]:
    """Keep kernels and move transformers to it, where the two do not agree."""
    row = row_of(case, "kernels").value
    if kernels is None or transformers is None or row is None or agreement(case, transformers, row) is not None:
        return
    nearest = _nearest_transformers(case, transformers, row)
    if nearest is not None:
        yield _Pair("", nearest[0], _new_hub(case, nearest[1]), _WEIGHTS["transformers"])


def _nearest_transformers(case: Case, here: Row, kernels: Row) -> tuple[str, str] | None:
    mine = Version(here["version"])
    rows = sorted(rows_newest_first(case, "transformers"), key=lambda item: _from_here(mine, item[0]))
    for version, row in rows:
        if version != mine and (hub := agreement(case, row, kernels)) is not None:
            return row["version"], hub
    return None


def _new_hub(case: Case, hub: str) -> str:
    """The huggingface_hub release to install; "" where the installed one stays or none is known."""
    here = installed(case, "huggingface_hub").value
    return "" if here is None or here == hub else hub


def _from_here(here: Version, version: Version) -> tuple[int, bool, int]:
    """The nearest minor release first, of two the newer one; in it the newest patch."""
    return abs(here.major - version.major) * 100 + abs(here.minor - version.minor), version < here, -version.micro


def _far(one: Version, other: Version) -> float:
    return abs(one.major - other.major) * 100 + abs(one.minor - other.minor) + abs(one.micro - other.micro) * 0.01


def _kernels_cost(here: Version | None, version: Version) -> float:
    if here is None:  # it must be installed anyway: the newest that fits
        return _WEIGHTS["kernels patch"] - (version.minor + version.micro * 0.1) * 0.01
    same_line = (here.major, here.minor) == (version.major, version.minor)
    base = _WEIGHTS["kernels patch" if same_line else "kernels minor"]
    return base + _far(here, version) * 0.01 + (0.005 if version < here else 0.0)


def _cost(pair: _Pair, torch: _Torch | None) -> float:
    return pair.cost + (torch.cost if torch is not None else 0.0)


def _commands(pair: _Pair, torch: _Torch | None, depends: str) -> Iterator[str]:
    if torch is not None and torch.plain:
        yield f'pip install "torch=={torch.release}"'
    elif torch is not None:
        yield f'pip install "torch=={torch.release}+{torch.wheel}" --index-url {_INDEX}/{torch.wheel}'
    pins = (("kernels", pair.kernels), ("transformers", pair.transformers), ("huggingface_hub", pair.hub))
    wanted = [f'"{name}=={version}"' for name, version in pins if version]
    if wanted or depends:
        yield " ".join(("pip install", *wanted, *depends.split()))


def _minor(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return int(major), int(minor)
