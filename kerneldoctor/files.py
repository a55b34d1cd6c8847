"""Reads and writes files that a user names, which may be anything: a pipe that nobody fills, a device without end.

Every reading ends, and trouble is one clear line. Nothing here knows what a file says.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

from .errors import UsageError

LIMIT = 64 * 1024 * 1024  # bytes; a whole report has well below one MiB
# Handles that the caller opened for us, such as bash's <(command): these may be pipes.
_HANDLES = r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+"
_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a named pipe"), (stat.S_ISSOCK, "a socket"))


def read_file(path: str, what: str, limit: int = LIMIT) -> bytes:
    """All bytes of a regular file, "-" for standard input. `what` is what the caller expects it to be.

    Raises UsageError for a file that is not there, no regular one, or larger than `limit` bytes.
    """
    try:
        source = 0 if path == "-" else path
        if isinstance(source, str) and not re.fullmatch(_HANDLES, source):
            _check_kind(path, os.stat(source))
        with open(source, "rb", closefd=source != 0) as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > limit:
        path = "standard input" if path == "-" else path
        raise UsageError(f"{path}: larger than {limit / 2**20:.3g} MiB, this is not {what}")
    return content


def _check_kind(path: str, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = next((name for test, name in _KINDS if test(info.st_mode)), "a device")
        raise UsageError(f"cannot read {path}: it is {kind}, no regular file")


def read_json(path: str, what: str) -> Any:
    """The JSON value in a file, "-" for standard input. Raises UsageError, also for what is no JSON."""
    import json

    content = read_file(path, what)
    try:
        return json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{error.lineno}: not JSON ({error.msg}); is the file cut off?") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a JSON text in UTF-8") from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deep, this is not {what}") from None
    except ValueError as error:  # a number of more digits than Python reads
        raise UsageError(f"{path}: not usable ({error})") from None


def write_text(path: str, text: str) -> None:
    """Write a file the user named, whole or not at all. Raises UsageError where it cannot be written."""
    # A name that is no Unicode (half a surrogate pair) is spelt out, which JSON reads as the same name again.
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str, content: bytes) -> None:
    """The same for what is no text."""
    try:
        target = Path(path).resolve()
        if target.exists() and not target.is_file():  # a device or pipe such as /dev/stderr
            target.write_bytes(content)
            return
        scratch = target.with_name(f".{target.name}.part")
        try:
            scratch.write_bytes(content)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
    except (OSError, RuntimeError, ValueError) as error:  # the last two: links in a circle, a path that is none
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def append_text(path: str, text: str) -> None:
    """Add to a file the user named. Raises UsageError where it cannot be written."""
    try:
        with open(path, "ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def size_of(path: str) -> int:
    """Bytes of a file, 0 where there is none."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0
