"""Whether what was brought would load without a network: by the rules that are known here, and by kernels itself.

Runs the kernels library in a child process with HF_HUB_OFFLINE=1; imports nothing of a kernel there or here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..environment import CachedKernel, Environment
from ..errors import ProbeError
from ..host import RealHost
from ..hub.listing import is_version
from ..hub.sources import loads_offline
from ..probes.kernel_cache import look_into
from ..processes import run_command
from .model import Item
from .offline_child import MARK

CHILD_SECONDS = 180.0  # it imports torch
_CHILD = Path(__file__).with_name("offline_child.py")


def settle(items: Sequence[Item], environment: Environment, cache: str, python: str) -> tuple[Item, ...]:
    """The items that were brought, with whether they load. `python`: where kernels can be asked, or ""."""
    snapshots = _snapshots(cache)
    judged = [_by_rules(item, snapshots, environment) if item.state == "unsettled" else item for item in items]
    asked = [item for item in judged if item.state in ("loads", "unsettled")]
    if not python or not asked:
        return tuple(judged)
    answers = dict(zip(map(id, asked), _ask_kernels(asked, cache, python), strict=True))
    return tuple(_by_kernels(item, answers[id(item)]) if id(item) in answers else item for item in judged)


def _snapshots(cache: str) -> tuple[CachedKernel, ...]:
    try:
        found = look_into(RealHost(), cache)
    except ProbeError:
        return ()
    return tuple(
        CachedKernel(**{**kernel, **{k: tuple(kernel[k]) for k in ("branches", "variants", "build_ids")}})
        for kernel in found["kernels"]
    )


def _by_rules(item: Item, snapshots: Sequence[CachedKernel], environment: Environment) -> Item:
    held = next((s for s in snapshots if (s.repo, s.commit) == (item.repo, item.commit)), None)
    if held is None or item.build not in held.variants:
        return replace(item, state="refused", text="the build is not in the cache")
    if item.through_path:
        return replace(item, state="loads", checks=(*item.checks, "its folder, as LOCAL_KERNELS names it"))
    answer = loads_offline(held, item.revision, environment)
    if answer is None:
        why = (
            "which huggingface_hub will load it is not known"
            if held.complete
            else "the snapshot is not known to be whole"
        )
        return replace(item, text=why)
    if not answer:
        return replace(item, state="refused", text="huggingface_hub refuses it offline: the snapshot is not whole")
    return replace(item, state="loads", checks=(*item.checks, "the snapshot, as huggingface_hub asks for it offline"))


def _ask_kernels(items: Sequence[Item], cache: str, python: str) -> list[Mapping[str, Any]]:
    request = [
        {"repo": i.repo, "local": i.through_path, "revision": i.revision,
         "version": int(i.revision[1:]) if is_version(i.revision) else 0}
        for i in items
    ]  # fmt: skip
    paths = [f"{i.repo}={Path(i.folder).parents[1]}" for i in items if i.through_path]
    env = {"HF_HUB_OFFLINE": "1", "KERNELS_CACHE": cache, **({"LOCAL_KERNELS": ":".join(paths)} if paths else {})}
    result = run_command((python, str(_CHILD), json.dumps(request)), CHILD_SECONDS, env)
    line = next((text for text in reversed(result.stdout.splitlines()) if text.startswith(MARK)), "")
    try:
        said = json.loads(line.removeprefix(MARK))
        release, answers = str(said["release"]), said["kernels"]
        if len(answers) == len(items) and all(isinstance(answer, dict) for answer in answers):
            return [{**answer, "release": release} for answer in answers]
    except (ValueError, KeyError, TypeError):
        pass
    last = (result.stderr.strip().splitlines() or [result.trouble or f"exit code {result.code}"])[-1]
    return [{"found": None, "text": f"kernels could not be asked: {last[:200]}", "release": ""}] * len(items)


def _by_kernels(item: Item, answer: Mapping[str, Any]) -> Item:
    """What the library says outranks the rules; where it says nothing they stand."""
    text = " ".join(str(answer.get("text", "")).split())[:400]
    if answer.get("found") is None:
        return replace(item, notes=(*item.notes, text))
    if not answer["found"]:
        return replace(item, state="refused", text=f"kernels {answer['release']} does not find it offline: {text}")
    if text and os.path.basename(text) != item.build:
        build = os.path.basename(text)
        return replace(item, state="refused", text=f"kernels {answer['release']} takes {build}, not {item.build}")
    return replace(item, state="loads", text="", checks=(*item.checks, f"kernels {answer['release']}, asked offline"))
