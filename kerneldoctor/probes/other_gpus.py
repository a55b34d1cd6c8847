"""Names the GPUs of AMD, Intel and Apple. It does not look deeper: the deep checks are for CUDA."""

from __future__ import annotations

from ..environment import Fact, Gpu, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists, read_text
from . import pci
from .placement import platform

_ROCM_VERSION = "/opt/rocm/.info/version"
_APPLE_NAME = ("sysctl", "-n", "machdep.cpu.brand_string")


def find_other_gpus(host: Host, devices: tuple[pci.PciDevice, ...]) -> tuple[Gpu, ...]:
    """GPUs of other makers among PCI devices; a graphics unit inside an Intel processor is left out."""
    found = [_gpu("amd", device, _amd_source(host)) for device in devices if device.vendor == pci.AMD]
    intel = [d for d in devices if d.vendor == pci.INTEL and d.bus not in ("", "00")]
    if intel and exists(host, "/dev/dri"):
        found += [_gpu("intel", device, "PCI bus, /dev/dri") for device in intel]
    return tuple(found)


def find_apple_gpu(host: Host) -> tuple[Gpu, ...]:
    """The GPU of an Apple processor; nothing elsewhere."""
    here = platform(host)
    if (here.get("os"), here.get("machine")) != ("darwin", "arm64"):
        return ()
    result = host.run(_APPLE_NAME, 1.0)
    name: Fact[str] = known(result.stdout.strip(), "sysctl") if result.ok else unknown("sysctl gave no answer")
    return (_describe("apple", name, "an Apple processor"),)


def _amd_source(host: Host) -> str:
    if not exists(host, "/sys/class/kfd"):
        return "PCI bus; the ROCm kernel driver (kfd) is not loaded"
    try:
        return f"PCI bus; ROCm {read_text(host, _ROCM_VERSION, 64).strip()} ({_ROCM_VERSION})"
    except ProbeError:
        return "PCI bus; the ROCm kernel driver (kfd) is loaded"


def _gpu(vendor: str, device: pci.PciDevice, source: str) -> Gpu:
    name = unknown(f"PCI device {device.vendor}:{device.device} at {device.address}; names are looked up for CUDA only")
    return _describe(vendor, name, source)


def _describe(vendor: str, name: Fact[str], source: str) -> Gpu:
    no_cuda = absent(f"a {vendor} GPU: CUDA does not know it")
    not_read = unknown(f"not read for a {vendor} GPU")
    return Gpu(
        index=no_cuda,
        name=name,
        vendor=known(vendor, source),
        uuid=no_cuda,
        compute_capability=no_cuda,
        memory_bytes=not_read,
        mig=no_cuda,
        mig_devices=no_cuda,
        visible=no_cuda,
    )
