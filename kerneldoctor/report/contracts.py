"""The list of contracts, for people and programs. Runs none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..smoke.contracts import Contract
from .layout import Page


def to_json(contracts: Iterable[Contract]) -> list[dict[str, Any]]:
    """Each contract with the exports that it asks for."""
    return [
        {
            "name": one.name,
            "description": one.description,
            "exports": list(one.exports),
            "needs": "any" if one.any_export else "all",
            "cases": len(one.drafts("gpu")),
            "quick": sum(draft.quick is not None for draft in one.drafts("gpu")),
        }
        for one in contracts
    ]


def render(contracts: Iterable[Contract], width: int) -> str:
    """A paragraph each."""
    page = Page(width)
    for entry in to_json(contracts):
        page.line(entry["name"], "bold")
        page.paragraph("    ", entry["description"])
        word = "any of " if entry["needs"] == "any" and len(entry["exports"]) > 1 else ""
        page.paragraph("    ", f"exports {word}{', '.join(entry['exports'])}; {entry['cases']} cases")
    return page.text()
