"""Every fact of an Environment as flat lines, for people who want to see them all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ..engine.templates import holds_facts
from ..environment import Environment, Fact, Packages
from .text import fact_text


def all_facts(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Path, text and source of every fact; items of lists and packages one by one."""
    yield from _walk(environment, "")


def _walk(node: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(node, Fact):
        yield from _fact(node, path)
    elif isinstance(node, Packages):
        for name, package in sorted(node.items.items()):
            yield f"{path}.{name}", fact_text(package.version), package.version.note
    elif dataclasses.is_dataclass(node):
        for part in dataclasses.fields(node):
            yield from _walk(getattr(node, part.name), f"{path}.{part.name}" if path else part.name)
    else:  # a plain field of a list's item, such as the module name of an extension
        yield path, str(node), ""


def _fact(fact: Fact[Any], path: str) -> Iterator[tuple[str, str, str]]:
    items = fact.value if isinstance(fact.value, tuple) else ()
    if holds_facts(items):
        for number, item in enumerate(items):
            yield from _walk(item, f"{path}[{number}]")
    else:
        yield path, fact_text(fact, 0), "" if fact.is_unknown else fact.note
