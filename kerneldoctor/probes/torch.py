"""States what the installed torch is, from its files alone: it is never imported.

Whether its parts fit each other, the driver and the GPU is for the rules.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..environment import Fact, Torch, absent, blank, known, unknown
from ..errors import ProbeError
from ..host import Host, exists
from ..values import dataclass
from . import companions, distributions, fatbin, libtorch, torch_files
from .elf import ElfFile
from .importables import Importable, ImportPath, assigned
from .scene import Distribution, Scene

PTXAS_SECONDS = 2.0
VARIABLES = ("TRITON_PTXAS_PATH",)  # what is read of the environment; a capture must keep it
BACKENDS = (("hip", "rocm"), ("cuda", "cuda"), ("xpu", "xpu"))  # what version.py sets -> the name of the build


def probe(scene: Scene) -> dict[str, object]:
    """The `torch` section."""
    return {"torch": look(scene, ImportPath(scene))}


def look(scene: Scene, path: ImportPath) -> Torch:
    """Everything that can be told of torch without importing it."""
    distribution = scene.distribution("torch")
    places = path.find("torch")
    package = next((p for p in places if p.kind != "namespace"), None)
    if distribution is None and package is None:
        return blank(Torch, path.nothing("torch"))
    torch = _from_package(scene, package, distribution) if package else _without_package(scene, places, distribution)
    return replace(
        torch,
        installer=distributions.installer(scene.host, distribution) if distribution else absent("no metadata of torch"),
        metadata_missing=_metadata_missing(path, distribution),
        source_shadowed=known(len([p for p in places if p.kind != "namespace"]) > 1, "folders named torch on the path"),
        duplicate_companions=_or_unknown(lambda: known(companions.duplicates(scene.distributions), "metadata folders")),
        missing_companions=_missing_companions(scene, distribution),
        unusable_libraries=_unusable_libraries(scene, package, torch.backend),
        triton_ptxas_version=_triton_ptxas(scene, path),
    )


def _metadata_missing(path: ImportPath, distribution: Distribution | None) -> Fact[bool]:
    if distribution is None and path.gap:
        return unknown(path.gap)
    return known(distribution is None, "metadata folders")


def _or_unknown(look: Any) -> Fact[Any]:
    try:
        found: Fact[Any] = look()
    except ProbeError as error:
        return unknown(str(error))
    return found


def _without_package(scene: Scene, places: tuple[Importable, ...], distribution: Distribution | None) -> Torch:
    if distribution is None:  # a leftover folder that nothing owns, and that `import torch` takes for empty
        return replace(blank(Torch, absent(f"{places[0].path} has no __init__")), package_missing=known(False, "path"))
    marked = distributions.editable_names(scene.host, scene.target.sys_path)
    if distributions.editable(scene.host, distribution, marked).value:
        elsewhere = unknown("torch is installed as a link to a source folder, which cannot be followed from files")
        return replace(blank(Torch, elsewhere), version=known(distribution.version, distribution.metadata))
    where = places[0].path + " has no __init__" if places else f"no torch folder beside {distribution.metadata}"
    return replace(
        blank(Torch, absent(where)),
        version=known(distribution.version, distribution.metadata),
        package_missing=known(True, where),
    )


def _from_package(scene: Scene, package: Importable, distribution: Distribution | None) -> Torch:
    written = read_version(scene.host, package.path)
    backend = written.backend
    return Torch(
        version=_version(written, distribution),
        backend=backend,
        cuda=written.fact("cuda"),
        hip=written.fact("hip"),
        xpu=written.fact("xpu"),
        cxx11_abi=_or_unknown(lambda: _abi(scene.host, package.path)),
        git_version=written.fact("git_version"),
        debug=written.fact("debug"),
        location=known(package.path, "sys.path"),
        archs=_or_unknown(lambda: _archs(scene.host, package.path, backend)),
        package_missing=known(False, package.path),
    )


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """What torch/version.py assigns, or why it could not be read."""

    file: str
    values: Mapping[str, object]
    problem: str = ""

    def fact(self, name: str) -> Fact[Any]:
        """One of its values: absent when it is None or not assigned."""
        if self.problem:
            return unknown(self.problem)
        value = self.values.get(name)
        return absent(self.file) if value is None or value == "" else known(value, self.file)

    @property
    def backend(self) -> Fact[str]:
        """What the build is for."""
        if self.problem:
            return unknown(self.problem)
        return known(next((name for key, name in BACKENDS if self.values.get(key)), "cpu"), self.file)


def read_version(host: Host, package: str) -> WrittenVersion:
    """Read `version.py` of a torch package folder. It never raises and never runs the file."""
    file = posixpath.join(package, "version.py")
    try:
        return WrittenVersion(file, assigned(host, file))
    except ProbeError as error:
        return WrittenVersion(file, {}, str(error))


def _version(written: WrittenVersion, distribution: Distribution | None) -> Fact[str]:
    version = written.values.get("__version__")
    if isinstance(version, str):
        return known(version, written.file)
    if distribution is not None and distribution.version:
        return known(distribution.version, distribution.metadata)
    return unknown(written.problem or f"{written.file} names no version")


def _abi(host: Host, package: str) -> Fact[bool]:
    file = posixpath.join(package, "lib", "libc10.so")
    if not exists(host, file):
        return unknown(f"no {file}")
    new = host.observe("torch-abi", file, lambda: libtorch.new_abi(file))
    return unknown(f"{file} exports no function that tells") if new is None else known(new, f"symbols of {file}")


def _archs(host: Host, package: str, backend: Fact[str]) -> Fact[tuple[str, ...]]:
    if backend.is_unknown:
        return unknown(backend.note)
    if backend.value != "cuda":
        return absent(f"a {backend.value} build")
    file = posixpath.join(package, "lib", "libtorch_cuda.so")
    found: Mapping[str, int] = host.observe("gpu-code", file, lambda: _gpu_code(file))
    # A handful of its kernels are also compiled for 8.9, 9.0a, 12.1a, …; a GPU that has only those cannot run torch.
    most = max(found.values(), default=0)
    archs = fatbin.in_order(arch for arch, count in found.items() if 2 * count >= most)
    return known(archs, f"GPU code of {file}") if archs else unknown(f"no GPU code found in {file}")


def _gpu_code(file: str) -> dict[str, int]:
    with ElfFile(file) as elf:
        if elf.problem(None):
            raise ProbeError(f"{file} is {elf.problem(None)}")
        return dict(fatbin.read_architectures(elf))


def _missing_companions(scene: Scene, distribution: Distribution | None) -> Fact[tuple[str, ...]]:
    if distribution is None:
        return absent("no metadata of torch")
    return _or_unknown(lambda: companions.missing(scene, distribution))


def _unusable_libraries(scene: Scene, package: Importable | None, backend: Fact[str]) -> Fact[tuple[str, ...]]:
    if package is None:
        return absent("no torch package")
    return _or_unknown(lambda: torch_files.unusable_libraries(scene, package.path, backend))


def _triton_ptxas(scene: Scene, path: ImportPath) -> Fact[str]:
    chosen = scene.host.environ.get(VARIABLES[0])
    triton = path.first("triton")
    file = chosen or (posixpath.join(triton.path, "backends", "nvidia", "bin", "ptxas") if triton else "")
    if not file or not exists(scene.host, file):
        return absent(file or "no triton")
    said = scene.host.run((file, "--version"), PTXAS_SECONDS)
    match = re.search(r"\bV(\d+\.\d+\.\d+)", said.stdout)
    return known(match[1], file) if match else unknown(f"{file} --version: {said.trouble or f'exit code {said.code}'}")
