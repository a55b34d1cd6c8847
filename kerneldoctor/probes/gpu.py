"""Looks at the GPUs, the NVIDIA driver and CUDA_VISIBLE_DEVICES. It joins what its parts found and judges nothing.

Files come first, since they answer always; NVML is asked in a child (nvml.py), and nvidia-smi only where NVML could
not be reached, never after a hang, since it would hang in the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..environment import Driver, Fact, Gpu, Visibility, absent, known, unknown
from ..host import Host
from .driver import DriverFiles, fabric_manager, libcuda_facts, library_version, read_driver_files
from .nvidia_smi import ask_nvidia_smi
from .nvml import NVML_ERRORS, SMI_MAY_ANSWER, NvmlAnswer, ask_nvml, error_name
from .other_gpus import find_apple_gpu, find_other_gpus
from .scene import Scene
from .visibility import CudaGpu, MigDevice, Selection, read_visible_devices

__all__ = ["NVML_ERRORS", "probe"]

_WSL_BARE = "WSL has a GPU of some make (/dev/dxg), but no libcuda and no NVML in /usr/lib/wsl/lib"
_NO_NVIDIA = "no trace of an NVIDIA GPU or driver: no device node, kernel module, PCI device or driver library"


def probe(scene: Scene) -> dict[str, object]:
    """The `driver`, `gpus` and `visibility` parts."""
    host = scene.host
    files = read_driver_files(host)
    answer = _ask(host, files) if files.any_trace else None
    nvidia = _nvidia_gpus(files, answer)
    driver = _driver(host, files, answer)
    selection = read_visible_devices(
        host.environ.get("CUDA_VISIBLE_DEVICES"),
        _cuda_gpus(nvidia, answer),
        _major(driver.version),
        host.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
    )
    others = find_other_gpus(host, files.other_pci) or find_apple_gpu(host)
    return {
        "driver": driver,
        "gpus": _join(_mark_visible(nvidia, selection), others),
        "visibility": _visibility(host, selection, nvidia),
    }


def _ask(host: Host, files: DriverFiles) -> NvmlAnswer:
    """NVML's answer, with what nvidia-smi adds where NVML could not be reached."""
    answer = ask_nvml(host, files.nvml.path if files.nvml and not files.nvml.by else "")
    if answer.error not in SMI_MAY_ANSWER or answer.gpus:
        return answer
    version, gpus = ask_nvidia_smi(host)
    return replace(answer, driver={"version": version}, gpus=gpus, source="nvidia-smi") if gpus else answer


def _driver(host: Host, files: DriverFiles, answer: NvmlAnswer | None) -> Driver:
    libcuda, linkable, compat = libcuda_facts(host, files.libcuda)
    states = frozenset(g["fabric"] for g in (answer.gpus if answer else ()) if isinstance(g.get("fabric"), int))
    error, text = _error_facts(answer)
    return Driver(
        version=_version(host, files, answer),
        cuda=_driver_cuda(answer),
        kernel_module_loaded=files.module_loaded,
        kernel_module_version=files.module_version,
        kernel_module_flavour=files.module_flavour,
        uvm_loaded=files.uvm_loaded,
        nvml_error=error,
        nvml_error_text=text,
        device_nodes=known(files.nodes, "/dev") if files.nodes else absent("/dev has no nvidia* and no dxg"),
        pci_devices=files.nvidia_pci,
        libcuda=libcuda,
        libcuda_linkable=linkable,
        cuda_compat=compat,
        fabric_manager=fabric_manager(host, files.nodes, states),
    )


def _error_facts(answer: NvmlAnswer | None) -> tuple[Fact[str], Fact[str]]:
    if answer is None:
        none = absent(f"NVML was not asked: {_NO_NVIDIA}")
        return none, none
    if not answer.error:
        return absent("NVML answered"), absent("NVML answered")
    return known(answer.error, "NVML"), known(answer.text, "NVML")


def _version(host: Host, files: DriverFiles, answer: NvmlAnswer | None) -> Fact[str]:
    """Of the user-space driver. The kernel module's is another fact, since the two may differ."""
    if answer is None:
        return absent(_NO_NVIDIA)
    said = answer.driver.get("version")
    if isinstance(said, str) and said:
        return known(said, answer.source)
    by_name = next((f for f in (library_version(host, x) for x in (files.nvml, files.libcuda)) if f.is_known), None)
    if by_name:
        return by_name
    if files.nvml is None and files.libcuda is None:
        return absent("neither libnvidia-ml.so.1 nor libcuda.so.1 is here")
    return unknown(answer.text or "NVML did not say")


def _driver_cuda(answer: NvmlAnswer | None) -> Fact[str]:
    if answer is None:
        return absent(_NO_NVIDIA)
    number = answer.driver.get("cuda")
    if isinstance(number, int) and number >= 1000:
        return known(f"{number // 1000}.{number % 1000 // 10}", "NVML")
    return unknown(answer.text or "NVML did not say")


def _major(version: Fact[str]) -> int | None:
    major = (version.value or "").partition(".")[0]
    return int(major) if major.isdecimal() else None


def _nvidia_gpus(files: DriverFiles, answer: NvmlAnswer | None) -> Fact[tuple[Gpu, ...]]:
    if answer is None:
        return unknown(_WSL_BARE) if files.wsl else absent(_NO_NVIDIA)
    if answer.gpus:
        return known(tuple(_gpu(gpu, answer.source) for gpu in answer.gpus), answer.source)
    if not answer.error:
        return absent("NVML lists no GPU")
    numbered = sum(n.removeprefix("/dev/nvidia").isdecimal() for n in files.nodes)
    on_bus = files.nvidia_pci.value or 0
    if numbered:
        return _nameless(numbered, f"{numbered} device nodes /dev/nvidia*", answer.text)
    if files.module_loaded.value and not files.wsl:
        return absent(f"{on_bus} on the PCI bus, the kernel module is loaded, but no /dev/nvidia<number> is here")
    if on_bus:
        return _nameless(on_bus, "/sys/bus/pci/devices", answer.text)
    return unknown(answer.text)


def _nameless(count: int, source: str, reason: str) -> Fact[tuple[Gpu, ...]]:
    nothing = unknown(reason)
    gpu = Gpu(*(nothing for _ in range(9)))
    return known(tuple(replace(gpu, vendor=known("nvidia", source)) for _ in range(count)), source)


def _gpu(gpu: Mapping[str, Any], source: str) -> Gpu:
    mig = _field(gpu, "mig", source, bool)
    if mig.is_unknown and _error_number(gpu, "mig") == 3:  # not supported: a GPU without MIG
        mig = known(False, f"{source}: MIG is not supported")
    return Gpu(
        index=_field(gpu, "index", source, int),
        name=_field(gpu, "name", source, str),
        vendor=known("nvidia", source),
        uuid=_field(gpu, "uuid", source, str),
        compute_capability=_field(gpu, "compute_capability", source, lambda pair: f"{pair[0]}.{pair[1]}"),
        memory_bytes=_field(gpu, "memory", source, int),
        mig=mig,
        mig_devices=_field(gpu, "mig_devices", source, len) if mig.value else absent("MIG mode is not on"),
        visible=unknown("not known yet"),
    )


def _field(gpu: Mapping[str, Any], name: str, source: str, convert: Callable[[Any], Any]) -> Fact[Any]:
    if gpu.get(name) is not None:
        try:
            return known(convert(gpu[name]), source)
        except (TypeError, ValueError, LookupError):  # a capture may hold anything
            return unknown(f"{source} answered in no known form")
    number = _error_number(gpu, name)
    return unknown(f"{source} did not say" if number is None else f"{source}: {error_name(number)}")


def _error_number(gpu: Mapping[str, Any], name: str) -> int | None:
    """The error of one question, or the one that kept the whole GPU from answering."""
    errors = gpu.get("errors")
    number = errors.get(name) if isinstance(errors, dict) else gpu.get("error")
    return number if isinstance(number, int) else None


def _cuda_gpus(nvidia: Fact[tuple[Gpu, ...]], answer: NvmlAnswer | None) -> list[CudaGpu] | None:
    """What the reading of CUDA_VISIBLE_DEVICES needs; None where the GPUs cannot be told."""
    if answer is not None and answer.gpus:
        if any(gpu.get("mig") and gpu.get("mig_devices") is None for gpu in answer.gpus):  # nvidia-smi lists none
            return None
        return [_cuda_gpu(gpu) for gpu in answer.gpus]
    return [] if nvidia.is_absent else None


def _cuda_gpu(gpu: Mapping[str, Any]) -> CudaGpu:
    try:
        devices = tuple(MigDevice(str(uuid), int(instance)) for uuid, instance in gpu.get("mig_devices") or [])
    except (TypeError, ValueError):  # a capture may hold anything
        devices = ()
    return CudaGpu(str(gpu.get("uuid") or ""), str(gpu.get("name") or ""), bool(gpu.get("mig")), devices)


def _mark_visible(gpus: Fact[tuple[Gpu, ...]], selection: Selection) -> Fact[tuple[Gpu, ...]]:
    if gpus.value is None:
        return gpus

    def mark(place: int) -> Fact[bool]:
        if selection.visible is None:
            return unknown(selection.doubt)
        return known(place in selection.visible, "CUDA_VISIBLE_DEVICES")

    return known(tuple(replace(gpu, visible=mark(place)) for place, gpu in enumerate(gpus.value)), gpus.note)


def _join(nvidia: Fact[tuple[Gpu, ...]], others: tuple[Gpu, ...]) -> Fact[tuple[Gpu, ...]]:
    if not others or nvidia.is_unknown:
        return nvidia
    return known((*(nvidia.value or ()), *others), nvidia.note if nvidia.is_known else "PCI bus")


def _visibility(host: Host, selection: Selection, nvidia: Fact[tuple[Gpu, ...]]) -> Visibility:
    variable = "CUDA_VISIBLE_DEVICES"
    raw = host.environ.get(variable)
    source = f"{variable}; {nvidia.note}"
    fine = absent(f"{variable} is not set" if raw is None else f"{variable} is read to its end")
    return Visibility(
        raw=absent(f"{variable} is not set") if raw is None else known(raw, variable),
        count=unknown(selection.doubt) if selection.count is None else known(selection.count, source),
        problem=known(selection.problem, variable) if selection.problem else fine,
        ignored=known(selection.ignored, variable) if selection.ignored else fine,
        uses_uuid=absent(f"{variable} is not set") if raw is None else known(selection.uses_uuid, variable),
    )
