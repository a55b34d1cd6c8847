"""The report for a person at a terminal or behind a pipe: verdict, machine, findings, what is not determined.

Lays out and colours; decides nothing. Commands and paths are never broken across lines, so that they can be copied.
rich is imported for colour only: a page for a pipe is a plain text, and rich costs as much as a small scan.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..engine.model import Advice, Finding, Severity
from ..values import dataclass
from .doubt import Doubt, doubts, missing_text
from .facts import all_facts
from .machine import machine_lines
from .model import Report
from .text import plural, printable, value_text
from .verdict import counts_line, headline, knowledge_line, sure

if TYPE_CHECKING:
    from rich.console import Console

_STYLE: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_SHOWN_FACTS = 4
_SHOWN_DOUBTS = 3
NARROWEST, WIDEST = 40, 200  # columns


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown, and how."""

    width: int = 80
    color: bool = False
    verbose: bool = False
    quiet: bool = False


def render(report: Report, style: Style) -> str:
    """The whole report as text."""
    return _Page(report, style).text()


class _Page:
    """One report being written."""

    def __init__(self, report: Report, style: Style) -> None:
        self._report = report
        self._style = style
        self._width = min(max(style.width, NARROWEST), WIDEST)
        self._out = io.StringIO()
        self._console = _console(self._out, self._width) if style.color else None

    def text(self) -> str:
        """Everything, in reading order."""
        report, style = self._report, self._style
        self._verdict()
        if not style.quiet:
            self._machine()
        self._findings([f for f in report.active if f.certainty == "confirmed"])
        if not style.quiet:
            self._not_determined()
            self._ignored()
            if style.verbose:
                self._facts()
            self._line()
            self._paragraph("", counts_line(report), "dim")
            self._paragraph("", knowledge_line(report), "dim")
        return self._out.getvalue()

    def _verdict(self) -> None:
        summary = self._report.summary
        style = (
            "bold red" if summary.error or summary.kernels_failing else
            "bold yellow" if summary.warning or not sure(self._report) else
            "bold green"
        )  # fmt: skip
        self._paragraph("", headline(self._report), style)

    def _machine(self) -> None:
        self._line()
        for label, text in machine_lines(self._report.environment):
            self._paragraph(f"  {label:<11} ", text, label_style="dim")

    def _findings(self, findings: list[Finding]) -> None:
        shown = {f.rule for f in findings}
        causes = [f for f in findings if f.explained_by not in shown]
        for cause in causes:
            self._finding(cause)
            for other in findings:
                if other.explained_by == cause.rule and other not in causes:
                    self._paragraph("  so also   ", f"{other.title} [{other.rule}]{_about(other)}", label_style="dim")

    def _finding(self, finding: Finding) -> None:
        self._line()
        title = f"{finding.title} [{finding.rule}]{_about(finding)}"
        self._paragraph(f"{finding.severity.upper():<7} ", title, "bold", _STYLE[finding.severity])
        if self._style.quiet:
            return
        self._paragraph("  why       ", finding.diagnosis, label_style="dim")
        # What is only worth knowing stays short: a machine that is well is read at a glance.
        brief = finding.severity == "info" and not self._style.verbose
        if not brief:
            self._seen(finding)
        for number, advice in enumerate(finding.remedies[:1] if brief else finding.remedies):
            self._advice("  do this   " if number == 0 else "  or        ", advice, brief)
        if finding.review_by and finding.review_by < self._report.date:
            self._paragraph("  note      ", f"this rule was not reviewed since {finding.review_by}", label_style="dim")
        if self._style.verbose:
            self._paragraph("  basis     ", finding.confidence, label_style="dim")
            for url in finding.references:
                self._whole("  see       ", url)

    def _seen(self, finding: Finding) -> None:
        limit = None if self._style.verbose else _SHOWN_FACTS
        facts = "; ".join(f"{f.fact} = {value_text(f.value)}" for f in finding.facts[:limit])
        if facts:
            self._paragraph("  seen      ", facts, label_style="dim")

    def _advice(self, label: str, advice: Advice, brief: bool = False) -> None:
        doubt = "" if advice.certain else " (if it applies here)"
        effect = "" if advice.effect == "safe" else f" ({advice.effect})"
        self._paragraph(label, f"{advice.title}{doubt}{effect}", label_style="bold green")
        for text in filter(None, (advice.command, advice.snippet)):
            self._whole("              ", text, "bold")
        if advice.pin and advice.pin not in advice.command + advice.snippet:
            self._whole("              pin ", advice.pin, "bold")
        if brief:
            return
        if advice.note:
            self._paragraph("            ", advice.note)
        if advice.verify:
            self._whole("  then      ", advice.verify)
        if advice.undo:
            self._whole("  undo      ", advice.undo)

    def _not_determined(self) -> None:
        report, limit = self._report, None if self._style.verbose else _SHOWN_DOUBTS
        possible = [f for f in report.active if f.certainty == "possible"]
        grouped = doubts(report)
        if not possible and not grouped:
            return
        self._line()
        self._line(f"Not determined ({plural(report.summary.not_determined, 'check')})", "bold")
        for finding in possible[:limit]:
            self._paragraph("  may hold  ", f"{finding.title} [{finding.rule}]{_about(finding)}", label_style="dim")
            for text in missing_text(report, finding.missing):
                self._paragraph("    needs   ", text, label_style="dim")
        for doubt in grouped[:limit]:
            self._doubt(doubt)
        rest = {f.rule for f in possible[limit:]} if limit else set()
        rest |= {rule for doubt in grouped[limit:] for rule in doubt.rules} if limit else set()
        if rest:
            self._line(f"  {plural(len(rest), 'more check')}; --verbose names them", "dim")

    def _doubt(self, doubt: Doubt) -> None:
        facts = value_text(doubt.facts, 0 if self._style.verbose else 3)
        need = "check needs" if len(doubt.rules) == 1 else "checks need"
        do = f"; {doubt.how}" if doubt.how else ""
        self._paragraph("  ", f"{len(doubt.rules)} {need} {facts} ({doubt.reason}){do}")
        if self._style.verbose:
            self._paragraph("    ", ", ".join(doubt.rules), "dim")

    def _ignored(self) -> None:
        uses = self._report.ignores
        if not uses:
            return
        self._line()
        for use in uses:
            until = f", until {use.ignore.until}" if use.ignore.until else ""
            note = {"used": "", "unused": " (matches nothing)", "expired": " (expired: counts again)"}[use.state]
            self._paragraph("ignored   ", f"{use.ignore.rule}: {use.ignore.reason}{until}{note}", label_style="dim")

    def _facts(self) -> None:
        self._line()
        self._line("Every fact", "bold")
        for path, text, note in all_facts(self._report.environment):
            self._paragraph("  ", f"{path} = {text}" + (f"  [{note}]" if note else ""))

    def _line(self, text: str = "", style: str = "") -> None:
        self._print((printable(text), style))

    def _whole(self, label: str, text: str, style: str = "") -> None:
        """Lines that may be longer than the page: what is copied must stay in one piece."""
        for line in printable(text).splitlines():
            self._print((label, "dim"), (line, style))
            label = " " * len(label)

    def _paragraph(self, label: str, text: str, style: str = "", label_style: str = "") -> None:
        """Text beside a label, wrapped between words."""
        for line in _wrap(printable(text).split(), self._width - len(label)):
            self._print((label, label_style), (line, style))
            label = " " * len(label)

    def _print(self, *parts: tuple[str, str]) -> None:
        """One line of (text, style) parts."""
        if self._console is None:
            self._out.write("".join(text for text, _ in parts).rstrip() + "\n")
            return
        from rich.text import Text

        self._console.print(Text.assemble(*parts), soft_wrap=True)


def _console(out: io.StringIO, width: int) -> Console:
    from rich.console import Console

    return Console(
        file=out,
        width=width,
        force_terminal=True,
        color_system="standard",
        no_color=False,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def _wrap(words: Iterable[str], room: int) -> list[str]:
    """Fill lines with whole words: a path or an option that is cut cannot be copied."""
    from rich.cells import cell_len

    lines: list[str] = [""]
    for word in words:
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _about(finding: Finding) -> str:
    return f" ({finding.subject})" if finding.subject else ""
