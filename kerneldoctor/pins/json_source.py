"""Finds pins in JSON: settings anywhere in a document, and the code cells of notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .lines import flag_pins, line_pins
from .model import Pin, Spot, attention_pin, not_read, shorten
from .python_source import python_pins

_KEY = re.compile(r'"_?attn[_-]implementation(?:_internal)?"\s*:\s*')
_MAGIC = re.compile(r"\s*[%!]")
_NEAR = 400  # characters around a place in a line without end
_MISSES = 50  # values and lines that are none of what they should be: after these, nobody looks any more
_DEPTH = 4  # of the parts of a model below one key


class NotJsonError(ValueError):
    """A text that is no JSON of the form that was expected."""


def json_pins(file: str, text: str) -> Iterator[Pin]:
    """The pins of a JSON document. It is not parsed as a whole, so one with comments is read as well."""
    decoder = json.JSONDecoder()
    number, counted, broken = 1, 0, 0
    for found in _KEY.finditer(text):
        number += text.count("\n", counted, found.start())
        counted = found.start()
        spot = Spot(file, number, "attn_implementation", _line(text, counted))
        try:
            value, _ = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            yield not_read(spot, "the value is no JSON")
            broken += 1
            if broken > _MISSES:  # nested without end: each attempt costs as much as all that is left
                return
            continue
        yield from _values(spot, value, _DEPTH)
    for number, line in enumerate(text.splitlines(), 1):
        yield from flag_pins(Spot(file, number, "", shorten(line[:2000])), line)


def notebook_pins(file: str, text: str) -> Iterator[Pin]:
    """The pins of a notebook's code cells. Raises NotJsonError; a cell that is no Python is read line by line."""
    try:
        document = json.loads(text)
        cells = document["cells"] if isinstance(document, dict) else None
    except (ValueError, KeyError, RecursionError) as error:
        raise NotJsonError(f"no notebook ({type(error).__name__})") from None
    if not isinstance(cells, list):
        raise NotJsonError("no notebook (it has no list of cells)")
    places = _Places(text)
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            lines = _source(cell.get("source"))
            at = [places.next(line) for line in lines]
            for pin in _cell(file, "".join(lines)):
                line = at[min(pin.line, len(at)) - 1]
                yield replace(pin, line=line, place=f"{pin.place}, cell {number}")


def _cell(file: str, source: str) -> list[Pin]:
    lines = source.splitlines()
    if lines and lines[0].startswith("%%"):
        return list(line_pins(file, source))
    commands = "\n".join(line if _MAGIC.match(line) else "" for line in lines)
    plain = "\n".join(re.sub(r"[%!].*", "pass", line) if _MAGIC.match(line) else line for line in lines)
    try:
        found = python_pins(file, plain)
    except SyntaxError:
        return list(line_pins(file, source))
    return sorted([*found, *line_pins(file, commands)], key=lambda pin: pin.line)


class _Places:
    """Finds the lines of a file that hold the lines of cells: one JSON text each, in order."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._line, self._misses = text, 0, 1, 0

    def next(self, line: str) -> int:
        """The number of the file's line for the next line of code."""
        if self._misses > _MISSES:
            return self._line
        for spelt in (json.dumps(line, ensure_ascii=False), json.dumps(line)):
            found = self._text.find(spelt[1:-1], self._at)
            if found >= 0:
                self._line += self._text.count("\n", self._at, found)
                self._at = found
                return self._line
        self._misses += 1
        return self._line


def _source(source: Any) -> list[str]:
    """The lines of a cell, each with its end."""
    parts = source if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str)).splitlines(keepends=True)


def _values(spot: Spot, value: Any, depth: int) -> Iterator[Pin]:
    if isinstance(value, dict) and depth:
        for inner in value.values():
            yield from _values(spot, inner, depth - 1)
    elif isinstance(value, str):
        pin = attention_pin(spot, value)
        if pin is not None:
            yield pin
    elif isinstance(value, (list, dict)):
        yield not_read(spot, "a value of an odd form")


def _line(text: str, at: int) -> str:
    """The line around a place; of a long one what stands near."""
    start = max(text.rfind("\n", max(0, at - _NEAR), at) + 1, at - _NEAR, 0)
    end = text.find("\n", at, at + _NEAR)
    return shorten(text[start : end if end >= 0 else at + _NEAR])
