"""How a shell reaches an environment: real folders, a PATH, a PYTHONPATH."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kerneldoctor.address import Address
from kerneldoctor.environment import Environment, Package, Packages, known
from kerneldoctor.host import RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes.scene import Target
from kerneldoctor.probes.shell import find_address

PIP = Packages({"pip": Package(version=known("26.0", "METADATA"))}, True, "listed")


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    for name in ("python", "pip"):
        program(tmp_path / "venv" / "bin" / name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    for name in ("PYTHONPATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    venv = tmp_path / "venv"
    own = str(venv / "lib" / "python3.11" / "site-packages")
    return Target(
        str(venv / "bin" / "python"), "3.11.7", "cpython", False, "cp311", str(venv), "/usr", "/usr/include",
        ("/usr/lib/python3.11", own), True,
    )  # fmt: skip


def address(target: Target, packages: Packages = PIP) -> Address:
    return find_address(RealHost(), target, Environment(packages=packages))


def test_an_active_environment_needs_no_names(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(target.executable))
    assert address(target) == Address()


def test_one_that_is_not_active_is_named(target: Target, tmp_path: Path) -> None:
    assert address(target) == Address(python=target.executable, pip=target.executable)
    program(tmp_path / "bin" / "pip")  # another environment's, which the plain word would reach
    assert address(target).pip == target.executable


def test_another_than_ours_is_named_to_kerneldoctor_as_well(target: Target) -> None:
    assert address(replace(target, is_self=False)).other == target.executable


def test_without_pip_there_may_be_uv(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.path.dirname(target.executable)}{os.pathsep}{tmp_path / 'bin'}")
    empty = Packages({}, True, "listed")
    bare = address(target, empty)
    assert (bare.pip, bare.uv, bare.no_pip) == (target.executable, False, True)
    program(tmp_path / "bin" / "uv")
    assert (address(target, empty).uv, address(target, empty).no_pip) == (True, False)
    assert not address(target).uv


def test_conda_is_told_the_folder_unless_it_is_active(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    assert address(target).conda == ""
    os.mkdir(os.path.join(target.prefix, "conda-meta"))
    assert address(target).conda == target.prefix
    monkeypatch.setenv("CONDA_PREFIX", target.prefix)
    assert address(target).conda == ""


def test_the_way_it_was_called_is_kept(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["venv/bin/kerneldoctor", "scan"])
    assert address(target).program == "venv/bin/kerneldoctor"
    monkeypatch.setattr(sys, "argv", [program(tmp_path / "bin" / "kerneldoctor"), "scan"])
    assert address(target).program == ""  # PATH finds the same
    monkeypatch.setattr(sys, "argv", ["/x/kerneldoctor/__main__.py", "scan"])
    assert address(target).program == f"{sys.executable} -m kerneldoctor"


def test_what_comes_before_its_own_packages_is_named(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra, user = tmp_path / "extra", tmp_path / ".local" / "lib" / "python3.11" / "site-packages"
    own = target.sys_path[-1]
    Path(own).mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{extra}/{os.pathsep}/nowhere")
    path = (str(extra), "/usr/lib/python3.11", str(user), own, str(tmp_path / "behind"))
    first = address(replace(target, sys_path=path)).first
    assert first == {str(extra): "PYTHONPATH comes first", str(user): "the user's own packages come first"}


def test_a_recording_tells_of_the_shell_in_which_it_was_made(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = RecordingHost(RealHost())
    seen = find_address(recording, target, Environment())
    monkeypatch.setenv("PATH", os.path.dirname(target.executable))
    replay = RecordedHost(recording.capture(lambda name: True))
    assert find_address(replay, target, Environment()) == seen != address(target)


@pytest.mark.parametrize("answer", [None, [], {"pip": 3, "first": []}])
def test_an_old_or_odd_recording_leaves_commands_as_usual(target: Target, answer: object) -> None:
    document = {"schema": "kerneldoctor.capture/1", "environ": {}, "answers": {"observe shell ": {"is": answer}}}
    assert find_address(RecordedHost(document), target, Environment()) == Address()
    assert find_address(RecordedHost({**document, "answers": {}}), target, Environment()) == Address()
