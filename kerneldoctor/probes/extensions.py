"""States of each compiled extension that is known to break alike what it needs and what of torch it does not find.

Every file is read through `elf`; nothing is loaded. Whether a need is met by this system is for the rules.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..environment import Extension, Fact, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists
from ..values import dataclass
from . import fatbin, libtorch
from .elf import ElfFile, Machine, machine_of
from .importables import ImportPath
from .known_extensions import EXTENSIONS
from .scene import Scene
from .torch import read_version

VARIABLES = ("BNB_CUDA_VERSION",)  # what is read of the environment; a capture must keep it
_CUDART = re.compile(r"libcudart(?:-[0-9a-f]+)?\.so\.(\d+)")  # auditwheel writes a hash into names
_CPYTHON_TAG = re.compile(r"\.cpython-(\d+t?)-")
_BITSANDBYTES = re.compile(r"libbitsandbytes_cuda(\d\d)(\d+)\.so")
# Always there, or loaded by name; none of them can define a symbol of torch.
_NO_SIBLING = re.compile(
    r"lib(?:c|m|dl|rt|pthread|gcc_s|stdc\+\+|cuda|cudart|nvrtc|cublas.*|cudnn.*|nccl)\.so|ld-linux|lib(?:c10|torch)"
)


@dataclass(frozen=True, slots=True)
class _File:
    """One file to look at."""

    module: str
    path: str
    distributions: tuple[str, ...]
    problem: str = ""  # why nothing can be told of it


@dataclass(frozen=True, slots=True)
class _Torch:
    """The torch that extensions meet."""

    libraries: tuple[str, ...] = ()
    cuda: str = ""
    problem: str = ""  # why the libraries are not known


def probe(scene: Scene) -> dict[str, object]:
    """The `extensions` list."""
    path = ImportPath(scene)
    header = _interpreter_header(scene)
    machine = machine_of(header)
    if header and machine is None and not header.startswith(b"#!"):
        return {"extensions": unknown("only extensions of Linux (ELF files) can be read")}
    torch = _torch(scene, path)
    found = [_look(scene, file, machine, torch) for file in _files(scene.host, path)]
    found += _bitsandbytes(scene, path, machine, torch)
    nothing = path.nothing("extension that is known to break with torch")
    if not found and nothing.is_unknown:
        return {"extensions": nothing}
    return {"extensions": known(tuple(found), "files on the path of this Python")}


def _interpreter_header(scene: Scene) -> bytes:
    """Extensions must be of the interpreter's own machine. Empty when it cannot be read."""
    try:
        return scene.host.read(scene.target.executable, 20)
    except ProbeError:
        return b""


def _torch(scene: Scene, path: ImportPath) -> _Torch:
    package = path.first("torch")
    if package is None or package.kind != "package":
        return _Torch(problem="torch is not installed")
    cuda = read_version(scene.host, package.path).values.get("cuda")
    try:
        libraries, problem = libtorch.libraries(scene.host, package.path), ""
    except ProbeError as error:
        libraries, problem = (), str(error)
    return _Torch(libraries, cuda if isinstance(cuda, str) else "", problem)


def _files(host: Host, path: ImportPath) -> Iterator[_File]:
    modules: dict[str, str] = {}
    for root, names in reversed(path.names()):
        modules |= {name.partition(".")[0]: posixpath.join(root, name) for name in names if name.endswith(".so")}
    for extension in EXTENSIONS:
        if not extension.folder:
            if extension.stem in modules:
                yield _File(extension.stem, modules[extension.stem], extension.distributions)
            continue
        module = ".".join(filter(None, [*extension.folder.split("/"), extension.stem]))
        for folder in _folders(host, path, extension.folder):
            try:
                inside = host.listdir(folder)
            except ProbeError as error:
                yield _File(module, folder, extension.distributions, str(error))
                continue
            for name in inside:
                if name.partition(".")[0] == extension.stem and name.endswith(".so"):
                    yield _File(module, posixpath.join(folder, name), extension.distributions)


def _folders(host: Host, path: ImportPath, folder: str) -> tuple[str, ...]:
    """The folder below the package that `import` would take."""
    top, _, below = folder.partition("/")
    package = path.first(top)
    if package is None or package.kind == "module":
        return ()
    folder = posixpath.join(package.path, below) if below else package.path
    return (folder,) if exists(host, folder) else ()


def _look(scene: Scene, file: _File, machine: Machine | None, torch: _Torch) -> Extension:
    distribution = next((d for name in file.distributions if (d := scene.distribution(name)) is not None), None)
    nobody = absent(f"no metadata of {' or '.join(file.distributions)}")
    facts: dict[str, Fact[Any]] = {
        "distribution": known(distribution.name, distribution.metadata) if distribution else nobody,
        "version": known(distribution.version, distribution.metadata) if distribution else nobody,
        "file": known(file.path, "sys.path"),
        "abi_tag": _abi_tag(posixpath.basename(file.path)),
    }
    if file.problem:
        facts |= {"file": unknown(file.problem), "abi_tag": unknown(file.problem)}
        return Extension(file.module, **facts, **_all_unknown(file.problem))
    try:
        # A name that is listed and leads nowhere is a link whose target is gone; a folder or a FIFO is no library.
        kind = scene.host.stat(file.path).kind
        seen: Mapping[str, Any] = {"problem": "dangling_link" if kind == "missing" else "no_file"}
        if kind == "file":
            seen = scene.host.observe("elf", file.path, lambda: describe(file.path, machine, torch.libraries))
    except ProbeError as error:
        return Extension(file.module, **facts, **_all_unknown(str(error)))
    if seen["problem"]:
        broken = known(seen["problem"], file.path)
        return Extension(file.module, **facts, **{**_all_unknown(f"the file is {seen['problem']}"), "problem": broken})
    return Extension(file.module, **facts, **_facts(file.path, seen, torch))


_FROM_FILE = (
    "problem",
    "missing_torch_symbols",
    "cxx11_abi",
    "needed",
    "cudart_major",
    "glibc_needed",
    "glibcxx_needed",
    "archs",
)


def _all_unknown(reason: str) -> dict[str, Fact[Any]]:
    return dict.fromkeys(_FROM_FILE, unknown(reason))


def describe(path: str, machine: Machine | None, torch_libraries: Sequence[str]) -> dict[str, Any]:
    """What one file needs, as JSON values. Raises ProbeError when it cannot be read or is damaged inside."""
    with ElfFile(path) as elf:
        problem = elf.problem(machine)
        if problem:
            return {"problem": problem}
        symbols = [name for name in elf.undefined() if libtorch.is_torch_symbol(name)]
        needed = elf.needed
        seen = {
            "problem": None,
            "needed": needed,
            "versions": elf.version_needs(),
            "torch_symbols": len(symbols),
            "new_string": libtorch.uses_new_string(symbols),
            **_gpu_code(elf),
        }
        siblings = _siblings(path, needed, elf.run_paths)
    try:
        missing = libtorch.missing_symbols(symbols, torch_libraries, siblings) if torch_libraries else []
    except ProbeError as error:
        return {**seen, "missing": [], "missing_problem": str(error)}
    return {**seen, "missing": missing, "missing_problem": ""}


def _gpu_code(elf: ElfFile) -> dict[str, Any]:
    try:
        return {"archs": list(fatbin.in_order(fatbin.read_architectures(elf))), "archs_problem": ""}
    except ProbeError as error:
        return {"archs": [], "archs_problem": str(error)}


def _siblings(path: str, needed: Iterable[str], run_paths: Iterable[str]) -> list[str]:
    """Libraries that came with the extension and may define a symbol in one of torch's namespaces."""
    own = posixpath.dirname(path)
    folders = [own, *(entry.replace("${ORIGIN}", own).replace("$ORIGIN", own) for entry in run_paths)]
    names = [name for name in needed if not _NO_SIBLING.match(name) and "/" not in name]
    return [posixpath.join(folder, name) for name in names for folder in dict.fromkeys(folders)]


def _facts(path: str, seen: Mapping[str, Any], torch: _Torch) -> dict[str, Fact[Any]]:
    needed: list[str] = seen["needed"]
    cudart = next((match[1] for name in needed if (match := _CUDART.match(name))), None)
    new_string, archs = seen["new_string"], tuple(seen["archs"])
    return {
        "problem": absent(path),
        "missing_torch_symbols": _missing(path, seen, torch),
        "cxx11_abi": absent(f"no torch symbol of {path} has a std::string")
        if new_string is None
        else known(new_string, f"symbols of {path}"),
        "needed": known(tuple(needed), path),
        "cudart_major": known(cudart, path) if cudart else absent(f"{path} needs no libcudart"),
        "glibc_needed": _newest(seen["versions"], "GLIBC_", path),
        "glibcxx_needed": _newest(seen["versions"], "GLIBCXX_", path),
        "archs": unknown(seen["archs_problem"])
        if seen["archs_problem"]
        else (known(archs, f"GPU code of {path}") if archs else absent(f"{path} holds no GPU code")),
    }


def _missing(path: str, seen: Mapping[str, Any], torch: _Torch) -> Fact[tuple[str, ...]]:
    if not seen["torch_symbols"]:
        return known((), f"{path} takes no symbol from torch")
    problem = torch.problem or seen["missing_problem"]
    return unknown(problem) if problem else known(tuple(seen["missing"]), posixpath.dirname(torch.libraries[0]))


def _newest(versions: Iterable[str], prefix: str, path: str) -> Fact[str]:
    numbers = [v.removeprefix(prefix) for v in versions if re.fullmatch(re.escape(prefix) + r"\d{1,4}(\.\d{1,4})*", v)]
    if not numbers:
        return absent(f"{path} needs no {prefix}* version")
    return known(max(numbers, key=lambda text: [int(part) for part in text.split(".")]), path)


def _abi_tag(file_name: str) -> Fact[str]:
    match = _CPYTHON_TAG.search(file_name)
    if match:
        return known(f"cp{match[1]}", file_name)
    return known("abi3", file_name) if ".abi3." in file_name else absent(f"{file_name} carries no tag")


def _bitsandbytes(scene: Scene, path: ImportPath, machine: Machine | None, torch: _Torch) -> list[Extension]:
    """Of its libraries, one per CUDA release, the one that bitsandbytes would load under this torch.

    bitsandbytes 0.50 takes the exact release, else the next older, else the next newer one of the same major.
    https://github.com/bitsandbytes-foundation/bitsandbytes/blob/main/bitsandbytes/cextension.py
    """
    package = path.first("bitsandbytes")
    numbers = re.fullmatch(r"(\d+)\.(\d+)", torch.cuda)
    if package is None or package.kind != "package" or numbers is None:
        return []
    names = {
        (int(m[1]), int(m[2])): m[0] for n in scene.host.listdir(package.path) if (m := _BITSANDBYTES.fullmatch(n))
    }
    override = scene.host.environ.get(VARIABLES[0], "")
    wanted = f"libbitsandbytes_cuda{override or torch.cuda.replace('.', '')}.so"
    choice = wanted if override or not names else _nearest(names, (int(numbers[1]), int(numbers[2]))) or wanted
    file = _File(f"bitsandbytes.{choice.removesuffix('.so')}", posixpath.join(package.path, choice), ("bitsandbytes",))
    extension = _look(scene, file, machine, torch)
    if choice in names.values():
        return [extension]
    gone = absent(f"no {choice} in {package.path}")
    return [Extension(file.module, extension.distribution, extension.version, gone, **_all_unknown(gone.note))]


def _nearest(names: Mapping[tuple[int, int], str], cuda: tuple[int, int]) -> str | None:
    same = [version for version in names if version[0] == cuda[0]]
    older = [version for version in same if version <= cuda]
    chosen = max(older) if older else min(same, default=None)
    return names[chosen] if chosen else None
