"""Where recognisers write what they see: sightings by machine, formats, builds. Chooses nothing; keeps to limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Build, Sighting, Source
from .text import Line
from .voices import Said

MAX_SIGHTINGS = 20_000
MAX_VALUES = 40  # different values of one fact on one machine that are kept
MAX_BUILDS = 2_000
MAX_MACHINES = 200
SENTENCE = "sentence"  # the kind of values that `prose` reads, clause by clause

Feed = Callable[[Line, "Notebook"], bool]
"""A block's reader: takes the next line, and answers whether the line was one of its own."""


@dataclass(slots=True)
class Listing:
    """A list of packages, and what speaks for its being whole."""

    kind: str
    line_number: int
    machine: int
    names: list[str] = field(default_factory=list)
    whole: bool = False


@dataclass(slots=True)
class Machine:
    """One machine that the text tells apart. `mood` says how its heading speaks of it."""

    label: str = ""
    mood: str = ""  # failing | working | ""
    starts: set[str] = field(default_factory=set)  # formats whose report has begun


@dataclass(slots=True)
class Notebook:
    """The state of one reading."""

    sightings: list[Sighting] = field(default_factory=list)
    kinds: dict[str, None] = field(default_factory=dict)
    builds: list[Build] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=lambda: [Machine()])
    truncated: bool = False
    kind: str = ""  # the report that the lines at hand belong to
    kind_until: int = 0  # the last line at which that is believed
    block: Feed | None = None  # reads the lines that follow, until it declines one
    context: dict[str, Any] = field(default_factory=dict)  # what one line tells about the next ones
    attempts: int = 0  # values that were new
    sentences: int = 0  # lines that were read as sentences
    offset: int = 0  # where the line at hand begins
    machine: int = 0  # the machine that the lines at hand are about
    voices: Sequence[Said] = ()  # how each line is said; empty where that was not looked at
    _seen: set[tuple[Any, ...]] = field(default_factory=set)
    _values: dict[tuple[int, str], int] = field(default_factory=dict)

    def add(self, path: str, value: Any, line: Line, kind: str, source: Source) -> None:
        """Note a value. The same value of the same class is noted once a machine."""
        if line.number <= len(self.voices):
            source = self._heard(self.voices[line.number - 1], kind, source)
        key = (self.machine, path, value, source)
        if key in self._seen:
            return
        count = self._values.get(key[:2], 0)
        if count >= MAX_VALUES or len(self.sightings) >= MAX_SIGHTINGS:
            self.truncated = True
            return
        self._seen.add(key)
        self._values[key[:2]] = count + 1
        self.attempts += 1
        self.sightings.append(Sighting(path, value, line.number, line.short, kind, source, self.machine))

    def forget(self, paths: set[str], line: Line) -> None:
        """What sentences said of these before a line holds no longer on the machine at hand."""
        if line.number <= len(self.voices):
            self._heard(self.voices[line.number - 1], SENTENCE, Source.SAID)
        heads = {path.partition(".")[0] for path in paths if path.startswith(("torch.", "cuda"))}
        self.sightings = [
            s
            for s in self.sightings
            if not (
                s.kind == SENTENCE
                and s.machine == self.machine
                and (s.path in paths or (heads and s.path.startswith(("torch.", "cuda"))))
            )
        ]

    def _heard(self, said: Said, kind: str, source: Source) -> Source:
        """The class of a value in a line that is said so; turns to the machine of who says it."""
        if said.speaker and self.machines[self.machine].label != f"@{said.speaker}":
            self.turn_to(f"@{said.speaker}", "")
        message = source is Source.RUN and said.voice == "speaks"
        if said.aside or message or (said.mention and kind != SENTENCE):
            return Source.MENTIONED
        return source

    def saw(self, kind: str) -> None:
        """Note that a format was recognised."""
        self.kinds.setdefault(kind)

    def begin(self, kind: str, line: Line, reach: int = 120) -> None:
        """A report of this format is under way; its lines count as a tool's for `reach` lines."""
        self.saw(kind)
        self.kind, self.kind_until = kind, line.number + reach

    def start(self, kind: str, line: Line) -> None:
        """A report of this format begins. A second one may be another machine's."""
        if kind in self.machines[self.machine].starts:
            self._new_machine("", "")
        self.machines[self.machine].starts.add(kind)
        self.begin(kind, line)

    def turn_to(self, label: str, mood: str) -> None:
        """A heading: what follows is about the machine (or by the person) of that name."""
        for number, machine in enumerate(self.machines):
            if machine.label == label:
                self.machine = number
                return
        current = self.machines[self.machine]
        if not current.label and not any(s.machine == self.machine for s in self.sightings):
            current.label, current.mood = label, mood
        else:
            self._new_machine(label, mood)

    def _new_machine(self, label: str, mood: str) -> None:
        if len(self.machines) >= MAX_MACHINES:
            self.truncated = True
            return
        self.machines.append(Machine(label, mood))
        self.machine = len(self.machines) - 1

    def promote(self, kind: str, paths: tuple[str, ...], since: int) -> None:
        """Values that were read before their report was recognised are that report's, on the machine at hand."""
        for number in range(len(self.sightings) - 1, max(-1, len(self.sightings) - 16), -1):
            sighting = self.sightings[number]
            if sighting.line_number >= since and sighting.path in paths:
                self.sightings[number] = replace(sighting, kind=kind, source=Source.DUMP, machine=self.machine)

    def current(self, line: Line) -> str:
        """The report that a line belongs to; "" where it stands alone."""
        return self.kind if line.number <= self.kind_until else ""

    def build(self, variant: str, accepted: bool, reason: str, line: Line) -> None:
        """Note a line of a variant listing."""
        if len(self.builds) < MAX_BUILDS:
            self.builds.append(Build(variant, accepted, reason, line.number))
        else:
            self.truncated = True
