"""The index: what is shipped, what the user refreshed, and that neither hides the other or breaks it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerneldoctor.errors import UsageError
from kerneldoctor.hub import index
from kerneldoctor.hub.listing import Build, Listing, Version

from .machines import FLASH

TODAY = datetime.date(2027, 1, 31)


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "kerneldoctor" / "index"
    index.load_index.cache_clear()


def listing(repo: str = FLASH, *builds: str) -> Listing:
    found = tuple(Build(name, "48628c8") for name in builds or ("torch-cuda",))
    return Listing(repo, "live", "2027-01-31", (Version("v3", "c" * 40, found, "live", "2027-01-31", True),))


def names(repo: str = FLASH, repo_type: str = "kernel") -> list[str]:
    found = index.index_listing(repo, repo_type=repo_type)
    assert found is not None
    return [version.name for version in found.versions]


def test_a_refreshed_repository_takes_the_place_of_the_shipped_one() -> None:
    before = index.repositories()
    path = index.keep_listing(listing(), TODAY)
    found = index.index_listing(FLASH)
    assert found is not None
    (v3,) = found.versions
    assert (v3.commit, v3.how, v3.as_of, v3.builds[0].build_id) == ("c" * 40, "observed", "2027-01-31", "48628c8")
    assert not v3.builds[0].build_id_elsewhere
    assert (path.parent, index.repositories()) == (index.own_index_path(), before)
    index.keep_listing(listing("someone/new"), TODAY)
    assert "someone/new" in index.repositories()


def test_what_older_kernels_read_stays() -> None:
    repo = next(name for name in index.repositories() if index.index_listing(name, repo_type="model") is not None)
    before = names(repo, "model")
    index.keep_listing(listing(repo), TODAY)
    assert names(repo, "model") == before


def test_an_upgrade_that_knows_more_is_not_hidden_by_an_old_refresh() -> None:
    shipped = names()
    index.keep_listing(listing(), datetime.date(2026, 1, 1))
    assert names() == shipped


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"schema": "kerneldoctor.index/9", "entries": []}', b'{"schema": "kerneldoctor.index/1"}',
        b'{"schema": "kerneldoctor.index/1", "entries": [{}]}', b'{"schema": "kerneldoctor.index/1", "entries": 3}',
        b"\xff\xfe", b"[" * 100_000,
    ],
)  # fmt: skip
def test_an_own_file_that_is_broken_is_passed_over_with_a_note_and_written_anew(own: Path, content: bytes) -> None:
    shipped = names()
    own.mkdir(parents=True)
    own.joinpath("kernels-community--flash-attn2.json").write_bytes(content)
    found = index.index_listing(FLASH)
    assert found is not None
    assert [version.name for version in found.versions] == shipped
    assert found.notes[0].endswith(f"it was passed over; kerneldoctor index refresh {FLASH} writes it anew")
    index.keep_listing(listing(), TODAY)
    assert names() == ["v3"]


@pytest.mark.parametrize(
    "odd", [{"variants": None}, {"variants": [1]}, {"date": None}, {"status": "sure"}, {"type": 1}]
)
def test_an_entry_of_another_form_is_passed_over(own: Path, odd: dict[str, object]) -> None:
    shipped = names()
    path = index.keep_listing(listing(), TODAY)
    document = json.loads(path.read_text())
    document["entries"][0] |= odd
    path.write_text(json.dumps(document))
    index.load_index.cache_clear()
    assert names() == shipped


def test_a_folder_that_cannot_be_written_is_one_line(own: Path, tmp_path: Path) -> None:
    tmp_path.joinpath("kerneldoctor").write_text("a file where a folder should be")
    with pytest.raises(UsageError, match="cannot write") as error:
        index.keep_listing(listing(), TODAY)
    assert "\n" not in str(error.value)
    assert FLASH in index.repositories()


def test_nothing_half_written_is_left(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = index.keep_listing(listing(), TODAY)
    before = path.read_bytes()

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left"):
        index.keep_listing(listing(FLASH, "torch-cpu"), TODAY)
    assert (path.read_bytes(), [p.name for p in own.iterdir()]) == (before, [path.name])


def test_a_cache_home_that_is_no_absolute_path_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert index.own_folder() == Path("/home/somebody/.cache/kerneldoctor")
