"""Asks NVML over and over how busy a GPU is, in a process of its own; started by path, imports nothing of ours.

`PYTHON -I -S gpu_sampler.py PYNVML_FOLDER UUID FILE`: appends a JSON line a sample to FILE until it is ended or its
parent is gone. A driver in trouble hangs or kills this process alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

_PAUSE = 0.25  # seconds


def main(folder: str, uuid: str, path: str) -> None:
    """Samples until the parent is gone."""
    sys.path.insert(0, folder)
    parent = os.getppid()
    with open(path, "a", encoding="utf-8") as file:
        try:
            import pynvml as nvml
        except ImportError as error:
            file.write(json.dumps({"error": str(error)}) + "\n")
            return
        try:
            nvml.nvmlInit()
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            while os.getppid() == parent:
                file.write(json.dumps(_sample(nvml, handle)) + "\n")
                file.flush()
                time.sleep(_PAUSE)
        except nvml.NVMLError as error:
            file.write(json.dumps({"error": str(error)}) + "\n")


def _sample(nvml: Any, handle: Any) -> dict[str, Any]:
    reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons = reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return {
        "time": time.time(),
        "busy": _ask(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "used": _ask(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used),
        "processes": _ask(nvml, lambda: [one.pid for one in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]),
        "clock": _ask(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "reasons": _ask(nvml, lambda: reasons(handle)),
    }


def _ask(nvml: Any, function: Any) -> Any:
    """What it says; None where this GPU or a container does not tell."""
    try:
        return function()
    except nvml.NVMLError:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:4])
