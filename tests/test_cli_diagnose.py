"""The command: formats, exit codes, what goes to which stream, and that nothing private is repeated."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kerneldoctor
from kerneldoctor.errors import UsageError

REPORT = """torch: 2.13.0+cu130, Linux x86_64, NVIDIA L4, driver 550.54.15
  File "/home/alice.smith/env/lib/python3.12/site-packages/torch/cuda/__init__.py", line 184
token=hf_abcdefghijklmnopqrstuvwx
UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040).
"""


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerneldoctor", "diagnose", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)


@pytest.fixture
def report(tmp_path: Path) -> str:
    path = tmp_path / "report.md"
    path.write_text(REPORT, "utf-8")
    return str(path)


def test_the_page_names_fault_certainty_lines_and_remedy(report: str) -> None:
    done = run(report)
    assert done.returncode == 0
    assert "[KD1001]" in done.stdout
    assert "confirmed" in done.stdout
    assert "line 4: UserWarning: CUDA initialization" in done.stdout
    assert "pip install" in done.stdout
    assert not done.stderr


def test_standard_input_is_a_report(report: str) -> None:
    assert "[KD1001]" in run("-", text=REPORT).stdout


def test_json_holds_the_same_answer(report: str) -> None:
    document = json.loads(run(report, "--format", "json").stdout)
    assert document["schema"] == "kerneldoctor.diagnosis/1"
    assert document["verdict"] == "confirmed"
    assert document["answers"][0]["rule"] == "KD1001"
    assert document["understood"]["facts"]["driver.version"] == {"value": "550.54.15", "line": 1}


def test_a_reply_can_be_posted_as_it_is(report: str) -> None:
    reply = run(report, "--format", "markdown").stdout
    assert reply.startswith("A known fault: **Driver 550.54.15 is too old")
    assert "```sh\npip install" in reply
    assert "> line 4: `UserWarning" in reply


def test_a_reply_links_pages_and_leaves_out_what_follows_from_the_fault() -> None:
    text = (
        "RTX 3090, Ubuntu 22.04, Python 3.12, torch 2.6.0, flash-attn 2.6.3\nImportError: /x/python3.12/site-packages/"
        "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE"
        "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    )
    reply = run("-", "--format", "markdown", text=text).stdout
    assert "\nhttps://github.com/mjun0812" in reply
    assert "```python\nhttps" not in reply
    assert "KD2002" in reply
    assert "KD2001" not in reply


@pytest.mark.parametrize("form", ["console", "json", "markdown"])
def test_names_and_secrets_of_the_report_are_not_repeated(report: str, form: str) -> None:
    shown = run(report, "--format", form, "--verbose").stdout
    assert "alice.smith" not in shown
    assert "hf_abcdefghijklmnopqrstuvwx" not in shown


def test_a_reply_pings_nobody_and_runs_no_markup() -> None:
    text = "Kernel repository '@torvalds/<img src=x>' is not from a trusted publisher, kernels 0.17.2"
    reply = run("-", "--format", "markdown", text=text).stdout
    assert "@torvalds" not in reply.replace("`", "").split("> line")[0]
    assert "<img" not in reply.split("> line")[0]


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("-",), "hello world", 3),
        (("-",), REPORT, 0),
        (("-", "--fail-on", "error"), REPORT, 1),
        (("-", "--fail-on", "error"), "hello world", 3),
        ((), "", 2),
        (("/nonexistent/report.md",), "", 2),
        (("-", "--format", "csv"), REPORT, 2),
        (("-", "--rules", "/nonexistent"), REPORT, 2),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], text: str, code: int) -> None:
    done = run(*arguments, text=text)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_report_writes_does_not_drive_the_terminal() -> None:
    text = (
        "torch: 2.13.0+cu130\n\x1b]0;owned\x07The NVIDIA driver on your system is too old (found version 12040)\x9b2J"
    )
    assert not set("\x1b\x07\x9b") & set(run("-", text=text).stdout)


def test_a_folder_gives_a_table_in_order_with_the_bad_file_named(tmp_path: Path, report: str) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.md").write_text(REPORT if number % 3 else "=cmd()", "utf-8")
    done = run(str(folder), str(tmp_path / "gone.md"), "--format", "csv", "--jobs", "2")
    assert done.returncode == 3  # a file that was named is not there
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [Path(row["file"]).name for row in rows] == [f"{n:02}.md" for n in range(30)] + ["gone.md"]
    assert [row["rule"] for row in rows[:3]] == ["", "KD1001", "KD1001"]
    assert rows[-1]["verdict"] == "unreadable"
    assert "31 reports, 1 could not be read" in done.stderr


def test_what_is_no_file_has_a_row_and_an_empty_folder_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    empty = run(str(folder), "--format", "json")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "no report in" in empty.stderr
    os.mkfifo(folder / "pipe")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    done = run(str(folder), "--format", "json", "--quiet")
    assert [d["verdict"] for d in json.loads(done.stdout)] == ["unreadable", "unreadable"]


def test_a_folder_as_json_is_a_list(tmp_path: Path, report: str) -> None:
    documents = json.loads(run(str(tmp_path), "--format", "json", "--quiet").stdout)
    assert [document["verdict"] for document in documents] == ["confirmed"]


def test_python_programs_ask_the_same(report: str) -> None:
    assert kerneldoctor.diagnose(REPORT).answers[0].finding.rule == "KD1001"
    assert kerneldoctor.diagnose(path=report).answers[0].finding.rule == "KD1001"
    with pytest.raises(UsageError):
        kerneldoctor.diagnose()
