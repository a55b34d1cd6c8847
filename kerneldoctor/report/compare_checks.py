"""A comparison for CI, for pasting and as a page: what was right as checks, the figures as tables, the chart inside.

Lays out and judges nothing.
"""

from __future__ import annotations

from ..compare.model import Comparison, Entry
from .checks import Check, Checks, Section, Status, count
from .compare import build_line, facts, headline, standing_rows, tables

_STATUS: dict[str, Status] = {
    "right": "passed", "forward-only": "passed", "backward-failed": "failed", "wrong": "failed", "failed": "failed",
    "refused": "failed", "unsupported": "skipped", "unknown": "undetermined",
}  # fmt: skip


def of_comparison(found: Comparison, version: str, date: str, figure: str = "") -> Checks:
    """The checks of a comparison: one an implementation. figure: its chart as SVG, or ""."""
    details = {name: f"{standing}: {said}" if said else standing for name, standing, said in standing_rows(found)}
    checks = tuple(_check(entry, details[entry.implementation.name]) for entry in found.entries)
    made = [Section(title, head=head, rows=tuple(rows)) for title, head, rows in tables(found, every=True) if rows]
    return Checks(
        title="kerneldoctor compare",
        headline=headline(found),
        checks=checks,
        exit_code=found.exit_code,
        date=date,
        version=version,
        counts=count(checks),
        facts=tuple(facts(found)),
        notes=(*found.disturbances, *found.notes),
        sections=(
            *((Section("Time and memory against length", figure=figure),) if figure else ()),
            Section(
                "Checked before it was timed", head=("", "check", "details"), rows=tuple(standing_rows(found)),
            ),
            *made,
            Section("Building flash-attn", paragraphs=(build_line(found),)),
        ),
        fine="right",
        foot=(f"kerneldoctor {version}",),
    )  # fmt: skip


def _check(entry: Entry, detail: str) -> Check:
    one = entry.implementation
    status = "failed" if entry.failed else _STATUS[entry.standing]
    return Check(
        f"compare:{one.name}", "compare", one.name, status, "error" if one.asked else "info", detail,
        kind="compare-implementation", decisive=one.asked, tabled=True,
    )  # fmt: skip
