"""Lists the Hub kernels in a local cache: commits, branches, build variants, build ids, completeness.

The layout is huggingface_hub's: `kernels--ORG--NAME` (`models--ORG--NAME` before kernels 0.14) with `refs/`,
`snapshots/COMMIT/build/VARIANT/…` and, since huggingface_hub 1.22, the commit's list of files in
`trees/COMMIT.json`. It must not follow a cache into other repositories than kernels, nor walk one without end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from ..errors import ProbeError
from ..host import Host

ENTRIES = 12_000  # folder entries and files looked at, about 30 ms; a cache of 20 kernels has about 2000
TREE_LIMIT = 1024 * 1024  # bytes of one tree file
REPOSITORIES = 500  # of each kind

_REPO = re.compile(r"(kernels|models)--([^/]+?)--([^/]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# `_flash_attn2_cuda_48628c8.abi3.so`, `_mykernel_7645816_dirty.abi3.so`; some early builds carry a Nix hash instead.
_BUILD_ID = re.compile(r".+?_(?=[a-z0-9]*\d)([0-9a-f]{7,40}(?:_dirty)?|[0-9a-z]{13})\.[\w.-]*(?:so|pyd)")


class _Spent(Exception):
    """The cache is larger than what one look may cost."""


def look_into(host: Host, folder: str) -> dict[str, Any]:
    """`{"kernels": [{repo, commit, branches, variants, build_ids, complete}], "note": …}` for a cache folder.

    `note` says where the look ended early. Raises ProbeError when the folder is there and cannot be listed.
    """
    # One observation: a recording then holds the kernels, and not the name of every model that lies beside them.
    answer = host.observe("kernel cache", folder, lambda: _look(folder))
    if not isinstance(answer, dict):
        raise ProbeError("the recorded kernel cache is not understood")
    return answer


def _look(folder: str) -> dict[str, Any]:
    budget = _Budget()
    kernels: list[dict[str, Any]] = []
    note = ""
    try:
        for path, repo, is_kernel in _repositories(folder, budget):
            kernels.extend(_snapshots(path, repo, is_kernel, budget))
    except _Spent as spent:
        note = str(spent)
    except FileNotFoundError:
        note = "the folder is not there"
    except OSError as error:
        raise ProbeError(f"{error.filename or folder}: {error.strerror or error}") from None
    return {"kernels": kernels, "note": note}


class _Budget:
    """Counts what is looked at. Scanning costs about 4 microseconds an entry on a warm local disk."""

    def __init__(self) -> None:
        self.left = ENTRIES

    def names(self, folder: str, want_folders: bool | None = None) -> list[str]:
        """Sorted names in a folder, perhaps only folders or only others. Raises OSError."""
        found: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self.spend()
                if want_folders is None or entry.is_dir() is want_folders:
                    found.append(entry.name)
        return sorted(found)

    def names_if_there(self, folder: str, want_folders: bool | None = None) -> list[str]:
        try:
            return self.names(folder, want_folders)
        except OSError:
            return []

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _Spent(f"stopped after {ENTRIES} entries")


def _repositories(folder: str, budget: _Budget) -> Iterator[tuple[str, str, bool]]:
    """Kernel repositories first, then model repositories, which may hold kernels too."""
    matches = [m for m in map(_REPO.fullmatch, budget.names(folder)) if m]
    for kind in ("kernels", "models"):
        of_kind = [m for m in matches if m[1] == kind]
        for match in of_kind[:REPOSITORIES]:
            yield os.path.join(folder, match[0]), f"{match[2]}/{match[3]}", kind == "kernels"
        if len(of_kind) > REPOSITORIES:
            raise _Spent(f"stopped after {REPOSITORIES} {kind}")


def _snapshots(path: str, repo: str, is_kernel: bool, budget: _Budget) -> Iterator[dict[str, Any]]:
    snapshots = os.path.join(path, "snapshots")
    commits = [name for name in budget.names_if_there(snapshots, True) if _COMMIT.fullmatch(name)]
    builds = {commit: budget.names_if_there(os.path.join(snapshots, commit, "build"), True) for commit in commits}
    if not is_kernel and not any(builds.values()):
        return
    branches = _branches(os.path.join(path, "refs"), budget)
    for commit in commits:
        folder = os.path.join(snapshots, commit)
        yield {
            "repo": repo,
            "commit": commit,
            "branches": sorted(name for name, target in branches.items() if target == commit),
            "variants": builds[commit],
            "build_ids": sorted(
                {i for v in builds[commit] for i in _build_ids(os.path.join(folder, "build", v), budget)}
            ),
            "complete": _complete(folder, os.path.join(path, "trees", f"{commit}.json"), budget),
        }


def _branches(refs: str, budget: _Budget) -> dict[str, str]:
    """Ref name -> commit; names may hold a slash (`refs/pr/1`)."""
    found: dict[str, str] = {}
    for folder in ("", *budget.names_if_there(refs, True)):
        for name in budget.names_if_there(os.path.join(refs, folder), False):
            text = _read(os.path.join(refs, folder, name), 64)
            found[f"{folder}/{name}" if folder else name] = text.decode("ascii", "replace").strip()
    return found


def _build_ids(variant: str, budget: _Budget) -> Iterator[str]:
    """From the compiled files of a variant, which lie in it or, in old builds, one folder below."""
    inside = [os.path.join(variant, name) for name in budget.names_if_there(variant, True)]
    for folder in (variant, *inside):
        for match in map(_BUILD_ID.fullmatch, budget.names_if_there(folder, False)):
            if match:
                yield match[1]


def _complete(snapshot: str, tree: str, budget: _Budget) -> bool | None:
    """Whether the snapshot holds all that its tree file lists: what huggingface_hub >= 1.22 asks for offline.

    None without a tree file that it would accept. Compiled Python is never downloaded and does not count.
    """
    try:
        document = json.loads(_read(tree, TREE_LIMIT))
        files = document["files"] if document["format_version"] == 1 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(files, dict):
        return None
    for name in files:
        parts = name.split("/")
        if ".." in parts or name.startswith("/") or "\0" in name:
            return None
        if name.endswith(".pyc") or "__pycache__" in parts:
            continue
        budget.spend()
        if not os.path.isfile(os.path.join(snapshot, *parts)):
            return False
    return True


def _read(path: str, limit: int) -> bytes:
    try:
        if not os.path.isfile(path):  # a FIFO would block
            return b""
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""
