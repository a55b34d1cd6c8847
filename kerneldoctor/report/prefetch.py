"""What prefetch brought, as a page and as JSON. Reads a Cargo and decides nothing."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from ..prefetch.model import Cargo, Item
from .layout import Page
from .text import plural

SCHEMA = "kerneldoctor.prefetch/1"
_HEADS = {
    "loads": "loads offline", "unsettled": "not settled whether it loads offline", "refused": "does not load offline",
    "damaged": "damaged", "no-build": "no build", "no-room": "no room", "missing": "not on the Hub",
    "unreachable": "not fetched",
}  # fmt: skip


def to_json(cargo: Cargo) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "date": cargo.date,
        "kerneldoctor": cargo.version,
        "exit_code": cargo.exit_code,
        "headline": headline(cargo),
        "machine": cargo.machine or None,
        "cache": cargo.cache,
        "environment": dict(cargo.variables),
        "kernels": [{**asdict(item), "checks": list(item.checks), "notes": list(item.notes)} for item in cargo.items],
    }


def headline(cargo: Cargo) -> str:
    """The verdict in a line; "loads offline" only of what was looked at."""
    ready = sum(item.state == "loads" for item in cargo.items)
    total = len(cargo.items)
    fetched = sum(item.fetched for item in cargo.items if item.state in ("loads", "unsettled", "refused"))
    size = f", {size_text(fetched)} fetched" if fetched else ", nothing had to be fetched" if ready == total else ""
    if ready == total:
        return f"{plural(total, 'kernel')} {'loads' if total == 1 else 'load'} offline{size}"
    return f"{ready} of {plural(total, 'kernel')} {'loads' if ready == 1 else 'load'} offline{size}"


def size_text(count: int) -> str:
    """Bytes as people say them."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return plural(count, "byte")


def render(cargo: Cargo, page: Page) -> str:
    """The page for a person."""
    page.line(headline(cargo), "bold")
    if cargo.machine:
        page.paragraph("  for     ", cargo.machine)
    page.paragraph("  in      ", cargo.cache)
    for item in cargo.items:
        _render_item(item, page)
    if cargo.variables:
        page.line()
        page.line("The job needs:")
        for name, value in cargo.variables:
            page.whole(f"  export {name}={_quoted(value)}")
    return page.text()


def _render_item(item: Item, page: Page) -> None:
    page.line()
    style = "" if item.state == "loads" else "yellow" if item.state == "unsettled" else "red"
    page.whole(f"{item.reference}: {_HEADS[item.state]}", style)
    if item.text:
        page.paragraph("  why     ", item.text)
    if item.needed_by:
        page.paragraph("  for     ", f"{item.needed_by} loads it in turn")
    if item.build:
        page.paragraph("  build   ", f"{item.build} of {item.repo}@{item.commit[:10]}")
    if item.files:
        what = "the whole snapshot" if item.whole else "this build"
        there = size_text(item.size - item.fetched)
        page.paragraph(
            "  size    ", f"{what}, {plural(item.files, 'file')}, {size_text(item.size)}; {there} there before"
        )
    if item.state == "loads" and not item.through_path:
        page.paragraph("  name    ", _names(item))
    if item.checks:
        page.paragraph("  checked ", "; ".join(item.checks))
    for note in item.notes:
        page.paragraph("  note    ", note)


def _names(item: Item) -> str:
    """The revisions that are found offline."""
    if item.revision == item.commit:
        return f"{item.repo}@{item.commit}, and by no branch"
    return f"{item.repo}@{item.revision}, or @{item.commit}"


def _quoted(value: str) -> str:
    """A value for a shell; a path below ~ stays one that the shell expands."""
    return value if value.startswith("~/") and shlex.quote(value[2:]) == value[2:] else shlex.quote(value)
