from __future__ import annotations

import contextlib
import os
import random
import subprocess
from pathlib import Path

import pytest

from kerneldoctor.errors import ProbeError
from kerneldoctor.probes.elf import ElfFile, Machine, gnu_hash, machine_of

from .native import EXTENSION, SET_DEVICE, library

X86_64 = Machine(2, 1, 62)


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("elf") / "ext.so", EXTENSION)


def problem(path: Path, machine: Machine | None = None) -> str | None:
    with ElfFile(str(path)) as elf:
        return elf.problem(machine)


def test_what_must_be_defined_elsewhere_is_listed_and_weak_symbols_are_not(extension: Path) -> None:
    with ElfFile(str(extension)) as elf:
        assert [name for name in elf.undefined() if "c10" in name] == [SET_DEVICE]


def test_undefined_symbols_of_a_library_that_defines_nothing_are_seen(tmp_path: Path) -> None:
    # Its GNU hash table is empty and does not say where the undefined ones end.
    source = "void needed(); __attribute__((constructor)) static void run() { needed(); }"
    with ElfFile(str(library(tmp_path / "a.so", source, "-nostdlib"))) as elf:
        assert list(elf.undefined()) == ["_Z6neededv"]


def test_exports_agree_with_nm_on_hundreds_of_symbols(tmp_path: Path) -> None:
    names = [f"f{n}_{'x' * (n % 40)}" for n in range(800)]
    path = library(tmp_path / "many.so", "".join(f'extern "C" int {n}() {{ return 1; }}\n' for n in names[::2]))
    said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    defined = {line.split()[-1] for line in said.splitlines()}
    with ElfFile(str(path)) as elf:
        assert {n for n in names if elf.exports(n)} == defined & set(names) == set(names[::2])


def test_a_symbol_that_is_only_used_is_not_exported(extension: Path) -> None:
    with ElfFile(str(extension)) as elf:
        assert elf.exports("PyInit_ext")
        assert not elf.exports(SET_DEVICE)


def test_a_huge_name_is_read_whole(tmp_path: Path) -> None:
    name = "f" + "o" * 60_000
    path = library(tmp_path / "a.so", f'extern "C" {{ void {name}(); int g() {{ {name}(); return 1; }} }}')
    with ElfFile(str(path)) as elf:
        assert name in set(elf.undefined())
        assert not elf.exports(name)
        assert elf.exports("g")


def test_needs_and_run_paths(tmp_path: Path) -> None:
    library(tmp_path / "libother.so", "int other() { return 1; }")
    flags = (f"-L{tmp_path}", "-Wl,--no-as-needed", "-lother", "-Wl,-rpath,$ORIGIN/../lib:/opt")
    path = library(tmp_path / "a.so", "int other(); int f() { return other(); }", *flags)
    with ElfFile(str(path)) as elf:
        assert elf.needed[0] == "libother.so"
        assert elf.run_paths == ["$ORIGIN/../lib", "/opt"]


def test_version_needs_agree_with_readelf(tmp_path: Path) -> None:
    source = "#include <string>\nstd::string f(int n) { return std::to_string(n) + std::string(n, 'x'); }"
    path = library(tmp_path / "a.so", source)
    said = subprocess.run(["readelf", "-V", "-W", path], capture_output=True, text=True, check=True).stdout
    needs = said.partition(".gnu.version_r")[2].splitlines()
    wanted = {line.split("Name:")[1].split()[0] for line in needs if "Name:" in line}
    with ElfFile(str(path)) as elf:
        assert set(elf.version_needs()) == wanted
    assert any(name.startswith("GLIBCXX_") for name in wanted)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", "empty"),
        (b"not a library\n", "not_elf"),
        (b"\x7fEL", "truncated"),
        (b"\x7fELF\2\1\1" + b"\0" * 30, "wrong_machine"),
    ],
)
def test_what_is_no_library_is_named(tmp_path: Path, content: bytes, answer: str) -> None:
    (tmp_path / "a.so").write_bytes(content)
    assert problem(tmp_path / "a.so", X86_64) == answer


def test_a_library_that_was_cut_off_is_named_wherever_it_was_cut(tmp_path: Path, extension: Path) -> None:
    whole = extension.read_bytes()
    assert problem(extension) is None
    for kept in (64, 100, len(whole) // 2, len(whole) - 1):
        (tmp_path / "a.so").write_bytes(whole[:kept])
        assert problem(tmp_path / "a.so") == "truncated", kept


def test_another_machine_is_named(tmp_path: Path, extension: Path) -> None:
    data = bytearray(extension.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")
    (tmp_path / "a.so").write_bytes(data)
    own = machine_of(extension.read_bytes()[:20])
    assert problem(extension, own) is None
    assert problem(tmp_path / "a.so", own) == "wrong_machine"


def test_a_fifo_does_not_block_and_a_missing_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.so")
    with pytest.raises(ProbeError, match="no regular file"):
        ElfFile(str(tmp_path / "a.so"))
    with pytest.raises(ProbeError, match="No such file"):
        ElfFile(str(tmp_path / "b.so"))


def test_damage_inside_is_told_and_never_more_than_that(tmp_path: Path, extension: Path) -> None:
    whole, chance = extension.read_bytes(), random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(8):
            data[chance.randrange(64, len(data))] = chance.randrange(256)
        (tmp_path / "a.so").write_bytes(data)
        with contextlib.suppress(ProbeError), ElfFile(str(tmp_path / "a.so")) as elf:  # any other error fails the test
            if elf.problem(None) is None:
                _ = elf.needed, elf.run_paths, elf.version_needs(), list(elf.undefined()), elf.sections
                elf.exports("PyInit_ext")


def test_the_hash_is_the_one_of_the_gnu_linker() -> None:
    assert [gnu_hash(name) for name in (b"", b"printf", b"syscall")] == [0x1505, 0x156B2BB8, 0xBAC212A0]
