"""Asks nvidia-smi: the fall-back where NVML cannot be used from Python. It hangs where NVML hangs; see gpu.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host import Host, exists

TIME_LIMIT = 2.0  # seconds for each of at most two starts
_WSL_PATH = "/usr/lib/wsl/lib/nvidia-smi"
_OLD_FIELDS = ("index", "name", "uuid", "memory.total", "driver_version")
_FIELDS = (*_OLD_FIELDS, "compute_cap", "mig.mode.current")  # the last two since driver 510 or so
_MIB = 1024 * 1024


def ask_nvidia_smi(host: Host) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """Driver version ("" if none) and GPUs in the form of nvml_child; nothing where nvidia-smi gives no answer."""
    program = host.which("nvidia-smi") or (_WSL_PATH if exists(host, _WSL_PATH) else None)
    if program is None:
        return "", ()
    for fields in (_FIELDS, _OLD_FIELDS):
        argv = (program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
        result = host.run(argv, TIME_LIMIT)
        if result.ok:
            rows = [dict(zip(fields, line.split(", "), strict=False)) for line in result.stdout.splitlines()]
            return _driver(rows), tuple(_gpu(row) for row in rows if row.get("index", "").isdecimal())
        if result.trouble:
            break
    return "", ()


def _driver(rows: list[dict[str, str]]) -> str:
    return next((row["driver_version"].strip() for row in rows if "driver_version" in row), "")


def _gpu(row: Mapping[str, str]) -> dict[str, Any]:
    memory = row.get("memory.total", "")
    major, dot, minor = row.get("compute_cap", "").strip().partition(".")
    capability = [int(major), int(minor)] if dot and major.isdecimal() and minor.isdecimal() else None
    mode = row.get("mig.mode.current", "").strip()
    return {
        "index": int(row["index"]),
        "name": row.get("name"),
        "uuid": row.get("uuid"),
        "compute_capability": capability,
        "memory": int(memory) * _MIB if memory.isdecimal() else None,
        "mig": mode == "Enabled" if mode in ("Enabled", "Disabled", "[N/A]") else None,
        "mig_devices": None,  # not in this table
    }
