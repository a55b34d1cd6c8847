from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kerneldoctor.errors import ProbeError
from kerneldoctor.probes import fatbin
from kerneldoctor.probes.elf import ElfFile

from .native import library

KERNEL = '__global__ void k(float *x) { x[0] = 1; }\nextern "C" void go(float *x) { k<<<1, 1>>>(x); }\n'
PTX, CUBIN, LTO = 1, 2, 8
PLAIN, SPECIFIC, FAMILY = 0x11, 0x100011, 0x200011


def read(path: Path) -> Counter[str]:
    with ElfFile(str(path)) as elf:
        return fatbin.read_architectures(elf)


@pytest.mark.parametrize("relocatable", [False, True])
def test_what_nvcc_was_asked_for_is_read_back(tmp_path: Path, relocatable: bool) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    offered = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True, check=True).stdout.split()
    targets = {
        "sm_80": ("compute_80", "8.0"),
        "sm_90a": ("compute_90a", "9.0a"),
        "compute_90a": ("compute_90a", "9.0a+PTX"),
        "sm_100f": ("compute_100f", "10.0f"),
        "sm_120": ("compute_120", "12.0"),
        "compute_120": ("compute_120", "12.0+PTX"),
    }
    used = {code: row for code, row in targets.items() if code.replace("compute", "sm") in offered}
    assert "sm_80" in used
    (tmp_path / "a.cu").write_text(KERNEL)
    flags = [f"-gencode=arch={arch},code={code}" for code, (arch, _) in used.items()]
    flags += ["-rdc=true"] if relocatable else []
    command = [nvcc, "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-o", tmp_path / "a.so", tmp_path / "a.cu"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    if relocatable and done.returncode and "cudadevrt" in done.stderr:
        pytest.skip("this nvcc comes without libcudadevrt")
    assert done.returncode == 0, done.stderr
    assert set(read(tmp_path / "a.so")) == {name for _, name in used.values()}


def entry(kind: int, arch: int, flags: int, code: int = 40, header: int = 64) -> bytes:
    head = struct.pack("<HHIQIIHHIIIQ", kind, 0x101, header, code, 0, 0, 8, 1, arch, 0, 0, flags)
    return head.ljust(header, b"\0") + b"\xee" * code


def fat(*entries: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(b"".join(entries))) + b"".join(entries)


def with_section(tmp_path: Path, data: bytes, name: str = ".nv_fatbin") -> Path:
    numbers = ", ".join(str(byte) for byte in data)
    source = f'__attribute__((section("{name}"), used, aligned(8))) static const unsigned char code[] = {{{numbers}}};'
    return library(tmp_path / "made.so", source)


def test_entries_of_all_fat_binaries_are_counted(tmp_path: Path) -> None:
    first = fat(entry(CUBIN, 80, PLAIN), entry(CUBIN, 90, SPECIFIC, header=112), entry(PTX, 120, PLAIN | 0x8000))
    second = fat(entry(CUBIN, 80, PLAIN), entry(CUBIN, 100, FAMILY), entry(LTO, 75, PLAIN))
    found = read(with_section(tmp_path, first + b"\0" * 16 + second))
    assert found == {"8.0": 2, "9.0a": 1, "12.0+PTX": 1, "10.0f": 1}


def test_a_library_without_gpu_code_has_none(tmp_path: Path) -> None:
    assert read(library(tmp_path / "a.so", "int f() { return 1; }")) == {}


@pytest.mark.parametrize(
    "data",
    [b"\x01" * 8192, fat(entry(CUBIN, 80, PLAIN, header=64))[:16] + struct.pack("<HHIQ", 2, 0x101, 0, 0) + b"\0" * 88],
)
def test_a_layout_that_is_not_known_is_told_instead_of_guessed(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ProbeError, match="layout that is not known"):
        read(with_section(tmp_path, data))


def test_sizes_that_lead_out_of_the_file_are_damage(tmp_path: Path) -> None:
    data = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**60) + entry(CUBIN, 80, PLAIN, code=0)[:48] + b"\xff" * 64
    with pytest.raises(ProbeError):
        read(with_section(tmp_path, data))


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("sm_90a", "9.0a"),
        ("sm_120", "12.0"),
        ("compute_120", "12.0+PTX"),
        ("sm_100f", "10.0f"),
        ("sm_75", "7.5"),
        ("gfx942", None),
        ("lto_90", None),
        ("", None),
    ],
)
def test_flags_of_nvcc(flag: str, name: str | None) -> None:
    assert fatbin.from_flag(flag) == name


def test_order_is_by_capability_not_by_text() -> None:
    archs = ["12.0+PTX", "10.0", "9.0a", "8.0", "12.0", "9.0"]
    assert fatbin.in_order(archs) == ("8.0", "9.0", "9.0a", "10.0", "12.0", "12.0+PTX")
