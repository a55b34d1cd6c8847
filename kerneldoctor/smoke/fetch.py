"""From what the user named to one build on disk and the request that loads it; imports nothing of it.

Parent side. The rules are those of the kernels library: LOCAL_KERNELS first, then the preferred build of the commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..environment import Environment
from ..errors import UndeterminedError, UsageError
from ..hub.answer import Answer, best_version
from ..hub.candidates import VersionCandidates
from ..hub.download import BuildAddress, fetch_build
from ..hub.resolve import resolve
from ..hub.system import describe
from ..hub.variant import parse_variants
from .protocol import KernelRequest
from .trial import Subject


@dataclass(frozen=True, slots=True)
class Fetched:
    """A build that can be looked at, and how the child is to load it. `folder` None: nothing to look at."""

    subject: Subject
    request: KernelRequest
    folder: Path | None
    environ: Mapping[str, str] = field(default_factory=dict)  # for the child
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long fetching may take (seconds), and who is told of it."""

    timeout: float = 600.0
    progress: Callable[[str], None] = lambda text: None


def chosen_version(answer: Answer) -> VersionCandidates:
    """The version to try: the one asked for, else the newest that fits.

    Raises UsageError that lists what there is; UndeterminedError where only the Hub could say whether it exists.
    """
    if answer.asked and answer.version is not None:
        return answer.version
    listing = answer.candidates.listing
    names = ", ".join(version.name for version in listing.versions) or "none"
    if answer.asked and listing.source == "live":
        raise UsageError(f"{listing.repo} has no revision {answer.asked!r}; there are {names}")
    if answer.asked:
        why = "; ".join(listing.notes) or "the Hub was not asked"
        raise UndeterminedError(
            f"{listing.repo}@{answer.asked} is not in the {listing.source} ({why}), which has {names}"
        )
    found = best_version(answer.candidates) or newest_fitting(answer) or next(iter(answer.candidates.versions), None)
    if found is None:
        raise UsageError(f"{listing.repo} has no versions")
    return found


def newest_fitting(answer: Answer, other_than: VersionCandidates | None = None) -> VersionCandidates | None:
    """The newest version that has a build to try here, whether it is known to work or not."""
    for version in answer.candidates.versions:
        if version is not other_than and version.preferred is not None and version.usable is not False:
            return version
    return None


def local_override(repo: str, environment: Environment) -> str:
    """The path that LOCAL_KERNELS has for a repository, or ""."""
    for entry in environment.huggingface.local_kernels.value or ():
        name, equals, path = entry.partition("=")
        if equals and name == repo:
            return path
    return ""


def fetch_from_hub(
    answer: Answer, version: VersionCandidates, environment: Environment, trust: bool, patience: Patience
) -> Fetched:
    """The preferred build of a version, from the Hub or, where that cannot be asked, from the cache.

    Raises UndeterminedError (HubError) when neither has it.
    """
    chosen = version.preferred
    assert chosen is not None
    listing, listed = answer.candidates.listing, version.version
    commit = listed.commit
    if len(commit) != 40:
        why = "; ".join(listing.notes) or "the listing names no commit"
        raise UndeterminedError(f"{listing.repo}@{listed.name} cannot be fetched: {why}")
    address = BuildAddress(listing.repo, commit, chosen.build.name, _cache(environment))
    live = listing.source == "live"
    if live:
        folder = fetch_build(address, patience.timeout, patience.progress)
    elif address.folder.is_dir():
        folder = address.folder
    else:
        why = "; ".join(listing.notes) or "the Hub was not asked"
        raise UndeterminedError(f"{listing.repo}@{listed.name} is not in the cache and cannot be fetched: {why}")
    subject = Subject(
        reference=str(answer.meaning.reference), repo=listing.repo, revision=listed.name, commit=commit,
        variant=chosen.build.name, build_id=chosen.build.build_id, source=listing.source, folder=str(folder),
        trusted_by_name=trust,
    )  # fmt: skip
    request = KernelRequest("hub", repo=listing.repo, revision=commit, trust_remote_code=trust)
    environ, notes = ({}, ()) if live else _without_hub(version, address, environment)
    return Fetched(subject, request, folder, environ, notes)


def _without_hub(
    version: VersionCandidates, address: BuildAddress, environment: Environment
) -> tuple[dict[str, str], tuple[str, ...]]:
    """How the child gets at a cached build: as an offline job would, or past a cache that would refuse it."""
    environ = {"HF_HUB_OFFLINE": "1"}
    if version.loads_offline:
        return environ, ("tried from the cache, with HF_HUB_OFFLINE=1",)
    entries = [f"{address.repo}={address.folder.parents[1]}", *(environment.huggingface.local_kernels.value or ())]
    note = "the cache holds this build, but it would not load offline by its name: tried through LOCAL_KERNELS"
    return {**environ, "LOCAL_KERNELS": ":".join(entries)}, (note,)


def take_local(path: str, reference: str, environment: Environment, kernels: str, repo: str = "") -> Fetched:
    """The build that kernels takes from a folder: a repository, its `build`, or one variant.

    Raises UsageError for a path that is none of them.
    """
    root = Path(path).expanduser()
    if root.name == "__init__.py" and root.is_file():
        root = root.parent  # who names the module means the build that it lies in
    if not root.is_dir():
        raise UsageError(f"{path}: no folder; --local takes a kernel repository, its build folder, or one build")
    folder, others = _local_build(root.resolve(), environment, kernels)
    if folder is None and not others:
        raise UsageError(f"{path}: no build folder such as torch-cpu is in it, and no metadata.json")
    subject = Subject(
        reference=reference, repo=repo, variant=folder.name if folder else "", source="local",
        folder=str(folder or root),
    )  # fmt: skip
    request = KernelRequest("local", path=str(root.resolve()))
    notes = () if folder else (f"none of the builds fits here: {', '.join(others)}",)
    return Fetched(subject, request, folder, notes=notes)


def _local_build(root: Path, environment: Environment, kernels: str) -> tuple[Path | None, tuple[str, ...]]:
    """As `resolve_local_kernel` of kernels 0.17.2: builds in the folder, in its `build`, else the folder itself."""
    others: list[str] = []
    for base in (root, root / "build"):
        names = sorted(name for name in os.listdir(base) if (base / name).is_dir()) if base.is_dir() else []
        variants, _ = parse_variants(names)
        resolution = resolve(variants, describe(environment), kernels)
        best = resolution.preferred or (resolution.undetermined[0].variant if resolution.undetermined else None)
        if best is not None:
            return base / best.name, ()
        others += [variant.name for variant in variants]
    return (root if (root / "metadata.json").is_file() else None), tuple(others)


def take_module(name: str, reference: str) -> Fetched:
    """An importable package such as flash_attn: nothing to look at beforehand."""
    return Fetched(Subject(reference=reference, source="module"), KernelRequest("module", module=name), None)


def _cache(environment: Environment) -> str:
    folder = environment.huggingface.kernels_cache
    if folder.value is None:
        raise UndeterminedError(f"the kernel cache is not known: {folder.note}")
    return folder.value
