"""Reads whatever people paste into an Environment, each value with its line. It judges nothing and never raises.

Formats are recognised line by line and may be mixed, quoted, logged, coloured or cut. What the text does not say stays
unknown; values that exclude each other are handed over as contradictions.
"""

from __future__ import annotations

from . import keyvalues, listings
from .assemble import choose, environment
from .model import Block, Build, Contradiction, Pasted, Sighting, Source
from .notebook import Notebook
from .scan import Recogniser, scan
from .text import Text, to_bytes

__all__ = ["Block", "Build", "Contradiction", "Pasted", "Sighting", "Source", "read"]

MAX_BYTES = 256 * 1024 * 1024
_RECOGNISERS: tuple[Recogniser, ...] = (listings.RECOGNISER, keyvalues.RECOGNISER)


def read(text: str | bytes, name: str = "") -> Pasted:
    """Everything that a pasted text says about a machine, a kernel and what was run. Never raises for a text."""
    data = to_bytes(text)
    notebook = Notebook()
    scan(Text(data[:MAX_BYTES]), _RECOGNISERS, notebook)
    listings.close_open(notebook)
    choice = choose(notebook.sightings)
    return Pasted(
        environment=environment(choice, notebook.listings),
        kernel=None,
        workload=None,
        sightings=tuple(notebook.sightings),
        contradictions=tuple(choice.contradictions),
        error_text=(),
        kinds=tuple(notebook.kinds),
        truncated=notebook.truncated or len(data) > MAX_BYTES,
        name=name,
        machines=len(notebook.machines),
        builds=tuple(notebook.builds),
    )
