"""Finds pins in texts that are read line by line: YAML, TOML and INI settings, and options in shell commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .model import Pin, Spot, attention_pin, not_read, shorten

# In a command, in a list of words, and in a list with one word a line (see _WORD).
FLAG = re.compile(
    r"""(--attn[_-]implementation)(?:\s*=\s*|\s+|["']\s*,\s*)(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"'\\;|&,\]]+))"""
)
_BELOW = 50  # lines of a nested value
_WORD = re.compile(r"""\s*-\s+["']?(--attn[_-]implementation)["']?\s*""")
_NEXT_WORD = re.compile(r"""\s*-\s+["']?([^"'#]+?)["']?\s*(?:#.*)?""")
_SETTING = re.compile(r"""\s*(?:-\s+)?["']?_?attn[_-]implementation["']?\s*([:=])\s*(.*)""")
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_NESTED = re.compile(r"""\s*["']?[\w.-]+["']?\s*:\s*["']?([^\s"'#{},\[\]]+)["']?\s*(?:#.*)?""")
_INLINE = re.compile(r"""[:=]\s*(?:"([^"]*)"|'([^']*)'|([^\s,}"'{]+))""")


def line_pins(file: str, text: str, first: int = 1) -> Iterator[Pin]:
    """The pins of a text whose first line has the number `first`. Comment lines are passed over."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if "ttn" not in line or line.lstrip().startswith(("#", "//", ";")):
            continue
        spot = Spot(file, first + index, "attn_implementation", shorten(line))
        found = _SETTING.match(line)
        if found:
            yield from _setting(spot, found[2], lines[index + 1 : index + 1 + _BELOW] if found[1] == ":" else [], line)
        elif (word := _WORD.fullmatch(line)) and index + 1 < len(lines):
            value = _NEXT_WORD.fullmatch(lines[index + 1])
            pin = attention_pin(replace(spot, place=word[1]), value[1]) if value else None
            if pin is not None:
                yield pin
        else:
            yield from flag_pins(spot, line)


def flag_pins(spot: Spot, text: str) -> Iterator[Pin]:
    """The pins of options in a command."""
    for found in FLAG.finditer(text):
        value = next((part for part in found.groups()[1:] if part is not None), "")
        pin = None if value.startswith("-") else attention_pin(replace(spot, place=found[1]), value)
        if pin is not None:
            yield pin


def _setting(spot: Spot, rest: str, following: list[str], line: str) -> Iterator[Pin]:
    if not rest or rest.startswith("#"):
        yield from _nested(spot, following, len(line) - len(line.lstrip()))
        return
    if rest.startswith("{") and not rest.startswith("{{"):  # a value for each part of a model
        values = [next((part for part in found.groups() if part is not None), "") for found in _INLINE.finditer(rest)]
    else:
        quoted = _QUOTED.match(rest)
        values = [quoted[2] if quoted else re.split(r"\s+#", rest)[0].strip().rstrip(",")]
    for value in values:
        pin = attention_pin(spot, value)
        if pin is not None:
            yield pin


def _nested(spot: Spot, following: list[str], indent: int) -> Iterator[Pin]:
    """The lines below a key without a value, as long as they are indented more than it."""
    for number, line in enumerate(following, spot.line + 1):
        if not line.strip():
            continue
        if len(line) - len(line.lstrip()) <= indent:
            return
        found = _NESTED.fullmatch(line)
        here = replace(spot, line=number, text=shorten(line))
        pin = attention_pin(here, found[1]) if found else not_read(here, "a nested value")
        if pin is not None:
            yield pin
