"""What a scan says of kernels, as a part of a page for people. Words only."""

from __future__ import annotations

from collections.abc import Iterable

from ..hub.answer import Answer
from .checks import Section
from .variants import headline, pin_lines


def kernels_section(answers: Iterable[Answer | tuple[str, str]]) -> Section:
    """A row for each kernel: an answer, or a reference and why nothing can be said of it."""
    rows = tuple(_row(answer) if isinstance(answer, Answer) else (*answer, "") for answer in answers)
    return Section("Kernels", head=("kernel", "here", "pin"), rows=rows)


def _row(answer: Answer) -> tuple[str, str, str]:
    pin = f"`{pin_lines(answer.pin, answer.candidates.listing.repo)[0]}`" if answer.pin is not None else ""
    return str(answer.meaning.reference), headline(answer), pin
