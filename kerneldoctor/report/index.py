"""What the index of kernels knows, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..hub.listing import Listing, Version
from .layout import Page
from .text import plural

if TYPE_CHECKING:
    from ..hub.index import Contents

SCHEMA = "kerneldoctor.index-contents/1"
_HOW = {"observed": "seen", "derived": "derived", "partial": "in part"}


def to_json(index: Contents) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "shipped": str(index.shipped),
        "own": str(index.own),
        "repositories": [
            {
                "repo": listing.repo,
                "as_of": listing.as_of or None,
                "refreshed": listing.refreshed,
                "notes": list(listing.notes),
                "versions": [
                    {"version": v.name, "revision": v.commit or None, "how": v.how, "as_of": v.as_of or None,
                     "complete": v.complete, "builds": len(v.builds), "note": v.note or None}
                    for v in listing.versions
                ],
            }
            for listing in index.listings
        ],
    }  # fmt: skip


def render(index: Contents, page: Page, in_full: bool) -> str:
    """A line a repository, or a line a version."""
    count = len(index.listings)
    page.paragraph("", f"{count} {'repository' if count == 1 else 'repositories'} in {index.shipped}")
    if refreshed := sum(listing.refreshed for listing in index.listings):
        page.paragraph("", f"{refreshed} of them refreshed in {index.own}")
    widest = max((len(listing.repo) for listing in index.listings), default=0)
    for listing in index.listings:
        if in_full:
            _versions(listing, page)
        else:
            page.paragraph(f"{listing.repo:<{widest}}  ", _brief(listing))
    return page.text()


def _versions(listing: Listing, page: Page) -> None:
    page.line()
    page.line(f"{listing.repo}{', refreshed' if listing.refreshed else ''}", "bold")
    for version in listing.versions:
        page.paragraph(f"  {version.name[:10]:<11}", ", ".join(filter(None, _facts(version))))
    for note in listing.notes:
        page.paragraph("  note       ", note)


def _facts(version: Version) -> Iterable[str]:
    yield f"{_HOW[version.how]} {version.as_of or 'at an unknown date'}"
    builds = plural(len(version.builds), "build") if version.builds else "no build"
    yield builds if version.complete else f"{builds} seen"
    yield f"commit {version.commit[:10]}" if version.commit and version.commit != version.name else ""
    yield "" if version.complete else version.note


def _brief(listing: Listing) -> str:
    """ "seen v3, v2; known in part v4; 2026-10"."""
    groups: dict[str, list[str]] = {}
    for version in listing.versions:
        groups.setdefault(_HOW[version.how], []).append(version.name[:10])
    parts = [f"{how} {', '.join(names)}" for how, names in groups.items()]
    return "; ".join([*parts, listing.as_of or "at an unknown date"])
