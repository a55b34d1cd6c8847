"""Looks at the operating system, the processor, memory, and where the process runs. It does not look at GPUs."""

from __future__ import annotations

from typing import Any

from ..environment import Fact, System, known, unknown
from ..errors import ProbeError
from ..host import Host, read_text
from . import placement, runtime_libraries
from .scene import Scene

# Arm processors give numbers only: https://github.com/torvalds/linux/blob/master/arch/arm64/include/asm/cputype.h
_ARM_PARTS = {
    ("0x41", "0xd0c"): "Arm Neoverse-N1",
    ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd42"): "Arm Cortex-A78AE",
    ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
    ("0x41", "0xd83"): "Arm Neoverse-V3AE",
    ("0x41", "0xd84"): "Arm Neoverse-V3",
    ("0x41", "0xd85"): "Arm Cortex-X925",
    ("0x41", "0xd87"): "Arm Cortex-A725",
}
_CGROUP_UNLIMITED = 1 << 60  # bytes; version 1 writes a huge number where no limit is set


def probe(scene: Scene) -> dict[str, object]:
    """The `system` section."""
    host = scene.host
    platform = placement.platform(host)
    libc, libc_version = runtime_libraries.libc(host, platform.get("libc"))
    return {
        "system": System(
            os=_platform_fact(platform, "os"),
            distribution=_distribution(host),
            kernel=_platform_fact(platform, "release"),
            machine=_platform_fact(platform, "machine"),
            cpu=_cpu(host),
            libc=libc,
            libc_version=libc_version,
            glibcxx=runtime_libraries.glibcxx(host, scene.target),
            container=placement.container(host),
            wsl=placement.wsl(host),
            scheduler=placement.scheduler(host),
            notebook=placement.notebook(host),
            memory_bytes=_memory(host),
            library_overrides=runtime_libraries.overrides(host),
        )
    }


def _platform_fact(platform: dict[str, Any], name: str) -> Fact[str]:
    value = platform.get(name)
    return known(value, "uname") if isinstance(value, str) and value else unknown("uname gave no answer")


def _distribution(host: Host) -> Fact[str]:
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            values = dict(_assignment(line) for line in read_text(host, path, 65536).splitlines() if "=" in line)
        except ProbeError:
            continue
        if name := values.get("PRETTY_NAME") or values.get("NAME"):
            return known(name, path)
    return unknown("no readable os-release file")


def _assignment(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), value.strip().strip("\"'").replace("\\", "")


def _cpu(host: Host) -> Fact[str]:
    path = "/proc/cpuinfo"
    try:
        # The first processor is enough: the whole file takes milliseconds to make on a machine with many.
        lines = read_text(host, path, 4096).splitlines()
    except ProbeError as error:
        return unknown(str(error))
    values: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            values.setdefault(name.strip(), value.strip())
    arm = (values.get("CPU implementer", ""), values.get("CPU part", ""))
    model = values.get("model name") or values.get("cpu") or _ARM_PARTS.get(arm)
    if model:
        return known(" ".join(model.split()), path)
    return known(f"Arm implementer {arm[0]} part {arm[1]}", path) if arm[1] else unknown(f"{path} names no model")


def _memory(host: Host) -> Fact[int]:
    """Memory that this process may use: what the machine has, or the limit of its control group if that is less."""
    limits = [(limit, source) for limit, source in (_machine_memory(host), *_cgroup_limits(host)) if limit]
    if not limits:
        return unknown("/proc/meminfo gives no MemTotal")
    return known(*min(limits))


def _machine_memory(host: Host) -> tuple[int, str]:
    path = "/proc/meminfo"
    try:
        words = read_text(host, path, 4096).partition("MemTotal:")[2].split(maxsplit=1)
    except ProbeError:
        return 0, path
    return (int(words[0]) * 1024, path) if words and words[0].isdecimal() else (0, path)


def _cgroup_limits(host: Host) -> list[tuple[int, str]]:
    found = []
    for path in _cgroup_files(host):
        try:
            text = read_text(host, path, 64).strip()
        except ProbeError:
            continue
        if text.isdecimal() and 0 < int(text) < _CGROUP_UNLIMITED:  # "max" where there is no limit
            found.append((int(text), path))
    return found


def _cgroup_files(host: Host) -> list[str]:
    """Limit files of this process's group and of the root: inside a container the path of the group is the host's."""
    files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    try:
        lines = read_text(host, "/proc/self/cgroup", 65536).splitlines()
    except ProbeError:
        return files
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if group in ("", "/") or ".." in group:
            continue
        if controllers == "":
            files.append(f"/sys/fs/cgroup{group}/memory.max")
        elif "memory" in controllers.split(","):
            files.append(f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes")
    return files
