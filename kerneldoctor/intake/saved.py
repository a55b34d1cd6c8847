"""Finds our own JSON in a text: a scan's report or environment. A capture is only recognised; a scan must replay it."""

from __future__ import annotations

import json

from ..environment import Environment, Fact, fact_paths
from ..errors import EnvironmentFileError
from .model import Sighting, Source
from .text import SHORT, clean

_SCHEMAS = ('"kerneldoctor.report/', '"kerneldoctor.environment/')
_CAPTURE = '"kerneldoctor.capture/'
_LARGEST = 32 * 1024 * 1024
_TRIES = 8


def find(data: bytes) -> tuple[Environment | None, int, str]:
    """The saved environment, the line where its JSON begins, and the format; (None, 0, "") where there is none."""
    if b"kerneldoctor." not in data:
        return None, 0, ""
    if _CAPTURE.encode() in data:
        return None, data.count(b"\n", 0, data.find(_CAPTURE.encode())) + 1, "kerneldoctor capture"
    for schema in _SCHEMAS:
        at = data.find(schema.encode())
        if at < 0:
            continue
        found = _decode(data, at) or _decode_quoted(data, at, schema)
        if found is not None:
            return found[0], data.count(b"\n", 0, found[1]) + 1, schema.strip('"/').replace(".", " ")
    return None, 0, ""


def without_captures(data: bytes) -> bytes:
    """The text with every capture in it left empty, line for line: it holds the files of a machine, not a report."""
    at = data.find(_CAPTURE.encode())
    while at >= 0:
        start = max(data.rfind(b"{", max(0, at - 4096), at), 0)
        end = _end(data, start)
        kept = _CAPTURE.encode() + b'"' + b"\n" * data.count(b"\n", start, end)
        data = data[:start] + kept + data[end:]
        at = data.find(_CAPTURE.encode(), start + len(kept))
    return data


def _end(data: bytes, start: int) -> int:
    """Where a JSON object ends; of one that was cut, where its fence or the text ends."""
    text = data[start:].decode("utf-8", "surrogateescape")
    try:
        _document, end = json.JSONDecoder().raw_decode(text)
        return start + len(text[:end].encode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        fence = data.find(b"\n```", start)
        return fence if fence >= 0 else len(data)


def _decode(data: bytes, at: int) -> tuple[Environment, int] | None:
    """The JSON object around an offset: one of the braces before it opens it."""
    start = at
    for _ in range(_TRIES):
        start = data.rfind(b"{", max(0, start - 4096), start)
        if start < 0:
            return None
        text = data[start : start + _LARGEST].decode("utf-8", "replace")
        try:
            document, _end = json.JSONDecoder().raw_decode(text)
            return Environment.from_json(document), start
        except (ValueError, EnvironmentFileError, RecursionError):
            continue
    return None


def _decode_quoted(data: bytes, at: int, schema: str) -> tuple[Environment, int] | None:
    """The same behind quotation marks or timestamps, line by line."""
    begin = data.rfind(b"\n", 0, max(0, data.rfind(b"{", max(0, at - 4096), at))) + 1
    lines = data[begin : begin + _LARGEST].decode("utf-8", "replace").split("\n")
    bare = "\n".join(clean(line) for line in lines).encode()
    found = _decode(bare, bare.find(schema.encode()))
    return (found[0], begin) if found is not None else None


def sightings(environment: Environment, line_number: int, kind: str) -> list[Sighting]:
    """Every fact that a saved environment knows, as seen where its JSON begins."""
    found = []
    for path, _ in fact_paths():
        if "*" in path:
            continue
        fact: Fact[object] = environment.fact(path)
        if fact.is_known and not isinstance(fact.value, tuple):
            found.append(Sighting(path, fact.value, line_number, fact.note[:SHORT], kind, Source.SAVED))
    for name, package in environment.packages.items.items():
        if package.version.is_known:
            path = f"packages.{name}.version"
            found.append(
                Sighting(path, package.version.value, line_number, package.version.note[:SHORT], kind, Source.SAVED)
            )
    return found
