"""Folders of runs that were killed are removed at the next start, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kerneldoctor.smoke.scratch import scratch_folder

SCRIPT = """
import os
from kerneldoctor.smoke.scratch import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def killed_run() -> Path:
    return Path(subprocess.run([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True).stdout.strip())


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_has_stays() -> None:
    left = killed_run()
    assert left.is_dir()
    with scratch_folder() as mine, scratch_folder():
        assert mine.is_dir()
        assert not left.exists()
    assert not mine.exists()


@pytest.mark.parametrize("change", [{"where": ["elsewhere"]}, {"pid": "x"}, {"pid": -1, "start": ""}, {"where": None}])
def test_a_folder_whose_owner_may_live_stays(change: dict[str, object]) -> None:
    left = killed_run()
    owner = left / "owner.json"
    owner.write_text(json.dumps({**json.loads(owner.read_text()), **change}))
    with scratch_folder():
        assert left.is_dir()


@pytest.mark.parametrize("owner", [None, "fifo", "[", "[" * 4000, "link"])
def test_a_folder_that_is_none_of_ours_stays_and_stops_nothing(owner: str | None, temporary: Path) -> None:
    folder = temporary / "kerneldoctor-other"
    folder.mkdir()
    if owner == "fifo":
        os.mkfifo(folder / "owner.json")
    elif owner == "link":
        (folder / "owner.json").symlink_to(killed_run() / "owner.json")
    elif owner is not None:
        (folder / "owner.json").write_text(owner)
    (temporary / "kerneldoctor-loop").symlink_to("kerneldoctor-loop")
    with scratch_folder():
        assert folder.is_dir()
