"""The door to the machine: real looks, recordings that replay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneldoctor.errors import EnvironmentFileError, ProbeError
from kerneldoctor.host import RealHost, RecordedHost, RecordingHost

HOST = RealHost()


def test_a_command_is_run_and_answers() -> None:
    assert HOST.run(("sh", "-c", "echo $WHO"), 10, {"WHO": "me"}).stdout == "me\n"


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
