"""Texts of rules with facts in them, `{torch.cuda}`, and with clauses that need one, `[[ to {torch.cuda}]]`.

The one place that knows the form, for those who fill texts, check them or show them unfilled.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ..environment import Fact
from .case import Case

TEMPLATE = re.compile(r"\{([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)+)\}")
# What looks like a place to fill and is none: `{torch}`, `{ torch.cuda }`. `${HOME}` and `{"key": 1}` are text.
_NEARLY = r"(?<![$\\])\{\s*[A-Za-z_][\w.\s-]*\}"
# How the thing that a rule is about is called where its name is not known.
_NAMELESS = {"gpu.name": "this GPU", "extension.module": "the extension", "kernel.repo": "the kernel"}


def places(text: str) -> list[str]:
    """The facts that a text names, in order."""
    return TEMPLATE.findall(text)


def never_filled(text: str) -> list[str]:
    """What stands in braces in a text and would reach the reader as it is."""
    return re.findall(_NEARLY, TEMPLATE.sub("", text))


_OPTIONAL = re.compile(r"\[\[((?:[^\[\]]|\[(?!\[)|\](?!\]))*)\]\]")


def unbracketed(text: str) -> str:
    """A text with every clause in it that depends on a fact, `[[, here {system.libc_version}]]`."""
    return _OPTIONAL.sub(r"\1", text)


def settle(template: str, case: Case) -> str:
    """A text without the clauses in double brackets that lack a fact, and the others without their brackets."""
    return _OPTIONAL.sub(lambda clause: clause[1] if can_fill(clause[1], case) else "", template)


def fill(template: str, case: Case) -> str:
    """A text with `{fact.path}` replaced; an unknown or absent fact reads "(unknown)" or "(none)"."""
    return TEMPLATE.sub(lambda match: _say(match[1], case), settle(template, case))


def _say(path: str, case: Case) -> str:
    try:
        fact = case.fact(path)
    except KeyError:
        return f"{{{path}}}"
    if fact.is_known and fact.value != "?":
        return value_text(fact.value)
    return nameless(path, case) or ("(none)" if fact.is_absent else "(unknown)")


def can_fill(template: str, case: Case) -> bool:
    """Whether every fact that a text names is known, or has a name that stands for it."""
    return all(_say(path, case) not in ("(none)", "(unknown)") for path in places(_OPTIONAL.sub("", template)))


def nameless(path: str, case: Case) -> str:
    """How a thing is called whose name, the fact at `path`, is not known; "" where the fact is no name."""
    if path == "gpu.name" and case.item_name == "gpu" and case.fact("gpu.index").is_known:
        return f"GPU {case.fact('gpu.index').value}"
    return _NAMELESS.get(path, "")


def value_text(value: Any) -> str:
    """A fact's value within a sentence."""
    if not isinstance(value, tuple):
        return str(value)
    return count_text(value) if any(map(dataclasses.is_dataclass, value)) else ", ".join(map(str, value))


def holds_facts(items: tuple[Any, ...]) -> bool:
    """Whether a list consists of things with facts of their own (GPUs, extensions), of which no line can tell all."""
    return bool(items) and all(
        dataclasses.is_dataclass(item)
        and any(isinstance(getattr(item, f.name), Fact) for f in dataclasses.fields(item))
        for item in items
    )


def count_text(items: tuple[Any, ...]) -> str:
    """How many of which kind: "2 GPUs"."""
    kind = type(items[0]).__name__
    noun = "GPU" if kind == "Gpu" else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
    return f"{len(items)} {noun}{'' if len(items) == 1 else 's'}"
