"""What else there is: other kernels for the same purpose, a flash-attn wheel, another environment. From tables alone.

Downloads nothing, and offers only what was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..engine import facts  # noqa: F401 - registers flash_attn.best_wheel
from ..engine.case import Case, Tables, Workload
from ..engine.facts.driver import gpu_capability, visible_nvidia_gpus
from ..engine.model import Rule
from ..environment import Environment
from ..hub.find_env import Option, find_environments
from ..hub.listing import Listing
from .model import Candidate, Wheel


def other_repositories(environment: Environment, tables: Tables, asked: str) -> tuple[str, ...]:
    """Repositories of attention kernels that suit every visible GPU (table attention_kernels); none where no GPU is."""
    case = Case(environment, tables)
    backend = case.fact("torch.backend").value
    majors = _majors(case) if backend == "cuda" else set()
    if backend not in ("cuda", "rocm") or (backend == "cuda" and not majors):
        return ()
    rows = (row for row in case.table("attention_kernels") if row["backend"] == backend and row["repo"] != asked)
    return tuple(row["repo"] for row in rows if majors <= set(row["capabilities"]))


def fitting_wheel(environment: Environment, tables: Tables) -> Wheel | None:
    """The official flash-attn wheel for this machine, unless that release is what is installed."""
    case = Case(environment, tables)
    file, url = case.fact("flash_attn.best_wheel").value, case.fact("flash_attn.best_wheel_url").value
    if file is None or url is None or case.fact("torch.backend").value != "cuda":
        return None
    here = str(case.fact("flash_attn.version").value or "")
    if here and str(file).startswith(f"flash_attn-{here.partition('+')[0]}+"):
        return None
    return Wheel(str(file), str(url), f'pip install "{url}"')


def other_environments(
    listing: Listing,
    environment: Environment,
    tables: Tables,
    rules: Iterable[Rule],
    workload: Workload,
    failed: Sequence[Candidate],
) -> tuple[Option, ...]:
    """The smallest changes that would give a build which is not one of those that failed here."""
    case = Case(environment, tables)
    if case.fact("torch.backend").value == "cpu" and not visible_nvidia_gpus(case).value:
        return ()
    bad = {(candidate.version, candidate.build) for candidate in failed}
    options = find_environments(listing, environment, tables, rules, workload)
    found = [option for option in options if option.changes and (option.version, option.build) not in bad]
    if not environment.torch.version.is_absent:
        return tuple(found)
    # Every torch is as far away as any other: the newest that gives a version is enough.
    first = {option.version: option for option in reversed(found)}
    return tuple(option for option in found if option in first.values())


def _majors(case: Case) -> set[str]:
    """Major compute capabilities of the visible GPUs; empty where one is not known."""
    found = [gpu_capability(gpu, case) for gpu in visible_nvidia_gpus(case).value or ()]
    if not all(capability.is_known for capability in found):
        return set()
    return {str(capability.value).partition(".")[0] for capability in found}
