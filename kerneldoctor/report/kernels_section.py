"""What a scan says of kernels, as a part of a page for people. Words only."""

from __future__ import annotations

from collections.abc import Iterable

from ..hub.answer import Answer
from .checks import Check, Section, Status
from .loading import typed, verdict_line


def kernels_section(answers: Iterable[Answer | tuple[str, str]]) -> Section:
    """A row for each kernel: an answer, or a reference and why nothing can be said of it."""
    rows = tuple(_row(answer) if isinstance(answer, Answer) else (*answer, "") for answer in answers)
    return Section("Kernels", head=("kernel", "here", "pin"), rows=rows)


def _row(answer: Answer) -> tuple[str, str, str]:
    works, _ = typed(answer)
    return str(answer.meaning.reference), verdict_line(answer), f"`{works[0]}`" if works else ""


def kernel_check(reference: str, loads: bool | None, detail: str, decisive: bool) -> Check:
    """The question whether a kernel that was named would load, with its answer."""
    status: Status = "undetermined" if loads is None else "passed" if loads else "failed"
    words = {"passed": "would load", "failed": "would not load", "undetermined": "cannot be judged"}
    help_ = (("Find what would help", f"kerneldoctor variants {reference} --find-env"),)
    return Check(
        f"kernel:{reference}/loads", "scan", f"{reference} {words[status]}", status, detail=detail, kind="kernel-loads",
        decisive=decisive and status != "passed", name=f"{reference} loads", tabled=True,
        remedies=help_ if loads is False else (),
    )  # fmt: skip
