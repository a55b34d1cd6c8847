"""metadata.json is read from caches first and from the Hub else, within the time, and never guessed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.environment import known
from kerneldoctor.hub.details import MOST, Search, search_for, unread_notes, with_details
from kerneldoctor.hub.listing import Build, Listing, Version
from kerneldoctor.hub.live import Question, live_listing

from .machines import machine
from .server import Fault, Hub, serve

REPO = "someone/thing"
BUILD = "torch-stable-abi210-cu130-x86_64-linux"
PATH = f"build/{BUILD}/metadata.json"


def metadata(**changes: Any) -> bytes:
    said = {"name": "thing", "id": "_thing_cuda_0a1b2c3", "version": 1, "license": "MIT", "python-depends": [],
            "backend": {"type": "cuda", "archs": ["9.0"]}}  # fmt: skip
    return json.dumps({**said, **changes}).encode()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve() as running:
        running.repo(REPO, trusted=False).commit({PATH: metadata(), f"build/{BUILD}/x.py": b""}, "v1")
        for name, value in {**running.environment(), "HF_HOME": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", running.url)
        monkeypatch.setattr(
            "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
            running.url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield running


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return Search((str(tmp_path / "kernels"), str(tmp_path / "own")), asks=True, seconds=10)


def only(listing: Listing) -> Build:
    (build,) = listing.versions[0].builds
    return build


def read(listing: Listing, search: Search, version: str = "v1") -> Build:
    return only(with_details(listing, [(version, BUILD)], search))


def downloads(hub: Hub) -> int:
    return sum("/resolve/" in path and method == "GET" for method, path, _ in hub.requests)


def test_the_hub_is_asked_and_its_word_is_kept(hub: Hub, search: Search) -> None:
    listing = live_listing(Question(REPO))
    told = with_details(listing, [("v1", BUILD)], search)
    said = only(told).metadata.value
    assert (said.name, said.archs, only(told).build_id) == ("thing", ("9.0",), "0a1b2c3")
    assert told.trusted.value is False
    assert downloads(hub) == 1
    hub.faults.append(Fault("/resolve/", 500))
    assert read(listing, replace(search, asks=False)).metadata.value == said  # the second time from our own cache
    assert downloads(hub) == 1


def test_a_copy_in_the_cache_of_kernels_is_as_good(tmp_path: Path, search: Search) -> None:
    folder = tmp_path / "kernels" / "kernels--someone--thing" / "snapshots" / ("a" * 40) / "build" / BUILD
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_bytes(metadata())
    version = Version("v1", "a" * 40, (Build(BUILD, "7777777", "seen", True),), "observed", "2026-09", True)
    build = read(Listing(REPO, "index", "", (version,)), replace(search, asks=False))
    # What was seen in another commit gives way to what this commit says of itself.
    assert (build.build_id, build.build_id_elsewhere) == ("0a1b2c3", False)
    assert build.metadata.note == "metadata.json of aaaaaaaaaa in the cache"
    other = replace(version, commit="b" * 40)
    assert read(Listing(REPO, "index", "", (other,)), replace(search, asks=False)).metadata.is_unknown


def test_a_build_without_the_file_is_known_to_have_none_without_asking(hub: Hub, search: Search) -> None:
    hub.repos[REPO].commit({f"build/{BUILD}/x.py": b""}, "v1")
    assert read(live_listing(Question(REPO)), search).metadata.is_absent
    assert downloads(hub) == 0


def test_a_file_that_is_no_metadata_is_read_as_broken(hub: Hub, search: Search) -> None:
    hub.repos[REPO].commit({PATH: b"<html>", f"build/{BUILD}/x.py": b""}, "v1")
    found = read(live_listing(Question(REPO)), search).metadata
    assert found.value is not None, found.note
    assert found.value.lacks == ("content",)


def test_a_huge_file_is_not_fetched(hub: Hub, search: Search) -> None:
    hub.repos[REPO].commit({PATH: b" " * (5 << 20)}, "v1")
    assert "not fetched" in read(live_listing(Question(REPO)), search).metadata.note
    assert downloads(hub) == 0


def test_what_the_hub_refuses_stays_unknown_with_the_reason(hub: Hub, search: Search) -> None:
    """What huggingface_hub would ask again about leaves threads behind: see tests/test_cli_hub.py."""
    listing = live_listing(Question(REPO))
    hub.faults.append(Fault("/resolve/", 403))
    build = read(listing, search)
    assert build.metadata.is_unknown
    assert "403" in build.metadata.note
    assert "\n" not in build.metadata.note


def test_a_publisher_that_cannot_be_asked_about_is_not_called_untrusted(hub: Hub, search: Search) -> None:
    hub.faults.append(Fault("/organizations/", 500))
    assert with_details(live_listing(Question(REPO)), [], search).trusted.is_unknown
    hub.faults.clear()
    hub.organisations.clear()  # a person: kernels trusts organisations only
    assert with_details(live_listing(Question(REPO)), [], search).trusted.value is False


def test_no_time_left_is_no_question(hub: Hub, search: Search) -> None:
    listing = live_listing(Question(REPO))
    assert read(listing, replace(search, seconds=-1)).metadata.is_unknown


def test_many_versions_cost_a_bounded_number_of_questions(hub: Hub, search: Search) -> None:
    for number in range(1, 30):
        hub.repos[REPO].commit({PATH: metadata(version=number)}, f"v{number}")
    listing = live_listing(Question(REPO))
    told = with_details(listing, [(version.name, BUILD) for version in listing.versions], search)
    assert sum(v.builds[0].metadata.is_known for v in told.versions) == MOST == downloads(hub)
    assert told.versions[0].builds[0].metadata.is_known  # the first ones wanted


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_done_without(hub: Hub, search: Search, tmp_path: Path) -> None:
    tmp_path.joinpath("own").mkdir(mode=0o500)
    assert read(live_listing(Question(REPO)), search).metadata.is_known


def test_a_cache_that_is_no_folder_is_done_without(hub: Hub, search: Search, tmp_path: Path) -> None:
    tmp_path.joinpath("own").write_text("")
    assert read(live_listing(Question(REPO)), search).metadata.is_known


def test_nothing_new_gives_the_same_listing_back(search: Search) -> None:
    version = Version("v1", "a" * 40, (Build(BUILD),), "observed", "2026-09", True)
    listing = Listing(REPO, "index", "", (version,))
    assert with_details(listing, [("v1", BUILD), ("v2", "none")], replace(search, asks=False)) is listing


def test_the_folders_looked_into_are_those_of_the_facts_and_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    facts = replace(machine().huggingface, kernels_cache=known("/kernels", "test"))
    search = search_for(replace(machine(), huggingface=facts), "model")
    assert (search.caches, search.repo_type) == (("/kernels", "/somewhere/kerneldoctor/hub"), "model")
    assert search_for(machine(), "kernel").caches == ("/somewhere/kerneldoctor/hub",)


def test_unread_notes_fold_versions_with_one_reason() -> None:
    from kerneldoctor.environment import unknown
    from kerneldoctor.hub.candidates import candidates

    from .machines import TABLES

    build = Build(BUILD, metadata=unknown("the Hub answered 500"))
    versions = tuple(Version(f"v{n}", "a" * 40, (build,), "live", "", True) for n in (2, 1))
    judged = candidates(Listing(REPO, "live", "", versions), machine(), TABLES)
    assert unread_notes(judged) == ("metadata.json of v2, v1: the Hub answered 500",)
