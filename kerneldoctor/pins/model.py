"""What a search of a code base finds: pins with their places, and what was passed over. Values, and what a name is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from ..errors import UsageError
from ..hub.reference import Kind, Reference, is_misspelt, parse_reference
from ..values import dataclass

PinKind = Literal[
    "commit", "version", "branch", "unpinned", "locked", "name", "builtin", "registered", "other", "not_read", "wrong",
    "broken",
]  # fmt: skip
# Who reads it: transformers chooses a version where none is named, and get_kernel none.
Reader = Literal["transformers", "kernels"]
# Of trust_remote_code or allow_all_kernels in the call itself; "unknown" where the call is elsewhere, or computes it.
Trust = Literal["given", "withheld", "unknown"]
# What a release of kernels may refuse in a call: its revision without a name, both revision and version, a version
# that is text.
Call = Literal["", "positional", "both", "text"]
TEXT = 160  # characters of a source line that are kept
_NOTHING = frozenset({"", "none", "null", "~", "auto", "true", "false"})


@dataclass(frozen=True, slots=True)
class Pin:
    """One place that asks for an implementation of attention or for a kernel."""

    file: str
    line: int  # from 1
    place: str  # "attn_implementation", "get_kernel", "kernels.lock", …
    text: str  # the line as it stands, shortened
    kind: PinKind
    reference: str = ""  # as kerneldoctor reads it, "kernels-community/flash-attn2@v3"; "" where it was not read
    why: str = ""  # what is to be said of one that is not read, wrong, or of a commit's version
    value: str = ""  # as it was typed, where it is no reference
    reader: Reader = "transformers"
    trust: Trust = "unknown"
    call: Call = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in a file something was seen."""

    file: str
    line: int
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """What came of a search."""

    pins: tuple[Pin, ...]  # by file and line
    files: int  # that were looked into
    skipped: Mapping[str, int] = field(default_factory=dict)  # why, and how many files or folders
    unread: tuple[tuple[str, str], ...] = ()  # file, why


def shorten(text: str) -> str:
    """A source line as it is shown."""
    text = " ".join(text[: 8 * TEXT].split())  # a line of a whole file is no reason to read it for each pin in it
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def attention_pin(spot: Spot, value: str) -> Pin | None:
    """The pin in a value of attn_implementation; None for a value that asks for nothing."""
    text = value.strip()
    if text.lower() in _NOTHING:
        return None
    if re.search(r"[$%]\{|\$[A-Za-z_(]|\{\{|^[*&!]|<[a-z_ -]+>", text):
        return not_read(spot, "a variable stands there")
    try:
        return _pin(spot, parse_reference(text))
    except UsageError as error:
        wrong = "/" in text or is_misspelt(text)
        why = str(error) if wrong else "no name that transformers knows, nor one that the code here registers"
        return Pin(spot.file, spot.line, spot.place, spot.text, "wrong" if wrong else "other", why=why, value=text)


def kernel_pin(spot: Spot, repo: str, revision: str = "") -> Pin:
    """The pin of a repository and a revision that stand apart, as in get_kernel."""
    text = f"{repo}@{revision}" if revision else repo
    try:
        return replace(_pin(spot, parse_reference(text)), reader="kernels")
    except UsageError as error:
        return Pin(spot.file, spot.line, spot.place, spot.text, "wrong", why=str(error), value=text, reader="kernels")


def not_read(spot: Spot, why: str) -> Pin:
    """A place whose value only the running program knows."""
    return Pin(spot.file, spot.line, spot.place, spot.text, "not_read", why=why)


def _pin(spot: Spot, reference: Reference) -> Pin:
    return Pin(spot.file, spot.line, spot.place, spot.text, _kind(reference), str(reference))


def _kind(reference: Reference) -> PinKind:
    if reference.kind is Kind.BUILTIN:
        return "builtin"
    if reference.kind is Kind.FLASH_ATTENTION:
        return "name"
    if reference.is_pinned:
        return "commit"
    if reference.version is not None:
        return "version"
    return "branch" if reference.revision else "unpinned"
