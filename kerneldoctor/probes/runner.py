"""Runs every probe side by side, each with a time limit and each able to fail alone, and joins an Environment.

A probe that fails or does not come back leaves its facts unknown with the reason; the others are not held up.
"""

from __future__ import annotations

import importlib
import threading
import time
import typing
from collections.abc import Callable, Mapping
from typing import Any

from ..environment import Environment, Fact, blank, unknown
from ..errors import ProbeError
from ..host import Host
from ..values import dataclass
from .scene import Scene, Target

CEILING = 10.0  # seconds for a whole scan when everything hangs (--deep has its own limit)


@dataclass(frozen=True, slots=True)
class Probe:
    """A module with `probe(scene)`, and the parts of the Environment that it answers for."""

    module: str
    parts: tuple[str, ...]
    seconds: float


# In the order in which they start: first those that wait for a child process, NVML's above all.
PROBES = (
    Probe("gpu", ("driver", "gpus", "visibility"), 8.0),
    Probe("toolkit", ("toolkit",), 6.0),
    Probe("python", ("python",), 4.0),
    Probe("system", ("system",), 3.0),
    Probe("torch", ("torch",), 6.0),
    Probe("flash_attention", ("flash_attn", "flash_attn_3", "flash_attn_4"), 4.0),
    Probe("extensions", ("extensions",), 8.0),
    Probe("packages", ("packages",), 5.0),
    Probe("requirements", ("requirements",), 5.0),
    Probe("huggingface", ("huggingface",), 5.0),
)
DEEP = Probe("deep", ("deep",), 90.0)


def run_probes(host: Host, target: Target, deep: bool = False) -> Environment:
    """Look at the machine through `host` and at the environment of `target`. Never raises for what a probe meets."""
    return start_probes(host, target, deep)()


def start_probes(host: Host, target: Target, deep: bool = False) -> Callable[[], Environment]:
    """Start to look. The function returned waits for the probes; see `run_probes`."""
    scene = Scene(host, target)
    probes = (*PROBES, DEEP) if deep else PROBES
    results: dict[str, Mapping[str, object]] = {}
    threads = {probe: _start(probe, scene, results) for probe in probes}
    began = time.monotonic()

    def wait() -> Environment:
        parts: dict[str, object] = {}
        for probe, thread in threads.items():
            limit = probe.seconds if probe is DEEP else min(probe.seconds, CEILING)
            thread.join(max(0.0, began + limit - time.monotonic()))
            found = results.get(probe.module)
            parts |= found if found is not None else _nothing(probe, unknown(f"no answer within {probe.seconds:g} s"))
        return Environment(**typing.cast(Any, parts))

    return wait


def _start(probe: Probe, scene: Scene, results: dict[str, Mapping[str, object]]) -> threading.Thread:
    # Not in the threads: ten that import at once get in each other's way, and the first child would start last.
    look = _load(probe)

    def work() -> None:
        try:
            found = look(scene)
        except ProbeError as error:
            found = _nothing(probe, unknown(str(error)))
        except Exception as error:  # noqa: BLE001 - the one boundary: a broken probe must not cost the other facts
            found = _nothing(probe, _failed(probe, error))
        results[probe.module] = found

    # A daemon: a look that is stuck in the kernel must not keep the report, or the exit, waiting.
    thread = threading.Thread(target=work, name=f"probe-{probe.module}", daemon=True)
    thread.start()
    return thread


def _load(probe: Probe) -> Callable[[Scene], Mapping[str, object]]:
    try:
        look: Callable[[Scene], Mapping[str, object]] = importlib.import_module(f"{__package__}.{probe.module}").probe
        return look
    except ImportError as error:
        reason = _failed(probe, error)
        return lambda scene: _nothing(probe, reason)


def _failed(probe: Probe, error: Exception) -> Fact[Any]:
    return unknown(f"the {probe.module} probe failed: {type(error).__name__}: {error}")


def _nothing(probe: Probe, fact: Fact[Any]) -> dict[str, object]:
    hints = typing.get_type_hints(Environment)
    return {part: fact if typing.get_origin(hints[part]) is Fact else blank(hints[part], fact) for part in probe.parts}
