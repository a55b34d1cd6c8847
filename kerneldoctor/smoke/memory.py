"""How much memory of the host a kernel may take before it is ended. Parent side; judges nothing."""

from __future__ import annotations

import os
from pathlib import Path

_FLOOR = 4 << 30  # bytes: torch and its libraries alone map two to three
_PER_THREAD = 256 << 20  # bytes of address space that each worker thread reserves for its stack and its arenas
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def host_limit() -> int:
    """Three quarters of what is free now (of the container, where it is one), and room for reserved addresses."""
    free = min(value for value in (_available(), _of_cgroup()) if value is not None)
    return max(_FLOOR, free * 3 // 4) + (os.cpu_count() or 1) * _PER_THREAD


def kills() -> int | None:
    """How many processes the system has killed for want of memory since it started; None where it does not say."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _available() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_cgroup() -> int | None:
    for path in _CGROUPS:
        try:
            return int(Path(path).read_text())
        except (OSError, ValueError):  # not there, or "max"
            continue
    return None
