"""Reads from files what the NVIDIA driver left on the machine: kernel module, device nodes, libcuda. Asks no driver."""

from __future__ import annotations

import os
import re

from ..environment import Fact, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists, read_text
from ..values import dataclass
from . import pci
from .loader import Located, cached_libraries, find_library

_VERSION_FILE = "/proc/driver/nvidia/version"
_MODULES = "/sys/module"
# Both forms: "NVIDIA UNIX x86_64 Kernel Module  550.135" and "NVIDIA UNIX Open Kernel Module for x86_64  580.95.05".
_MODULE_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)?)")
_LIBRARY_VERSION = re.compile(r"\.so\.(\d{3,}\.\d+(?:\.\d+)?)$")
# Where drivers put libcuda without telling the loader: WSL, Kubernetes device plugins, NixOS, Debian, Jetson.
_UNLISTED_FOLDERS = (
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/run/opengl-driver/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
)
_FABRIC_MANAGER = "nv-fabricmanage"  # /proc cuts process names at 15 characters


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """What the file system tells of the NVIDIA driver."""

    nodes: tuple[str, ...]
    nvidia_pci: Fact[int]
    other_pci: tuple[pci.PciDevice, ...]
    module_loaded: Fact[bool]
    module_version: Fact[str]
    module_flavour: Fact[str]
    uvm_loaded: Fact[bool]
    libcuda: Located | None
    nvml: Located | None
    wsl: bool

    @property
    def any_trace(self) -> bool:
        """Whether anything speaks for an NVIDIA GPU or driver, so that NVML is worth asking."""
        # /dev/dxg does not count: WSL has it for GPUs of every make, and puts its NVIDIA libraries where we look.
        nodes = [n for n in self.nodes if n != "/dev/dxg"]
        return bool(nodes or self.nvidia_pci.value or self.nvml or self.module_loaded.value or self.libcuda)


def read_driver_files(host: Host) -> DriverFiles:
    """Look at every file; never raises."""
    nodes = _device_nodes(host)
    wsl = "/dev/dxg" in nodes
    nvidia, others = _pci(host)
    loaded, version, flavour = _module(host, wsl)
    return DriverFiles(
        nodes=nodes,
        nvidia_pci=nvidia,
        other_pci=others,
        module_loaded=loaded,
        module_version=version,
        module_flavour=flavour,
        uvm_loaded=_uvm(host, loaded),
        libcuda=_locate(host, "libcuda.so.1"),
        nvml=_locate(host, "libnvidia-ml.so.1"),
        wsl=wsl,
    )


def _device_nodes(host: Host) -> tuple[str, ...]:
    try:
        names = host.listdir("/dev")
    except ProbeError:
        return ()
    wanted = (n for n in names if n == "dxg" or (n.startswith("nvidia") and not n.startswith("nvidia-caps")))
    return tuple(f"/dev/{n}" for n in wanted)


def _pci(host: Host) -> tuple[Fact[int], tuple[pci.PciDevice, ...]]:
    try:
        devices = pci.list_gpus(host)
    except ProbeError as error:
        return unknown(str(error)), ()
    count = sum(d.vendor == pci.NVIDIA for d in devices)
    return known(count, "/sys/bus/pci/devices"), tuple(d for d in devices if d.vendor != pci.NVIDIA)


def _module(host: Host, wsl: bool) -> tuple[Fact[bool], Fact[str], Fact[str]]:
    if wsl:
        none = absent("WSL: the driver is the one of Windows")
        return none, none, none
    try:
        text = read_text(host, _VERSION_FILE, 4096)
    except ProbeError:
        return _module_without_text(host)
    flavour = "open" if "Open Kernel Module" in text else "proprietary"
    version = _MODULE_VERSION.search(text)
    return (
        known(True, _VERSION_FILE),
        known(version[1], _VERSION_FILE) if version else unknown(f"{_VERSION_FILE} has no version in a known form"),
        known(flavour, _VERSION_FILE),
    )


def _module_without_text(host: Host) -> tuple[Fact[bool], Fact[str], Fact[str]]:
    path = f"{_MODULES}/nvidia"
    if exists(host, path):
        try:
            version: Fact[str] = known(read_text(host, f"{path}/version", 64).strip(), f"{path}/version")
        except ProbeError as error:
            version = unknown(str(error))
        return known(True, path), version, unknown(f"{_VERSION_FILE} cannot be read")
    if not exists(host, _MODULES):
        reason = unknown(f"neither {_VERSION_FILE} nor {_MODULES} can be read")
        return reason, reason, reason
    none = absent(f"the nvidia kernel module is not loaded (no {path})")
    return known(False, path), none, none


def _uvm(host: Host, module_loaded: Fact[bool]) -> Fact[bool]:
    path = f"{_MODULES}/nvidia_uvm"
    if exists(host, path):
        return known(True, path)
    if module_loaded.value is not True:
        return module_loaded if not module_loaded.is_known else known(False, module_loaded.note)
    return known(False, path) if exists(host, _MODULES) else unknown(f"{_MODULES} cannot be read")


def _locate(host: Host, soname: str) -> Located | None:
    found = find_library(host, soname)
    if found:
        return found
    folder = next((f for f in _UNLISTED_FOLDERS if exists(host, f"{f}/{soname}")), None)
    return Located(f"{folder}/{soname}", "") if folder else None


def libcuda_facts(host: Host, libcuda: Located | None) -> tuple[Fact[str], Fact[bool], Fact[str]]:
    """`libcuda`, `libcuda_linkable` and `cuda_compat`."""
    if libcuda is None:
        none = absent("no libcuda.so.1 on LD_LIBRARY_PATH, in the loader's cache or in a usual folder")
        return none, none, none
    source = libcuda.by or "a folder that the loader does not search"
    return known(libcuda.path, source), _linkable(host, libcuda), _compat(host, libcuda)


def _linkable(host: Host, libcuda: Located) -> Fact[bool]:
    if libcuda.by in ("LD_LIBRARY_PATH", "loader cache"):
        return known(True, libcuda.by)
    try:
        cached_libraries(host)
    except ProbeError as error:
        return unknown(str(error))
    return known(False, f"{libcuda.path} is neither in the loader's cache nor on LD_LIBRARY_PATH")


def _compat(host: Host, libcuda: Located) -> Fact[str]:
    """A cuda-compat libcuda lives in a folder `compat`, by path or behind a link."""
    try:
        real = host.stat(libcuda.path).real
    except ProbeError:
        real = ""
    if any(re.search(r"/(cuda-)?compat(/|$)", os.path.dirname(p)) for p in (libcuda.path, real)):
        return known(libcuda.path, libcuda.by or "usual folder")
    return absent(f"{libcuda.path} comes first")


def library_version(host: Host, library: Located | None) -> Fact[str]:
    """The driver version in the name of the file behind libcuda.so.1 or libnvidia-ml.so.1."""
    if library is None:
        return unknown("no driver library found")
    try:
        real = host.stat(library.path).real
    except ProbeError as error:
        return unknown(str(error))
    found = _LIBRARY_VERSION.search(real)
    return known(found[1], f"name of {real}") if found else unknown(f"{library.path} has no version in its name")


def fabric_manager(host: Host, nodes: tuple[str, ...], fabric_states: frozenset[int]) -> Fact[str]:
    """Whether the manager of the NVSwitch fabric runs; `fabric_states` are NVML's, 3 is "completed"."""
    if 3 in fabric_states:
        return known("running", "NVML: the fabric is set up")
    if not any(n.startswith("/dev/nvidia-nvswitch") for n in nodes):
        return absent("no /dev/nvidia-nvswitch*")
    if fabric_states & {1, 2}:
        return known("stopped", "NVML: the fabric is not set up")
    try:
        running = host.observe("process", _FABRIC_MANAGER, lambda: _process_exists(_FABRIC_MANAGER))
    except ProbeError as error:
        return unknown(str(error))
    if running:
        return known("running", "/proc")
    if any(exists(host, mark) for mark in ("/.dockerenv", "/run/.containerenv")):
        return unknown("the processes of the host cannot be seen from a container")
    return known("stopped", "/proc")


def _process_exists(name: str) -> bool:
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/comm", encoding="utf-8", errors="replace") as file:
                    if file.read(64).strip() == name:
                        return True
            except OSError:  # it ended meanwhile
                continue
    return False
