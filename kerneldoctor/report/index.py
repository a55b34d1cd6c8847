"""What the index of kernels knows, as JSON and as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..hub.listing import Listing
from .layout import Page
from .text import plural

SCHEMA = "kerneldoctor.index-contents/1"


def to_json(path: Path, listings: Sequence[Listing]) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "path": str(path),
        "repositories": [
            {
                "repo": listing.repo,
                "as_of": listing.as_of or None,
                "versions": [
                    {"version": v.name, "revision": v.commit or None, "how": v.how, "as_of": v.as_of or None,
                     "complete": v.complete, "builds": len(v.builds)}
                    for v in listing.versions
                ],
            }
            for listing in listings
        ],
    }  # fmt: skip


def render(path: Path, listings: Sequence[Listing], width: int) -> str:
    """A line for every version."""
    page = Page(width)
    page.paragraph("", f"{plural(len(listings), 'repository').replace('ys', 'ies')} in {path}")
    for listing in listings:
        page.line()
        page.line(listing.repo, "bold")
        for version in listing.versions:
            whole = plural(len(version.builds), "build") if version.complete else "not all builds known"
            page.paragraph(
                f"  {version.name[:10]:<11}", f"{version.how} {version.as_of or 'at an unknown date'}, {whole}"
            )
    return page.text()
