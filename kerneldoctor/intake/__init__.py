"""Reads whatever people paste into an Environment, each value with its line. It judges nothing and never raises.

Formats are recognised line by line and may be mixed, quoted, logged, coloured or cut. What the text does not say stays
unknown; values that exclude each other are handed over as contradictions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from . import (
    binaries,
    faults,
    gpu_tables,
    hub,
    keyvalues,
    listings,
    lockfiles,
    machines,
    printed,
    prose,
    readers,
    runs,
    saved,
    shell,
    smi,
    workload,
)
from .assemble import choose, complete, environment
from .model import Block, Build, Contradiction, Pasted, Sighting, Source
from .notebook import Notebook
from .question import kernel as asked_kernel
from .question import workload as asked_workload
from .scan import Recogniser, scan
from .text import Text, to_bytes
from .voices import MOST, Said, is_mention_of_message, voices

__all__ = [
    "Block",
    "Build",
    "Contradiction",
    "Pasted",
    "Said",
    "Sighting",
    "Source",
    "heard",
    "is_mention_of_message",
    "read",
]

MAX_BYTES = 256 * 1024 * 1024  # of a text that are read

# An exclusive recogniser's lines are not shown to those below it.
_RECOGNISERS: tuple[Recogniser, ...] = (
    machines.RECOGNISER,
    Recogniser("unsloth", ("cuda toolkit",), readers.unsloth, exclusive=True),
    printed.RECOGNISER,
    runs.ARCHS,
    runs.KERNELS_WORDS,
    hub.RECOGNISER,
    hub.INFO,
    workload.RECOGNISER,
    runs.RECOGNISER,
    runs.LIBRARY,
    binaries.RECOGNISER,
    shell.RECOGNISER,
    printed.BANNER,
    gpu_tables.LSPCI,
    gpu_tables.HEADER,
    smi.RECOGNISER,
    smi.BARE,
    lockfiles.RECOGNISER,
    listings.RECOGNISER,
    keyvalues.HEADING,
    keyvalues.RECOGNISER,
    prose.RECOGNISER,
)


@functools.lru_cache(maxsize=1)  # the reading and the search for messages ask for the same text
def heard(data: bytes) -> Sequence[Said]:
    """How each line of a text is said; empty where the text is longer than people write."""
    return voices(data.decode("utf-8", "replace").split("\n")) if len(data) <= MOST else []


def _settle(notebook: Notebook) -> None:
    """Whose fault was mended has a machine that works."""
    state = {said.speaker: said.voice == "mended" for said in notebook.voices if said.speaker}
    for machine in notebook.machines:
        if state.get(machine.label.removeprefix("@")) and machine.label.startswith("@"):
            machine.mood = "working"


def read(text: str | bytes, name: str = "") -> Pasted:
    """Everything that a pasted text says about a machine, a kernel and what was run. Never raises for a text.

    `name` is only carried along, to tell texts apart in a batch.
    """
    data = saved.without_captures(to_bytes(text))
    source, hot = Text(data[:MAX_BYTES]), faults.Hot(len(data))
    notebook = Notebook(voices=heard(data))
    scan(source, (faults.recogniser(hot), *_RECOGNISERS), notebook)
    listings.close_open(notebook)
    ours, line_number, kind = saved.find(source.data)
    sightings = list(notebook.sightings)
    if kind:
        notebook.saw(kind)
    if ours is not None:
        sightings = [*saved.sightings(ours, line_number, kind), *sightings]
    _settle(notebook)
    picked, others, told_apart = machines.pick(sightings, notebook.machines)
    choice = choose(picked, others)
    error_text, cut = faults.blocks(source, hot)
    return Pasted(
        environment=complete(environment(choice, notebook.listings), ours),
        kernel=asked_kernel(choice.taken),
        workload=asked_workload(choice.taken),
        sightings=tuple(sightings),
        contradictions=tuple(choice.contradictions),
        error_text=error_text,
        kinds=tuple(notebook.kinds),
        truncated=notebook.truncated or cut or len(data) > MAX_BYTES,
        name=name,
        machines=told_apart,
        builds=tuple(notebook.builds),
    )
