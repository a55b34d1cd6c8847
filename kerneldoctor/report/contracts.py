"""The list of contracts, for people and programs. Runs none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..smoke.contracts import Contract
from .layout import Page
from .text import value_text


def to_json(contracts: Iterable[Contract], whole: bool = False) -> list[dict[str, Any]]:
    """Each contract with the exports that it asks for; `whole`: with its cases."""
    return [
        {
            "name": one.name,
            "description": one.description,
            "exports": list(one.exports),
            "needs": "any" if one.any_export else "all",
            "cases": len(one.drafts("gpu")),
            "quick": sum(draft.quick is not None for draft in one.drafts("gpu")),
            **({"gradients": [f"d{name}" for name in one.differentiable], "plan": _plan(one)} if whole else {}),
        }
        for one in contracts
    ]


def _plan(one: Contract) -> list[dict[str, Any]]:
    return [
        {"id": draft.id, "quick": draft.quick is not None, "params": dict(draft.params)} for draft in one.drafts("gpu")
    ]


def render(contracts: Iterable[Contract], width: int, whole: bool = False) -> str:
    """A paragraph each; `whole`: with what is compared, and a line for each case."""
    page = Page(width)
    for entry in to_json(contracts, whole):
        page.line(entry["name"], "bold")
        page.paragraph("    ", entry["description"])
        word = "any of " if entry["needs"] == "any" and len(entry["exports"]) > 1 else ""
        page.paragraph("    ", f"exports {word}{', '.join(entry['exports'])}; {entry['cases']} cases")
        if whole and entry["gradients"]:
            page.paragraph("    ", f"gradients: {', '.join(entry['gradients'])}")
        for case in entry.get("plan", ()):
            params = ", ".join(f"{key} {value_text(value)}" for key, value in case["params"].items())
            page.paragraph("    ", f"{case['id']}{' (quick)' if case['quick'] else ''}: {params}")
    return page.text()
