"""Other programs: heard, limited, and ended with all that they started, also when we are ended ourselves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from kerneldoctor import processes
from kerneldoctor.processes import NOT_FROM_HERE, OUTPUT_LIMIT, run_command

ROOT = Path(processes.__file__).parent.parent


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def soon(what: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


def pid_in(note: Path) -> int:
    assert soon(lambda: note.exists() and note.read_text().endswith("\n"))
    return int(note.read_text())


def test_a_command_answers_with_code_and_both_streams() -> None:
    result = run_command((sys.executable, "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"), 10)
    assert (result.code, result.stdout, result.stderr, result.trouble) == (3, "a\n", "b\n", "")


def test_a_missing_program_and_one_that_may_not_run_are_told_apart(tmp_path: Path) -> None:
    assert run_command(("no-such-program-here",), 5).trouble == "missing"
    (tmp_path / "data").write_text("x")
    assert run_command((str(tmp_path / "data"),), 5).trouble == "denied"


def test_a_hanging_program_is_left_at_its_limit_and_its_children_die_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {note}; trap '' TERM; sleep 60"
    began = time.monotonic()
    assert run_command(("sh", "-c", script), 0.5).trouble == "timeout"
    assert time.monotonic() - began < 15
    assert soon(lambda: not alive(pid_in(note)))


def test_a_program_that_exits_and_leaves_a_child_on_its_pipe_does_not_hold_us() -> None:
    began = time.monotonic()
    result = run_command(("sh", "-c", "sleep 30 & echo done"), 20)
    assert (result.code, result.stdout) == (0, "done\n")
    assert time.monotonic() - began < 15


def test_endless_output_is_cut_and_does_not_block_the_program() -> None:
    result = run_command((sys.executable, "-c", f"print('x' * {OUTPUT_LIMIT * 3})"), 20)
    assert result.code == 0
    assert len(result.stdout) == OUTPUT_LIMIT


def test_a_running_command_can_be_ended_from_outside(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    results: list[processes.CommandResult] = []
    script = f"echo $$ > {note}; sleep 60"
    thread = threading.Thread(target=lambda: results.append(run_command(("sh", "-c", script), 60)))
    thread.start()
    pid = pid_in(note)
    processes.end_commands()
    thread.join(5)
    assert not alive(pid)
    assert results[0].code == -9
    assert run_command(("true",), 5).ok  # others may still be started


def test_a_process_forked_from_ours_does_not_end_what_it_did_not_start(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ("sh", "-c", f"echo $$ > {note}; sleep 60")
    thread = threading.Thread(target=run_command, args=(command, 60), daemon=True)
    thread.start()
    pid = pid_in(note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads: the child makes one call and is gone
        child = os.fork()
    if child == 0:
        processes.end_commands()
        os._exit(0)
    os.waitpid(child, 0)
    assert alive(pid)
    processes.end_commands()
    thread.join(5)
    assert not alive(pid)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(3)", "1 / 0"])
def test_no_command_outlives_the_process_that_started_it(tmp_path: Path, ending: str) -> None:
    note = tmp_path / "pid"
    code = (
        "import threading, time, os, sys\n"
        "from kerneldoctor.processes import run_command\n"
        f"command = ('sh', '-c', 'sleep 60 & echo $! > {note}; wait')\n"
        "threading.Thread(target=run_command, args=(command, 60), daemon=True).start()\n"
        f"while not os.path.exists({str(note)!r}) or not os.path.getsize({str(note)!r}): time.sleep(0.01)\n"
        f"{ending}\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=20, check=False)
    assert soon(lambda: not alive(pid_in(note)), 2)


def test_a_script_finds_nothing_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("open('ran', 'w')")
    code = f"{NOT_FROM_HERE}\nimport json\njson.dumps"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0
    assert not (tmp_path / "ran").exists()
