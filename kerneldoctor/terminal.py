"""Where a result goes, and how wide and coloured it may be: the one place that touches our own three streams.

It decides nothing about what is said.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys

from .errors import UsageError

NARROWEST, WIDEST = 40, 200  # columns of a page
STDOUT = "-"  # how a person names it as a file
# What a write to a stream that cannot take it fails with; anything else is a bug of ours.
_CANNOT_TAKE = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT, errno.EINVAL})


def prepare() -> None:
    """Make the streams safe to write to: a locale or a shell that closed one must not turn a report into a crash."""
    if sys.stderr is None:  # closed by the shell: 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def width() -> int:
    """Columns of a page."""
    import shutil

    return min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)


def may_color(no_color: bool, output: str | None) -> bool:
    """Whether somebody would see colours and has not asked to be spared them."""
    if no_color or output not in (None, STDOUT) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def deliver(text: str, output: str | None) -> None:
    """To the file that was asked for, whole or not at all, else to stdout. Raises UsageError where that fails."""
    if output is not None and output != STDOUT:
        from .files import write_text

        write_text(output, text)
        return
    if sys.stdout is None:
        raise UsageError("cannot write the result: standard output is closed")
    sys.stdout.write(_writable(text, sys.stdout.encoding or "ascii"))
    sys.stdout.flush()


def _writable(text: str, encoding: str) -> str:
    """JSON spells what the encoding lacks in its own way; the way of Python would be no JSON."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        if text.startswith(("{", "[")):
            import json

            return json.dumps(json.loads(text), indent=2) + "\n"
    return text


def write_error(text: str) -> None:
    """To stderr. Nothing can be done where not even that is possible."""
    from .report.text import printable

    with contextlib.suppress(OSError):
        sys.stderr.write(printable(text))
        sys.stderr.flush()


def is_full(error: OSError) -> bool:
    """Whether an error says that a stream of ours cannot take what is written to it."""
    return error.filename is None and error.errno in _CANNOT_TAKE


def give_up_stdout() -> None:
    """Let nothing be written to stdout any more, so that closing it at exit does not fail once again."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
