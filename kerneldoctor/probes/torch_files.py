"""States which of the libraries that `import torch` loads are not there, or not whole; it loads none of them.

Only the few without which no torch imports are looked at; the libraries of CUDA are wheels of their own, see
`companions`. Whether a torch without them can be mended is for the rules.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from ..environment import Fact, known, unknown
from ..errors import ProbeError
from ..host import Host
from . import distributions
from .elf import ElfFile
from .scene import Scene

# Read from the wheels of torch 2.6.0 to 2.13.0; ROCm and XPU builds have more, whose names changed over time.
_EVERY_BUILD = ("c10", "shm", "torch", "torch_cpu", "torch_python")
_GLOBAL = "torch_global_deps"  # not on Windows
_OF_CUDA = ("c10_cuda", "torch_cuda")
_WINDOWS = "{}.dll"
_DEBIAN = "/usr/lib/python3/"  # its torch links to libraries in the folders of the system


def unusable_libraries(scene: Scene, package: str, backend: Fact[str]) -> Fact[tuple[str, ...]]:
    """Each with what is wrong, "libtorch_cuda.so (missing)"; () where all are whole. Raises ProbeError."""
    if package.startswith(_DEBIAN):
        return unknown("Debian's torch keeps its libraries in folders of the system, which were not looked at")
    form = _form(scene)
    stems = (*_EVERY_BUILD, *([_GLOBAL] if form != _WINDOWS else []), *(_OF_CUDA if backend.value == "cuda" else ()))
    # conda moves the libraries into its own folder and leaves links, or nothing at all.
    prefix = distributions.conda_prefix(scene.host, posixpath.dirname(package))
    folders = [posixpath.join(package, "lib"), *([posixpath.join(prefix, "lib")] if prefix else [])]
    found = [
        f"{name} ({problem})" for name in map(form.format, stems) if (problem := _problem(scene.host, folders, name))
    ]
    if not _has_bindings(scene.host, package):
        found.append("_C (missing)")
    return known(tuple(found), folders[0])


def _form(scene: Scene) -> str:
    """How a library is named on the system of the interpreter."""
    try:
        header = scene.host.read(scene.target.executable, 20)
    except ProbeError:
        header = b""
    if header.startswith(b"MZ"):
        return _WINDOWS
    apple = header[:4] in (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
    return "lib{}.dylib" if apple else "lib{}.so"


def _problem(host: Host, folders: Iterable[str], name: str) -> str:
    """What keeps a library from being loaded: missing | empty | truncated | not_elf | a folder or device; or ""."""
    infos = {path: host.stat(path) for path in (posixpath.join(folder, name) for folder in folders)}
    path, info = next(((p, i) for p, i in infos.items() if i.kind != "missing"), ("", None))
    if info is None:
        return "missing"
    if info.kind != "file":
        return "no file"
    if not info.size:
        return "empty"
    return str(host.observe("whole", path, lambda: _elf_problem(path))) if name.endswith(".so") else ""


def _elf_problem(path: str) -> str:
    with ElfFile(path) as elf:
        return elf.problem(None) or ""


def _has_bindings(host: Host, package: str) -> bool:
    return any(_bindings(host.listdir(package)))


def _bindings(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith("_C.") and name.endswith((".so", ".pyd")))
