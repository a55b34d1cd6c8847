"""Reads a policy out of `[tool.kerneldoctor]` of pyproject.toml, kerneldoctor.toml and flags, and names every mistake.

Checks form and types only; whether a demand is met is decided elsewhere.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import read_file
from ..lock import DEFAULT_PATH
from .fields import Reader
from .policy import FAIL_ON, NO_PACKAGES, RUNS, Policy, RequiredGpu, WantedKernel, WantedWorkload

_LIMIT = 4 * 1024 * 1024  # bytes of a configuration
_OWN, _PROJECT = "kerneldoctor.toml", "pyproject.toml"
_KEYS = (
    "kernels", "lock", "workload", "run", "fail-on", "ignore", "allowed-publishers", "timeout", "minimum",
    "required-gpu", "python", "device", "rules",
)  # fmt: skip
_TABLES = ("workload", "minimum", "required-gpu")  # flags change single keys of these
_WORKLOAD = ("model", "heads", "kv-heads", "head-dim", "dtype", "training")
_GPU = ("name", "compute-capability", "count", "memory-gib")
_KERNEL = ("reference", "lock", "trust-remote-code")


def read_policy(config: str | None = None, flags: Mapping[str, Any] = {}, start: str = ".") -> Policy:
    """The policy in force: a configuration file, changed by flags (the same keys).

    config: the file; else the nearest one from the folder `start` upwards. Raises UsageError that names all mistakes,
    one a line.
    """
    path = config or find_config(start)
    table, text = _load(path) if path else ({}, "")
    reader = Reader(path, text, flags)
    policy = _policy(reader, _changed(table, flags), frozenset(flags))
    if reader.mistakes:
        raise UsageError("\n".join(reader.mistakes))
    return policy


def find_config(start: str) -> str:
    """The nearest kerneldoctor.toml, or pyproject.toml with our table, at `start` or above within the repository."""
    folder = Path(start).absolute()
    for place in (folder, *folder.parents):
        for name in (_OWN, _PROJECT):
            path = place / name
            if path.is_file() and (name == _OWN or "[tool.kerneldoctor" in _text(str(path))):
                return os.path.relpath(path) if place == folder else str(path)
        if (place / ".git").exists():
            break
    return ""


def _text(path: str) -> str:
    try:
        return read_file(path, "a configuration", _LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text in UTF-8") from None


def _load(path: str) -> tuple[dict[str, Any], str]:
    text = _text(path)
    try:
        document: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deep") from None
    if Path(path).name == _PROJECT:
        tool = document.get("tool", {})
        document = tool.get("kerneldoctor", {}) if isinstance(tool, dict) else {}
    elif isinstance(document.get("tool"), dict) and "kerneldoctor" in document["tool"]:
        raise UsageError(f"{path}: [tool.kerneldoctor] is for {_PROJECT}; here its keys stand at the top, without it")
    if not isinstance(document, dict):
        raise UsageError(f"{path}: [tool.kerneldoctor] is no table")
    return document, text


def _changed(table: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """The table with the flags in the place of what it says; of inner tables key by key."""
    changed = {**table, **flags}
    for key in _TABLES:
        if isinstance(table.get(key), dict) and isinstance(flags.get(key), dict):
            changed[key] = {**table[key], **flags[key]}
    return changed


def _policy(reader: Reader, table: Mapping[str, Any], flags: frozenset[str]) -> Policy:
    usual = Policy()
    reader.known(table, _KEYS, "")
    kernels = tuple(_kernels(reader, table.get("kernels", ())))
    return Policy(
        kernels=kernels,
        lock=_lock(reader, table, "lock" in flags),
        workload=_workload(reader, table.get("workload", {})),
        run=reader.choice(table, "run", RUNS, "smoke" if kernels else "scan"),
        fail_on=reader.choice(table, "fail-on", FAIL_ON, usual.fail_on),
        ignore=reader.ignores(table),
        allowed_publishers=reader.publishers(table, "allowed-publishers"),
        timeout=reader.number(table, "timeout", usual.timeout, "seconds", 1, 86400),
        minimum=_minimum(reader, table.get("minimum", {})),
        gpu=_gpu(reader, table["required-gpu"]) if "required-gpu" in table else None,
        python=_python(reader, table, "python" in flags),
        device=reader.text(table, "device") or usual.device,
        rules=tuple(reader.path(path, "rules" in flags) for path in reader.texts(table, "rules") or ()),
        source=reader.file,
    )


def _kernels(reader: Reader, value: Any) -> list[WantedKernel]:
    if not isinstance(value, (list, tuple)):
        reader.wrong("kernels", value, "a list of references")
        return []
    found = []
    for item in value:
        if isinstance(item, str):
            item = {"reference": item}
        if not isinstance(item, dict):
            reader.wrong("kernels", item, "a reference, or a table with one")
            continue
        reader.known(item, _KERNEL, "kernels")
        reference = reader.reference(item)
        lock = item.get("lock")
        if lock not in (None, False) and not isinstance(lock, str):
            reader.wrong("kernels.lock", lock, "the path of a lock file, or false for none")
            lock = None
        own = None if lock is None else reader.existing("kernels.lock", lock, False) if lock else ""
        if reference:
            found.append(WantedKernel(reference, own, reader.flag(item, "trust-remote-code", "kernels.") is True))
    return _once(reader, found)


def _once(reader: Reader, kernels: list[WantedKernel]) -> list[WantedKernel]:
    """Each kernel once; named twice with different options it is a mistake."""
    found = list(dict.fromkeys(kernels))
    names = [kernel.reference for kernel in found]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        reader.complain(name, f"kernels has {name} twice, with different options")
    return found


def _lock(reader: Reader, table: Mapping[str, Any], by_flag: bool) -> str:
    """The lock that is named, and must be there; else the usual one beside the configuration, where there is one."""
    if table.get("lock") is False:
        return ""
    named = reader.text(table, "lock")
    if named:
        return reader.existing("lock", named, by_flag)
    usual = reader.path(DEFAULT_PATH, False)
    return usual if "lock" not in table and os.path.lexists(usual) else ""


def _workload(reader: Reader, value: Any) -> WantedWorkload:
    table = reader.table("workload", value, _WORKLOAD)
    model = reader.text(table, "model", "workload.")
    heads, kv_heads, head_dim = (
        reader.whole(table, key, 1, 1024, "workload.") for key in ("heads", "kv-heads", "head-dim")
    )
    if (kv_heads or head_dim or "dtype" in table) and not (heads or model):
        reader.complain("workload", "workload needs heads, or a model, for its other figures to mean something")
    if heads and kv_heads and heads % kv_heads:
        reader.complain("kv-heads", f"workload: {heads} query heads cannot share {kv_heads} kv-heads evenly")
    dtype = reader.choice(table, "dtype", ("bfloat16", "float16"), "", "workload.") or None
    if model and os.sep in model and model.startswith(("./", "../")):
        model = reader.path(model, False)
    return WantedWorkload(model or None, heads, kv_heads, head_dim, dtype, reader.flag(table, "training", "workload."))


def _minimum(reader: Reader, value: Any) -> dict[str, str]:
    table = reader.table("minimum", value, None)
    for name in table:
        reader.package(table, name, "minimum.", ("torch", *NO_PACKAGES))
    return {re.sub(r"[-_.]+", "-", name).lower(): reader.release(table, name, "minimum.") for name in table}


def _gpu(reader: Reader, value: Any) -> RequiredGpu:
    table = reader.table("required-gpu", value, _GPU)
    return RequiredGpu(
        names=reader.texts(table, "name", "required-gpu.", or_one=True) or (),
        compute_capability=reader.range(table, "compute-capability", "required-gpu."),
        count=reader.whole(table, "count", 1, 1024, "required-gpu.") or 1,
        memory_gib=reader.number(table, "memory-gib", 0.0, "GiB", 0, 1e6, "required-gpu."),
    )


def _python(reader: Reader, table: Mapping[str, Any], by_flag: bool) -> str | None:
    text = reader.text(table, "python")
    return (reader.path(text, by_flag) if os.sep in text else text) if text else None
