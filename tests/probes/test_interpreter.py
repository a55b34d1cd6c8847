from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from kerneldoctor.errors import UsageError
from kerneldoctor.host import RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes import interpreter
from kerneldoctor.probes.interpreter import find_target


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target") / "venv"
    venv.create(folder, symlinks=True, with_pip=False)
    return folder


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_our_own_interpreter_needs_no_process() -> None:
    class NoProcess(RealHost):
        def run(self, *args: object, **kwargs: object) -> None:  # type: ignore[override]
            pytest.fail("started a process")

    target = find_target(NoProcess(), None)
    assert target.is_self
    assert target.executable == sys.executable
    assert target.version.split("rc")[0] == ".".join(str(n) for n in sys.version_info[:3])
    assert target.abi_tag.startswith(f"cp{sys.version_info.major}{sys.version_info.minor}")
    assert any(p.endswith("site-packages") for p in target.sys_path)


def test_another_environment_is_described_by_itself(environment: Path) -> None:
    target = find_target(RealHost(), str(environment / "bin" / "python"))
    assert not target.is_self
    assert target.prefix == str(environment)
    assert target.base_prefix == sys.base_prefix
    assert target.executable == str(environment / "bin" / "python")
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert str(site) in target.sys_path


def test_described_from_inside_and_from_outside_is_the_same() -> None:
    inside, outside = find_target(RealHost(), None), find_target(RealHost(), sys.executable)
    assert (inside.abi_tag, inside.include, inside.prefix) == (outside.abi_tag, outside.include, outside.prefix)
    assert [p for p in inside.sys_path if "site-packages" in p] == [p for p in outside.sys_path if "site-packages" in p]


@pytest.mark.parametrize("inside", ["", "bin/python"])
def test_the_folder_of_an_environment_will_do(environment: Path, inside: str) -> None:
    assert find_target(RealHost(), str(environment / inside)).prefix == str(environment)


def test_a_bare_name_is_looked_up_on_path(environment: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(environment / "bin"))
    monkeypatch.chdir(tmp_path)
    assert find_target(RealHost(), "python3").prefix == str(environment)


def test_the_current_folder_is_not_on_the_path_but_pythonpath_is(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, extra = tmp_path / "here", tmp_path / "extra"
    here.mkdir()
    extra.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(extra))
    path = find_target(RealHost(), str(environment)).sys_path
    assert str(here) not in path
    assert "" not in path
    assert path[0] == str(extra)


@pytest.mark.parametrize("pythonpath", ["", ":{0}/extra", ".:{0}/extra"])
def test_nothing_of_the_current_folder_is_run(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pythonpath: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("json", "sysconfig", "posix", "site"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", pythonpath.format(tmp_path))
    path = find_target(RealHost(), str(environment)).sys_path
    assert not (tmp_path / "ran").exists()
    assert (str(here) in path) is bool(pythonpath)  # what PYTHONPATH names counts, even this


def test_a_current_folder_that_is_gone_does_no_harm(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert find_target(RealHost(), None).is_self
    assert find_target(RealHost(), str(environment)).prefix == str(environment)
    with pytest.raises(UsageError, match="no such file"):
        find_target(RealHost(), "venv/bin/python")


def test_the_folder_that_python_puts_first_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, scripts = tmp_path / "here", tmp_path / "bin"
    here.mkdir()
    scripts.mkdir()
    monkeypatch.chdir(here)
    own = interpreter._own_path
    assert own([str(here), "/lib", str(here)], "/x/__main__.py", False) == ["/lib", str(here)]  # -m, and PYTHONPATH
    assert own([str(scripts), "/lib"], str(scripts / "kerneldoctor"), False) == ["/lib"]
    assert own(["", "/lib"], "-c", False) == ["/lib"]
    assert own(["", str(here), "/lib"], "-c", False) == [str(here), "/lib"]  # -c, and PYTHONPATH
    assert own([str(here), "/lib"], str(scripts / "kerneldoctor"), True) == [str(here), "/lib"]  # python -P


def test_lines_that_site_customisation_prints_do_no_harm(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('welcome to the cluster', end='')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert find_target(RealHost(), str(environment)).prefix == str(environment)


def test_looking_leaves_no_compiled_files(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    find_target(RealHost(), str(environment))
    assert os.listdir(tmp_path) == ["sitecustomize.py"]


OLD = """#!/bin/sh
echo 'kerneldoctor-interpreter {"executable": "/usr/bin/python", "version": [2, 7, 18, "final", 0], "prefix": "/usr",
 "sys_path": []}' | tr -d '\\n'
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\necho hello\n", "no Python interpreter that works (it says: hello)"),
        ("#!/bin/sh\nexit 3\n", "no Python interpreter that works"),
        ("just a text\n", "cannot be run"),
        ("#!/bin/sh\necho 'kerneldoctor-interpreter {'\n", "cut off"),
        ("#!/bin/sh\necho 'kerneldoctor-interpreter []'\n", "names no version"),
        ("#!/bin/sh\necho 'kerneldoctor-interpreter {\"version\": [3, 11, 7]}'\n", "not complete"),
        (OLD, "is Python 2.7"),
    ],
)
def test_what_is_no_interpreter_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = program(tmp_path, text)
    with pytest.raises(UsageError) as error:
        find_target(RealHost(), path)
    assert says in str(error.value)
    assert path in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("python", "says"),
    [("/no/such/python", "no such file"), ("no-such-python", "no such file"), ("", "empty"), ("/dev/null", "regular")],
)
def test_a_path_to_nothing_is_refused(python: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        find_target(RealHost(), python)


def test_a_folder_without_an_interpreter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder without bin/python"):
        find_target(RealHost(), str(tmp_path))


def test_an_interpreter_that_hangs_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "TIME_LIMIT", 0.3)
    began = time.monotonic()
    with pytest.raises(UsageError, match=r"no answer within 0\.3 s"):
        find_target(RealHost(), program(tmp_path, "#!/bin/sh\nsleep 30\n"))
    assert time.monotonic() - began < 15


def test_a_recording_answers_for_the_interpreter_it_was_made_for(environment: Path) -> None:
    recording = RecordingHost(RealHost())
    target = find_target(recording, str(environment))
    assert find_target(RecordedHost(recording.capture(lambda name: False)), None) == target


def test_a_recording_without_an_interpreter_is_refused() -> None:
    empty = RecordingHost(RealHost()).capture(lambda name: False)
    with pytest.raises(UsageError, match="cannot tell which Python"):
        find_target(RecordedHost(empty), None)


def test_the_script_is_understood_by_every_python() -> None:
    # What it must not use: f-strings, print as a function with keywords, annotations.
    result = subprocess.run([sys.executable, "-c", interpreter._SCRIPT], capture_output=True, text=True, check=True)
    assert result.stdout.strip().startswith("kerneldoctor-interpreter {")
    for forbidden in ("print(", "print ", "f'", 'f"', "->", "nonlocal"):
        assert forbidden not in interpreter._SCRIPT
