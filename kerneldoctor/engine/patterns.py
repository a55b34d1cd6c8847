"""Patterns of symptoms, taken apart so that searching for many of them in a long text stays cheap and linear.

A pattern is a regular expression that may be cut by gaps (`[\\s\\S]{0,4000}`): its pieces are searched for by
themselves and then joined by distance, which a regular expression would do in quadratic time on hostile text. Of each
piece the letters that a match must contain are known, so that most patterns are ruled out by a substring search.
What a pattern means is not known here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ..values import dataclass

_GAP = re.compile(r"\[\\s\\S\]\{0,(\d{1,4})\}")
_WIDE = (".", "\\S", "\\D", "\\W")  # what a run without a bound may not be made of
_MOST_STEPS = 50_000
SHORTEST = 3  # letters that a piece must hold in a row, so that it can be looked for


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pattern without gaps."""

    source: str
    letters: frozenset[str]  # a match holds at least one of these, lower-case and without white space; empty: unknown

    @property
    def weight(self) -> int:
        """How many letters in a row a match is sure to contain."""
        return min(map(len, self.letters), default=0)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Pieces in order, and how far apart two neighbours may be (characters)."""

    pieces: tuple[Piece, ...]
    gaps: tuple[int, ...]

    @property
    def weight(self) -> int:
        """How specific it is: the letters that a match is sure to contain."""
        return sum(piece.weight for piece in self.pieces)

    def may_match(self, squeezed: str) -> bool:
        """Whether a text can hold it at all; the text comes from `squeeze`."""
        return all(not piece.letters or any(letters in squeezed for letters in piece.letters) for piece in self.pieces)

    def find(self, text: str, limit: int = 500) -> tuple[int, int] | None:
        """Where the first match begins and ends. Of every piece the first `limit` places are tried."""
        chains: list[tuple[int, int]] = []  # where a match of the pieces so far begins and ends
        for number, piece in enumerate(self.pieces):
            spans = _spans(piece.source, text, limit)
            chains = _join(chains, spans, self.gaps[number - 1]) if number else spans
            if not chains:
                return None
        return chains[0]

    def groups(self, text: str, start: int) -> dict[str, str]:
        """The named groups of the match that begins at `start`."""
        told: dict[str, str] = {}
        for piece in self.pieces:
            found = _compiled(piece.source).search(text, start)
            if found is not None:
                told |= {name: value for name, value in found.groupdict().items() if value is not None}
                start = found.end()
        return told


@functools.lru_cache(maxsize=4096)
def parse(match: str) -> Pattern:
    """Take a pattern apart."""
    sources, gaps = split(match)
    return Pattern(tuple(Piece(source, _letters(source)) for source in sources), gaps)


def split(match: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The pieces of a pattern and the widths of the gaps between them."""
    parts = _GAP.split(match)
    return tuple(parts[::2]), tuple(map(int, parts[1::2]))


def complaint(match: str) -> str:
    """Why a pattern cannot be searched for in long texts, or ""."""
    sources, _ = split(match)
    for source in sources:
        try:
            re.compile(source)
        except re.error as error:
            return f"a gap stands inside a group, or the piece {source!r} is broken: {error}"
        if not _letters(source):
            return f"no {SHORTEST} letters in a row that every match contains: {source!r}"
        for token, following in _pairs(source):
            wide = token in _WIDE or token.startswith("[^") or (token.startswith("[") and len(token) > 6)
            if wide and (following in ("*", "+") or re.fullmatch(r"\{\d*,\}", following)):
                return f"{token + following!r} has no bound: write {{0,200}} or less"
        for branch in _branches(source):
            if _steps(branch) > _MOST_STEPS:
                return f"two wide repeats in a row can take {_steps(branch)} steps at every letter: put a gap between"
    return ""


def squeeze(text: str) -> str:
    """The text in lower case without white space and the bars of a frame: wrapped or not, letters stay in a row."""
    return "".join(text.lower().replace("|", " ").split())


@functools.lru_cache(maxsize=4096)
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.MULTILINE)


def _spans(source: str, text: str, limit: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for found in _compiled(source).finditer(text):
        spans.append(found.span())
        if len(spans) == limit:
            break
    return spans


def _join(chains: list[tuple[int, int]], spans: list[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """The chains that go on with one of the spans; both lists are in order of their ends."""
    joined: list[tuple[int, int]] = []
    at = 0
    for start, end in spans:
        while at + 1 < len(chains) and chains[at + 1][1] <= start:
            at += 1
        begin, stop = chains[at]
        if stop <= start <= stop + gap:
            joined.append((begin, end))
    return joined


def _letters(source: str) -> frozenset[str]:
    """The best set of which every match contains one: of its shortest member the longest."""
    branches = [_of_branch(branch) for branch in _branches(source)]
    if not all(branches):
        return frozenset()
    return frozenset().union(*branches)


def _of_branch(branch: str) -> frozenset[str]:
    best: frozenset[str] = frozenset()
    for candidate in _candidates(branch):
        if min(map(len, candidate), default=0) > min(map(len, best), default=0):
            best = candidate
    return best


def _branches(source: str) -> list[str]:
    """A piece at its outermost `|`."""
    parts, start = [], 0
    for at, token, depth in _tokens(source):
        if token == "|" and depth == 0:
            parts.append(source[start:at])
            start = at + 1
    return [*parts, source[start:]]


def _candidates(branch: str) -> Iterator[frozenset[str]]:
    """Every run of plain letters in a branch, and for each group what its own branches contain."""
    run, group, opened = "", -1, 0
    tokens = [*_tokens(branch), (len(branch), "", 0)]
    for (at, token, depth), following in zip(tokens, [*(t[1] for t in tokens[1:]), ""], strict=True):
        optional = following[:1] in ("?", "*") or following.startswith("{0")
        if group >= 0:
            if token == ")" and depth == opened:
                inner = branch[group:at]
                if not optional and not inner.startswith(("?!", "?<", "?=")):
                    yield _letters(re.sub(r"\A\?(?:P<\w+>|i?:)", "", inner))
                group = -1
            continue
        if token == "(":
            group, opened = at + 1, depth
        if _plain(token) and not optional:
            run += token[-1]
            if not following or following[0] not in "+{":
                continue
        letters = squeeze(run)
        if len(letters) >= SHORTEST:
            yield frozenset({letters})
        run = ""


def _steps(branch: str) -> int:
    """How often a branch may try at one place: the bounds of its wide repeats, multiplied."""
    steps = 1
    for token, following in _pairs(branch):
        bound = re.fullmatch(r"\{\d*,(\d+)\}", following)
        if bound and (token in _WIDE or token.startswith("[")):
            steps *= max(int(bound[1]), 1)
    return steps


def _pairs(source: str) -> Iterator[tuple[str, str]]:
    tokens = [token for _, token, _ in _tokens(source)]
    yield from zip(tokens, [*tokens[1:], ""], strict=True)


def _plain(token: str) -> bool:
    if len(token) == 2:
        return not token[1].isalnum()
    return len(token) == 1 and token not in ".^$*+?()|"


def _tokens(source: str) -> Iterator[tuple[int, str, int]]:
    """Offset, text and depth of every token: an escape, a class, a bound `{0,3}`, a bracket or a single letter."""
    at, depth = 0, 0
    while at < len(source):
        token = _token(source, at)
        if token == ")":
            depth -= 1
        yield at, token, depth
        if token == "(":
            depth += 1
        at += len(token)


def _token(source: str, at: int) -> str:
    if source[at] == "\\":
        return source[at : at + 2]
    if source[at] == "[":
        end = source.find("]", at + 2 + (source[at + 1 : at + 2] == "^"))
        while end > 0 and source[end - 1] == "\\" and source[end - 2] != "\\":
            end = source.find("]", end + 1)
        return source[at : end + 1] if end > 0 else source[at:]
    if source[at] == "{" and (bound := re.match(r"\{\d*,?\d*\}", source[at:])):
        return bound[0]
    return source[at]
