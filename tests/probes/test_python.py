from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kerneldoctor.environment import Python
from kerneldoctor.host import CommandResult, Host, RealHost
from kerneldoctor.probes.interpreter import find_target
from kerneldoctor.probes.python import probe
from kerneldoctor.probes.scene import Scene

from ..fake_host import FakeHost
from .sites import add, target

GCC = "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\nCopyright (C) 2021 Free Software Foundation, Inc.\n"


def python(host: Host, **changes: object) -> Python:
    where = dataclasses.replace(target("/site"), **changes)  # type: ignore[arg-type]
    found = probe(Scene(host, where))["python"]
    assert isinstance(found, Python)
    return found


def test_this_interpreter() -> None:
    found = probe(Scene(RealHost(), find_target(RealHost(), None)))["python"]
    assert isinstance(found, Python)
    assert found.implementation.value == "cpython"
    assert all(Path(p).is_dir() for p in found.site_packages.value or ())
    assert found.site_packages.value
    unknown = [f.name for f in dataclasses.fields(found) if getattr(found, f.name).is_unknown]
    assert unknown == []


def test_kinds_of_environment() -> None:
    assert python(FakeHost()).environment_kind.value == "venv"
    assert python(FakeHost(), prefix="/usr", base_prefix="/usr").environment_kind.value == "system"
    conda = FakeHost(files={"/opt/conda/conda-meta/history": ""})
    assert python(conda, prefix="/opt/conda", base_prefix="/opt/conda").environment_kind.value == "conda"
    assert python(conda, prefix="/x", base_prefix="/opt/conda").environment_kind.value == "venv"


@pytest.mark.parametrize(("who", "mixed"), [("pip", True), ("uv", True), ("conda", False)])
def test_pip_over_conda_is_mixed(tmp_path: Path, who: str, mixed: bool) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    add(site, "torch", "2.13.0", installer=who)
    add(site, "rich", "15.0.0", installer="pip")
    (tmp_path / "conda-meta").mkdir()
    for record in ("pytorch-2.13.0-py3.11_cuda13.0_0", "rich-15.0.0-pyhd_0", "python-3.11.7-h1_0"):
        (tmp_path / "conda-meta" / f"{record}.json").write_text("{}")
    fact = python(RealHost(), prefix=str(tmp_path), sys_path=(str(site),)).pip_and_conda_mixed
    assert fact.value is mixed


def test_pip_beside_conda_is_not_mixed(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    add(site, "torch", "2.13.0", installer="pip")
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "numpy-2.4.6-py311h1_0.json").write_text("{}")
    assert python(RealHost(), prefix=str(tmp_path), sys_path=(str(site),)).pip_and_conda_mixed.value is False


def test_headers(tmp_path: Path) -> None:
    assert python(RealHost(), include=str(tmp_path)).headers.value is False
    (tmp_path / "Python.h").write_text("")
    assert python(RealHost(), include=str(tmp_path)).headers.value is True


def test_gcc_comes_before_clang() -> None:
    host = FakeHost(
        programs={"gcc": "/usr/bin/gcc", "clang": "/usr/bin/clang"}, commands={("/usr/bin/gcc", "--version"): GCC}
    )
    found = python(host)
    assert found.c_compiler.value == "/usr/bin/gcc"
    assert found.c_compiler_version.value == "11.4.0"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\n", "14.0.6"),
        ("Apple clang version 16.0.0 (clang-1600.0.26.6)\n", "16.0.0"),
        ("gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-26)\n", "8.5.0"),
        ("x86_64-conda-linux-gnu-cc (conda-forge gcc 13.3.0-1) 13.3.0\n", "13.3.0"),
    ],
)
def test_versions_of_compilers(said: str, version: str) -> None:
    host = FakeHost(programs={"clang": "/usr/bin/clang"}, commands={("/usr/bin/clang", "--version"): said})
    assert python(host).c_compiler_version.value == version


def test_cc_is_used_as_it_stands() -> None:
    host = FakeHost(
        environ={"CC": "gcc-13"},
        programs={"gcc": "/usr/bin/gcc", "gcc-13": "/usr/bin/gcc-13"},
        commands={("gcc-13", "--version"): "gcc-13 (Debian 13.2.0) 13.2.0\n"},
    )
    found = python(host)
    assert (found.c_compiler.value, found.c_compiler_version.value) == ("gcc-13", "13.2.0")


@pytest.mark.parametrize("value", ["/gone/gcc", "ccache gcc", ""])
def test_a_cc_that_is_no_program_means_no_compiler(value: str) -> None:
    """Triton looks no further, whatever else is installed."""
    found = python(FakeHost(environ={"CC": value}, programs={"gcc": "/usr/bin/gcc"}))
    assert found.c_compiler.is_absent
    assert found.c_compiler_version.is_absent
    assert "CC" in found.c_compiler.note


def test_no_compiler_is_absent_and_cc_alone_does_not_count() -> None:
    assert python(FakeHost(programs={"cc": "/usr/bin/cc"})).c_compiler.is_absent


def test_a_compiler_that_hangs_leaves_its_version_unknown() -> None:
    host = FakeHost(
        programs={"gcc": "/usr/bin/gcc"},
        commands={("/usr/bin/gcc", "--version"): CommandResult(None, "", "", "timeout")},
    )
    found = python(host)
    assert found.c_compiler.is_known
    assert found.c_compiler_version.is_unknown


def test_an_unreadable_site_packages_costs_only_its_facts() -> None:
    host = FakeHost(files={"/opt/conda/conda-meta/x-1-0.json": "{}", "/site/a": ""}, denied=frozenset({"/site"}))
    found = python(host, prefix="/opt/conda", sys_path=("/site",))
    assert found.pip_and_conda_mixed.is_unknown
    assert found.version.value == "3.11.7"
