"""A diagnosis as JSON and as a line of a table. It decides nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from ..diagnosis.answer import Answer, Diagnosis, Shown, line_of
from ..engine.model import Advice
from ..environment import Environment, Fact, Packages, encode

SCHEMA = "kerneldoctor.diagnosis/1"
COLUMNS = (
    "file", "verdict", "rule", "name", "title", "severity", "certainty", "basis", "line", "ask", "others", "refuted",
    "torch", "gpu", "error",
)  # fmt: skip


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The published form, see diagnosis_schema.json."""
    return {
        "schema": SCHEMA,
        "file": diagnosis.name,
        "verdict": verdict(diagnosis),
        "answers": [_answer(answer) for answer in diagnosis.answers],
        "refuted": [{"rule": r.rule, "title": r.title, "lines": _lines(r.lines)} for r in diagnosis.refuted],
        "ask": dataclasses.asdict(diagnosis.ask) if diagnosis.ask else None,
        "understood": {
            "formats": list(diagnosis.kinds),
            "machines": diagnosis.machines,
            "has_error": diagnosis.has_error,
            "truncated": diagnosis.truncated,
            "facts": {path: _fact(fact) for path, fact in _known(diagnosis)},
        },
        "contradictions": [
            {
                "fact": c.path,
                "reason": c.reason,
                "values": [{"value": encode(v.value), "line": v.line_number, "text": v.line_text} for v in c.values],
            }
            for c in diagnosis.contradictions
        ],
        "error": None,
    }


def failed(path: str, error: str) -> dict[str, Any]:
    """The same for a file of which nothing came."""
    return {"schema": SCHEMA, "file": path, "verdict": "unreadable", "answers": [], "error": error}


def verdict(diagnosis: Diagnosis) -> str:
    """confirmed | possible | nothing."""
    return diagnosis.answers[0].finding.certainty if diagnosis.answers else "nothing"


def row(document: dict[str, Any]) -> list[str]:
    """A line of the table for a document of `to_json` or `failed`; see COLUMNS."""
    answers = document["answers"]
    best: dict[str, Any] = answers[0] if answers else {}
    facts = document.get("understood", {}).get("facts", {})
    gpus = (facts.get("gpus") or {}).get("value") or []
    cells = {
        **{name: best.get(name, "") for name in ("rule", "name", "title", "severity", "certainty", "basis")},
        "file": document["file"],
        "verdict": document["verdict"],
        "line": best["lines"][0]["line"] if best.get("lines") else "",
        "ask": (document.get("ask") or {}).get("command", ""),
        "others": " ".join(answer["rule"] for answer in answers[1:]),
        "refuted": " ".join(item["rule"] for item in document.get("refuted", ())),
        "torch": (facts.get("torch.version") or {}).get("value") or "",
        "gpu": "; ".join(dict.fromkeys(str((gpu.get("name") or {}).get("value", "")) for gpu in gpus)),
        "error": document["error"] or "",
    }
    return [_cell(str(cells[name])) for name in COLUMNS]


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _answer(answer: Answer) -> dict[str, Any]:
    finding = answer.finding
    return {
        **{
            name: getattr(finding, name)
            for name in ("rule", "name", "title", "severity", "certainty", "confidence", "component", "diagnosis")
        },
        "basis": answer.basis,
        "standing": answer.standing,
        "score": answer.score,
        "subjects": list(answer.subjects),
        "lines": _lines(answer.lines),
        "facts": [{"fact": f.fact, "value": encode(f.value), "source": f.source} for f in finding.facts],
        "missing": list(finding.missing),
        "ask": dataclasses.asdict(answer.ask) if answer.ask else None,
        "remedies": [_advice(advice) for advice in finding.remedies],
        "references": list(finding.references),
        "aliases": list(finding.aliases),
        "explains": list(finding.explains),
        "explained_by": finding.explained_by,
    }


def _advice(advice: Advice) -> dict[str, Any]:
    """A remedy without the keys that it does not use."""
    optional = {key: getattr(advice, key) for key in ("command", "pin", "snippet", "verify", "undo", "note")}
    return {
        "title": advice.title,
        **{key: value for key, value in optional.items() if value},
        "effect": advice.effect,
        "certain": advice.certain,
    }


def _lines(lines: Iterable[Shown]) -> list[dict[str, Any]]:
    return [{"line": shown.number, "text": shown.text} for shown in lines]


def _fact(fact: Fact[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"value": encode(fact.value)} if fact.is_known else {"absent": True}
    return {**found, "line": line_of(fact)}


def _known(diagnosis: Diagnosis) -> Iterator[tuple[str, Fact[Any]]]:
    """Every fact that the text gave, by path."""
    for head, section in (
        ("", diagnosis.environment),
        ("kernel.", diagnosis.kernel),
        ("workload.", diagnosis.workload),
    ):
        yield from _walk(section, head)


def _walk(section: Any, prefix: str) -> Iterator[tuple[str, Fact[Any]]]:
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Fact):
            if not value.is_unknown:
                yield prefix + field.name, value
        elif isinstance(value, Packages):
            for name, package in value.items.items():
                yield from _walk(package, f"{prefix}{field.name}.{name}.")
        elif isinstance(section, Environment):
            yield from _walk(value, f"{prefix}{field.name}.")
