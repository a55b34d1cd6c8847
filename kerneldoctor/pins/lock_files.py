"""Finds pins in the files of the kernels library (kernels.lock, pyproject.toml) and in our own kerneldoctor.lock.

The format of kernels.lock is that of `kernels lock` in https://pypi.org/project/kernels/0.17.2/, and of the releases
up to 0.16 (`repo_id`, `sha`); the table is `[tool.kernels.dependencies]` of pyproject.toml, a version by repository.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .lines import line_pins
from .model import Pin, Spot, kernel_pin, not_read, shorten


class LockFileError(ValueError):
    """A file of that name whose content is of another form."""


def broken_lock(file: str, text: str, why: str) -> Pin:
    """What stands for all pins of a lock that is none: what loads by it would fail."""
    lines = text.splitlines()
    return Pin(file, 1, os.path.basename(file), shorten(lines[0][:2000]) if lines else "", "broken", why=why)


def kernels_lock_pins(file: str, text: str) -> Iterator[Pin]:
    """The pins of a kernels.lock. Raises LockFileError."""
    entries = _json(text)
    if not isinstance(entries, list):
        raise LockFileError("it holds no list of locked kernels")
    for entry in entries:
        match entry:
            case {"dependency": {"repo-id": str(repo), **version}, "lock": {"commit": str(commit)}}:
                asked = version.get("version") or version.get("revision")
                yield _commit(_spot(file, text, commit, "kernels.lock"), repo, commit, f"locked for {asked}")
            case {"repo_id": str(repo), "sha": str(commit)}:
                why = "written by kernels 0.16 or older: kernels 0.17 refuses this file"
                yield _commit(_spot(file, text, commit, "kernels.lock"), repo, commit, why)
            case _:
                yield not_read(_spot(file, text, "", "kernels.lock"), f"an entry of an odd form: {str(entry)[:60]}")


def our_lock_pins(file: str, text: str) -> Iterator[Pin]:
    """The pins of a kerneldoctor.lock. Raises LockFileError."""
    from ..errors import UsageError
    from ..lock import read_lock

    try:
        entries = read_lock(file)
    except UsageError as error:
        raise LockFileError(str(error).removeprefix(f"{file}: ")) from None
    for entry in entries:
        spot = _spot(file, text, entry.commit, "kerneldoctor.lock")
        yield _commit(spot, entry.repo, entry.commit, f"locked for {entry.reference}")


def pyproject_pins(file: str, text: str) -> Iterator[Pin]:
    """The pins of a pyproject.toml: its table of kernels, and settings. Raises LockFileError for what is no TOML."""
    try:
        tool = tomllib.loads(text).get("tool", {})
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise LockFileError(f"no TOML: {error}") from None
    kernels = tool.get("kernels") if isinstance(tool, dict) else None
    table = kernels.get("dependencies") if isinstance(kernels, dict) else None
    for repo, version in table.items() if isinstance(table, dict) else ():
        spot = _spot(file, text, repo, "tool.kernels.dependencies")
        if isinstance(version, int) and not isinstance(version, bool):
            yield kernel_pin(spot, repo, f"v{version}")
        else:
            text = f"{str(version)[:40]!r} is no number: kernels since 0.14 takes numbers only"
            yield replace(not_read(spot, text), call="text", reader="kernels", value=str(version)[:40])
    yield from line_pins(file, text)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LockFileError(f"no JSON ({type(error).__name__})") from None


def _commit(spot: Spot, repo: str, commit: str, why: str) -> Pin:
    pin = kernel_pin(spot, repo, commit)
    return pin if pin.kind == "wrong" else replace(pin, why=why)


def _spot(file: str, text: str, what: str, place: str) -> Spot:
    """The first line that holds a text which occurs in the file, as a whole word."""
    found = re.search(rf"(?<![\w.-]){re.escape(what)}(?![\w.-])", text) if what else None
    number = text.count("\n", 0, found.start()) + 1 if found else 1
    lines = text.splitlines()
    return Spot(file, number, place, shorten(lines[number - 1][:2000]) if lines else "")
