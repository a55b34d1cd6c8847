"""What a user said relative to the current folder means the same to a child that stands elsewhere."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest

from kerneldoctor.smoke.process import Child
from kerneldoctor.smoke.surroundings import from_here, wherever


def test_relative_paths_are_spelt_out_and_everything_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    given = {
        "PYTHONPATH": "src:/abs:", "LOCAL_KERNELS": "a/b=k:c/d=/abs", "HF_HOME": "hf", "LD_PRELOAD": "libx.so:./y.so",
        "HF_TOKEN": "a/b", "TORCH_HOME": "", "HF_HUB_CACHE": "~/hub",
    }  # fmt: skip
    assert wherever(given) == {
        "PYTHONPATH": f"{here}/src:/abs:{here}/.", "LOCAL_KERNELS": f"a/b={here}/k:c/d=/abs", "HF_HOME": f"{here}/hf",
        "LD_PRELOAD": f"libx.so:{here}/./y.so", "HF_TOKEN": "a/b", "TORCH_HOME": "", "HF_HUB_CACHE": "~/hub",
    }  # fmt: skip
    assert (from_here("venv/bin/python"), from_here("python3")) == (f"{here}/venv/bin/python", "python3")


def test_a_child_neither_finds_nor_leaves_files_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, scratch = tmp_path / "mine", tmp_path / "scratch"
    mine.mkdir()
    scratch.mkdir()
    (mine / "precious").write_text("")
    monkeypatch.chdir(mine)
    script = "import os; [os.remove(name) for name in os.listdir('.')]; open('rubbish', 'w').close()"
    child = Child((sys.executable, "-c", script), secrets.token_hex(8), os.environ, scratch)
    while not child.exited():
        child.listen(0.02)
    assert child.end() == 0
    assert os.listdir(mine) == ["precious"]


def test_a_current_folder_that_was_removed_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    child = Child((sys.executable, "-c", "import os; os.getcwd()"), "n", {**os.environ, "PYTHONPATH": "x"}, tmp_path)
    while not child.exited():
        child.listen(0.02)
    assert child.end() == 0
