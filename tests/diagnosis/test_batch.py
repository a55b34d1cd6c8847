"""Many files: the order, the bad ones among them, and a process that dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kerneldoctor.diagnosis import batch
from kerneldoctor.diagnosis.answer import Diagnosis
from kerneldoctor.errors import RuleError

DRIVER = "The NVIDIA driver on your system is too old (found version 12040)"


def first(diagnosis: Diagnosis) -> str:
    return diagnosis.answers[0].finding.rule if diagnosis.answers else ""


def die_of_poison(diagnosis: Diagnosis) -> str:
    if "poison" in diagnosis.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return first(diagnosis)


def write(folder: Path, count: int) -> list[str]:
    for number in range(count):
        (folder / f"{number:03}.md").write_text(DRIVER if number % 2 else "hello", "utf-8")
    return [str(path) for path in sorted(folder.glob("*.md"))]


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_come_in_the_order_of_the_files(tmp_path: Path, jobs: int) -> None:
    paths = write(tmp_path, 60)
    outcomes = list(batch.diagnose_files(paths, jobs=jobs, render=first))
    assert [outcome.path for outcome in outcomes] == paths
    assert [outcome.result for outcome in outcomes] == ["", "KD1001"] * 30


def test_a_file_that_cannot_be_read_does_not_stop_the_rest(tmp_path: Path) -> None:
    paths = write(tmp_path, 3)
    outcomes = list(batch.diagnose_files([paths[0], str(tmp_path / "gone.md"), str(tmp_path), paths[1]], render=first))
    assert [bool(outcome.error) for outcome in outcomes] == [False, True, True, False]
    assert "gone.md" in outcomes[1].error
    assert outcomes[3].result == "KD1001"


def test_a_file_that_kills_its_process_costs_its_own_answer_only(tmp_path: Path) -> None:
    write(tmp_path, 40)
    (tmp_path / "020-poison.md").write_text("hello", "utf-8")
    paths = [str(path) for path in sorted(tmp_path.glob("*.md"))]
    outcomes = list(batch.diagnose_files(paths, jobs=2, render=die_of_poison))
    assert [outcome.path for outcome in outcomes] == paths
    assert [outcome.path for outcome in outcomes if outcome.error] == [str(tmp_path / "020-poison.md")]
    assert sum(outcome.result == "KD1001" for outcome in outcomes) == 20


def test_a_folder_gives_its_files_without_hidden_ones_and_links(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("a.md", "b/c.log", ".hidden", "b/.git"):
        (tmp_path / name).write_text("x", "utf-8")
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    assert batch.reports_in(str(tmp_path)) == [str(tmp_path / "a.md"), str(tmp_path / "b/c.log")]


def test_broken_rules_end_it_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(RuleError):
        next(batch.diagnose_files(write(tmp_path, 1), folders=(str(tmp_path / "none"),)))
