"""Looks into the files of a code base for pins; a literal decides first whether a file is worth reading."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ..errors import UsageError
from ..files import read_file
from .json_source import NotJsonError, json_pins, notebook_pins
from .lines import line_pins
from .lock_files import LockFileError, broken_lock, kernels_lock_pins, our_lock_pins, pyproject_pins
from .model import Pin, Search
from .places import Walk
from .python_source import python_pins

SIZE = 2 * 2**20  # bytes of a source file; nobody writes a larger one
NOTEBOOK_SIZE = 32 * 2**20  # their outputs hold pictures
_WORTH = (  # plain needles: ten of these are found sooner than one expression
    b"attn_implementation", b"attn-implementation", b"get_kernel", b"has_kernel", b"install_kernel", b"load_kernel",
    b"get_locked_kernel", b"LayerRepository", b"FuncRepository", b"KernelConfig", b"tool.kernels",
    b"use_flash_attention_2",
)  # fmt: skip
# In Python most files only read config._attn_implementation: parsing them would cost seconds in a large code base.
_WORTH_PARSING = re.compile(
    rb"""attn_implementation\w{0,20}(?:["']\s{0,9}\])?\s{0,99}(?::[^=]{0,200})?=(?!=)"""
    rb"""|attn_implementation\w{0,20}["']\s{0,99}:|set_attn_implementation"""
    rb"|--attn[_-]impl|get_kernel|has_kernel|install_kernel|load_kernel|get_locked_kernel|LayerRepository"
    rb"""|FuncRepository|KernelConfig|use_flash_attention_2["']?\s{0,9}[=:](?!=)"""
)
# How a code base names attention of its own; in transformers itself the second name is indexed in every model.
_REGISTERS = re.compile(
    rb"""(?:AttentionInterface(?:\(\))?|ALL_ATTENTION_FUNCTIONS)(?:\.register\(|\[)\s{0,99}["']([^"'\n]{1,99})["']"""
)
_HUGE, _BINARY = "larger than a source file", "no text"
_CUT = "no notebook (it is cut off)"
Reader = Callable[[str, str], Iterable[Pin]]
_NAMED: dict[str, Reader] = {
    "kernels.lock": kernels_lock_pins,
    "kerneldoctor.lock": our_lock_pins,
    "pyproject.toml": pyproject_pins,
}
_LOCKS = frozenset({"kernels.lock", "kerneldoctor.lock"})
_BY_SUFFIX: dict[str, Reader] = {
    ".py": python_pins, ".pyi": python_pins, ".json": json_pins, ".jsonc": json_pins, ".ipynb": notebook_pins,
}  # fmt: skip


def search(paths: Sequence[str]) -> Search:
    """The pins of all files below some paths. Raises UsageError for a path that is not there."""
    walk = Walk()
    pins: list[Pin] = []
    unread: list[tuple[str, str]] = []
    registered: set[str] = set()
    files = 0
    for file in walk.files(paths):
        try:
            content = _content(file)
        except UsageError as error:
            unread.append((file, str(error)))
            continue
        if isinstance(content, str):
            walk.skipped[content] += 1
            continue
        files += 1
        registered |= _registered(content)
        if _is_worth_reading(file, content):
            found, trouble = read_pins(file, content.decode("utf-8-sig", "replace"))
            pins += found
            unread += [(file, trouble)] if trouble else []
        elif file.endswith(".ipynb") and content.strip() and not content.rstrip().endswith(b"}"):
            unread.append((file, _CUT))
    skipped = {why: count for why, count in walk.skipped.items() if count}
    return Search(tuple(_told(pin, registered) for pin in dict.fromkeys(pins)), files, skipped, tuple(unread))


def _told(pin: Pin, registered: set[str]) -> Pin:
    """A name that is none of transformers may be one that the code gives to attention of its own."""
    own = pin.kind in ("other", "wrong") and pin.value in registered
    return replace(pin, kind="registered", why="") if own else pin


def _registered(content: bytes) -> set[str]:
    if b"AttentionInterface" not in content and b"ALL_ATTENTION_FUNCTIONS" not in content:
        return set()
    return {name.decode("utf-8", "replace") for name in _REGISTERS.findall(content)}


def _is_worth_reading(file: str, content: bytes) -> bool:
    if os.path.basename(file) in _NAMED:
        return True
    return any(needle in content for needle in _WORTH) and (
        not file.endswith((".py", ".pyi")) or _WORTH_PARSING.search(content) is not None
    )


def read_pins(file: str, text: str) -> tuple[list[Pin], str]:
    """The pins of one text by the name of its file, and why it could not be read, or ""."""
    name = os.path.basename(file)
    reader = _NAMED.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1].lower(), line_pins)
    try:
        return list(reader(file, text)), ""
    except SyntaxError as error:
        at = f", line {error.lineno}" if error.lineno else ""
        return [], f"no Python that this interpreter reads ({error.msg}{at})"
    except (NotJsonError, LockFileError) as error:
        return ([broken_lock(file, text, str(error))], "") if name in _LOCKS else ([], str(error))


def _content(file: str) -> bytes | str:
    """The bytes of a file, or why it is passed over. Raises UsageError where it cannot be read."""
    limit = NOTEBOOK_SIZE if file.endswith(".ipynb") else SIZE
    try:
        if os.stat(file).st_size > limit:
            return _HUGE
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    content = read_file(file, "a source file", limit)
    return _BINARY if b"\0" in content[:8192] else content
