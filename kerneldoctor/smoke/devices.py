"""Which devices of this machine a kernel is to be tried on, from facts alone; starts no CUDA context."""

from __future__ import annotations

from dataclasses import replace

from ..engine.case import Case
from ..engine.facts.driver import visible_nvidia_gpus
from ..environment import Environment, known
from ..errors import UndeterminedError, UsageError

_GPU_NAMES = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu"}  # backend of torch -> what torch calls the device


def find_devices(asked: str, case: Case) -> tuple[str, ...]:
    """Devices as torch names them, for auto, cpu, cuda, cuda:N, N or all.

    Raises UsageError for a word that is none of these, UndeterminedError where what was asked for is not there.
    """
    name, number = _parse(asked)
    backend = _backend(case)
    if name == "cpu":
        return ("cpu",)
    gpu = _GPU_NAMES.get(backend)
    if gpu is None:
        if name in ("auto", "all"):
            return ("cpu",)
        raise UndeterminedError(f"--device {asked}: the torch here is built for the CPU only")
    count = _count(backend, case)
    if count == 0:
        hint = "" if name == "cuda" else "; --device cpu tries what runs on the CPU"
        raise UndeterminedError(f"torch is built for {backend.upper()} and no GPU is visible{hint}")
    if number is not None and count is not None and number >= count:
        raise UndeterminedError(f"--device {asked}: only {count} visible GPU{'s' if count > 1 else ''}, from 0 on")
    if name == "all":
        return tuple(f"{gpu}:{index}" for index in range(count or 1))
    return (f"{gpu}:{number or 0}",)


def facts_on(devices: tuple[str, ...], environment: Environment) -> Environment:
    """The facts as a child on these devices meets them: on the CPU kernels is asked for the CPU's builds."""
    if devices != ("cpu",):
        return environment
    return replace(environment, torch=replace(environment.torch, backend=known("cpu", "--device cpu")))


def _parse(asked: str) -> tuple[str, int | None]:
    name, colon, number = asked.strip().lower().partition(":")
    if name.isdecimal() and not colon:
        return "cuda", int(name)
    if name in ("cuda", "gpu", "xpu") and (not colon or number.isdecimal()):
        return "cuda", int(number) if number else None
    if name in ("auto", "cpu", "all") and not colon:
        return name, None
    raise UsageError(f"--device {asked}: give auto, cpu, cuda, a number or all")


def _backend(case: Case) -> str:
    version, backend = case.fact("torch.version"), case.fact("torch.backend")
    if version.is_absent:
        python = case.fact("python.executable").value or "this Python"
        raise UndeterminedError(f"no torch is installed for {python}: name the one that has it with --python PATH")
    return str(backend.value or "cuda")  # unknown: the child will say


def _count(backend: str, case: Case) -> int | None:
    """GPUs that torch would see; None where that is not known."""
    if backend != "cuda":
        return None
    counted = case.fact("visibility.count")
    if counted.value is not None:
        return int(counted.value)
    listed = visible_nvidia_gpus(case)
    return len(listed.value) if listed.value is not None else None
