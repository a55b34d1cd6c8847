"""The child of a smoke run: reads a job, loads the kernel, runs the cases, and writes what happens to the journal.

Run by path under the interpreter that owns torch: `PYTHON worker.py JOB.json`. It needs the standard library, torch,
kernels and the files beside it, and must not need kerneldoctor to be installed there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import importlib
import importlib.metadata
import importlib.util
import os
import signal
import sys
import time
from typing import Any

# The script's folder is on the path because it lies there; its cases.py and memory.py must not hide anybody's modules.
_HERE = __file__.replace("\\", "/").rpartition("/")[0] or "."
if sys.path and sys.path[0].replace("\\", "/").rstrip("/") == _HERE:
    del sys.path[0]

_PACKAGE = "_kerneldoctor_smoke"
_NAMED = ("torch", "kernels", "huggingface_hub", "transformers", "trl", "triton", "numpy", "flash-attn", "liger-kernel")


def _siblings() -> None:
    """Makes the files beside this one importable as a private package, under a name that no kernel uses."""
    location = os.path.join(_HERE, "__init__.py")
    spec = importlib.util.spec_from_file_location(_PACKAGE, location, submodule_search_locations=[_HERE])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)


def _sibling(name: str) -> Any:
    return importlib.import_module(f"{_PACKAGE}.{name}")


class Journal:
    """Appends events, each in one write, so that a line is there whole or not at all."""

    def __init__(self, path: str, protocol: Any) -> None:
        self._line, self._write = protocol.event_line, os.write  # before a kernel can replace them
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)

    def write(self, event: Any) -> None:
        """Writes one event."""
        self._write(self._file, self._line(event).encode())


class Worker:
    """One job on its way through load and cases."""

    def __init__(self, job: Any, protocol: Any) -> None:
        self._job, self._protocol = job, protocol
        self._journal = Journal(job.journal, protocol)
        self._timings: dict[str, float] = {}
        self._integrity: Any = None  # where the kernel alone is in the process, and no library that may replace things

    def run(self) -> int:
        """Everything, in the order that protocol.py promises; the exit code."""
        protocol, nonce = self._protocol, self._job.nonce
        self._journal.write(protocol.Hello(nonce, os.getpid(), _python(), sys.executable, _versions()))
        loading = _sibling("loading")
        try:
            kernel = self._load(loading)
        except loading.Refusal as refusal:
            self._journal.write(
                protocol.Refused(nonce, refusal.reason, refusal.message, self._stage_name, refusal.tail)
            )
            return int(protocol.EXIT_REFUSED)
        described = self._room("loading").describe(kernel, self._job.kernel, nonce)
        self._journal.write(described)
        self._stage("plan")
        cases = self._cases(described.exports)
        self._journal.write(protocol.Planned(nonce, cases))
        for case in cases:
            result = self._run_case(case, kernel)
            self._journal.write(result)
            if result.poisoned:
                return int(protocol.EXIT_POISONED)
        self._end_stage()
        self._journal.write(protocol.Done(nonce, self._peak_memory(), self._timings))
        return int(protocol.EXIT_DONE)

    _stage_name = "start"
    _stage_start = 0.0

    def _stage(self, name: str) -> None:
        """Says what is about to be done, before it can kill us."""
        self._end_stage()
        self._stage_name, self._stage_start = name, time.perf_counter()
        self._journal.write(self._protocol.Stage(self._job.nonce, name))

    def _end_stage(self) -> None:
        if self._stage_start:
            took = time.perf_counter() - self._stage_start
            self._timings[self._stage_name] = self._timings.get(self._stage_name, 0.0) + took
        self._stage_start = 0.0

    def _load(self, loading: Any) -> Any:
        self._stage("import-torch")
        loading.import_torch()
        self._stage("open-device")
        toolkit, device = loading.open_device(self._job.device)
        version = str(sys.modules["torch"].__version__)
        self._journal.write(self._protocol.Versions(self._job.nonce, version, toolkit, device))
        self._stage("load-kernel")
        room = self._room("loading")
        if not self._job.kernel.through:
            self._integrity = _sibling("integrity").Integrity()
        kernel = room.load(self._job.kernel, self._job.device)
        trouble = self._trouble()
        if trouble:
            raise loading.Refusal("tampers", trouble)
        return kernel

    def _trouble(self) -> str:
        """Why nothing that is judged from now on would be worth anything, or ""."""
        return "" if self._integrity is None else str(self._integrity.trouble(self._job.device))

    def _room(self, name: str) -> Any:
        """Who loads and who judges: the kernel by itself, within a model, or to be measured."""
        kernel = self._job.kernel
        return _sibling(f"through.{name}" if kernel.through else f"measure.{name}" if kernel.measure else name)

    def _cases(self, exports: tuple[str, ...]) -> tuple[Any, ...]:
        if self._job.cases or self._job.selection is None:
            return tuple(self._job.cases)
        return tuple(_sibling("cases").choose(exports, self._job.selection, self._job.device))

    def _run_case(self, case: Any, kernel: Any) -> Any:
        protocol, nonce = self._protocol, self._job.nonce
        self._end_stage()
        try:
            contract = self._room("contracts").contract(case.contract)
        except KeyError:
            return protocol.Result(nonce, case.id, "skipped", f"there is no contract {case.contract}", "plan", 0.0)
        result = _sibling("bench").run_case(
            case,
            contract,
            kernel,
            self._job.device,
            lambda stage: self._journal.write(protocol.Stage(nonce, stage, case.id)),
            nonce,
            self._journal.write,
        )
        for stage, seconds in result.timings.items():
            self._timings[stage] = self._timings.get(stage, 0.0) + seconds
        return result if result.poisoned else self._as_trusted(result)

    def _as_trusted(self, result: Any) -> Any:
        """A result that was judged with what the kernel has replaced meanwhile is no result."""
        trouble = self._trouble()
        if not trouble:
            return result
        detail = f"{trouble}; {result.detail}" if result.detail else trouble
        return dataclasses.replace(
            result, outcome="wrong", detail=detail, direction=result.direction or "forward", forward=False
        )

    def _peak_memory(self) -> int | None:
        kind = self._job.device.split(":")[0]
        if kind != "cpu":
            backend = sys.modules["torch"].get_device_module(kind)
            return int(backend.max_memory_allocated()) if hasattr(backend, "max_memory_allocated") else None
        with contextlib.suppress(ImportError):
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return None


def _python() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


def _versions() -> dict[str, str]:
    found = {}
    for name in _NAMED:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _harden(memory_limit: int | None) -> None:
    """No core dumps; a crash prints where it was; a memory limit when one is asked for; death with the parent."""
    faulthandler.enable()
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory_limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        set_parent_death_signal = 1  # linux/prctl.h: a parent that is killed cannot end us itself
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Runs the job in the named file; the exit code, see protocol.py."""
    _siblings()
    protocol = _sibling("protocol")
    try:
        with open(arguments[0], encoding="utf-8") as file:
            job = protocol.Job.from_json(file.read())
    except (IndexError, OSError, protocol.ProtocolError) as error:
        sys.stderr.write(f"worker.py: {error}\n")
        return int(protocol.EXIT_BAD_JOB)
    _harden(job.memory_limit if job.device == "cpu" else None)
    return Worker(job, protocol).run()


if __name__ == "__main__":
    code = main(sys.argv[1:])
    # What native libraries do when an interpreter ends is not part of the answer, and some of them hang there.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
