"""The NVIDIA driver and the GPUs against CUDA. Pure functions over facts and tables; they look at no machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from packaging.version import Version

from ...environment import Fact, Gpu, absent, known, unknown
from ..case import Case, Row, derived
from ..conditions import major_of, parse_version

_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm")
_HIDDEN = "CUDA_VISIBLE_DEVICES hides this GPU"
_GPU_NODE = re.compile(r"/dev/nvidia\d+")


def minimum_column(case: Case) -> Fact[str]:
    """Which column of the driver tables counts: under WSL the driver is the one of Windows."""
    system, wsl = case.fact("system.os"), case.fact("system.wsl")
    if system.value == "windows" or wsl.value is True:
        return known("windows", "system.os, system.wsl")
    if system.value == "linux":
        return known("linux", "system.os") if not wsl.is_unknown else unknown(f"system.wsl: {wsl.note}")
    if system.is_unknown:
        return unknown(f"system.os: {system.note}")
    return absent(f"no NVIDIA driver for {system.value}")


def visible_nvidia_gpus(case: Case) -> Fact[tuple[Gpu, ...]]:
    """The NVIDIA GPUs that the driver names and CUDA sees; empty where there is none.

    CUDA_VISIBLE_DEVICES may hide one, and CUDA leaves out one in MIG mode that has no instance.
    """
    listed = _listed(case)
    if not listed.is_known:
        return listed
    return known(tuple(gpu for gpu in listed.value or () if _seen(gpu)), listed.note)


def _seen(gpu: Gpu) -> bool:
    without_instance = gpu.mig.value is True and gpu.mig_devices.value == 0
    return gpu.visible.value is not False and not without_instance


def _listed(case: Case) -> Fact[tuple[Gpu, ...]]:
    """The NVIDIA GPUs that the driver names. One that only the PCI bus or a device file shows says nothing of CUDA."""
    gpus = case.fact("gpus")
    if gpus.is_unknown:
        return unknown(f"gpus: {gpus.note}")
    ours = [gpu for gpu in gpus.value or () if _is_nvidia(gpu, case)]
    named = tuple(gpu for gpu in ours if gpu.name.is_known or gpu.compute_capability.is_known)
    if ours and not named:
        return unknown(f"gpus: {ours[0].name.note}")
    return known(named, gpus.note)


@derived("driver.gpu_count", int)
def gpu_count(case: Case) -> Fact[int]:
    """How many NVIDIA GPUs the driver names, hidden by CUDA_VISIBLE_DEVICES or not."""
    listed = _listed(case)
    return known(len(listed.value or ()), listed.note) if listed.is_known else unknown(listed.note)


@derived("driver.visible_gpu_count", int)
def visible_gpu_count(case: Case) -> Fact[int]:
    """How many of them CUDA sees; one of which this is not known counts as seen."""
    gpus = visible_nvidia_gpus(case)
    return known(len(gpus.value or ()), gpus.note) if gpus.is_known else unknown(gpus.note)


@derived("driver.usable_gpu_count", int)
def usable_gpu_count(case: Case) -> Fact[int]:
    """How many of them CUDA certainly sees: not in MIG mode, or with an instance. Unknown where that cannot be told."""
    gpus = visible_nvidia_gpus(case)
    if not gpus.is_known:
        return unknown(gpus.note)
    certain = [gpu for gpu in gpus.value or () if gpu.mig.value is False or gpu.mig_devices.value]
    if certain or not gpus.value:
        return known(len(certain), gpus.note)
    return unknown(f"whether MIG mode leaves an instance: {gpus.value[0].mig_devices.note}")


@derived("gpu.mig_without_instance", str)
def mig_without_instance(case: Case) -> Fact[str]:
    """What a GPU in MIG mode without an instance leaves to CUDA: none_left | others_left. Absent for every other GPU.

    Absent too where CUDA_VISIBLE_DEVICES hides every GPU, or chooses others.
    """
    vendor, mig, devices = (case.fact(f"gpu.{name}") for name in ("vendor", "mig", "mig_devices"))
    if (vendor.is_known and vendor.value != "nvidia") or mig.value is False or devices.value:
        return absent("not in MIG mode, or with an instance")
    for fact in (mig, devices):
        if not fact.is_known:
            return fact
    problem, chosen, usable = (
        case.fact(path) for path in ("visibility.problem", "visibility.raw", "driver.usable_gpu_count")
    )
    doubt = next((fact for fact in (problem, chosen, usable) if fact.is_unknown), None)
    if doubt is not None:
        return unknown(doubt.note)
    if problem.value == "empty" or (usable.value and chosen.is_known):
        return absent(f"CUDA_VISIBLE_DEVICES={chosen.value}")
    return known("others_left" if usable.value else "none_left", mig.note)


@derived("driver.cuda_offered", str)
def cuda_offered(case: Case) -> Fact[str]:
    """The newest CUDA release that the driver offers, "12.8": as the driver says, or by its version (cuda_drivers)."""
    said, version = case.fact("driver.cuda"), case.fact("driver.version")
    if major_of(said.value) is not None:
        return said
    if not version.is_known:
        why = f"driver.cuda {said.value!r} is no CUDA release" if said.is_known else f"driver.cuda: {said.note}"
        return absent(version.note) if version.is_absent else unknown(why)
    column = minimum_column(case)
    if not column.is_known:
        return column
    installed = parse_version(str(version.value))
    if installed is None:
        return unknown(f"driver.version {version.value!r} is no version")
    for row in case.table("cuda_drivers"):  # newest first
        if column.value in row and Version(row[str(column.value)]) <= installed:
            return known(row["cuda"], f"table cuda_drivers, CUDA {row['cuda']}")
    return unknown(f"driver {version.value} is older than the table cuda_drivers")


def driver_carries(case: Case, cuda: str) -> Fact[bool]:
    """Whether the driver runs programs of a CUDA release: within one major release any driver of the family does.

    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
    """
    major = major_of(cuda)
    if "tegra" in str(case.fact("system.kernel").value):
        return unknown("the drivers of Jetson systems have numbers of their own")
    offered = case.fact("driver.cuda_offered")
    if offered.is_absent:
        return absent(offered.note)
    if major is None:
        return unknown(f"{cuda!r} is no CUDA release")
    answer = _family_answer(case, str(major), offered)
    compat = case.fact("driver.cuda_compat")
    if answer.value is False and compat.is_known:
        return unknown(f"a forward-compatibility library comes first, {compat.value}, and what it offers is not known")
    return answer


def _family_answer(case: Case, major: str, offered: Fact[str]) -> Fact[bool]:
    version, said = case.fact("driver.version"), case.fact("driver.cuda")
    newest = major_of(offered.value)
    if major_of(said.value) is not None or not version.is_known:  # the driver's own word, or nothing better
        return unknown(offered.note) if newest is None else known(newest >= int(major), offered.note)
    needed, installed = family_minimum(case, major), parse_version(str(version.value))
    if not needed.is_known or installed is None:
        return unknown(needed.note or f"driver.version {version.value!r} is no version")
    return known(installed >= Version(str(needed.value)), needed.note)


def family_minimum(case: Case, major: str) -> Fact[str]:
    """The oldest driver for a CUDA major release on this operating system (cuda_families)."""
    column = minimum_column(case)
    if not column.is_known:
        return column
    for row in case.table("cuda_families"):
        if row["major"] == major:
            return known(row[str(column.value)], f"table cuda_families, CUDA {major}.x")
    return unknown(f"CUDA {major} is not in the table cuda_families")


@derived("driver.missing_nodes", tuple[str, ...])
def missing_nodes(case: Case) -> Fact[tuple[str, ...]]:
    """Device files that CUDA opens and that are not there. Absent where none is missing, and on WSL and Jetson."""
    if case.fact("system.os").value != "linux":
        return unknown("system.os is not known to be linux")
    if case.fact("system.wsl").value is True or "tegra" in str(case.fact("system.kernel").value):
        return absent("this system has no /dev/nvidia* files")
    nodes = case.fact("driver.device_nodes")
    if nodes.is_unknown:
        return unknown(f"driver.device_nodes: {nodes.note}")
    there = tuple(nodes.value or ())
    missing = [node for node in _NODES if node not in there]
    if not any(_GPU_NODE.fullmatch(node) for node in there):
        missing.append("/dev/nvidia0 (or another number)")
    return known(tuple(missing), nodes.note) if missing else absent("every device file is there")


@derived("driver.state", str)
def state(case: Case) -> Fact[str]:
    """What stands between this process and a GPU, on Linux outside of WSL, where NVML lists no GPU.

    working | no_gpu | not_installed (a GPU on the PCI bus, no driver at all) | module_not_loaded |
    userland_missing | not_in_container (the host has a driver, this container got nothing of it) |
    nodes_missing (libraries without device files, in a container) | no_devices (a driver that finds no GPU) |
    nvml_error (NVML says what is wrong).
    """
    system, wsl = case.fact("system.os"), case.fact("system.wsl")
    if system.is_unknown or (wsl.is_unknown and system.value == "linux"):
        return unknown(f"{system.note or wsl.note}")
    if system.value != "linux" or wsl.value is True:
        return absent("only judged on Linux, outside of WSL")
    if (case.fact("driver.gpu_count").value or 0) > 0:
        return known("working", "gpus")
    module = case.fact("driver.kernel_module_loaded")
    if module.is_unknown:
        return unknown(f"driver.kernel_module_loaded: {module.note}")
    return _without_userland(case) if module.value else _without_module(case)


def _without_module(case: Case) -> Fact[str]:
    devices, libcuda = case.fact("driver.pci_devices"), case.fact("driver.libcuda")
    if devices.is_unknown:
        return unknown(f"driver.pci_devices: {devices.note}")
    if not devices.value:
        return known("no_gpu", "driver.pci_devices")
    if libcuda.is_unknown:
        return unknown(f"driver.libcuda: {libcuda.note}")
    return known("module_not_loaded" if libcuda.is_known else "not_installed", "driver.kernel_module_loaded")


def _without_userland(case: Case) -> Fact[str]:
    libcuda, container = case.fact("driver.libcuda"), case.fact("system.container")
    if libcuda.is_unknown or container.is_unknown:
        return unknown(libcuda.note if libcuda.is_unknown else f"system.container: {container.note}")
    if libcuda.is_absent:
        return known("not_in_container" if container.is_known else "userland_missing", "driver.libcuda")
    if container.is_known and case.fact("driver.missing_nodes").is_known:
        return known("nodes_missing", "driver.missing_nodes")
    error = case.fact("driver.nvml_error")
    if error.is_known:
        return known("nvml_error", "driver.nvml_error")
    if error.is_unknown or not case.fact("driver.gpu_count").is_known:
        return unknown(error.note or case.fact("driver.gpu_count").note)
    return known("no_devices", "gpus")


@derived("gpu.capability", str)
def capability(case: Case) -> Fact[str]:
    """The compute capability of one NVIDIA GPU that CUDA sees: as the driver says, or by its name (gpu_products).

    Absent for a GPU that CUDA_VISIBLE_DEVICES hides: no rule is to speak of what no program uses.
    """
    if case.fact("gpu.visible").value is False:
        return absent(_HIDDEN)
    vendor, said = case.fact("gpu.vendor"), case.fact("gpu.compute_capability")
    if vendor.is_known and vendor.value != "nvidia":
        return absent(f"the vendor is {vendor.value}")
    return _capability(said, case.fact("gpu.name"), case)


@derived("gpu.segment", str)
def segment(case: Case) -> Fact[str]:
    """What the GPU is sold as: datacenter | workstation | geforce | jetson (gpu_products, or "GeForce" in its name)."""
    name = case.fact("gpu.name")
    if case.fact("gpu.visible").value is False:
        return absent(_HIDDEN)
    if not name.is_known:
        return absent(name.note) if name.is_absent else unknown(f"gpu.name: {name.note}")
    if "geforce" in str(name.value).lower():
        return known("geforce", "gpu.name")
    row = product_row(str(name.value), case.table("gpu_products"))
    return known(row["segment"], "table gpu_products") if row else unknown(f"{name.value} is not in gpu_products")


def gpu_capability(gpu: Gpu, case: Case) -> Fact[str]:
    """The same as `gpu.capability`, for a GPU of a list."""
    return _capability(gpu.compute_capability, gpu.name, case)


def product_row(name: str, rows: Iterable[Row]) -> Row | None:
    """The row of `gpu_products` for a product name as NVML or a person writes it; the longest entry wins."""
    words, best, length = _words(name), None, 0
    for row in rows:
        for product in row["products"]:
            wanted = _words(product)
            if len(wanted) > length and _follow(wanted, words):
                best, length = row, len(wanted)
    return best


def _capability(said: Fact[str], name: Fact[str], case: Case) -> Fact[str]:
    if said.is_known:
        return said
    row = product_row(str(name.value), case.table("gpu_products")) if name.is_known else None
    return known(row["capability"], "table gpu_products") if row else unknown(f"gpu.compute_capability: {said.note}")


def _is_nvidia(gpu: Gpu, case: Case) -> bool:
    if gpu.vendor.is_known:
        return gpu.vendor.value == "nvidia"
    return gpu_capability(gpu, case).is_known


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def _follow(wanted: list[Any], words: list[Any]) -> bool:
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1))
