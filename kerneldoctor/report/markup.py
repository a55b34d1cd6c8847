"""Pieces of Markdown that hold any text: what a machine says can neither break out of its place nor call anybody.

Knows nothing of what is said.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from .text import code_spans, printable

_ZERO = "\N{ZERO WIDTH SPACE}"
# @user, #123, GH-123. In owner/name@v3 nobody is called, and the reference must stay fit to be copied.
_CALLS = re.compile(r"(?<![A-Za-z0-9_])@|#(?=\d)|\bGH-(?=\d)", re.IGNORECASE)


def inline(text: str) -> str:
    """Text that Markdown shows as it is, and that calls nobody: no mention, no reference to an issue."""
    return _shown(" ".join(printable(text).split()))


def _shown(text: str) -> str:
    shown = re.sub(r"([\\`*_<>\[\]|~$&])", r"\\\1", text)
    return _quiet(re.sub(r"^(\d*)([.)](?=\s|$)|(?<!\d)[#+=-])", r"\1\\\2", shown))  # opens a heading or a list


def prose(text: str) -> str:
    """The same for our own sentences, in which `code` is code."""
    parts = code_spans(" ".join(printable(text).split()))
    return "".join(code(part) if number % 2 else _shown(part) for number, part in enumerate(parts))


def _quiet(text: str) -> str:
    """GitHub looks for mentions after the Markdown is read, so a backslash before them would not help."""
    return _CALLS.sub(lambda match: match[0] + _ZERO, text)


def code(text: str) -> str:
    """A code span, whatever the text holds."""
    text = " ".join(printable(text).split()) or " "
    ticks = "`" * (max(map(len, re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced(text: str, language: str = "") -> str:
    """A block of code, whatever the text holds."""
    ticks = "`" * max(3, max(map(len, re.findall(r"`+", text)), default=0) + 1)
    return f"{ticks}{language}\n{printable(text)}\n{ticks}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of our own sentences. In a table a bar ends the cell even within code, unless it is escaped."""
    titles = [inline(cell) or " " for cell in head]
    lines = [titles, ["---"] * len(titles), *([_cell(cell) or " " for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", prose(text))


def folding(title: str, body: str) -> str:
    """A part that is shown when it is asked for."""
    return f"<details>\n<summary>{escaped(title)}</summary>\n\n{body}\n\n</details>"


def escaped(text: str) -> str:
    """Text between HTML tags, where Markdown is not read."""
    return _quiet(html.escape(" ".join(printable(text).split())))
