"""Lays out lines of text for terminal or pipe; knows nothing of what they say. rich is imported for colours only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .text import printable

NARROWEST, WIDEST = 40, 160  # columns


@dataclass(slots=True)
class Page:
    """Lines in the order in which they are written."""

    width: int = 80
    color: bool = False
    redact: Callable[[str], str] | None = None  # what every text goes through first
    _lines: list[tuple[str, str]] = field(default_factory=list)  # text, style

    def line(self, text: str = "", style: str = "") -> None:
        """One line, wrapped between words."""
        self.paragraph("", text, style)

    def whole(self, text: str, style: str = "") -> None:
        """A line that must stay in one piece, because it is copied."""
        self._lines.append((printable(self._clean(text)), style))

    def paragraph(self, label: str, text: str, style: str = "") -> None:
        """Text beside a label, wrapped between words; a word that is longer than the line stays whole."""
        room = min(max(self.width, NARROWEST), WIDEST) - len(label)
        for part in _wrap(printable(self._clean(text)), room):
            self._lines.append((f"{printable(label)}{part}".rstrip(), style))
            label = " " * len(label)

    def _clean(self, text: str) -> str:
        return self.redact(text) if self.redact is not None else text

    def text(self) -> str:
        """The page, with escape sequences where colours are wanted."""
        if not self.color:
            return "".join(f"{text}\n" for text, _ in self._lines)
        from rich.style import Style

        return "".join(f"{Style.parse(style).render(text) if style else text}\n" for text, style in self._lines)


def _wrap(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if len(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
