"""Compiles small libraries on the spot: a test without a compiler is skipped, one whose compiler breaks fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SET_DEVICE = "_ZN3c104cuda9SetDeviceEi"

# The two core libraries of a torch, with one function each that extensions call.
LIBC10 = """
#include <string>
namespace c10 {
struct SourceLocation { const char *function, *file; unsigned line; };
struct Error { Error(SourceLocation, std::string); };
Error::Error(SourceLocation, std::string) {}
}
"""
LIBTORCH_CPU = 'namespace at { int version() { return 2; } } extern "C" int aoti_torch_zeros() { return 0; }'
EXTENSION = """
namespace c10 { namespace cuda { void SetDevice(int); void Optional() __attribute__((weak)); } }
extern "C" void PyInit_ext() { c10::cuda::SetDevice(0); if (c10::cuda::Optional) c10::cuda::Optional(); }
"""


def library(path: Path, source: str, *flags: str) -> Path:
    """Compile a shared library, undefined symbols allowed."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    path.parent.mkdir(parents=True, exist_ok=True)
    code = path.with_suffix(".cpp")
    code.write_text(source)
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-Wl,--hash-style=gnu", "-o", path, code, *flags],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code.unlink()
    return path


def torch_package(
    root: Path, *, version: str = "2.9.0+cpu", cuda: str | None = None, c10: str = LIBC10, abi: int = 1
) -> Path:
    """A torch folder with compiled core libraries and a version.py; it has no metadata."""
    folder = root / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "version.py").write_text(
        f"from typing import Optional\n__version__ = {version!r}\ndebug = False\ncuda: Optional[str] = {cuda!r}\n"
        "git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'\nhip: Optional[str] = None\n"
    )
    library(folder / "lib/libc10.so", c10, f"-D_GLIBCXX_USE_CXX11_ABI={abi}")
    library(folder / "lib/libtorch_cpu.so", LIBTORCH_CPU)
    return folder
