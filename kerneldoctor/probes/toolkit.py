"""Looks for CUDA toolkits on the machine, beside the libraries that wheels carry. It compiles nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ..environment import Fact, Nvcc, Toolkit, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists, read_text
from .loader import find_newest, list_folder
from .scene import Scene, Target

_TIME_LIMIT = 1.5  # seconds for each `--version`; there are at most three
_MAX_RUNS = 2  # nvccs that are run because no version file stands beside them
_RELEASE = re.compile(r"release (\d+\.\d+)")
_VERSION_TXT = re.compile(r"CUDA Version (\d+\.\d+)")
_DEFAULT_HOME = "/usr/local/cuda"


def probe(scene: Scene) -> dict[str, object]:
    """The `toolkit` section."""
    host, target = scene.host, scene.target
    home = _cuda_home(host)
    nvccs, failures = _versions(host, tuple(_nvcc_paths(host, target, home.value)))
    chosen = _chosen_nvcc(host, home.value)
    return {
        "toolkit": Toolkit(
            cuda_home=home,
            nvcc_version=_chosen_version(chosen, nvccs, failures, host),
            nvccs=_nvcc_list(nvccs, failures),
            cudart=_library(host, "libcudart", home.value),
            nvrtc=_library(host, "libnvrtc", home.value),
            ptxas_version=_ptxas(host, chosen),
            ninja=_ninja(host, target),
        )
    }


def _cuda_home(host: Host) -> Fact[str]:
    """In the order of torch.utils.cpp_extension: CUDA_HOME, CUDA_PATH, the nvcc on PATH, /usr/local/cuda."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := host.environ.get(variable):
            path = value.rstrip("/") or "/"
            return known(path, variable if exists(host, path) else f"{variable}; there is no such folder")
    nvcc = host.which("nvcc")
    if nvcc:
        return known(_up(nvcc, 2), f"{nvcc} on PATH")
    if exists(host, _DEFAULT_HOME):
        return known(_DEFAULT_HOME, "the default place")
    return absent(f"CUDA_HOME and CUDA_PATH are not set, no nvcc on PATH, no {_DEFAULT_HOME}")


def _up(path: str, levels: int) -> str:
    return path.rsplit("/", levels)[0] or "/"


def _nvcc_paths(host: Host, target: Target, home: str | None) -> Iterator[str]:
    """Every nvcc, each once, the one in force first."""
    on_path = host.which("nvcc")
    candidates = [f"{home}/bin/nvcc"] if home else []
    candidates += [on_path] if on_path else []
    names = [n for n in list_folder(host, "/usr/local") if n == "cuda" or n.startswith("cuda-")]
    candidates += [f"/usr/local/{n}/bin/nvcc" for n in names]
    candidates += [f"{target.prefix}/bin/nvcc", "/opt/cuda/bin/nvcc", "/usr/bin/nvcc"]
    seen: set[str] = set()
    for path in candidates:
        try:
            info = host.stat(path)
        except ProbeError:
            continue
        if info.kind == "file" and info.real not in seen:
            seen.add(info.real)
            yield path


def _versions(host: Host, paths: tuple[str, ...]) -> tuple[tuple[Nvcc, ...], dict[str, str]]:
    """Each nvcc with its version, and for the others the reason why it has none here."""
    found: list[Nvcc] = []
    failures: dict[str, str] = {}
    runs = 0
    for path in paths:
        version = _version_beside(host, path)
        if version is None and runs < _MAX_RUNS:
            runs += 1
            version, failures[path] = _ask_version(host, path)
        if version:
            failures.pop(path, None)
            found.append(Nvcc(path, version))
        else:
            failures.setdefault(path, "no version file beside it, and others were asked already")
    return tuple(found), failures


def _version_beside(host: Host, nvcc: str) -> str | None:
    """The version from version.json (CUDA 11.1 and newer) or version.txt in the toolkit's folder."""
    try:
        home = _up(host.stat(nvcc).real, 2)
        if exists(host, f"{home}/version.json"):
            return _from_version_json(read_text(host, f"{home}/version.json", 65536))
        match = _VERSION_TXT.search(read_text(host, f"{home}/version.txt", 4096))
    except ProbeError:
        return None
    return match[1] if match else None


def _from_version_json(text: str) -> str | None:
    try:
        parts = json.loads(text)
        version = (parts.get("cuda_nvcc") or parts.get("cuda"))["version"]
        return ".".join(str(version).split(".")[:2])
    except (ValueError, AttributeError, TypeError, KeyError):
        return None


def _ask_version(host: Host, program: str) -> tuple[str | None, str]:
    result = host.run((program, "--version"), _TIME_LIMIT)
    match = _RELEASE.search(result.stdout)
    if match:
        return match[1], ""
    why = {"timeout": f"no answer within {_TIME_LIMIT:g} s", "missing": "it cannot be started"}.get(result.trouble)
    return None, f"{program} --version: {why or result.stderr.strip()[:200] or f'exit code {result.code}'}"


def _nvcc_list(nvccs: tuple[Nvcc, ...], failures: dict[str, str]) -> Fact[tuple[Nvcc, ...]]:
    if nvccs:
        return known(nvccs, "version files and nvcc --version")
    if failures:
        return unknown("; ".join(f"{path}: {why}" for path, why in failures.items()))
    return absent("no nvcc in CUDA_HOME, on PATH, in /usr/local/cuda* or in the interpreter's prefix")


def _chosen_nvcc(host: Host, home: str | None) -> str | None:
    if home and exists(host, f"{home}/bin/nvcc"):
        return f"{home}/bin/nvcc"
    return host.which("nvcc")


def _chosen_version(chosen: str | None, nvccs: tuple[Nvcc, ...], failures: dict[str, str], host: Host) -> Fact[str]:
    if chosen is None:
        return absent("neither CUDA_HOME nor PATH leads to an nvcc")
    try:
        real = host.stat(chosen).real
        found = next((n for n in nvccs if host.stat(n.path).real == real), None)
    except ProbeError as error:
        return unknown(str(error))
    return known(found.version, chosen) if found else unknown(failures.get(chosen, f"{chosen} did not say its version"))


def _library(host: Host, library: str, home: str | None) -> Fact[str]:
    """The file that the loader would pick; what only lies in a toolkit is named in the note."""
    found = find_newest(host, library)
    if found:
        return known(found.path, found.by)
    spare = _in_toolkit(host, library, home)
    lies = f"; {spare} lies in a toolkit that the loader does not search" if spare else ""
    return absent(f"no {library} on LD_LIBRARY_PATH, in the loader's cache or in a system folder{lies}")


def _in_toolkit(host: Host, library: str, home: str | None) -> str | None:
    for folder in (f"{home or _DEFAULT_HOME}/lib64", f"{home or _DEFAULT_HOME}/lib"):
        name = next((n for n in list_folder(host, folder) if n.startswith(f"{library}.so.")), None)
        if name:
            return f"{folder}/{name}"
    return None


def _ptxas(host: Host, nvcc: str | None) -> Fact[str]:
    """Of the ptxas beside the nvcc in force, else of the one on PATH. Triton's own is another fact."""
    beside = f"{_up(nvcc, 1)}/ptxas" if nvcc else ""
    path = beside if beside and exists(host, beside) else host.which("ptxas")
    if path is None:
        return absent("no ptxas beside nvcc and none on PATH")
    version = _version_beside(host, path)
    if version:
        return known(version, f"version file of {path}")
    version, failure = _ask_version(host, path)
    return known(version, f"{path} --version") if version else unknown(failure)


def _ninja(host: Host, target: Target) -> Fact[bool]:
    """On PATH, where torch looks, or beside the interpreter, which is on PATH once its environment is active."""
    beside = f"{_up(target.executable, 1)}/ninja"
    path = host.which("ninja") or (beside if exists(host, beside) else None)
    return known(True, path) if path else known(False, f"not on PATH, no {beside}")
