from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kerneldoctor.environment import Extension, Fact
from kerneldoctor.host import Host, RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes import extensions, flash_attention, torch
from kerneldoctor.probes.known_extensions import EXTENSIONS
from kerneldoctor.probes.scene import Scene

from ..fake_host import FakeHost
from . import scenes
from .native import EXTENSION, LIBC10, SET_DEVICE, library, torch_package
from .sites import add

BINARY = "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"
WITH_SET_DEVICE = LIBC10 + "namespace c10 { namespace cuda { void SetDevice(int) {} } }"
THROWS = """
#include <string>
namespace c10 {
struct SourceLocation { const char *function, *file; unsigned line; };
struct Error { Error(SourceLocation, std::string); };
}
extern "C" void PyInit_ext() { c10::Error({"", "", 1}, "bad"); }
"""


def probe(root: Path) -> Fact[tuple[Extension, ...]]:
    found = extensions.probe(scene_of(RealHost(), root))["extensions"]
    assert isinstance(found, Fact)
    return found


def only(root: Path) -> Extension:
    (extension,) = probe(root).value or ()
    return extension


def test_a_symbol_that_this_torch_lacks_is_named(tmp_path: Path) -> None:
    torch_package(tmp_path)
    library(tmp_path / BINARY, EXTENSION)
    add(tmp_path, "flash-attn", "2.8.3")
    found = only(tmp_path)
    assert found.module == "flash_attn_2_cuda"
    assert (found.distribution.value, found.version.value) == ("flash-attn", "2.8.3")
    assert found.missing_torch_symbols.value == (SET_DEVICE,)  # not the weak one
    assert found.abi_tag.value == "cp311"
    assert found.problem.is_absent
    assert found.archs.is_absent
    assert found.cxx11_abi.is_absent


def test_nothing_is_missing_where_torch_defines_it(tmp_path: Path) -> None:
    torch_package(tmp_path, c10=WITH_SET_DEVICE)
    library(tmp_path / BINARY, EXTENSION)
    found = only(tmp_path)
    assert found.missing_torch_symbols.value == ()
    assert found.distribution.is_absent


@pytest.mark.parametrize("torch_abi", [0, 1])
@pytest.mark.parametrize("own_abi", [0, 1])
def test_strings_of_the_two_abis_do_not_meet(tmp_path: Path, torch_abi: int, own_abi: int) -> None:
    torch_package(tmp_path, abi=torch_abi)
    library(tmp_path / BINARY, THROWS, f"-D_GLIBCXX_USE_CXX11_ABI={own_abi}")
    found = only(tmp_path)
    assert found.cxx11_abi.value is bool(own_abi)
    assert bool(found.missing_torch_symbols.value) is (torch_abi != own_abi)


def test_without_torch_nothing_is_called_missing(tmp_path: Path) -> None:
    library(tmp_path / BINARY, EXTENSION)
    found = only(tmp_path)
    assert found.missing_torch_symbols.is_unknown
    assert "torch is not installed" in found.missing_torch_symbols.note


def test_an_extension_that_takes_nothing_from_torch_lacks_nothing(tmp_path: Path) -> None:
    library(tmp_path / BINARY, "int f() { return 1; }")
    assert only(tmp_path).missing_torch_symbols.value == ()


def test_a_symbol_from_a_library_beside_it_is_not_missing(tmp_path: Path) -> None:
    torch_package(tmp_path)
    library(tmp_path / "own.libs/libown.so", "namespace c10 { namespace cuda { void SetDevice(int) {} } }")
    flags = (f"-L{tmp_path}/own.libs", "-lown", "-Wl,-rpath,$ORIGIN/own.libs")
    library(tmp_path / BINARY, EXTENSION, *flags)
    assert only(tmp_path).missing_torch_symbols.value == ()


def test_needs_are_read(tmp_path: Path) -> None:
    library(tmp_path / "libcudart.so.12", "int cudaFree() { return 0; }", "-Wl,-soname,libcudart-9335f6a2.so.12")
    source = "#include <string>\n#include <cstdio>\nint cudaFree();\n"
    source += 'std::string f(int n) { puts("f"); return std::to_string(n + cudaFree()); }'
    library(tmp_path / BINARY, source, str(tmp_path / "libcudart.so.12"))
    found = only(tmp_path)
    assert found.cudart_major.value == "12"
    assert "libcudart-9335f6a2.so.12" in (found.needed.value or ())
    assert (found.glibcxx_needed.value or "").startswith("3.4")
    assert (found.glibc_needed.value or "").startswith("2.")


def test_the_newest_version_is_by_number() -> None:
    versions = ["GLIBC_2.9", "GLIBC_2.32", "GLIBC_2.4", "GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBCXX_3.4.30"]
    assert extensions._newest(versions, "GLIBC_", "a.so").value == "2.32"
    assert extensions._newest(versions, "GLIBCXX_", "a.so").value == "3.4.30"
    assert extensions._newest(versions, "CXXABI_", "a.so").is_absent


def truncated(path: Path) -> None:
    library(path, EXTENSION)
    path.write_bytes(path.read_bytes()[:3000])


def other_machine(path: Path) -> None:
    library(path, EXTENSION)
    data = bytearray(path.read_bytes())
    data[18] = 8  # MIPS
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Path.touch, "empty"),
        (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "not_elf"),
        (truncated, "truncated"),
        (other_machine, "wrong_machine"),
        (lambda path: path.symlink_to(path.parent / "gone"), "dangling_link"),
        (Path.mkdir, "no_file"),
        (os.mkfifo, "no_file"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named(tmp_path: Path, make: Callable[[Path], None], problem: str) -> None:
    make(tmp_path / BINARY)
    found = only(tmp_path)
    assert found.problem.value == problem
    assert found.missing_torch_symbols.is_unknown
    assert found.archs.is_unknown
    assert found.file.value == str(tmp_path / BINARY)


def test_a_torch_that_is_cut_off_makes_the_answer_unknown(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    library(tmp_path / BINARY, EXTENSION)
    (package / "lib/libc10.so").write_bytes(b"")
    assert only(tmp_path).missing_torch_symbols.is_unknown


def test_an_extension_inside_a_package(tmp_path: Path) -> None:
    (tmp_path / "xformers").mkdir()
    (tmp_path / "xformers/__init__.py").touch()
    library(tmp_path / "xformers/_C.so", EXTENSION)
    library(tmp_path / "xformers/_C_unrelated.so", EXTENSION)
    found = only(tmp_path)
    assert (found.module, found.file.value) == ("xformers._C", str(tmp_path / "xformers/_C.so"))
    assert found.abi_tag.is_absent


def test_the_first_of_two_on_the_path_counts(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        library(tmp_path / folder / BINARY, "int f() { return 1; }")
    made = scenes.scene(RealHost(), sys_path=(str(tmp_path / "a"), str(tmp_path / "b")), executable=sys.executable)
    found = extensions.probe(made)["extensions"]
    assert isinstance(found, Fact)
    assert [e.file.value for e in found.value or ()] == [str(tmp_path / "a" / BINARY)]


@pytest.mark.parametrize(
    ("cuda", "shipped", "chosen"),
    [
        ("12.8", ("126", "128", "130"), "128"),
        ("12.9", ("118", "126", "128", "130"), "128"),
        ("12.0", ("118", "121", "124"), "121"),
        ("13.1", ("128", "130", "132"), "130"),
    ],
)
def test_bitsandbytes_is_judged_by_the_library_it_loads(
    tmp_path: Path, cuda: str, shipped: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BNB_CUDA_VERSION", raising=False)
    torch_package(tmp_path, cuda=cuda)
    bitsandbytes(tmp_path, shipped)
    found = only(tmp_path)
    assert found.file.value == str(tmp_path / f"bitsandbytes/libbitsandbytes_cuda{chosen}.so")
    monkeypatch.setenv("BNB_CUDA_VERSION", "999")
    assert only(tmp_path).file.is_absent


def bitsandbytes(root: Path, shipped: tuple[str, ...]) -> None:
    add(root, "bitsandbytes", "0.50.2")
    (root / "bitsandbytes").mkdir()
    (root / "bitsandbytes/__init__.py").touch()
    for digits in shipped:
        (root / f"bitsandbytes/libbitsandbytes_cuda{digits}.so").touch()


def test_bitsandbytes_without_a_library_for_this_cuda_and_without_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BNB_CUDA_VERSION", raising=False)
    torch_package(tmp_path / "a", cuda="13.0")
    bitsandbytes(tmp_path / "a", ("118", "128"))
    found = only(tmp_path / "a")
    assert (found.module, found.version.value) == ("bitsandbytes.libbitsandbytes_cuda130", "0.50.2")
    assert found.file.is_absent
    torch_package(tmp_path / "b")
    bitsandbytes(tmp_path / "b", ("118", "128"))
    assert probe(tmp_path / "b").value == ()


def test_no_extension_is_an_empty_list_and_unknown_where_a_folder_may_not_be_listed() -> None:
    files = {"/venv/bin/python": b"", "/site/pip-26.0.dist-info/METADATA": "", "/user/": ""}
    found = extensions.probe(scenes.scene(FakeHost(files), sys_path=("/site",)))["extensions"]
    assert isinstance(found, Fact)
    assert found.value == ()
    denied = FakeHost(files, denied=frozenset({"/user"}))
    found = extensions.probe(scenes.scene(denied, sys_path=("/site", "/user")))["extensions"]
    assert isinstance(found, Fact)
    assert found.is_unknown


@pytest.mark.parametrize("header", [b"MZ" + b"\0" * 30, b"\xcf\xfa\xed\xfe" + b"\0" * 30])
def test_other_systems_are_told_instead_of_judged(header: bytes) -> None:
    host = FakeHost({"/venv/bin/python": header, f"/site/{BINARY}": b""})
    found = extensions.probe(scenes.scene(host, sys_path=("/site",)))["extensions"]
    assert isinstance(found, Fact)
    assert found.is_unknown


def test_the_table_is_in_order() -> None:
    places = [(e.folder, e.stem) for e in EXTENSIONS]
    assert len(set(places)) == len(places)
    assert all(name == name.lower() and "_" not in name for e in EXTENSIONS for name in e.distributions)


def test_a_recording_of_the_binary_probes_gives_the_same_facts(tmp_path: Path) -> None:
    torch_package(tmp_path, cuda="12.8")
    library(tmp_path / BINARY, EXTENSION)
    add(tmp_path, "torch", "2.9.0+cu128", requires=("nvidia-cudnn-cu12==9.10.2.21",))
    add(tmp_path, "flash-attn", "2.8.3+cu12torch2.8cxx11abiTRUE")
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn/__init__.py").touch()
    recording = RecordingHost(RealHost())
    answers = [module.probe(scene_of(recording, tmp_path)) for module in (torch, flash_attention, extensions)]
    capture = json.loads(json.dumps(recording.capture(lambda name: False)))
    shutil.rmtree(tmp_path)
    recorded = RecordedHost(capture)
    assert answers == [module.probe(scene_of(recorded, tmp_path)) for module in (torch, flash_attention, extensions)]
    found = answers[2]["extensions"]
    assert isinstance(found, Fact)
    assert len(found.value or ()) == 1


def scene_of(host: Host, root: Path) -> Scene:
    return scenes.scene(host, sys_path=(str(root),), executable=sys.executable)
