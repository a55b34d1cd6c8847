"""Chooses the cases of a run from the exports of a kernel: quick, full, or those of a model's shape.

Pure: the same exports and selection give the same cases, so parent and child may both ask. It must not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from .contracts import matching
from .contracts._contract import Contract, Draft, Workload
from .protocol import Case, Json, ProtocolError, Selection

QUICK_LIMIT = 16
_MOST_HEADS = 1024
_LARGEST_HEAD = 1024  # as the options of the command line have it


def choose(exports: Iterable[str], selection: Selection, device: str) -> tuple[Case, ...]:
    """The cases that this selection asks of a kernel with these public names, in the order they should run.

    device is a torch device; it decides the sizes. Cases named by `only` are looked for in every set, so that a case
    id is enough to run it again.
    """
    names = set(exports)
    names |= {name.removeprefix("layers.") for name in names}
    size = "cpu" if device == "cpu" else "gpu"
    workload = None if selection.workload is None else read_workload(selection.workload)
    if selection.set == "workload" and workload is None:
        raise ProtocolError("a selection of set 'workload' needs a workload")
    pool = [
        (one, draft)
        for one in matching(names)
        for draft in _drafts(one, selection, workload, size)
        if one.applies(draft.params, names)
    ]
    if selection.only:
        pool = [(one, draft) for one, draft in pool if draft.id in selection.only]
    elif selection.set != "full":
        pool = _quick([(one, draft) for one, draft in pool if draft.quick is not None])
    return tuple(_case(one, draft, selection) for one, draft in pool)


def _quick(pool: list[tuple[Contract, Draft]]) -> list[tuple[Contract, Draft]]:
    """As many as are allowed: first one of each function or layer, then the rest, each by its order."""
    pool = sorted(pool, key=lambda p: p[1].quick or 0)
    first: dict[tuple[str, Json], str] = {}
    for one, draft in pool:
        first.setdefault((one.name, draft.params.get("function")), draft.id)
    ranked = sorted(pool, key=lambda p: p[1].id not in first.values())[:QUICK_LIMIT]
    return [p for p in pool if p in ranked]


def read_workload(raw: dict[str, Json]) -> Workload:
    """A workload from JSON; ProtocolError when it is not one."""
    known = {field.name for field in fields(Workload)}
    try:
        made = Workload(**{name: value for name, value in raw.items() if name in known})
        trouble = _trouble(made)
    except TypeError as error:
        raise ProtocolError(f"the workload cannot be read: {error}") from error
    if trouble:
        raise ProtocolError(f"the workload is none of attention: {trouble}")
    return made


def _trouble(asked: Workload) -> str:
    """What makes no sense in a workload; "" where all does."""
    if not (0 < asked.heads <= _MOST_HEADS and 0 < asked.kv_heads <= _MOST_HEADS):
        return f"{asked.heads} query and {asked.kv_heads} KV heads; both go from 1 to {_MOST_HEADS}"
    if asked.heads % asked.kv_heads:
        return f"{asked.heads} query heads cannot be shared out evenly among {asked.kv_heads} KV heads"
    if not 0 < asked.head_dim <= _LARGEST_HEAD:
        return f"a head dimension of {asked.head_dim}; it goes from 1 to {_LARGEST_HEAD}"
    if asked.dtype not in ("bfloat16", "float16"):
        return f"in {asked.dtype}; kernels of attention take bfloat16 or float16"
    return ""


def _drafts(one: Contract, selection: Selection, workload: Workload | None, size: str) -> list[Draft]:
    asked = one.for_workload(workload, size) if workload else []
    if selection.set == "workload" and not selection.only:
        return [replace(draft, quick=draft.quick or 0) for draft in asked]
    return [*one.drafts(size), *asked] if selection.only else one.drafts(size)


def _case(one: Contract, draft: Draft, selection: Selection) -> Case:
    params = draft.params if selection.backward else {**draft.params, "backward": False}
    return Case(draft.id, one.name, params, selection.seed)
