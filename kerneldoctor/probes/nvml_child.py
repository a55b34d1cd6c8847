"""Asks NVML, in a process of its own: a driver in trouble hangs or kills whoever calls it. Imports nothing of ours.

Started by path with `-I -S` and the folder that holds `pynvml`, so that no site hook of a sick environment runs.
Writes one JSON line as soon as each thing is known, so that a hang or a crash keeps what came before it:
{"stage": name} before each step that may hang, {"driver": {...}}, {"count": n}, {"gpu": {...}},
{"error": code, "text": ...}, {"done": true} at the end. Error codes are NVML's numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

NO_BINDING = -1  # our own code beside NVML's numbers: pynvml cannot be imported
_MAX_GPUS = 64


def tell(**line: Any) -> None:
    """Write one line now: what sits in a buffer is lost when a driver kills us."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(folder: str, library: str) -> None:
    """Ask everything. `library` is loaded first if given, for a libnvidia-ml that the loader does not find itself."""
    sys.path.insert(0, folder)
    _no_core_dump()
    tell(stage="loading pynvml")
    try:
        import pynvml as nvml
    except ImportError as error:
        tell(error=NO_BINDING, text=str(error))
        return
    if library:
        _preload(library)
    tell(stage="nvmlInit")
    try:
        nvml.nvmlInit()
        _driver(nvml)
        _gpus(nvml)
    except nvml.NVMLError as error:
        tell(error=error.value, text=str(error))
    else:
        tell(done=True)


def _no_core_dump() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _preload(library: str) -> None:
    import ctypes

    try:
        ctypes.CDLL(library)
    except OSError as error:
        tell(stage=f"loading {library}: {error}")


def _driver(nvml: Any) -> None:
    tell(stage="driver version")
    errors: dict[str, int] = {}
    version = _ask(nvml, errors, "version", nvml.nvmlSystemGetDriverVersion)
    cuda = _ask(nvml, errors, "cuda", nvml.nvmlSystemGetCudaDriverVersion_v2)
    tell(driver={"version": version, "cuda": cuda, "errors": errors})


def _gpus(nvml: Any) -> None:
    tell(stage="counting GPUs")
    count = min(nvml.nvmlDeviceGetCount(), _MAX_GPUS)
    tell(count=count)
    for index in range(count):
        tell(stage=f"GPU {index}")
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:  # one lost GPU must not hide the others
            tell(gpu={"index": index, "error": error.value, "text": str(error)})
            continue
        tell(gpu=_gpu(nvml, index, handle))


def _gpu(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    errors: dict[str, int] = {}

    def ask(name: str, function: Callable[..., Any]) -> Any:
        return _ask(nvml, errors, name, function, handle)

    memory = ask("memory", nvml.nvmlDeviceGetMemoryInfo)
    mode = ask("mig", nvml.nvmlDeviceGetMigMode)
    return {
        "index": index,
        "name": ask("name", nvml.nvmlDeviceGetName),
        "uuid": ask("uuid", nvml.nvmlDeviceGetUUID),
        "compute_capability": ask("compute_capability", nvml.nvmlDeviceGetCudaComputeCapability),
        "memory": memory.total if memory is not None else None,
        "mig": bool(mode[0]) if mode is not None else None,
        "mig_devices": _mig_devices(nvml, handle) if mode is not None and mode[0] else [],
        "fabric": _fabric(nvml, handle),
        "errors": errors,
    }


def _mig_devices(nvml: Any, handle: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    for index in range(min(nvml.nvmlDeviceGetMaxMigDeviceCount(handle), 64)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            found.append([nvml.nvmlDeviceGetUUID(device), nvml.nvmlDeviceGetGpuInstanceId(device)])
        except nvml.NVMLError:  # a free slot, or an instance of another tenant
            continue
    return found


def _fabric(nvml: Any, handle: Any) -> int | None:
    """State of the NVLink fabric: 0 not supported, 1 not started, 2 in progress, 3 completed."""
    try:
        info = nvml.c_nvmlGpuFabricInfo_t()
        nvml.nvmlDeviceGetGpuFabricInfo(handle, nvml.byref(info))
        return int(info.state)
    except (nvml.NVMLError, AttributeError):  # an older pynvml does not know it
        return None


def _ask(nvml: Any, errors: dict[str, int], name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        errors[name] = error.value
        return None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
