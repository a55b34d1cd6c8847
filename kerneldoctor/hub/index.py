"""The bundled snapshot of kernel repositories, for machines that cannot ask the Hub. Never presented as live.

An entry says how it is known: `observed` (a full listing was seen), `derived` (computed from the kernel's sources and
the builder's matrix), or `partial` (a commit or some builds were seen). A partial entry adds facts to a version; it
is never taken for the whole listing.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..engine.loading import rules_folder
from ..errors import UsageError
from .listing import Build, Listing, Version, in_order

SCHEMA = "kerneldoctor.index/1"
_RANK = {"observed": 2, "derived": 1, "partial": 0}

Entry = Mapping[str, Any]


def index_path() -> Path:
    """The index in force: the user's own (written by `index refresh`) when there is one, else the shipped one."""
    own = own_index_path()
    return own if own.is_file() else rules_folder() / "tables" / "hub_index.json"


def own_index_path() -> Path:
    """Where `index refresh` writes: the shipped file may be read-only, and an upgrade would overwrite it."""
    return own_folder() / "hub_index.json"


def own_folder() -> Path:
    """The folder of this user for what we keep."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "kerneldoctor"


@functools.cache
def load_index(path: Path) -> dict[str, list[Entry]]:
    """Entries by repository id. Raises UsageError when the file is not ours."""
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path} has schema {document['schema']}, this kerneldoctor reads {SCHEMA}: delete it")
        entries: list[Entry] = document["entries"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no kernel index ({type(error).__name__}): delete it or refresh it") from None
    repos: dict[str, list[Entry]] = {}
    for entry in entries:
        repos.setdefault(entry["repo"], []).append(entry)
    return repos


def index_listing(repo: str, notes: tuple[str, ...] = (), repo_type: str = "kernel") -> Listing | None:
    """What the index knows of a repository, or None when it does not know it.

    kernels before 0.14 read repositories of type "model", later releases those of type "kernel".
    """
    entries = [e for e in load_index(index_path()).get(repo, ()) if e["type"] in (repo_type, "unknown")]
    if not entries:
        return None
    branches: dict[str, list[Entry]] = {}
    for entry in entries:
        branches.setdefault(entry.get("branch") or entry.get("commit", ""), []).append(entry)
    versions = [_version(name, group) for name, group in branches.items() if name]
    as_of = max((version.as_of for version in versions), default="")
    return Listing(repo, "index", as_of, in_order(versions), notes)


def repositories() -> tuple[str, ...]:
    """Every repository that the index knows, sorted."""
    return tuple(sorted(load_index(index_path())))


def replace_entries(repo: str, versions: Iterable[Version], today: datetime.date) -> Path:
    """Write the index with the entries of one repository taken from a live listing. Returns the file written."""
    entries = {name: list(group) for name, group in load_index(index_path()).items()}
    entries[repo] = [_entry(repo, version, today) for version in versions]
    document = {"schema": SCHEMA, "entries": [entry for name in sorted(entries) for entry in entries[name]]}
    target = own_index_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(json.dumps(document, separators=(",", ":")), "utf-8")
    scratch.replace(target)
    load_index.cache_clear()
    return target


def _entry(repo: str, version: Version, today: datetime.date) -> Entry:
    ids = {build.name: build.build_id for build in version.builds if build.build_id}
    return {
        "repo": repo, "branch": version.name, "commit": version.commit, "date": today.isoformat(),
        "status": "observed", "type": "kernel", "variants": [build.name for build in version.builds],
        "build_ids": ids, "source": "live listing",
    }  # fmt: skip


def _version(name: str, entries: list[Entry]) -> Version:
    """The version of a branch: its newest whole listing, with what partial entries add."""
    whole = [e for e in entries if e["status"] != "partial"]
    if not whole:
        newest = max(entries, key=_date)
        names = sorted({variant for entry in entries for variant in entry["variants"]})
        commit = newest.get("commit", "")
        builds = _builds(names, entries, commit)
        return Version(name, commit, builds, "partial", _date(newest), False, newest.get("note", ""))
    best = max(whole, key=lambda e: (_date(e), _RANK[e["status"]]))
    # A listing that was computed and one that was seen often agree: then the seen one's commit is worth having.
    seen = [e for e in whole if e["status"] == "observed" and set(e["variants"]) == set(best["variants"])]
    chosen = max(seen, key=_date) if seen else best
    commit = chosen.get("commit", "")
    builds = _builds(best["variants"], entries, commit)
    return Version(name, commit, builds, chosen["status"], _date(chosen), True, best.get("note", ""))


def _builds(names: Iterable[str], entries: list[Entry], commit: str) -> tuple[Build, ...]:
    ids: dict[str, tuple[str, str, bool]] = {}
    for entry in sorted(entries, key=_date):
        there = entry.get("commit", "")
        where = f"seen {_date(entry)} in {there[:7]}" if there else f"seen {_date(entry)}"
        elsewhere = not (there and commit and (there.startswith(commit) or commit.startswith(there)))
        for name, value in entry.get("build_ids", {}).items():
            ids[name] = (value, where, elsewhere)
    return tuple(Build(name, *ids.get(name, ("", "", False))) for name in names)


def _date(entry: Entry) -> str:
    """The earliest day that a date such as "2026-09/10" or "2026-07" can mean, in a form that sorts."""
    found = re.match(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", entry.get("date") or "")
    return "-".join(part for part in found.groups() if part) if found else ""
