"""What intake hands over: values with the lines they came from, and what it could not reconcile. Values only."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from ..engine.case import Kernel, Workload
from ..environment import Environment


class Source(enum.IntEnum):
    """How directly a text shows the machine, strongest first; a stronger class outweighs a weaker one."""

    SAVED = 0  # our own scan
    DUMP = 1  # a tool's report of the machine or of what is installed
    PRINTED = 2  # one value that a program printed, an environment variable
    RUN = 3  # paths, file names and messages of a run
    TABLE = 4  # "key: value" that a person wrote
    ASKED = 5  # an install command, a requirement
    SAID = 6  # a sentence
    MENTIONED = 7  # asked about, tried, or said of another machine: never taken as a fact

    @property
    def words(self) -> str:
        """The class as a reader would name it."""
        return _WORDS[self]


_WORDS = {
    Source.SAVED: "a kerneldoctor scan",
    Source.DUMP: "a tool's report",
    Source.PRINTED: "a printed value",
    Source.RUN: "the output of a run",
    Source.TABLE: "a hand-written table",
    Source.ASKED: "an install command",
    Source.SAID: "a sentence",
    Source.MENTIONED: "a mention",
}


@dataclass(frozen=True, slots=True)
class Sighting:
    """One value where it was seen.

    `path` is a fact path; GPUs are `gpus.<index>.<field>` (`gpus.*.<field>` where no index was given), packages
    `packages.<name>.version`, extensions `extensions.<module>.<field>`. `value` is None where the text says that the
    thing is not there.
    """

    path: str
    value: Any
    line_number: int  # from 1
    line_text: str  # shortened
    kind: str  # the format, "pip list"
    source: Source = Source.DUMP
    machine: int = 0  # which of the machines that the text tells apart


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Values of one fact that cannot all be true; `values[0]` is the one that was taken."""

    path: str
    values: tuple[Sighting, ...]
    reason: str  # why the first one was taken


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a traceback or an error with their surroundings, one line of text per line of the paste."""

    first_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Build:
    """One build variant of a listing that the kernels library printed."""

    variant: str
    accepted: bool
    reason: str  # why the library turned it down, in its words
    line_number: int


@dataclass(frozen=True, slots=True)
class Pasted:
    """Everything that was read from one text."""

    environment: Environment
    kernel: Kernel | None
    workload: Workload | None
    sightings: tuple[Sighting, ...]
    contradictions: tuple[Contradiction, ...]
    error_text: tuple[Block, ...]
    kinds: tuple[str, ...]  # formats that were recognised, in order of appearance
    truncated: bool  # not every line was kept or read
    name: str = ""
    machines: int = 1  # how many the text tells apart; the environment is of one of them
    builds: tuple[Build, ...] = ()
