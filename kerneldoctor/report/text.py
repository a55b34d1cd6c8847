"""Words and figures that every human-readable format shares. Pure; nothing here decides what is shown."""

from __future__ import annotations

import json
import re
from typing import Any

from ..engine.templates import count_text, holds_facts
from ..environment import Fact, encode

# Escape sequences in a fact or a rule would move the cursor or retitle the terminal; bidi marks reorder text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SHOWN_ITEMS = 3  # of a list value, before "+N more"


def plural(count: int, noun: str) -> str:
    """ "1 error", "2 errors"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listing(parts: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def value_text(value: Any, limit: int = SHOWN_ITEMS) -> str:
    """A fact's value on one line; of a long list the first `limit` items (0 for all)."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        if holds_facts(tuple(value)):
            return count_text(tuple(value))
        shown = value[:limit] if limit else value
        rest = f", +{len(value) - len(shown)} more" if len(shown) < len(value) else ""
        return (", ".join(value_text(item) for item in shown) + rest) or "none"
    if value is None:
        return "none"
    if isinstance(value, (str, int, float)):
        return " ".join(str(value).split()) or '""'
    fields = encode(value)  # a plain record, such as a requirement that is not met
    return " ".join(str(inner) for inner in fields.values() if inner) if isinstance(fields, dict) else str(fields)


def fact_text(fact: Fact[Any], limit: int = SHOWN_ITEMS) -> str:
    """A fact as it is: its value, "none", or that it is unknown and why."""
    if fact.is_unknown:
        return f"unknown ({fact.note})"
    return "none" if fact.is_absent else value_text(fact.value, limit)


def printable(text: str) -> str:
    """The text without what a terminal would obey instead of show."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def code_spans(text: str) -> list[str]:
    """The text cut at its `code`: by turns plain and code, plain first."""
    return re.split(r"`([^`]+)`", text)


def web_address(text: str) -> str:
    """The text where it is an address of the web that may stand in a link, else ""."""
    return text if re.fullmatch(r"https?://[A-Za-z0-9][\w./?#&=%:~+,;@!()*-]*", text, re.ASCII) else ""


def gib(count: int) -> str:
    """Bytes in GiB, "80 GiB"; below 10 with one decimal."""
    size = count / 2**30
    return f"{size:.1f} GiB" if size < 10 else f"{size:.0f} GiB"


def json_text(document: Any) -> str:
    """The one way this project prints JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
