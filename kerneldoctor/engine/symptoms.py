"""Which rules' symptoms stand in a text, and on which of its lines. Finds; what follows from it is decided elsewhere.

The text comes cleaned (no colours, timestamps or quotation marks), one line of text for each line of the original.
Terminals and mail break lines anywhere, so a symptom is also looked for with the breaks taken for spaces, and with
the breaks taken out. Time is linear in the text: see `patterns`.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..values import dataclass
from .model import Rule, Strength, Symptom
from .patterns import Pattern, parse, squeeze

CHUNK = 256 * 1024  # characters that are searched together
HEAD = 32 * 1024  # characters in which a person's words are looked for
OVERLAP = 8 * 1024  # characters that two chunks share, so that no symptom is cut in two
_NEAR = (8000, 1500)  # characters before and after a match in which `unless` is looked for
_AROUND = (3000, 1500)  # the same for `near`: of one traceback or one build
_WRAPPED = 8  # lines over which a wrapped message may run
_QUOTED = 4  # lines of a hit that are shown
_SHOWN = 240  # characters of a line that are shown
STRENGTHS: tuple[Strength, ...] = ("decisive", "telling", "hint")


@dataclass(frozen=True, slots=True)
class Hit:
    """A symptom where it was found."""

    rule: str
    symptom: Symptom
    first_line: int  # from 1
    last_line: int
    lines: tuple[str, ...]  # the text there, shortened
    weight: int  # how specific the pattern is, in letters
    groups: Mapping[str, str]  # the named groups
    beside: str  # what else stands on its first and last line
    voice: str = "reports"  # how the text says it: "reports", "speaks" (of it, without having it), "mended"
    placed: bool = True  # its component stands around it, where the symptom asks for that

    @property
    def strength(self) -> Strength:
        """What the words weigh here."""
        own = STRENGTHS.index(self.symptom.strength)
        return STRENGTHS[own if self.placed else min(own + 1, len(STRENGTHS) - 1)]


class Symptoms:
    """The symptoms of a set of rules, ready to be searched for in many texts."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._known: list[tuple[str, Symptom, Pattern]] = [
            (rule.id, symptom, parse(symptom.match))
            for rule in rules
            if not rule.withdrawn
            for symptom in rule.symptoms
        ]

    def search(self, lines: Sequence[str], first_line: int = 1) -> tuple[Hit, ...]:
        """The first place of every symptom that the text holds, in order of the lines.

        A person's words (`hint`) are looked for at the beginning only: what follows in a longer text is a log.
        """
        head = _Text(_head(lines), first_line)
        hits = list(_search(head, [known for known in self._known if known[1].strength == "hint"]))
        left = [known for known in self._known if known[1].strength != "hint"]
        for offset, part in _chunks(lines):
            text = _Text(part, first_line + offset)
            found = list(_search(text, left))
            hits += found
            left = [known for known in left if not any(hit.symptom is known[1] for hit in found)] if found else left
        return tuple(sorted(hits, key=lambda hit: (hit.first_line, hit.rule)))


def _search(text: _Text, known: Iterable[tuple[str, Symptom, Pattern]]) -> Iterator[Hit]:
    for rule, symptom, pattern in known:
        if pattern.may_match(text.squeezed):
            hit = _find(text, rule, symptom, pattern)
            if hit is not None:
                yield hit


class _View:
    """Lines joined in one way, with the line of every offset."""

    def __init__(self, lines: Sequence[str], joint: str) -> None:
        self.text = joint.join(lines)
        self._starts = list(itertools.accumulate((len(line) + len(joint) for line in lines), initial=0))

    def beside(self, span: tuple[int, int]) -> str:
        """What stands before and after a span on its lines, shortened to what a sentence has."""
        first, last = self.line(span[0]), self.line(max(span[1] - 1, span[0]))
        before = self.text[max(self._starts[first], span[0] - _SHOWN) : span[0]]
        return f"{before} ... {self.text[span[1] : min(self._starts[last + 1], span[1] + _SHOWN)]}"

    def line(self, offset: int) -> int:
        """The index of the line that holds an offset."""
        return max(bisect.bisect_right(self._starts, offset) - 1, 0)


class _Text:
    """A chunk of lines and its views, each made when it is first needed."""

    def __init__(self, lines: Sequence[str], first_line: int) -> None:
        self.lines = lines
        self.first_line = first_line
        self.plain = _View(lines, "\n")
        self.squeezed = squeeze(self.plain.text)
        self._wrapped: tuple[_View, ...] | None = None

    @property
    def wrapped(self) -> tuple[_View, ...]:
        """Views in which a line break is a space, and nothing. None where there is no line break."""
        if len(self.lines) < 2:
            return ()
        if self._wrapped is None:
            bare = [line.strip(" \t|") for line in self.lines]
            self._wrapped = (_View(bare, " "), _View(bare, ""))
        return self._wrapped


def _find(text: _Text, rule: str, symptom: Symptom, pattern: Pattern) -> Hit | None:
    for view in itertools.chain((text.plain,), _lazily(text)):
        span = pattern.find(view.text)
        if span is None:
            continue
        first, last = view.line(span[0]), view.line(max(span[1] - 1, span[0]))
        if view is not text.plain and not pattern.gaps and last - first > _WRAPPED:
            continue
        if symptom.unless and _is_near(symptom.unless, view.text, span, _NEAR):
            return None
        return Hit(
            rule=rule,
            symptom=symptom,
            first_line=text.first_line + first,
            last_line=text.first_line + last,
            lines=tuple(_quoted(text.lines[first : last + 1])),
            weight=pattern.weight,
            groups=pattern.groups(view.text, span[0]) if "(?P<" in symptom.match else {},
            beside=view.beside(span),
            placed=not symptom.near or _is_near(symptom.near, view.text, span, _AROUND),
        )
    return None


def _lazily(text: _Text) -> Iterator[_View]:
    yield from text.wrapped


def _is_near(match: str, text: str, span: tuple[int, int], reach: tuple[int, int]) -> bool:
    window = text[max(0, span[0] - reach[0]) : span[1] + reach[1]]
    return parse(match).find(window) is not None


def _quoted(lines: Sequence[str]) -> Iterator[str]:
    """The first and the last lines of a hit, without the empty ones."""
    full = [line.strip() for line in lines if line.strip()]
    shown = full if len(full) <= _QUOTED else [*full[:1], "...", *full[1 - _QUOTED :]]
    for line in shown:
        yield line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."


def _head(lines: Sequence[str]) -> Sequence[str]:
    """The first lines, of HEAD characters in all."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > HEAD:
            return [*lines[:number], line[: HEAD - size]]
    return lines


def _chunks(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Runs of lines of about CHUNK characters; each begins some lines before the end of the one before."""
    start, size, fresh = 0, 0, 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size < CHUNK:
            continue
        yield start, lines[start : number + 1]
        start, size, fresh = number + 1, 0, number + 1
        while start > 0 and size + len(lines[start - 1]) < OVERLAP:
            start -= 1
            size += len(lines[start]) + 1
    if fresh < len(lines):
        yield start, lines[start:]
