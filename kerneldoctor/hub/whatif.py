"""Changes an Environment to what it would be with another torch, GPU or release; looks at no machine.

Every changed fact has the option as its source, "what if: --torch". What follows from a change is changed with it
(CUDA and backend with torch, the C library with the platform); what nobody could know of it becomes unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from packaging.version import InvalidVersion, Version

from ..engine.case import Row, Tables
from ..engine.conditions import in_range
from ..environment import (
    Deep,
    Driver,
    Environment,
    Gpu,
    Package,
    Visibility,
    absent,
    blank,
    unknown,
)
from ..errors import UsageError
from .eras import rules_of
from .gpu_names import NamedGpu, read_gpus
from .whatif_torch import (
    backend_of,
    beyond_tables,
    local_label,
    newest_minor,
    newest_patch,
    release_row,
    torch_facts,
    what_if,
)  # fmt: skip

_TORCH = re.compile(r"(\d+(?:\.\d+)?)(?:\.(\d+))?((?:a|b|rc|\.dev)\d+)?(?:\+([a-z]+[0-9.]*))?", re.ASCII)
_PYTHON = re.compile(r"3\.\d{1,2}(?:\.\d{1,2})?t?", re.ASCII)
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYSTEMS = {"linux": "linux", "windows": "windows", "win": "windows", "darwin": "darwin", "macos": "darwin"}
_PLATFORM = re.compile(r"(?:manylinux\w*?_)?([a-z]+)(?:[-_](x86_64|amd64|aarch64|arm64))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Changes:
    """What is asked for, as typed; None leaves a thing as it is."""

    torch: str | None = None
    cuda: str | None = None
    gpu: Sequence[str] = ()
    kernels: str | None = None
    transformers: str | None = None
    platform: str | None = None
    python: str | None = None

    def __bool__(self) -> bool:
        return any((self.torch, self.cuda, self.gpu, self.kernels, self.transformers, self.platform, self.python))


@dataclass(slots=True)
class _Change:
    environment: Environment
    tables: Tables
    notes: list[str] = field(default_factory=list)


def apply(environment: Environment, changes: Changes, tables: Tables) -> tuple[Environment, tuple[str, ...]]:
    """The Environment with the changes, and a note for each value that nobody published.

    Raises UsageError for a value that cannot be read.
    """
    change = _Change(environment, tables)
    if changes.platform is not None:
        _platform(change, changes.platform)
    if changes.python is not None:
        _python(change, changes.python)
    if changes.torch is not None:
        _torch(change, changes.torch, changes.cuda)
    elif changes.cuda is not None:
        _cuda(change, changes.cuda)
    if changes.gpu:
        _gpus(change, changes.gpu)
    if changes.kernels is not None:
        rules_of(changes.kernels)
        _package(change, "kernels", "--kernels", changes.kernels)
    if changes.transformers is not None:
        _package(change, "transformers", "--transformers", changes.transformers)
    if changes.torch or changes.cuda or changes.gpu or changes.platform or changes.python:
        _not_this_shell(change)
    return change.environment, tuple(change.notes)


def _not_this_shell(change: _Change) -> None:
    """Another machine is not bound by the offline switch of this one, nor to what this one holds in its cache."""
    here = change.environment.huggingface
    if here.offline.value is not True:
        return
    left_out = unknown("what if: the offline mode of this machine is not that of another")
    change.environment = replace(change.environment, huggingface=replace(here, offline=left_out))
    change.notes.append("offline mode is on here: whether the other machine holds the kernel on disk was not asked")


def _platform(change: _Change, text: str) -> None:
    machine, system = _read_platform(text.strip().lower(), str(change.environment.system.machine.value).lower())
    if machine not in _MACHINES or system not in _SYSTEMS:
        raise UsageError(f"--platform {text[:40]!r}: write it as x86_64-linux, aarch64-linux, x86_64-windows, …")
    here, source = change.environment.system, "--platform"
    os, cpu = _SYSTEMS[system], _MACHINES[machine]
    machine = "arm64" if (os, cpu) == ("darwin", "aarch64") else cpu
    if here.os.value == os and _MACHINES.get(str(here.machine.value).lower()) == cpu:
        return
    other = unknown("what if: --platform says nothing of it")
    libc = what_if(source, "glibc") if os == "linux" else absent(f"what if: {source}")
    changed = replace(
        here, os=what_if(source, os), machine=what_if(source, machine), distribution=other, kernel=other, cpu=other,
        libc=libc, libc_version=other if os == "linux" else libc, glibcxx=other, wsl=what_if(source, False),
        memory_bytes=other, library_overrides=other,
    )  # fmt: skip
    change.environment = replace(change.environment, system=changed, driver=_blank_driver(source))


def _read_platform(text: str, here: str) -> tuple[str, str]:
    """ "aarch64-linux", or turned round as wheels write it, "win_amd64"; a system alone is of its usual machine."""
    machine, _, system = text.partition("-")
    if machine in _MACHINES or not (found := _PLATFORM.fullmatch(text)):
        return machine, system
    usual = {"darwin": "arm64", "linux": here if here in _MACHINES else "x86_64"}
    return found[2] or usual.get(_SYSTEMS.get(found[1], ""), "x86_64"), found[1]


def _python(change: _Change, text: str) -> None:
    if not _PYTHON.fullmatch(text.strip()):
        raise UsageError(f"--python-version {text[:40]!r}: write it as 3.12, 3.13t for a free-threaded one")
    source, release = "--python-version", text.strip().removesuffix("t")
    free = text.strip().endswith("t")
    major, minor = release.split(".")[:2]
    changed = replace(
        change.environment.python, version=what_if(source, release), free_threaded=what_if(source, free),
        abi_tag=what_if(source, f"cp{major}{minor}{'t' if free else ''}"), executable=unknown(f"what if: {source}"),
    )  # fmt: skip
    change.environment = replace(change.environment, python=changed)


def _torch(change: _Change, text: str, cuda: str | None) -> None:
    found = _TORCH.fullmatch(text.strip().removeprefix("v"))
    if found is None:
        raise UsageError(f"--torch {text[:40]!r}: write a release as in 2.13, 2.13.0 or 2.13.0+cu130")
    minor, patch, pre, local = found.groups()
    if "." not in minor:
        minor = newest_minor(change.tables, minor)
    row = release_row(change.tables, minor)
    release = f"{minor}.{patch or newest_patch(row)}{pre or ''}"
    backend, version = _wanted_backend(change, row, local, cuda)
    change.notes += _unpublished(change, row, minor, backend, version)
    label = local or local_label(backend, version)
    torch = torch_facts("--torch", f"{release}{'+' + label if label else ''}", backend, version, minor)
    change.environment = replace(change.environment, torch=torch, deep=_blank_deep("--torch"))


def _cuda(change: _Change, text: str) -> None:
    torch = change.environment.torch.version
    if torch.value is None:
        state = "no torch is installed" if torch.is_absent else f"the installed torch is not known ({torch.note})"
        raise UsageError(f"--cuda {text[:40]!r}: {state}; add --torch")
    release = str(torch.value).partition("+")[0]
    minor = ".".join(release.split(".")[:2])
    row = release_row(change.tables, minor)
    backend, version = backend_of(text, row)
    change.notes += _unpublished(change, row, minor, backend, version)
    label = local_label(backend, version)
    facts = torch_facts("--cuda", f"{release}{'+' + label if label else ''}", backend, version, minor)
    change.environment = replace(change.environment, torch=facts, deep=_blank_deep("--cuda"))


def _wanted_backend(change: _Change, row: Row | None, local: str | None, cuda: str | None) -> tuple[str, str]:
    """Backend and its release: as the label or --cuda says, else that of the wheel on PyPI."""
    if local is not None:
        stated = backend_of(local, row)
        if cuda is not None and backend_of(cuda, row) != stated:
            raise UsageError(f"--torch names +{local} and --cuda names {cuda}: leave one of them out")
        return stated
    if cuda is not None:
        return backend_of(cuda, row)
    system = change.environment.system
    if system.os.value in ("darwin", "windows"):
        return "cpu", ""
    if row is None:
        change.notes.append("which CUDA release the wheel on PyPI is built for is not known here: name one with --cuda")
        return "cuda", ""
    if _MACHINES.get(str(system.machine.value).lower()) == "aarch64" and row["pypi_aarch64"] == "cpu":
        return "cpu", ""
    return "cuda", str(row["pypi_cuda"])


def _unpublished(change: _Change, row: Row | None, minor: str, backend: str, version: str) -> list[str]:
    if row is None:
        return [beyond_tables("torch", minor, [r["torch"] for r in change.tables.get("torch_releases", ())])]
    python = change.environment.python.version
    notes = []
    if python.is_known and in_range(python.value, row["python"]) is False:
        notes.append(f"torch {minor} has no wheel for Python {python.value} (it wants {row['python']})")
    tag = local_label("cuda", version) if backend == "cuda" and version else ""
    if tag and tag not in row["wheels"]:
        offered = ", ".join(row["wheels"])
        notes.append(f"no wheel of torch {minor} was published for CUDA {version} ({offered}): taken as it stands")
    if backend in ("rocm", "xpu"):
        name = {"rocm": "ROCm", "xpu": "XPU"}[backend]
        stated = f"{name} {version}" if version and backend == "rocm" else name
        notes.append(
            f"whether a wheel of torch {minor} was published for {stated} is not known here: taken as it stands"
        )
    return notes


def _gpus(change: _Change, names: Sequence[str]) -> None:
    if [name.strip().lower() for name in names] in (["none"], ["cpu"]):
        none = absent("what if: --gpu")
        change.environment = replace(change.environment, gpus=none, deep=_blank_deep("--gpu"))
        return
    gpus = tuple(_gpu(index, named) for index, named in enumerate(read_gpus(names, change.tables)))
    environment, source = change.environment, "--gpu"
    visibility = Visibility(absent("what if: --gpu"), what_if(source, len(gpus)), absent("what if: --gpu"))
    driver = environment.driver
    if not driver.version.is_known:
        driver = _blank_driver(source)
    change.environment = replace(
        environment, gpus=what_if(source, gpus), visibility=visibility, driver=driver, deep=_blank_deep(source)
    )


def _gpu(index: int, named: NamedGpu) -> Gpu:
    source = "--gpu"
    stated = absent("what if: --gpu: not of NVIDIA") if named.vendor == "amd" else what_if(source, named.capability)
    return Gpu(
        index=what_if(source, index), name=what_if(source, named.name), vendor=what_if(source, named.vendor),
        compute_capability=stated, visible=what_if(source, True), mig=what_if(source, False),
    )  # fmt: skip


def _package(change: _Change, name: str, option: str, text: str) -> None:
    try:
        version = str(Version(text.strip()))
    except InvalidVersion:
        raise UsageError(f"{option} {text[:40]!r} is no release: write it as in 5.22.0") from None
    releases = [row["version"] for row in change.tables.get(name, ())]
    lines = [r for r in releases if r == version or r.startswith(f"{version}.")]
    if releases and not lines:
        listed = next(
            (r["listed"] for r in change.tables.get("listings", ()) if r["project"] == name), "an unknown day"
        )
        older = Version(version) < min(map(Version, releases))
        change.notes.append(
            beyond_tables(name, version, releases) if older
            else f"{name} {version} was not listed on {listed}: what it does is not known here"
        )  # fmt: skip
    elif lines and version not in lines:
        version = max(lines, key=Version)  # "5.16" is the newest 5.16.x
    packages = change.environment.packages
    package = Package(
        what_if(option, version), what_if(option, "pip"), unknown(f"what if: {option}"), what_if(option, False)
    )
    items = {**packages.items, name: package}
    change.environment = replace(change.environment, packages=replace(packages, items=items))


def _blank_deep(source: str) -> Deep:
    return blank(Deep, unknown(f"what if: {source}: nothing was imported"))


def _blank_driver(source: str) -> Driver:
    return blank(Driver, unknown(f"what if: {source} says nothing of a driver"))
