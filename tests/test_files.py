"""Files that a user names: regular ones and handles are read, all else is one clear line; writing is whole or not."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldoctor import files
from kerneldoctor.errors import UsageError

ROOT = Path(files.__file__).parent.parent


def refused(path: object) -> str:
    with pytest.raises(UsageError) as error:
        files.read_json(str(path), "a report")
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"schema": "x', ":1: not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"[" * 200_000, "nested too deep"),
        (b"1" * 5000, "not usable"),
        (b"", "cut off"),
    ],
)
def test_a_broken_json_file_is_one_clear_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "env.json"
    path.write_bytes(content)
    assert says in refused(path)


def test_the_mark_that_windows_editors_put_first_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "env.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert files.read_json(str(tmp_path / "env.json"), "a report") == {"a": 1}


def test_what_is_no_regular_file_is_named_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # to open it would block for ever
    assert "named pipe" in refused(tmp_path / "pipe")
    assert "folder" in refused(tmp_path)
    assert "device" in refused("/dev/zero")
    assert "No such file" in refused(tmp_path / "nothing")


def test_an_enormous_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "env.json"
    with path.open("wb") as file:
        file.truncate(files.LIMIT + 1)
    assert "larger than 64 MiB, this is not a report" in refused(path)


@pytest.mark.parametrize("path", ["-", "/dev/stdin"])
def test_standard_input_is_read_and_limited_as_well(path: str) -> None:
    code = f"from kerneldoctor import files; print(files.read_file({path!r}, 'a report', 1024).decode())"

    def read(shell: str) -> str:
        command = ["sh", "-c", f'{shell} {sys.executable} -c "$0" 2>&1', code]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20, check=False).stdout

    assert read("echo text |") == "text\n\n"
    assert "larger than 0.000977 MiB" in read("cat /dev/zero |")


class TestWriteText:
    def test_replaces_the_whole_file_and_leaves_no_scratch(self, tmp_path: Path) -> None:
        target = tmp_path / "report.json"
        target.write_text("old")
        files.write_text(str(target), "new")
        assert target.read_text() == "new"
        assert [p.name for p in tmp_path.iterdir()] == ["report.json"]

    def test_follows_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "real")
        files.write_text(str(tmp_path / "link"), "text")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_text() == "text"

    def test_a_new_file_has_the_usual_rights(self, tmp_path: Path) -> None:
        old = os.umask(0o022)
        try:
            files.write_text(str(tmp_path / "report.txt"), "x")
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "report.txt").stat().st_mode) == 0o644

    def test_what_was_there_survives_a_failure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        target = tmp_path / "report.json"
        target.write_text("old")

        def full(self: Path, content: bytes) -> int:
            with open(self, "wb") as file:
                file.write(content[:1])
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(UsageError, match=r"cannot write .*report.json: No space left on device"):
            files.write_text(str(target), "new")
        assert target.read_text() == "old"
        assert [p.name for p in tmp_path.iterdir()] == ["report.json"]

    def test_a_device_is_written_not_replaced(self) -> None:
        files.write_text("/dev/null", "x")
        assert Path("/dev/null").is_char_device()

    def test_a_name_that_is_no_unicode_can_be_written_and_read_again(self, tmp_path: Path) -> None:
        document = {"path": "/data/\udcff\ud800"}
        files.write_text(str(tmp_path / "report.json"), json.dumps(document, ensure_ascii=False))
        assert files.read_json(str(tmp_path / "report.json"), "a report") == document

    @pytest.mark.parametrize("name", ["loop", "no/such/folder", "nul\0"])
    def test_where_nothing_can_be_written_is_one_line(self, tmp_path: Path, name: str) -> None:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with pytest.raises(UsageError, match="cannot write"):
            files.write_text(str(tmp_path / name), "x")
