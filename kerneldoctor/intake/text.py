"""Bytes of any origin as numbered, cleaned lines. Knows no format, and never holds more than the text and one line.

Every step is linear in the length of the text: patterns here have no nested or adjoining open repeats.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

WINDOW = 4096  # bytes of one line that are looked at together; a longer line is read in windows
OVERLAP = 200  # bytes that a window shows of the next one, so that no short value is cut in two
SHORT = 160  # characters of a line that are kept with a value

_ANSI = re.compile(rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])")
_BARE_COLOUR = re.compile(rb"(?:\^\[|\xe2\x90\x9b|\\x1b|\\033|\\u001b)?\[(?:\d{1,3}(?:;\d{1,3}){0,5})?m")
_ENTITIES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&#39;", b"'"), (b"&nbsp;", b" "), (b"&amp;", b"&"))
_COLOURS = (b"[0m", b"[39m", b"[m")
_STAMP = re.compile(
    r"""\A(?:
      \d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?:\ |\t|$)
    | \d{4}/\d\d/\d\d\ \d\d:\d\d:\d\d[ ]
    | (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ [A-Z][a-z]{2}\ [\d\ ]\d\ [\d:]{8}(?:\ \d{4})?\ ?
    | \[\d{4}-\d\d-\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]\ ?
    | \[\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d{1,6})?(?:\ ?[AP]M)?\]\ ?
    | \d\d:\d\d:\d\d(?:[.,]\d{1,6})?\ | \[\s{0,8}\d{1,9}\.\d{6}\]\ ?
    | \#\d{1,4}\ \d{1,6}\.\d{1,4}\ | \#\d{1,4}\ (?=\S)
    | \[(?:rank|default|worker|node|gpu|RANK)[-_\ ]?\d{1,5}\]:?\ ? | rank\d{1,5}:\ | \[\d{1,5}\]:[ ]
    | \[\d{1,3},\d{1,5}\]<std(?:out|err)>:\ ?
    | \([A-Za-z_]{2,24}(?:\ [A-Za-z0-9_]{1,12})?\ pid=\d{1,9}(?:,\ ip=[\d.]{7,15})?\)\ ?
    | \[(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\]\ ?(?:\[[\w./-]{1,80}:\d{1,6}(?::\w{1,60})?\]\ ?)?
    | (?:INFO|WARNING|ERROR|DEBUG|CRITICAL|INFO|W|E|I)[:\ ]\ ?\d\d-?\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?[ ]
      (?:\d{1,9}\ )?(?:\[?[\w./-]{1,80}:\d{1,6}\]\ ?)?
    )""",
    re.VERBOSE,
)
_STAMP_START = frozenset("0123456789[#(rMTWFSIEDC")
_JOB = re.compile(r"[^\t\n]{1,80}\t[^\t\n]{1,80}\t(?=\ufeff?\d{4}-\d\d-\d\dT)")
_QUOTE = re.compile(r"(?:\s{0,3}>(?!>>) ?){1,8}")
_TAG = re.compile(
    r"</?(?:details|summary|pre|code|b|i|em|strong|p|div|span|td|th|tr|table|tbody|li|ul|ol|sub|sup|kbd|h[1-6])"
    r"(?: [^<>]{0,200})?/?>",
    re.IGNORECASE,
)
_BR = re.compile(r"<br ?/?>|</?(?:tr|li|p)>", re.IGNORECASE)
_ODD = dict.fromkeys([0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD, 0], None) | {
    0xA0: " ",
    0x2007: " ",
    0x202F: " ",
    0x3000: " ",
    0x2028: " ",
    0x2029: " ",
    0x201C: '"',
    0x201D: '"',
    0x2018: "'",
    0x2019: "'",
    0xFF1A: ": ",
    0x2502: "|",
    0x2503: "|",
    0x2551: "|",
    0xFF0C: ", ",
    0x2011: "-",
    0x2010: "-",
    0x2013: "-",
    0x2212: "-",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line (or one window of a long one) without timestamps, quotation marks, colours and tags."""

    number: int
    text: str
    low: str

    @property
    def short(self) -> str:
        """The line as it is kept beside a value."""
        text = " ".join(self.text.split()) if len(self.text) <= WINDOW else self.text[:SHORT]
        return text if len(text) <= SHORT else text[: SHORT - 1] + "…"


def to_bytes(text: str | bytes) -> bytes:
    """UTF-8 with "\\n" as the only line break and without colours, whatever came in. Never raises."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else bytes(text)
    data = _as_utf8(data)
    if b"\r" in data:
        data = _unbreak(data)
    if b"&gt;" in data or b"&quot;" in data or b"&amp;" in data:
        for escaped, plain in _ENTITIES:
            data = data.replace(escaped, plain)
    if b"\x1b" in data:
        data = _ANSI.sub(b"", data)
    if any(colour in data for colour in _COLOURS):
        data = _BARE_COLOUR.sub(b"", data)
    return data


def _as_utf8(data: bytes) -> bytes:
    """PowerShell writes UTF-16; such a text is half NUL bytes."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    head = data[:2000]
    if len(head) > 20 and head[1::2].count(0) > len(head) * 0.4 and head[::2].count(0) == 0:
        return data.decode("utf-16-le", "replace").encode("utf-8", "replace")
    if len(head) > 20 and head[::2].count(0) > len(head) * 0.4 and head[1::2].count(0) == 0:
        return data.decode("utf-16-be", "replace").encode("utf-8", "replace")
    return data.removeprefix(codecs.BOM_UTF8)


def _unbreak(data: bytes) -> bytes:
    """Windows line ends become "\\n"; a lone carriage return (a progress bar) stays, `Source` cuts there."""
    return data.replace(b"\r\n", b"\n")


def clean(text: str) -> str:
    """One line without what quoting, logging and markup put around it."""
    if not text.isascii():
        text = text.translate(_ODD)
    elif "\0" in text:
        text = text.replace("\0", "")
    if "\t" in text:
        text = _JOB.sub("", text, count=1)
    for _ in range(5):
        before = len(text)
        text = text.lstrip("\ufeff")
        if text.lstrip(" ")[:1] == ">" and not text.lstrip(" ").startswith(">>>"):
            text = _QUOTE.sub("", text, count=1)
        if text[:1] in _STAMP_START:
            text = _STAMP.sub("", text, count=1)
        if len(text) == before:
            break
    if "<" in text and ">" in text:
        text = _TAG.sub("", text)
    return text.rstrip()


class Text:
    """A text by byte offsets: windows of lines, and the number of the line at an offset (asked in rising order)."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self._at, self._number = 0, 1

    def number(self, offset: int) -> int:
        """The line number of an offset. Cheap when offsets rise."""
        if offset < self._at:
            self._number -= self.data.count(b"\n", offset, self._at)
        else:
            self._number += self.data.count(b"\n", self._at, offset)
        self._at = offset
        return self._number

    def start(self, offset: int, floor: int) -> int:
        """Where to begin reading for what is at `offset`: its line, in a long one a bit before; not below `floor`."""
        low = max(floor, offset - WINDOW)
        begin = max(self.data.rfind(b"\n", low, offset), self.data.rfind(b"\r", low, offset))
        if begin >= 0:
            return begin + 1
        return floor if low == floor else offset - OVERLAP

    def end(self, start: int) -> int:
        """Where the window that begins at `start` ends: a line break, or the length of a window later."""
        limit = min(self.size, start + WINDOW)
        found = self.data.find(b"\n", start, limit)
        carriage = self.data.find(b"\r", start, limit if found < 0 else found)
        if carriage >= 0:
            return carriage
        return found if found >= 0 else limit

    def after(self, end: int) -> int:
        """Where the next window begins."""
        return end + 1 if end < self.size and self.data[end] in b"\n\r" else end

    def lines(self, start: int, end: int) -> Iterator[Line]:
        """The window as one line; as several where it holds written-out line breaks (`\\n`, `<br>`)."""
        stop = end if end >= self.size or self.data[end] in b"\n\r" else min(self.size, end + OVERLAP)
        raw = self.data[start:stop].decode("utf-8", "replace")
        number = self.number(start)
        if "\\n" in raw and raw.count("\\n") >= 3:
            parts = raw.replace("\\r\\n", "\\n").split("\\n")
        elif "<" in raw and _BR.search(raw):
            parts = _BR.split(raw)
        else:
            parts = [raw]
        for part in parts:
            text = clean(part)
            yield Line(number, text, text.lower())

    def raw(self, start: int, end: int) -> str:
        """The window as it was pasted, for quoting."""
        return self.data[start:end].decode("utf-8", "replace")
