"""Chooses where a listing comes from: the live Hub, the local cache, or the bundled index; and says which it was.

Whatever could not be asked is announced in the listing's notes; nothing that came from the index is called live.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from packaging.version import Version as Release

from ..environment import CachedKernel, Environment
from ..errors import HubError, UndeterminedError
from .index import index_listing, own_trouble, repositories
from .listing import Build, Listing, Question, Version, in_order

if TYPE_CHECKING:
    from .live import RepositoryMissingError

Prefer = Literal["auto", "live", "cache", "index"]
_SAME_OWNER = 0.6  # how alike two owners must be for one to be the other, mistyped
_TRUE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub.constants reads its switches
# The first huggingface_hub release that refuses, offline, a snapshot that does not hold its whole tree.
_REFUSES_PARTIAL = Release("1.22.0")


def offline_switch() -> str:
    """The variable of this process that forbids asking the Hub, or ""; the second counts where the first is not set."""
    name = next((name for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE") if os.environ.get(name)), "")
    return name if os.environ.get(name, "").upper() in _TRUE else ""


def find_listing(
    question: Question,
    environment: Environment,
    prefer: Prefer = "auto",
    repo_type: str = "kernel",
    notes: tuple[str, ...] = (),
) -> Listing:
    """The best listing that can be had.

    notes: what was found out before. Raises UsageError when the Hub says that there is none, UndeterminedError when
    nobody could say.
    """
    if prefer == "cache":
        return _cached(question.repo, environment, ()) or _nothing(question.repo, ("it is not in the local cache",))
    refused = False
    if prefer in ("auto", "live"):
        if switch := offline_switch():
            notes = (*notes, f"the Hub was not asked: {switch} is set")
        else:
            # It brings logging and threads with it, which a look into the index does not need.
            from .live import RefusedError, RepositoryMissingError, live_listing

            try:
                return live_listing(question)
            except HubError as error:
                notes, refused = (*notes, str(error)), isinstance(error, RefusedError)
            except RepositoryMissingError as error:
                return _cached(question.repo, environment, (str(error),)) or _missing(question.repo, error)
    if prefer == "live":
        return _nothing(question.repo, notes)
    found = index_listing(question.repo, notes, repo_type) or _cached(question.repo, environment, notes)
    if found is None:
        return _nothing(question.repo, (*notes, _why_not_listed(question.repo, repo_type)))
    return replace(found, refused=True) if refused else found


def _why_not_listed(repo: str, repo_type: str) -> str:
    other = "kernel" if repo_type == "model" else "model"
    if trouble := own_trouble(repo):
        return trouble
    if index_listing(repo, repo_type=other) is None:
        return "neither the bundled index nor the local cache knows it"
    read = "from 0.14 on reads" if repo_type == "kernel" else "before 0.14 reads"
    return f"the index knows it as a repository of type {other} only, and kernels {read} those of type {repo_type}"


def cached_snapshots(repo: str, environment: Environment) -> tuple[CachedKernel, ...]:
    """The snapshots of a repository in the local cache; empty also where the cache could not be looked at."""
    listed = environment.huggingface.cached_kernels.value or ()
    return tuple(snapshot for snapshot in listed if snapshot.repo == repo)


def loads_offline(snapshot: CachedKernel, revision: str, environment: Environment) -> bool | None:
    """Whether `kernels` would load this snapshot with HF_HUB_OFFLINE=1 when asked for `revision`.

    A branch must have been fetched by its name, and huggingface_hub from 1.22.0 on refuses a snapshot that does not
    hold its whole tree. None when the release, or the completeness, is not known. Source: kernels 0.17.2 with
    huggingface_hub 1.10 to 2.4 (tried).
    """
    if revision != snapshot.commit and revision not in snapshot.branches:
        return False
    refuses = refuses_partial(environment)
    if refuses is None:
        return None
    return snapshot.complete if refuses else True


def refuses_partial(environment: Environment) -> bool | None:
    """Whether the installed huggingface_hub refuses, offline, a snapshot without its whole tree; None: not known."""
    version = environment.packages.get("huggingface-hub").version
    return None if version.value is None else Release(version.value) >= _REFUSES_PARTIAL


def _cached(repo: str, environment: Environment, notes: tuple[str, ...]) -> Listing | None:
    snapshots = cached_snapshots(repo, environment)
    if not snapshots:
        return None
    versions = [_snapshot_version(snapshot) for snapshot in snapshots]
    return Listing(repo, "cache", "", in_order(versions), notes)


def _snapshot_version(snapshot: CachedKernel) -> Version:
    only_id = snapshot.build_ids[0] if len(snapshot.build_ids) == 1 and len(snapshot.variants) == 1 else ""
    builds = tuple(Build(name, only_id, "local cache" if only_id else "") for name in snapshot.variants)
    name = snapshot.branches[0] if snapshot.branches else snapshot.commit
    return Version(name, snapshot.commit, builds, "cache", "", False)


def _missing(repo: str, error: RepositoryMissingError) -> Listing:
    raise type(error)(f"{error}{nearest(repo)}")


def nearest(repo: str) -> str:
    """A hint at the end of a complaint: the repository that may be meant."""
    import difflib

    owner, _, name = repo.rpartition("/")
    names = {other.rpartition("/")[2].lower(): other for other in repositories() if other != repo}
    # The names alone: those of one owner are alike by their owner, which says nothing.
    near = difflib.get_close_matches(name.lower(), names, 1, 0.8)
    if not near:
        return ""
    meant = names[near[0]]
    alike = difflib.SequenceMatcher(None, owner.lower(), meant.rpartition("/")[0].lower()).ratio() > _SAME_OWNER
    return f"; did you mean {meant}?" if alike else ""


def _nothing(repo: str, notes: tuple[str, ...]) -> Listing:
    raise UndeterminedError(f"no listing of {repo}: {'; '.join(notes)}{nearest(repo)}")
