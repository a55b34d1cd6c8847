"""The door to the machine: real looks, hanging and lying programs, recordings that replay."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from kerneldoctor.errors import EnvironmentFileError, ProbeError
from kerneldoctor.host import OUTPUT_LIMIT, RealHost, RecordedHost, RecordingHost, load_json

HOST = RealHost()


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def test_a_command_answers_with_code_and_both_streams() -> None:
    result = HOST.run((sys.executable, "-c", "import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)"), 10)
    assert (result.code, result.stdout, result.stderr, result.trouble) == (3, "a\n", "b\n", "")


def test_a_missing_program_and_one_that_may_not_run_are_told_apart(tmp_path: Path) -> None:
    assert HOST.run(("no-such-program-here",), 5).trouble == "missing"
    (tmp_path / "data").write_text("x")
    assert HOST.run((str(tmp_path / "data"),), 5).trouble == "denied"


def test_a_hanging_program_is_left_at_its_limit_and_its_children_die_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {note}; trap '' TERM; sleep 60"
    began = time.monotonic()
    assert HOST.run(("sh", "-c", script), 0.5).trouble == "timeout"
    assert time.monotonic() - began < 3
    time.sleep(0.1)
    assert not alive(int(note.read_text()))


def test_a_program_that_exits_and_leaves_a_child_on_its_pipe_does_not_hold_us() -> None:
    began = time.monotonic()
    result = HOST.run(("sh", "-c", "sleep 30 & echo done"), 20)
    assert (result.code, result.stdout) == (0, "done\n")
    assert time.monotonic() - began < 5


def test_endless_output_is_cut_and_does_not_block_the_program() -> None:
    result = HOST.run((sys.executable, "-c", f"print('x' * {OUTPUT_LIMIT * 3})"), 20)
    assert result.code == 0
    assert len(result.stdout) == OUTPUT_LIMIT


def test_a_fifo_is_refused_rather_than_read_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "METADATA")
    with pytest.raises(ProbeError, match="no readable file"):
        HOST.read(str(tmp_path / "METADATA"))


def test_a_missing_file_and_a_path_below_a_file_have_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert HOST.stat(str(tmp_path / "file" / "below")).kind == "missing"
    with pytest.raises(ProbeError):
        HOST.read(str(tmp_path / "nothing"))
    with pytest.raises(ProbeError, match="nothing"):
        HOST.listdir(str(tmp_path / "nothing"))


def test_a_recording_answers_as_the_machine_did_even_when_the_machine_is_gone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\x00\xff text")
    recorder = RecordingHost(HOST)

    def ask(host: RecordingHost | RecordedHost) -> list[object]:
        answers: list[object] = [
            host.read(str(tmp_path / "file")),
            host.read(str(tmp_path / "file"), 1),
            host.listdir(str(tmp_path)),
            host.stat(str(tmp_path / "file")),
            host.stat(str(tmp_path / "nothing")),
            host.writable(str(tmp_path)),
            host.which("sh"),
            host.run(("sh", "-c", "echo hello"), 5),
            host.observe("nvml", "", lambda: {"driver": "580.1"}),
        ]
        with pytest.raises(ProbeError) as error:
            host.listdir(str(tmp_path / "nothing"))
        return [*answers, str(error.value)]

    first = ask(recorder)
    replay = RecordedHost(recorder.capture(lambda name: name == "PATH"))
    (tmp_path / "file").unlink()
    assert ask(replay) == first
    assert set(replay.environ) == {"PATH"}


def test_what_was_not_asked_then_is_not_answered_now() -> None:
    replay = RecordedHost(RecordingHost(HOST).capture(lambda name: False))
    with pytest.raises(ProbeError, match="not in the recording"):
        replay.read("/etc/os-release")


def test_a_file_that_is_no_capture_is_refused() -> None:
    with pytest.raises(EnvironmentFileError, match="not a capture"):
        RecordedHost({"schema": "kerneldoctor.capture/9"})


@pytest.mark.parametrize(
    ("content", "says"), [(b'{"schema": "x', ":1: not JSON"), (b"\xff\xfe", "UTF-8"), (b"[" * 200_000, "not")]
)
def test_a_broken_json_file_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "env.json"
    path.write_bytes(content)
    with pytest.raises(EnvironmentFileError) as error:
        load_json(str(path))
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
