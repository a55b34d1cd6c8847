"""Changes an Environment to what it would be with another torch, GPU or release; looks at no machine.

Every changed fact has the option as its source, "what if: --torch". What follows from a change is changed with it
(CUDA and backend with torch, the C library with the platform); what nobody could know of it becomes unknown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.version import InvalidVersion, Version

from ..engine.case import Row, Tables
from ..engine.conditions import in_range
from ..engine.facts.driver import product_row
from ..environment import (
    Deep,
    Driver,
    Environment,
    Fact,
    Gpu,
    Package,
    Torch,
    Visibility,
    absent,
    blank,
    known,
    unknown,
)
from ..errors import UsageError
from .eras import rules_of

_TORCH = re.compile(r"(\d+\.\d+)(?:\.(\d+))?((?:a|b|rc|\.dev)\d+)?(?:\+([a-z]+[0-9.]*))?", re.ASCII)
_CUDA = re.compile(r"(?:cu|cuda)?(\d{2})\.?(\d)", re.ASCII)
_CAPABILITY = re.compile(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d)[af]?", re.ASCII)
_AMD = re.compile(r"gfx[0-9a-f]{3,5}", re.ASCII)
_PYTHON = re.compile(r"3\.\d{1,2}(?:\.\d{1,2})?t?", re.ASCII)
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYSTEMS = {"linux": "linux", "windows": "windows", "win": "windows", "darwin": "darwin", "macos": "darwin"}
# Wheels have the new C++ ABI since 2.7, that of cu126 since 2.6: https://github.com/pytorch/pytorch/issues/152790
_NEW_ABI = ">=2.7.dev0"


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
    return change.environment, tuple(change.notes)


def _from(option: str, value: Any) -> Fact[Any]:
    return known(value, f"what if: {option}")


def _platform(change: _Change, text: str) -> None:
    machine, _, system = text.strip().lower().partition("-")
    if machine not in _MACHINES or system not in _SYSTEMS:
        raise UsageError(f"--platform {text[:40]!r}: write it as x86_64-linux, aarch64-linux, x86_64-windows, …")
    here, source = change.environment.system, "--platform"
    os, cpu = _SYSTEMS[system], _MACHINES[machine]
    machine = "arm64" if (os, cpu) == ("darwin", "aarch64") else cpu
    if here.os.value == os and _MACHINES.get(str(here.machine.value).lower()) == cpu:
        return
    other = unknown("what if: --platform says nothing of it")
    libc = _from(source, "glibc") if os == "linux" else absent(f"what if: {source}")
    changed = replace(
        here, os=_from(source, os), machine=_from(source, machine), distribution=other, kernel=other, cpu=other,
        libc=libc, libc_version=other if os == "linux" else libc, glibcxx=other, wsl=_from(source, False),
        memory_bytes=other, library_overrides=other,
    )  # fmt: skip
    change.environment = replace(change.environment, system=changed, driver=_blank_driver(source))


def _python(change: _Change, text: str) -> None:
    if not _PYTHON.fullmatch(text.strip()):
        raise UsageError(f"--python-version {text[:40]!r}: write it as 3.12, 3.13t for a free-threaded one")
    source, release = "--python-version", text.strip().removesuffix("t")
    free = text.strip().endswith("t")
    major, minor = release.split(".")[:2]
    changed = replace(
        change.environment.python, version=_from(source, release), free_threaded=_from(source, free),
        abi_tag=_from(source, f"cp{major}{minor}{'t' if free else ''}"), executable=unknown(f"what if: {source}"),
    )  # fmt: skip
    change.environment = replace(change.environment, python=changed)


def _torch(change: _Change, text: str, cuda: str | None) -> None:
    found = _TORCH.fullmatch(text.strip().removeprefix("v"))
    if found is None:
        raise UsageError(f"--torch {text[:40]!r}: write a release as in 2.13, 2.13.0 or 2.13.0+cu130")
    minor, patch, pre, local = found.groups()
    row = release_row(change.tables, minor)
    release = f"{minor}.{patch or _newest_patch(row)}{pre or ''}"
    backend, version = _wanted_backend(change, row, local, cuda)
    change.notes += _unpublished(change, row, minor, backend, version)
    label = local or _label(backend, version)
    torch = _torch_facts("--torch", f"{release}{'+' + label if label else ''}", backend, version, minor)
    change.environment = replace(change.environment, torch=torch, deep=_blank_deep("--torch"))


def _cuda(change: _Change, text: str) -> None:
    torch = change.environment.torch.version
    if torch.value is None:
        state = "no torch is installed" if torch.is_absent else f"the installed torch is not known ({torch.note})"
        raise UsageError(f"--cuda {text[:40]!r}: {state}; add --torch")
    backend, version = _backend_of(text)
    release = str(torch.value).partition("+")[0]
    minor = ".".join(release.split(".")[:2])
    change.notes += _unpublished(change, release_row(change.tables, minor), minor, backend, version)
    label = _label(backend, version)
    torch_facts = _torch_facts("--cuda", f"{release}{'+' + label if label else ''}", backend, version, minor)
    change.environment = replace(change.environment, torch=torch_facts, deep=_blank_deep("--cuda"))


def _wanted_backend(change: _Change, row: Row | None, local: str | None, cuda: str | None) -> tuple[str, str]:
    """Backend and its release: as the label or --cuda says, else that of the wheel on PyPI."""
    if local is not None:
        stated = _backend_of(local)
        if cuda is not None and _backend_of(cuda) != stated:
            raise UsageError(f"--torch names +{local} and --cuda names {cuda}: leave one of them out")
        return stated
    if cuda is not None:
        return _backend_of(cuda)
    system = change.environment.system
    if system.os.value in ("darwin", "windows"):
        return "cpu", ""
    if row is None:
        change.notes.append("which CUDA release the wheel on PyPI is built for is not known here: name one with --cuda")
        return "cuda", ""
    if _MACHINES.get(str(system.machine.value).lower()) == "aarch64" and row["pypi_aarch64"] == "cpu":
        return "cpu", ""
    return "cuda", str(row["pypi_cuda"])


def _backend_of(text: str) -> tuple[str, str]:
    """ "cu128", "12.8", "cpu", "rocm6.4", "xpu" or "xpu2025.3" as backend and release. Raises UsageError."""
    text = text.strip().lower()
    if text in ("cpu", "none"):
        return "cpu", ""
    if found := re.fullmatch(r"rocm(\d{1,2}\.\d{1,2})", text, re.ASCII):
        return "rocm", found[1]
    if found := re.fullmatch(r"xpu(?:(\d{4})\.(\d))?", text, re.ASCII):  # of a build of 2025.3 torch says 20250302
        return "xpu", f"{found[1]}0{found[2]}00" if found[1] else ""
    if found := _CUDA.fullmatch(text):
        return "cuda", f"{found[1]}.{found[2]}"
    raise UsageError(f"--cuda {text[:40]!r}: write a release as in 12.8 or cu128, or cpu, rocm6.4, xpu2025.3")


def _torch_facts(source: str, version: str, backend: str, number: str, minor: str) -> Torch:
    other = absent(f"what if: {source}: torch is built for {backend}")
    stated = _from(source, number) if number else unknown(f"what if: {source} names no release")
    abi = _from(source, in_range(minor, _NEW_ABI) is True or (minor, number) == ("2.6", "12.6"))
    none = absent(f"what if: {source}")
    return Torch(
        version=_from(source, version),
        backend=_from(source, backend),
        cuda=stated if backend == "cuda" else other,
        hip=stated if backend == "rocm" else other,
        xpu=stated if backend == "xpu" else other,
        cxx11_abi=abi,
        debug=_from(source, False),
        installer=_from(source, "pip"),
        package_missing=_from(source, False),
        metadata_missing=_from(source, False),
        source_shadowed=_from(source, False),
        duplicate_companions=none,
        missing_companions=none,
        unusable_libraries=none,
    )


def _unpublished(change: _Change, row: Row | None, minor: str, backend: str, version: str) -> list[str]:
    if row is None:
        newest = max((Version(r["torch"]) for r in change.tables.get("torch_releases", ())), default="?")
        return [f"torch {minor} is no release that is known here (the newest is {newest}): taken as it stands"]
    python = change.environment.python.version
    notes = []
    if python.is_known and in_range(python.value, row["python"]) is False:
        notes.append(f"torch {minor} has no wheel for Python {python.value} (it wants {row['python']})")
    tag = _label("cuda", version) if backend == "cuda" and version else ""
    if tag and tag not in row["wheels"]:
        offered = ", ".join(row["wheels"])
        notes.append(f"no wheel of torch {minor} was published for CUDA {version} ({offered}): taken as it stands")
    return notes


def _gpus(change: _Change, names: Sequence[str]) -> None:
    if [name.strip().lower() for name in names] in (["none"], ["cpu"]):
        none = absent("what if: --gpu")
        change.environment = replace(change.environment, gpus=none, deep=_blank_deep("--gpu"))
        return
    gpus = tuple(_gpu(change, index, name) for index, name in enumerate(names))
    environment, source = change.environment, "--gpu"
    visibility = Visibility(absent("what if: --gpu"), _from(source, len(gpus)), absent("what if: --gpu"))
    driver = environment.driver
    if not driver.version.is_known:
        driver = _blank_driver(source)
    change.environment = replace(
        environment, gpus=_from(source, gpus), visibility=visibility, driver=driver, deep=_blank_deep(source)
    )


def _gpu(change: _Change, index: int, name: str) -> Gpu:
    text, source = name.strip(), "--gpu"
    facts = {"index": _from(source, index), "visible": _from(source, True), "mig": _from(source, False)}
    if found := _CAPABILITY.fullmatch(text.lower()):
        capability = f"{found[1]}.{found[2]}"
        label = _from(source, f"GPU of capability {capability}")
        return Gpu(name=label, vendor=_from(source, "nvidia"), compute_capability=_from(source, capability), **facts)
    if _AMD.fullmatch(text.lower()):
        none = absent("what if: --gpu: not of NVIDIA")
        return Gpu(name=_from(source, text.lower()), vendor=_from(source, "amd"), compute_capability=none, **facts)
    row = product_row(text, change.tables.get("gpu_products", ()))
    if row is None:
        raise UsageError(
            f"--gpu {text[:60]!r} is no GPU known here: write its compute capability, as in sm_120 or 12.0"
        )
    stated = _from(source, row["capability"])
    return Gpu(name=_from(source, text), vendor=_from(source, "nvidia"), compute_capability=stated, **facts)


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
        change.notes.append(f"{name} {version} was not listed on {listed}: what it does is not known here")
    elif lines and version not in lines:
        version = max(lines, key=Version)  # "5.16" is the newest 5.16.x
    packages = change.environment.packages
    package = Package(_from(option, version), _from(option, "pip"), unknown(f"what if: {option}"), _from(option, False))
    items = {**packages.items, name: package}
    change.environment = replace(change.environment, packages=replace(packages, items=items))


def release_row(tables: Tables, minor: str) -> Row | None:
    """The row of torch_releases for a minor release such as "2.13", or None."""
    rows = tables.get("torch_releases", ())
    return next((row for row in rows if row["torch"].split(".")[:2] == minor.split(".")), None)


def _newest_patch(row: Row | None) -> str:
    return row["torch"].split(".")[2] if row is not None else "0"


def _label(backend: str, version: str) -> str:
    if backend == "cuda":
        return f"cu{version.replace('.', '')}" if version else ""
    return f"rocm{version}" if backend == "rocm" else backend


def _blank_deep(source: str) -> Deep:
    return blank(Deep, unknown(f"what if: {source}: nothing was imported"))


def _blank_driver(source: str) -> Driver:
    return blank(Driver, unknown(f"what if: {source} says nothing of a driver"))
