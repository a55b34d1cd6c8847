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
from ..files import write_text
from ..values import dataclass
from .listing import Build, Listing, Version, in_order

SCHEMA = "kerneldoctor.index/1"
_RANK = {"observed": 2, "derived": 1, "partial": 0}

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contents:
    """What the index knows of some repositories, or of all."""

    shipped: Path
    own: Path  # the folder of what `index refresh` wrote, whether it is there or not
    listings: tuple[Listing, ...]


def index_path() -> Path:
    """The shipped index."""
    return rules_folder() / "tables" / "hub_index.json"


def own_index_path() -> Path:
    """Where `index refresh` writes, a file a repository: the shipped one may be read-only, and goes with an upgrade."""
    return own_folder() / "index"


def own_folder() -> Path:
    """The folder of this user for what we keep."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), ".cache")) / "kerneldoctor"


@functools.cache
def load_index(path: Path) -> dict[str, list[Entry]]:
    """Entries of an index file by repository id. Raises UsageError when the file is not ours."""
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path} has schema {document['schema']}, this kerneldoctor reads {SCHEMA}")
        repos: dict[str, list[Entry]] = {}
        for entry in document["entries"]:
            repos.setdefault(entry["repo"], []).append(entry)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} is no kernel index ({type(error).__name__})") from None
    return repos


def index_listing(repo: str, notes: tuple[str, ...] = (), repo_type: str = "kernel") -> Listing | None:
    """What the index knows of a repository, or None when it does not know it.

    kernels before 0.14 read repositories of type "model", later releases those of type "kernel".
    """
    entries, refreshed, more = _entries(repo)
    entries = [e for e in entries if e["type"] in (repo_type, "unknown")]
    if not entries:
        return None
    branches: dict[str, list[Entry]] = {}
    for entry in entries:
        branches.setdefault(entry.get("branch") or entry.get("commit", ""), []).append(entry)
    versions = [_version(name, group) for name, group in branches.items() if name]
    as_of = max((version.as_of for version in versions), default="")
    return Listing(repo, "index", as_of, in_order(versions), (*notes, *more), refreshed=refreshed)


def repositories() -> tuple[str, ...]:
    """Every repository that the index knows, sorted."""
    try:
        own = [name.removesuffix(".json").replace("--", "/", 1) for name in os.listdir(own_index_path())]
    except OSError:
        own = []
    return tuple(sorted({*load_index(index_path()), *(name for name in own if name.count("/") == 1)}))


def keep_listing(listing: Listing, today: datetime.date) -> Path:
    """Write the entry of a repository from a live listing, whole or not at all. Returns the file written.

    Raises UsageError where it cannot be written.
    """
    path = _own_file(listing.repo)
    entries = [_entry(listing.repo, version, today) for version in listing.versions]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    write_text(str(path), json.dumps({"schema": SCHEMA, "entries": entries}, indent=1) + "\n")
    load_index.cache_clear()
    return path


def _own_file(repo: str) -> Path:
    return own_index_path() / f"{repo.replace('/', '--')}.json"


def _entries(repo: str) -> tuple[list[Entry], bool, tuple[str, ...]]:
    """The entries of a repository, whether they are the user's own ones, and a note where those cannot be read.

    Own ones take the place of the shipped ones, unless an upgrade has brought newer ones since.
    """
    shipped = load_index(index_path()).get(repo, [])
    if not _own_file(repo).is_file():
        return shipped, False, ()
    try:
        own = [entry for entry in load_index(_own_file(repo)).get(repo, ()) if _is_entry(entry)]
        if not own:
            raise UsageError(f"{_own_file(repo)} holds no entry of {repo}")
    except UsageError as error:
        return shipped, False, (f"{error}: it was passed over; kerneldoctor index refresh {repo} writes it anew",)
    others = [entry for entry in shipped if entry["type"] != "model"]
    newest_own, newest = (max(map(_date, entries), default="") for entries in (own, others))
    if newest_own < newest:
        return shipped, False, ()
    return [*own, *(entry for entry in shipped if entry["type"] == "model")], True, ()


def own_trouble(repo: str) -> str:
    """Why the user's own entry of a repository was passed over; "" where it was not."""
    return " ".join(_entries(repo)[2])


def _is_entry(entry: Entry) -> bool:
    """Whether what a file that anybody may have edited holds can be used."""
    texts = (entry.get(key) for key in ("repo", "branch", "commit", "date", "status", "type"))
    names = entry.get("variants")
    return (
        all(isinstance(text, str) for text in texts)
        and entry["status"] in _RANK
        and isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(entry.get("build_ids"), dict)
    )


def _entry(repo: str, version: Version, today: datetime.date) -> Entry:
    ids = {build.name: build.build_id for build in version.builds if build.build_id}
    return {
        "repo": repo, "branch": version.name, "commit": version.commit, "date": today.isoformat(),
        "status": "observed", "type": "kernel", "variants": [build.name for build in version.builds],
        "build_ids": ids, "source": "live listing", "note": version.note,
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
        here = bool(there and commit and (there.startswith(commit) or commit.startswith(there)))
        said = entry.get("stays")  # builds that cannot have been made again since
        stays = said if isinstance(said, list) else ()
        for name, value in entry.get("build_ids", {}).items():
            note = where if here or name not in stays else f"{where}, and not built again since"
            ids[name] = (value, note, not here and name not in stays)
    return tuple(Build(name, *ids.get(name, ("", "", False))) for name in names)


def _date(entry: Entry) -> str:
    """The earliest day that a date such as "2026-09/10" or "2026-07" can mean, in a form that sorts."""
    found = re.match(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?", entry.get("date") or "")
    return "-".join(part for part in found.groups() if part) if found else ""
