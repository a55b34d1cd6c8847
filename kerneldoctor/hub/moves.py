"""The single changes that a search for an environment is made of, each with its weight; tries none of them.

Two kinds: another torch wheel, and another pair of kernels and transformers releases that agree. Only what the tables
of released packages hold is offered, and only what this Python, driver and GPUs take.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from ..archs import supports_gpu
from ..engine.case import Case, Row
from ..engine.conditions import in_range, parse_version
from ..engine.facts.driver import driver_carries, gpu_capability, visible_nvidia_gpus
from ..engine.facts.releases import agreement, fits_python, installed, row_of, rows_newest_first
from ..values import dataclass
from .eras import rules_of

_INDEX = "https://download.pytorch.org/whl"
# What counts as a small change: kernels before transformers before torch before the CUDA release of torch.
_WEIGHTS = {"kernels patch": 1.0, "kernels minor": 2.0, "transformers": 4.0, "torch": 10.0, "cuda": 25.0}


@dataclass(frozen=True, slots=True)
class TorchMove:
    """Another torch wheel."""

    release: str
    wheel: str  # "cu130"
    cost: float
    plain: bool  # the wheel that PyPI offers, so that no index need be named


@dataclass(frozen=True, slots=True)
class StackMove:
    """A kernels release with the transformers release that lets it in; "" leaves one as it is."""

    kernels: str
    transformers: str
    hub: str
    cost: float


def torch_moves(case: Case) -> Iterator[TorchMove]:
    """Every published torch wheel but the installed one that this machine, its driver and its GPUs take."""
    python, system = case.fact("python.version"), case.fact("system.os")
    if system.value not in ("linux", "windows"):
        return
    libc, glibc = case.fact("system.libc"), case.fact("system.libc_version")
    if libc.value == "musl":
        return
    for row in case.table("torch_releases"):
        if python.is_known and in_range(python.value, row["python"]) is False:
            continue
        if libc.value == "glibc" and glibc.is_known and in_range(glibc.value, f">={row['glibc']}") is False:
            continue
        if case.fact("gpus").is_absent or case.fact("gpus").value == ():
            # https://download.pytorch.org/whl/cpu holds every release, for Linux and Windows.
            yield from _torch_move(case, row, "cpu")
        for wheel in row["wheels"]:
            if _wheel_runs(case, row, wheel):
                yield from _torch_move(case, row, wheel)


def _torch_move(case: Case, row: Row, wheel: str) -> Iterator[TorchMove]:
    here = parse_version(str(case.fact("torch.version").value or ""))
    same_minor = here is not None and (here.major, here.minor) == _minor(row["torch"])
    release = here.base_version if same_minor and here is not None else row["torch"]
    cost = _torch_cost(here, row, wheel, case)
    on_pypi = case.fact("system.os").value == "linux" and wheel == "cu" + row["pypi_cuda"].replace(".", "")
    on_pypi = on_pypi and (_machine(case) == "x86_64" or row["pypi_aarch64"] == "cuda")
    if cost:
        # pip takes an installed torch of another CUDA release for the one asked for, unless the label says more.
        yield TorchMove(release, wheel, cost, on_pypi and not same_minor)


def _machine(case: Case) -> str:
    name = str(case.fact("system.machine").value).lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def _wheel_runs(case: Case, row: Row, wheel: str) -> bool:
    cuda = f"{wheel[2:-1]}.{wheel[-1]}"
    minor = ".".join(row["torch"].split(".")[:2])
    found = next(
        (
            r
            for r in case.table("torch_wheels")
            if (r["torch"], r["wheel"], r["machine"]) == (minor, wheel, _machine(case))
        ),
        None,
    )
    if found is None or driver_carries(case, cuda).value is False:
        return False
    capabilities = [gpu_capability(gpu, case) for gpu in visible_nvidia_gpus(case).value or ()]
    return all(supports_gpu(found["archs"], str(c.value)) for c in capabilities if c.is_known)


def _torch_cost(here: Version | None, row: Row, wheel: str, case: Case) -> float:
    """0 for the torch that is installed; a minor release away counts less than another CUDA release."""
    here_for = str(case.fact("torch.cuda").value or "")
    installed_cuda = here_for or ("cpu" if case.fact("torch.backend").value == "cpu" else "")
    cuda = "cpu" if wheel == "cpu" else f"{wheel[2:-1]}.{wheel[-1]}"
    cost = 0.0
    if here is None:  # it must be installed anyway: the newest that fits
        cost -= 0.001 * Version(row["torch"]).minor
    if here is None or (here.major, here.minor) != _minor(row["torch"]):
        mine = _minor(row["torch"])
        here_minor = (here.major, here.minor) if here is not None else mine
        minors = [_minor(release["torch"]) for release in case.table("torch_releases")]
        between = sum(min(mine, here_minor) < minor <= max(mine, here_minor) for minor in minors)
        cost += _WEIGHTS["torch"] + between + (0.1 if mine < here_minor else 0.0)
    if cuda != installed_cuda:
        jump = cuda.partition(".")[0] != installed_cuda.partition(".")[0]
        cost += _WEIGHTS["cuda"] + (2.0 if jump else 0.0) + (0.2 if cuda < installed_cuda else 0.0)
    return cost


def stack_moves(case: Case) -> Iterator[StackMove]:
    """Every way to keep or change kernels and transformers so that they agree; one kernels release a set of rules."""
    here, transformers = installed(case, "kernels"), row_of(case, "transformers")
    mine = parse_version(str(here.value or ""))
    seen: set[object] = set()
    # Listings speak of repositories of type "kernel", which kernels has read since 0.14.
    if _may_stay(case, transformers.value):
        yield StackMove("", "", "", 0.0)
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


def _pair(case: Case, kernels: Row, transformers: Row | None, cost: float) -> StackMove | None:
    if transformers is None:
        return StackMove(kernels["version"], "", "", cost)
    hub = agreement(case, transformers, kernels)
    if hub is not None:
        return StackMove(kernels["version"], "", _new_hub(case, hub), cost)
    nearest = _nearest_transformers(case, transformers, kernels)
    if nearest is None:
        return None
    version, hub = nearest
    return StackMove(kernels["version"], version, _new_hub(case, hub), cost + _WEIGHTS["transformers"])


def _other_transformers(case: Case, kernels: str | None, transformers: Row | None) -> Iterator[StackMove]:
    """Keep kernels and move transformers to it, where the two do not agree."""
    row = row_of(case, "kernels").value
    if kernels is None or transformers is None or row is None or agreement(case, transformers, row) is not None:
        return
    nearest = _nearest_transformers(case, transformers, row)
    if nearest is not None:
        yield StackMove("", nearest[0], _new_hub(case, nearest[1]), _WEIGHTS["transformers"])


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


def commands(pair: StackMove, torch: TorchMove | None, depends: str) -> Iterator[str]:
    """What to type for both kinds of change, and for distributions that are added."""
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
