"""One pass over a text: finds the lines that hold a cue, and shows each to the recognisers whose cue it holds.

A line without any cue costs a share of a substring search and nothing else. A recogniser may ask for the lines that
follow (`Notebook.block`), which then come one by one. Nothing here knows what a line means.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .notebook import Notebook
from .text import WINDOW, Line, Text

CHUNK = 1 << 20  # bytes whose cues are searched for at a time
LONG = 256 * 1024  # bytes from which repeated lines are passed over
MAX_TEMPLATES = 500_000
IDLE = 12_000  # lines of one megabyte that told nothing, after which only faults are looked for; a log has fewer
WORK = 2_500_000  # characters of one megabyte, once for each of their readers, after which the same holds
LINE = 120  # characters that the showing of a line weighs as much as
LOOKS = 3  # times that a line which told something is looked at again without telling anything
_CUE_LIMIT = 40  # bytes; no cue is longer, so that none is lost between two chunks


@dataclass(frozen=True, slots=True)
class Recogniser:
    """A reader of single lines. `cues` are lower-case; a line without any of them is not shown to it."""

    name: str
    cues: tuple[str, ...]
    read: Callable[[Line, Notebook], bool]  # whether the line was one of its own
    exclusive: bool = False  # no other recogniser reads a line of its own
    always: bool = False  # also reads the lines of a text that has far too many of them


def scan(text: Text, recognisers: Iterable[Recogniser], notebook: Notebook) -> None:
    """Show every line that holds a cue to the recognisers that look for it, in their order."""
    readers = tuple(recognisers)
    hits = _Hits(text.data, readers)
    known = _Templates() if text.size > LONG else None
    always = sum(1 << number for number, reader in enumerate(readers) if reader.always)
    position = 0
    while position < text.size:
        if notebook.block is None:
            offset = hits.next(position)
            if offset is None:
                return
            position = text.start(offset, position)
        end = text.end(position)
        mask = hits.mask(position, end)
        if known is not None and known.idle(position):
            mask &= always
            notebook.truncated = True
        if known is None or notebook.block is not None or known.worth(text.data[position:end]):
            notebook.offset = position
            before = notebook.attempts
            lines = tuple(text.lines(position, end))
            for line in lines:
                if known is None or len(lines) == 1 or known.worth(line.text.encode()):
                    _show(line, mask, readers, notebook)
                    if known is not None:
                        known.cost(len(line.text), mask)
                        known.shown(notebook.attempts > before or notebook.block is not None)
                        before = notebook.attempts
        position = text.after(end) if end > position or end >= text.size else end + 1


class _Templates:
    """Lines of a long text that differ only in digits: once they told nothing new, the rest of them is passed over.

    A log repeats itself by the hundred thousand; a line whose words were not there before is always read.
    """

    def __init__(self) -> None:
        self._left: dict[int, int] = {}  # looks left, by template
        self._last = 0
        self._chunk, self._idle, self._work = 0, 0, 0

    def idle(self, position: int) -> bool:
        """Whether the megabyte at hand has cost enough: different lines that told nothing, or work in all."""
        if position // CHUNK != self._chunk:
            self._chunk, self._idle, self._work = position // CHUNK, 0, 0
        return self._idle > IDLE or self._work > WORK

    def cost(self, length: int, mask: int) -> None:
        """A line of that length is shown to the readers in the mask."""
        self._work += (length + LINE) * mask.bit_count()

    def worth(self, line: bytes) -> bool:
        """Whether a line should be shown."""
        key = hash(line.translate(None, b"0123456789"))
        left = self._left.get(key)
        if left is None and len(self._left) < MAX_TEMPLATES:
            self._left[key] = 1
        self._last = key
        return left != 0

    def shown(self, told: bool) -> None:
        """Whether the line that was shown last told something."""
        self._idle += not told
        if self._last in self._left:
            self._left[self._last] = LOOKS if told else self._left[self._last] - 1


def _show(line: Line, mask: int, readers: tuple[Recogniser, ...], notebook: Notebook) -> None:
    block = notebook.block
    if block is not None:
        if block(line, notebook):
            return
        if notebook.block is block:
            notebook.block = None
    if not mask:
        return
    for number, reader in enumerate(readers):
        if mask >> number & 1 and reader.read(line, notebook) and reader.exclusive:
            return


@functools.lru_cache(maxsize=8)
def _compiled(cues: tuple[tuple[str, ...], ...]) -> tuple[tuple[bytes, int, tuple[bytes, ...]], ...]:
    """Each cue once, with the recognisers that want it and the words that must be there for it to be there."""
    masks: dict[bytes, int] = {}
    for number, wanted in enumerate(cues):
        for cue in wanted:
            masks[cue.encode()] = masks.get(cue.encode(), 0) | 1 << number
    return tuple((cue, mask, tuple(_WORD.findall(cue))) for cue, mask in masks.items())


_WORD = re.compile(rb"[a-z]{2,}")


class _Hits:
    """Offsets of cues in rising order, chunk by chunk, each with the recognisers that asked for the cue."""

    def __init__(self, data: bytes, readers: tuple[Recogniser, ...]) -> None:
        self._cues = _compiled(tuple(reader.cues for reader in readers))
        self._data = data
        self._found: list[tuple[int, int]] = []
        self._at = 0
        self._searched = 0

    def next(self, position: int) -> int | None:
        """The first cue at or after a position."""
        while True:
            while self._at < len(self._found):
                if self._found[self._at][0] >= position:
                    return self._found[self._at][0]
                self._at += 1
            if not self._search():
                return None

    def mask(self, start: int, end: int) -> int:
        """The recognisers whose cue begins in a range; ranges are asked for in rising order."""
        while self._searched < end and self._search():
            pass
        while self._at < len(self._found) and self._found[self._at][0] < start:
            self._at += 1
        mask, at = 0, self._at
        while at < len(self._found) and self._found[at][0] < end:
            mask |= self._found[at][1]
            at += 1
        self._at = at
        return mask

    def _search(self) -> bool:
        if self._searched >= len(self._data):
            return False
        start, stop = self._searched, min(len(self._data), self._searched + CHUNK)
        chunk = self._data[start : stop + _CUE_LIMIT].lower()
        words = b" ".join(set(_WORD.findall(chunk)))
        present = [(cue, mask) for cue, mask, parts in self._cues if all(part in words for part in parts)]
        found = sorted((start + offset, mask) for cue, mask in present for offset in _offsets(chunk, cue, stop - start))
        self._found = self._found[self._at :] + found
        self._at, self._searched = 0, stop
        return True


def _offsets(chunk: bytes, cue: bytes, stop: int) -> Iterator[int]:
    """Where a cue begins before `stop`: once a line, and once in every 256 bytes of a long line."""
    offset = chunk.find(cue)
    while 0 <= offset < stop:
        yield offset
        limit = offset + WINDOW // 16
        line_end = chunk.find(b"\n", offset, limit)
        offset = chunk.find(cue, limit if line_end < 0 else line_end)
