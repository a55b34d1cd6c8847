"""Counts the calls of an attention's functions: that a model names a kernel does not say that it runs.

Child side; changes nothing of what the functions do.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Where transformers keeps the functions of the flash attention that it loaded last.
_FLASH = ("_flash_fn", "_flash_varlen_fn")


class Calls:
    """How often each function was called."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.originals: list[Callable[..., Any]] = []
        self._places: list[tuple[Any, str, Callable[..., Any], Callable[..., Any]]] = []

    def watch(self, attention: str) -> None:
        """Puts a counter before the functions that transformers calls for this attention."""
        utils: Any = importlib.import_module("transformers.modeling_flash_attention_utils")
        for name in _FLASH:
            function = getattr(utils, name, None)
            if function is not None:
                self._put(utils, name, function)
        if not self._places:
            self._watch_interface(attention)

    def _watch_interface(self, attention: str) -> None:
        """A kernel that brings its whole attention function, and none of flash-attn's."""
        models: Any = importlib.import_module("transformers.modeling_utils")
        functions = getattr(models, "ALL_ATTENTION_FUNCTIONS", None)
        if functions is not None and attention in functions:
            functions.register(attention, self._counted(functions[attention]))

    def _put(self, place: Any, name: str, function: Callable[..., Any]) -> None:
        counted = self._counted(function)
        self._places.append((place, name, function, counted))
        setattr(place, name, counted)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        label = getattr(function, "__name__", type(function).__name__)
        self.counts.setdefault(label, 0)
        self.originals.append(function)

        @functools.wraps(function, assigned=("__module__", "__name__", "__doc__"), updated=())
        def counted(*arguments: Any, **options: Any) -> Any:
            self.counts[label] += 1
            return function(*arguments, **options)

        return counted

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """Without the counters: a compiler would compile them, too."""
        for place, name, function, _ in self._places:
            setattr(place, name, function)
        try:
            yield
        finally:
            for place, name, _, counted in self._places:
                setattr(place, name, counted)

    @property
    def total(self) -> int:
        """All calls so far."""
        return sum(self.counts.values())

    def since(self, before: dict[str, int]) -> dict[str, int]:
        """The calls after `before`, a copy of `counts`, by function; those without any left out."""
        return {name: count - before.get(name, 0) for name, count in self.counts.items() if count > before.get(name, 0)}
