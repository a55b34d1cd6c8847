"""The value of a key with where it stands, as readers of values get it. Knows no key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .model import Source
from .notebook import Notebook
from .text import Line


@dataclass(frozen=True, slots=True)
class Entry:
    """A key's value with where it stands."""

    value: str
    line: Line
    kind: str
    source: Source
    notebook: Notebook

    def add(self, path: str, value: object, source: Source | None = None) -> None:
        """Note a fact."""
        self.notebook.add(path, value, self.line, self.kind, self.source if source is None else source)


Reader = Callable[[Entry], bool]
