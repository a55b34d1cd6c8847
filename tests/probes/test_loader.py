from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.errors import ProbeError
from kerneldoctor.probes.loader import (
    DEFAULT_FOLDERS,
    Located,
    find_library,
    find_newest,
    parse_cache,
    path_entries,
    stem,
)
from tests.fake_host import FakeHost

LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin")
GCC = shutil.which("gcc")


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    """The bytes of a cache that ldconfig made over two CUDA runtimes and a library of no interest."""
    if not LDCONFIG or not GCC:
        pytest.skip("needs ldconfig and gcc")
    root = tmp_path_factory.mktemp("cache")
    libraries = root / "lib"
    libraries.mkdir()
    for soname in ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1", "libother.so.3"):
        command = [GCC, "-shared", "-x", "c", "/dev/null", f"-Wl,-soname,{soname}", "-o", str(libraries / soname)]
        subprocess.run(command, check=True)
    (root / "conf").write_text(f"{libraries}\n")
    # -N keeps it from touching links; -C writes elsewhere than /etc.
    subprocess.run([LDCONFIG, "-N", "-f", root / "conf", "-C", root / "out"], check=True, capture_output=True)
    subprocess.run([LDCONFIG, "-X", "-f", root / "conf", "-C", root / "out"], check=True, capture_output=True)
    return (root / "out").read_bytes(), libraries


def test_cache_of_the_real_ldconfig(real_cache: tuple[bytes, Path]) -> None:
    data, folder = real_cache
    table = parse_cache(data)
    for name in ("libcudart.so.12", "libcudart.so.13", "libcuda.so.1"):
        assert table[name] == [str(folder / name)]
    assert "libother.so.3" not in table


@given(st.data())
def test_damaged_cache_is_an_error_or_a_table(real_cache: tuple[bytes, Path], data: st.DataObject) -> None:
    whole = bytearray(real_cache[0])
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ProbeError):  # any other exception fails
        assert isinstance(parse_cache(bytes(whole[: data.draw(st.integers(0, len(whole)))])), dict)


def test_order_of_the_loader() -> None:
    soname = "libcuda.so.1"
    files: dict[str, str] = {f"{DEFAULT_FOLDERS[0]}/{soname}": "", f"/cached/{soname}": "", f"/mine/{soname}": ""}
    cache = {("loader_cache", "/etc/ld.so.cache"): {soname: [f"/gone/{soname}", f"/cached/{soname}"]}}
    with_variable = FakeHost(files=files, observations=cache, environ={"LD_LIBRARY_PATH": "/nowhere:/mine"})
    assert find_library(with_variable, soname) == Located(f"/mine/{soname}", "LD_LIBRARY_PATH")
    cached = FakeHost(files=files, observations=cache)
    assert find_library(cached, soname) == Located(f"/cached/{soname}", "loader cache")
    bare = FakeHost(files=files)  # musl and NixOS have no cache
    assert find_library(bare, soname) == Located(f"{DEFAULT_FOLDERS[0]}/{soname}", "default folder")
    assert find_library(FakeHost(), soname) is None


def test_newest_is_by_number_and_the_name_that_programs_ask_for() -> None:
    names = ("libcudart.so", "libcudart.so.9", "libcudart.so.12", "libcudart.so.12.8.90", "libcudart_static.a")
    host = FakeHost(files={f"/cuda/{n}": "" for n in names}, environ={"LD_LIBRARY_PATH": "/cuda/"})
    assert find_newest(host, "libcudart") == Located("/cuda/libcudart.so.12", "LD_LIBRARY_PATH")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libcudart.so.12", "libcudart"),
        ("libcudart.so", "libcudart"),
        ("libstdc++.so.6.0.30", "libstdc++"),
        ("libstdc++.so.6.0.30-gdb.py", ""),
        ("libcudart-d0da41ae.so.11.0", "libcudart-d0da41ae"),
        ("libcudart_static.a", ""),
        ("libcuda.sock", ""),
    ],
)
def test_stem(name: str, expected: str) -> None:
    assert stem(name) == expected


def test_search_path_without_empty_relative_and_double_entries() -> None:
    assert path_entries("/a/::/b:lib:/a:/") == ("/a", "/b", "/")
    assert path_entries(None) == ()
