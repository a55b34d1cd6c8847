"""Starts the child that asks NVML and reads its answer. NVML is never loaded in our own process."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from ..errors import ProbeError
from ..host import CommandResult, Host
from ..processes import run_command
from ..values import dataclass

TIME_LIMIT = 3.0  # seconds; NVML answers in 0.2 s on a healthy machine with 8 GPUs

_MAX_GPUS = 64  # as the child; a capture may say anything

# What `driver.nvml_error` may be. Numbers are NVML's: https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
NVML_ERRORS: Mapping[int, str] = {
    -1: "binding_missing",  # nvidia-ml-py is not importable; the only number of ours
    1: "uninitialized",
    2: "invalid_argument",
    3: "not_supported",
    4: "insufficient_permissions",
    6: "not_found",
    8: "insufficient_power",
    9: "driver_not_loaded",
    10: "driver_timeout",
    11: "interrupt_issue",
    12: "library_not_found",
    13: "function_not_found",
    14: "corrupted_inforom",
    15: "gpu_is_lost",
    16: "reset_required",
    17: "blocked_by_operating_system",
    18: "driver_library_mismatch",
    19: "in_use",
    20: "out_of_memory",
    23: "insufficient_resources",
    25: "argument_version_mismatch",
    27: "not_ready",
    28: "gpu_not_found",
    29: "invalid_state",
    999: "unknown_error",
}
# Beside NVML's own errors: what can become of the child.
TIMEOUT = "timeout"  # no answer within the limit
CRASHED = "crashed"  # ended by a signal, or by an error of the binding
# Errors after which nvidia-smi can still answer: the fault is in how we reach NVML, not in the driver.
SMI_MAY_ANSWER = frozenset({"binding_missing", "library_not_found", "function_not_found", CRASHED})


@dataclass(frozen=True, slots=True)
class NvmlAnswer:
    """What NVML said, up to where it stopped. `error` is "" when it answered everything."""

    error: str = ""
    text: str = ""  # in words
    driver: Mapping[str, Any] = field(default_factory=dict)  # as nvml_child writes it
    gpus: tuple[Mapping[str, Any], ...] = ()
    source: str = "NVML"  # or "nvidia-smi", where that had to answer


def ask_nvml(host: Host, library: str = "") -> NvmlAnswer:
    """Start the child and read its answer. `library` is a libnvidia-ml.so.1 that the loader does not find itself."""
    try:
        raw = host.observe("nvml", "", lambda: _run_child(library))
    except ProbeError as error:
        return NvmlAnswer(CRASHED, str(error))
    return read_answer(raw if isinstance(raw, dict) else {})


def _run_child(library: str) -> dict[str, Any]:
    child = os.path.join(os.path.dirname(__file__), "nvml_child.py")
    # Not by the host: the answer is recorded as this one observation, not as a command with this machine's paths.
    result = run_command((sys.executable, "-I", "-S", child, _binding_folder(), library), TIME_LIMIT)
    return {"lines": result.stdout.splitlines(), **_ending(result)}


def _binding_folder() -> str:
    from importlib.util import find_spec

    spec = find_spec("pynvml")
    if spec is None or spec.origin is None:
        return os.devnull
    return os.path.dirname(os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin)


def _ending(result: CommandResult) -> dict[str, Any]:
    last = result.stderr.strip().splitlines()[-1:] or [""]
    return {"code": result.code, "trouble": result.trouble, "stderr": last[0][:400]}


def read_answer(raw: Mapping[str, Any]) -> NvmlAnswer:
    """Read the child's lines and how it ended."""
    driver: Mapping[str, Any] = {}
    gpus: list[Mapping[str, Any]] = []
    stage, error, text, done, count = "starting", "", "", False, 0
    for line in _lines(raw):
        stage = str(line.get("stage", stage))
        done = done or line.get("done") is True
        if isinstance(line.get("driver"), dict):
            driver = line["driver"]
        if isinstance(line.get("count"), int):
            count = min(line["count"], _MAX_GPUS)
        if isinstance(line.get("gpu"), dict):
            gpus.append(line["gpu"])
        if isinstance(line.get("error"), int):
            error, text = error_name(line["error"]), str(line.get("text", ""))
    if not error and not done:
        error, text = _why_unfinished(raw, stage)
    if not error:
        error, text = _lost_gpu(gpus)
    unanswered = tuple({"index": index} for index in range(len(gpus), count))
    return NvmlAnswer(error, text, driver, (*gpus, *unanswered))


def error_name(number: int) -> str:
    """The stable name of an NVML error number."""
    return NVML_ERRORS.get(number, f"nvml_{number}")


def _lines(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    lines = raw.get("lines")
    for text in lines if isinstance(lines, list) else []:
        try:
            line = json.loads(text)
        except (TypeError, ValueError):  # a library that prints to stdout, or the half line of a killed child
            continue
        if isinstance(line, dict):
            yield line


def _why_unfinished(raw: Mapping[str, Any], stage: str) -> tuple[str, str]:
    if raw.get("trouble") == "timeout":
        return TIMEOUT, f"NVML gave no answer within {TIME_LIMIT:g} s (at: {stage})"
    code = raw.get("code")
    if isinstance(code, int) and code < 0:
        return CRASHED, f"NVML ended its process with {_signal_name(-code)} (at: {stage})"
    return CRASHED, f"the NVML child ended early (at: {stage}): {raw.get('stderr') or raw.get('trouble') or code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _lost_gpu(gpus: list[Mapping[str, Any]]) -> tuple[str, str]:
    lost = next((g for g in gpus if isinstance(g.get("error"), int)), None)
    return ("", "") if lost is None else (error_name(lost["error"]), f"GPU {lost.get('index')}: {lost.get('text')}")
