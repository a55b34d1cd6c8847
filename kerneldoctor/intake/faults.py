"""Finds tracebacks and lines that look like errors and cuts them out with their surroundings. Explains none."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from .model import Block
from .notebook import Notebook
from .scan import Recogniser
from .text import WINDOW, Line, Text, clean

BEFORE, AFTER = 4, 8  # lines of surroundings
TRACEBACK = 150  # lines that a traceback may be long
KEEP = 300  # different error lines kept from the start of a text, and as many from its end
STRONG = 600  # different exceptions and loader errors kept from anywhere
MAX_TEXT = 512 * 1024  # characters of all blocks together
SMALL = 128 * 1024  # bytes of a text whose repeated lines are kept

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_STRONG = re.compile(
    r"^\W{0,12}(?:[\w.]{0,80}(?:Error|Exception|Unsupported|Fatal|Interrupt|Exit)\b|Traceback \(|fatal|ptxas"
    r"|terminate called|Segmentation|CUDA error|Killed|Aborted)"
    r"|undefined symbol|cannot open shared object|no kernel image|build variant|not found \(required by"
    r"|DLL load failed|aten::|flash_?attn|kernels"
)


class Hot:
    """Offsets of lines that look like errors: all different ones of a short text, the first and last of a long one."""

    def __init__(self, size: int) -> None:
        self.dropped = False
        self._small = size <= SMALL
        self._first: list[int] = []
        self._last: deque[int] = deque(maxlen=KEEP)
        self._strong: list[int] = []
        self._seen: set[int] = set()

    def read(self, line: Line, notebook: Notebook) -> bool:
        """Note a line that holds a cue."""
        if line.low.lstrip().startswith(("vulnerability ", "flags:")):  # lscpu, in every collect_env
            return False
        if not self._small and not self._new(line.text):
            return False
        if self._small or len(self._first) < KEEP:
            self._first.append(notebook.offset)
        elif len(self._strong) < STRONG and _STRONG.search(line.text[:400]):
            self._strong.append(notebook.offset)
        else:
            self.dropped |= len(self._last) == KEEP
            self._last.append(notebook.offset)
        return False

    def _new(self, text: str) -> bool:
        key = hash(_NUMBERS.sub("0", text[:200]))
        if key in self._seen:
            return False
        if len(self._seen) < 200_000:
            self._seen.add(key)
        return True

    def offsets(self) -> list[int]:
        """In the order of the text."""
        return sorted({*self._first, *self._strong, *self._last})


def recogniser(hot: Hot) -> Recogniser:
    """A recogniser that fills `hot`."""
    return Recogniser("faults", CUES, hot.read, always=True)


def blocks(text: Text, hot: Hot) -> tuple[tuple[Block, ...], bool]:
    """The blocks around the hot lines, and whether some had to be left out."""
    found: list[Block] = []
    size = 0
    for start, end in _ranges(text, hot.offsets()):
        block = _block(text, start, end)
        size += len(block.text)
        if size > MAX_TEXT:
            return tuple(found), True
        found.append(block)
    return tuple(found), hot.dropped


def _ranges(text: Text, offsets: list[int]) -> Iterator[tuple[int, int]]:
    """Byte ranges of whole lines, in order, joined where they meet."""
    current: tuple[int, int] | None = None
    for offset in offsets:
        start, end = _back(text, offset, BEFORE), _forward(text, offset)
        if current is not None and start <= current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current


def _back(text: Text, offset: int, lines: int) -> int:
    start = offset
    for _ in range(lines):
        if start == 0:
            return 0
        before = text.data.rfind(b"\n", max(0, start - 1 - WINDOW), start - 1)
        if before < 0:
            return 0 if start - 1 <= WINDOW else start
        start = before + 1
    return start


def _forward(text: Text, offset: int) -> int:
    """The end of the surroundings; a traceback is followed to the line that names the exception."""
    end, left, following = offset, AFTER, TRACEBACK
    inside = b"traceback (most recent" in text.data[offset : offset + 200].lower()
    while (left > 0 or inside) and end < text.size and end - offset < 64 * WINDOW:
        line_end = text.end(end)
        if inside:
            words = clean(text.data[end : min(line_end, end + 300)].decode("utf-8", "replace"))
            following -= 1
            inside = following > 0 and (not words or words[0] in " \t" or words.startswith(("Traceback", "File ")))
        else:
            left -= 1
        end = text.after(line_end)
    return min(end, text.size)


def _block(text: Text, start: int, end: int) -> Block:
    number = text.number(start)
    lines: list[str] = []
    position = start
    while position < end:
        line_end = min(text.end(position), end)
        lines.append(" ⏎ ".join(line.text for line in text.lines(position, line_end)))
        position = text.after(line_end) if line_end > position or line_end < text.size else end
        if position == line_end and position < end and text.data[position - 1 : position] not in (b"\n", b"\r"):
            lines[-1] = lines[-1][:WINDOW]
    return Block(number, "\n".join(lines))


CUES = (
    "error", "exception", "traceback", "fail", "fatal", "cannot", "can't", "can not", "could not", "couldn't",
    "unable", "undefined", "not found", "no module", "no kernel image", "support", "compatib", "mismatch",
    "not available", "unavailable", "does not", "do not have", "doesn't", "did not", "not installed", "missing",
    "invalid", "illegal", "abort", "segmentation", "core dumped", "killed", "timed out", "timeout", " hang", " nan",
    "warn", "refus", "denied", "too old", "too new", "requires", "required", "please install", "reject",
    "supported wheel", "xid", "signal", "corrupt", "garbage", "wrong", "rate limit", "429", "offline mode",
    "fall back", "falling back", "fallback", "trusted", "no matching", "build variant", "maximum", "minimum",
    "greater than", "must be", "must have", "expected", "unexpected", "deprecated", "unknown", "not defined",
    "no attribute", "not callable", "got multiple", "aten::", "ptxas", "nvlink", "collect2", "command not",
    "unsupported", "unrecognized", "not initialized", "not yet initialized", "library `kernels`",
    "from the `kernels`", "you are using version", "you are attempting", "file \"", ", line ", ", in ", "raise ",
    "declares archs", "no devices", "nothing to", "request_free_mem", "never", "stuck", "guessing wheel url",
    "nvcc was", "all zeros", "differs", "different", "not match", "not contiguous", "overflow", "exit code",
    "exited",
)  # fmt: skip
