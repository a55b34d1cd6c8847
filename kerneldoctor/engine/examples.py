"""Turns the `facts` of a rule's example into a Case, and says what the rule answers on it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from ..environment import NOT_LOOKED, Environment, Fact, Package, Packages, absent, blank, decode, known
from .case import Case, Kernel, Tables, Workload
from .matching import judge
from .model import Example, Expect, Rule
from .symptoms import Symptoms

_GIVEN = "example"


def example_case(example: Example, tables: Tables) -> Case:
    """The Case of an example: what it names is known, `absent` paths are absent, the rest is unknown.

    Raises ValueError when it names something that the schema does not have.
    """
    facts = dict(example.facts)
    gone = set(example.absent)
    kernel = _section(Kernel, facts.pop("kernel"), "kernel", gone) if "kernel" in facts else None
    workload = _section(Workload, facts.pop("workload"), "workload", gone) if "workload" in facts else None
    environment = _section(Environment, facts, "", gone)
    if gone:
        raise ValueError(f"absent names {sorted(gone)[0]!r}, which is no section or fact")
    return Case(environment, tables, kernel, workload)


def answer(rule: Rule, example: Example, tables: Tables) -> tuple[Expect | None, tuple[str, ...]]:
    """What the rule says of the example, and the facts it misses. None: text given, no symptom matches."""
    if example.expect == "symptom":
        return ("symptom" if symptom_matches(rule, example.text) else None), ()
    if rule.when is None:
        return "silent", ()
    case = example_case(example, tables)
    judgement = judge([rule], case)
    if judgement.findings and judgement.findings[0].certainty == "confirmed":
        return "fires", ()
    if judgement.findings:
        return "undetermined", judgement.findings[0].missing
    if rule.id in judgement.undetermined:
        return "undetermined", judgement.undetermined[rule.id]
    if rule.id in judgement.out_of_scope:
        return "undetermined", ("kernel" if case.kernel is None else "workload",)
    return "silent", ()


def symptom_matches(rule: Rule, text: str) -> bool:
    """Whether any symptom of the rule is in the text."""
    return bool(Symptoms([rule]).search(text.split("\n")))


def _section(kind: type, facts: Mapping[str, Any], prefix: str, gone: set[str]) -> Any:
    """A section with the given facts known, and those of `gone` (removed from it as they are used) absent."""
    hints = typing.get_type_hints(kind)
    alien = sorted(set(facts) - set(hints))
    if alien:
        raise ValueError(f"{prefix}{'.' if prefix else ''}{alien[0]} is not in the schema")
    return kind(**{name: _field(hint, facts.get(name), _join(prefix, name), gone) for name, hint in hints.items()})


def _field(hint: Any, value: Any, path: str, gone: set[str]) -> Any:
    if path in gone:
        gone.discard(path)
        return absent(_GIVEN) if typing.get_origin(hint) is Fact else blank(hint, absent(_GIVEN))
    if hint is Packages:
        return _packages(value or {}, path, gone)
    if dataclasses.is_dataclass(hint):
        return _section(typing.cast(type, hint), value or {}, path, gone)
    if value is None:
        return NOT_LOOKED
    if typing.get_origin(hint) is not Fact:  # a plain field of a list item, such as extension.module
        return value
    return known(_value(typing.get_args(hint)[0], value, path), _GIVEN)


def _value(kind: Any, value: Any, path: str) -> Any:
    if typing.get_origin(kind) is tuple and isinstance(value, (list, tuple)):
        item = typing.get_args(kind)[0]
        if dataclasses.is_dataclass(item):
            defaults = {"module": "?"} if any(f.name == "module" for f in dataclasses.fields(item)) else {}
            return tuple(_section(typing.cast(type, item), {**defaults, **v}, path, set()) for v in value)
    return decode(kind, value, path)


def _packages(given: Mapping[str, Any], path: str, gone: set[str]) -> Packages:
    """`{ kernels = "0.17.2" }` or `{ kernels = { version = "0.17.2" } }`; `"*" = true` makes the listing complete."""
    items: dict[str, Package] = {}
    for name, value in given.items():
        if name != "*":
            items[name] = _section(Package, value if isinstance(value, dict) else {"version": value}, path, set())
    for entry in [entry for entry in gone if entry.startswith(f"{path}.")]:
        items[entry.removeprefix(f"{path}.")] = blank(Package, absent(_GIVEN))
        gone.discard(entry)
    return Packages(items, bool(given.get("*", False)), _GIVEN)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
