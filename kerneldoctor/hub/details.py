"""Finds what a listing does not say: metadata.json of chosen builds, and whether the Hub trusts the publisher.

metadata.json is looked for in the caches of this machine first, then on the Hub. Judges nothing.

A commit never changes, so that a copy says what the Hub would say, wherever and for whomever it was fetched.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..environment import Environment, Fact, absent, known, unknown
from ..errors import HubError
from ..values import dataclass
from .index import own_folder
from .listing import NOT_READ, TRUSTED, Build, Listing, Version
from .metadata import CONTENT, METADATA, Metadata, MetadataError, parse_metadata, read_metadata

if TYPE_CHECKING:
    from .candidates import Candidates

# The names that python_depends.json of https://pypi.org/project/kernels/0.17.2/ knows, whatever the backend.
KNOWN_DEPENDS = frozenset({"einops", "helion", "tvm-ffi", "nvidia-cutlass-dsl", "nki", "onednn"})
MOST = 8  # builds of one listing that are asked for; each costs the Hub two requests

T = TypeVar("T")
Wanted = tuple[str, str]  # version, build


@dataclass(frozen=True, slots=True)
class Search:
    """Where to look, and how long."""

    caches: tuple[str, ...]  # folders in the layout of huggingface_hub
    repo_type: str = "kernel"
    asks: bool = False  # also ask the Hub
    seconds: float = 0.0
    progress: Callable[[str], None] = lambda text: None


def search_for(environment: Environment, repo_type: str) -> Search:
    """The search of the caches that the facts name, and of our own."""
    folders = (environment.huggingface.kernels_cache.value, str(own_folder() / "hub"))
    return Search(tuple(folder for folder in folders if folder), repo_type)


def with_details(listing: Listing, wanted: Iterable[Wanted], search: Search) -> Listing:
    """The listing, with what the wanted builds say of themselves and whether the Hub trusts their publisher.

    What cannot be found keeps the reason. The same object comes back where there is nothing new.
    """
    chosen = _unread(listing, wanted)
    facts = {(version.name, build.name): _in_caches(listing.repo, version, build, search) for version, build in chosen}
    if search.asks:
        left = [pair for pair in chosen if _may_ask(*pair, facts)][:MOST]
        asked = _ask(listing, left, search)
        return replace(_replaced(listing, facts | asked.metadata), trusted=asked.trusted)
    return _replaced(listing, facts) if any(not fact.is_unknown for fact in facts.values()) else listing


def unread_notes(judged: Candidates) -> tuple[str, ...]:
    """Why the metadata of builds that would be loaded could not be had from the Hub, a note for each reason."""
    reasons: dict[str, list[str]] = {}
    for version in judged.versions if judged.listing.source == "live" else ():
        chosen = version.preferred
        if chosen is not None and chosen.build.metadata.is_unknown:
            reasons.setdefault(chosen.build.metadata.note, []).append(version.version.name)
    return tuple(f"{METADATA} of {', '.join(names)}: {reason}" for reason, names in reasons.items())


def unjudged_notes(judged: Candidates) -> tuple[str, ...]:
    """What the builds to be loaded ask for that nothing here judges, a note for each kind."""
    chosen = [v.preferred for v in judged.versions if v.preferred is not None]
    said: list[Metadata] = [c.build.metadata.value for c in chosen if c.build.metadata.value is not None]
    others = dict.fromkeys(name for metadata in said for name in metadata.kernel_depends)
    names = dict.fromkeys(name for metadata in said for name in metadata.python_depends if name not in KNOWN_DEPENDS)
    notes = [f"it loads {_few(others)} in turn: whether those load here was not judged"] if others else []
    if names:
        notes.append(f"kernels 0.17.2 knows no dependency {_few(names)}, and refuses a build that names one")
    return tuple(notes)


def _few(names: Iterable[str]) -> str:
    """What somebody else's metadata names, cut to what a line holds."""
    shown = [name[:60] for name in names]
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _unread(listing: Listing, wanted: Iterable[Wanted]) -> list[tuple[Version, Build]]:
    """The wanted builds about which something is left to find out, in the order in which they are wanted."""
    there = {(v.name, build.name): (v, build) for v in listing.versions for build in v.builds}
    pairs = [there[name] for name in dict.fromkeys(wanted) if name in there]
    return [(version, build) for version, build in pairs if build.metadata is NOT_READ]


def _may_ask(version: Version, build: Build, facts: Mapping[Wanted, Fact[Any]]) -> bool:
    return len(version.commit) == 40 and not facts[version.name, build.name].is_known


def _in_caches(repo: str, version: Version, build: Build, search: Search) -> Fact[Any]:
    if len(version.commit) != 40:
        return unknown(f"{METADATA} was not read: the commit of {version.name} is not known")
    folder = f"{search.repo_type}s--{repo.replace('/', '--')}"
    for cache in search.caches:
        path = Path(cache, folder, "snapshots", version.commit, "build", build.name, METADATA)
        try:
            if path.is_file():
                return _parsed(read_metadata, path.parent, f"{METADATA} of {version.commit[:10]} in the cache")
        except (OSError, ValueError):  # the second: a name that no file can have
            continue
    return unknown(f"{METADATA} is not in the cache")


@dataclasses.dataclass(slots=True)
class _Asked:
    """What the Hub has said so far."""

    metadata: dict[Wanted, Fact[Any]]
    trusted: Fact[bool]


def _ask(listing: Listing, builds: list[tuple[Version, Build]], search: Search) -> _Asked:
    """Ask everything at once; what does not come in time stays unknown."""
    end = time.monotonic() + max(search.seconds, 0.0)
    asked = _Asked({}, listing.trusted)

    def fetch(version: Version, build: Build) -> None:
        seconds = end - time.monotonic()
        asked.metadata[version.name, build.name] = _fetch(listing.repo, version, build, search, seconds)

    def ask_trust() -> None:
        asked.trusted = _trusted(listing.repo, end - time.monotonic())

    threads = [threading.Thread(target=fetch, args=pair, name="hub-metadata", daemon=True) for pair in builds]
    if listing.trusted.is_unknown and not listing.repo.startswith(f"{TRUSTED}/"):
        threads.append(threading.Thread(target=ask_trust, name="hub-trust", daemon=True))
    if threads:
        search.progress(f"asking what the builds of {listing.repo} say of themselves")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked


def _trusted(repo: str, seconds: float) -> Fact[bool]:
    from .download import publisher_is_trusted

    try:
        return known(publisher_is_trusted(repo, seconds), "Hub")
    except HubError as error:
        return unknown(str(error))


def _fetch(repo: str, version: Version, build: Build, search: Search, seconds: float) -> Fact[Any]:
    from .download import BuildAddress, FileMissingError, fetch_file

    address = BuildAddress(repo, version.commit, build.name, search.caches[-1], search.repo_type)
    try:
        content = fetch_file(address, METADATA, seconds)
    except FileMissingError:
        return absent(f"{version.commit[:10]} has none")
    except HubError as error:
        return unknown(str(error))
    return _parsed(parse_metadata, content, f"{METADATA} of {version.commit[:10]}")


def _parsed(read: Callable[[T], Metadata], what: T, source: str) -> Fact[Any]:
    try:
        return known(read(what), source)
    except MetadataError as error:
        return known(Metadata(lacks=(CONTENT,)), str(error))


def _replaced(listing: Listing, facts: Mapping[Wanted, Fact[Any]]) -> Listing:
    versions = []
    for version in listing.versions:
        builds = tuple(_told(build, facts.get((version.name, build.name))) for build in version.builds)
        versions.append(replace(version, builds=builds))
    return replace(listing, versions=tuple(versions))


def _told(build: Build, fact: Fact[Any] | None) -> Build:
    """The build with its metadata, which names its id where no listing of its files did."""
    if fact is None:
        return build
    said: Metadata | None = fact.value
    identity = said.build_id if said is not None else ""
    if not identity or (build.build_id and not build.build_id_elsewhere):
        return replace(build, metadata=fact)
    return replace(build, metadata=fact, build_id=identity, build_id_note=fact.note, build_id_elsewhere=False)
