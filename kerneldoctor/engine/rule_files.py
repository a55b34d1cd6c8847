"""Rule files and tables as authors write them: read, checked for form, and handed on as plain JSON values.

A rule is a Markdown file whose head is TOML in a ```toml fence. What a rule means is not checked here: see `lint`.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import RuleError, UsageError
from ..files import read_file
from .conditions import OPERATORS

RULE_LIMIT = 1024 * 1024  # bytes; the longest rule has 10 KiB
_HEAD = re.compile(r"\A```toml\n(?P<head>.*?)\n```\n(?P<body>.*)\Z", re.DOTALL)

_RULE_KEYS = {
    "id": str, "name": str, "title": str, "diagnosis": str, "severity": str, "confidence": str, "component": str,
    "added": datetime.date, "review_by": datetime.date, "withdrawn": datetime.date, "superseded_by": str,
    "aliases": list, "each": str, "when": dict, "explains": list, "symptom": list, "remedy": list,
    "evidence": list, "example": list,
}  # fmt: skip
_REQUIRED = ("id", "name", "title", "diagnosis", "severity", "confidence", "component", "added", "review_by")
_SYMPTOM_KEYS = {"match": str, "where": str, "note": str, "strength": str, "unless": str, "near": str, "says": dict}
_REMEDY_KEYS = {
    "title": str, "when": dict, "command": str, "pin": str, "snippet": str, "verify": str, "effect": str,
    "undo": str, "note": str,
}  # fmt: skip
_EVIDENCE_KEYS = {"kind": str, "url": str, "says": str, "seen": datetime.date}
_EXAMPLE_KEYS = {"name": str, "expect": str, "facts": dict, "absent": list, "text": str, "needs": list}
_CHOICES = {
    "severity": ("error", "warning", "info"),
    "confidence": ("confirmed", "reported", "inferred"),
    "effect": ("safe", "caution", "destructive"),
    "kind": ("report", "fix", "reproduction", "vendor"),
    "expect": ("fires", "silent", "undetermined", "symptom"),
    "each": ("gpus", "extensions"),
    "strength": ("decisive", "telling", "hint"),
}


def read_rules(folder: Path) -> list[dict[str, Any]]:
    """Every rule of a folder as checked JSON, by id. Raises RuleError with file and line, also for an id used twice."""
    rules: dict[str, dict[str, Any]] = {}
    for path in sorted(path for path in folder.rglob("*.md") if path.name.upper() != "README.MD"):
        rule = read_rule(path, path.relative_to(folder).as_posix())
        if rule["id"] in rules:
            raise RuleError(f"{rule['file']}:1: id {rule['id']} is already used by {rules[rule['id']]['file']}")
        rules[rule["id"]] = rule
    return [rules[key] for key in sorted(rules)]


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a table file: a TOML document of `[[row]]`, each with a `source`."""
    try:
        rows = tomllib.loads(path.read_text("utf-8")).get("row", [])
    except tomllib.TOMLDecodeError as error:
        raise RuleError(f"{path.name}: {error}") from None
    return [{key: _plain(value) for key, value in row.items()} for row in rows]


def read_rule(path: Path, shown: str) -> dict[str, Any]:
    """One rule file as checked JSON. Raises RuleError that names file and line."""
    try:
        text = read_file(str(path), "a rule", RULE_LIMIT).decode("utf-8-sig").replace("\r\n", "\n")
    except (UsageError, UnicodeDecodeError) as error:
        raise RuleError(f"{shown}:1: cannot be read ({error})") from None
    match = _HEAD.match(text)
    if match is None:
        raise RuleError(f"{shown}:1: a rule starts with a ```toml fence that holds its head")
    try:
        head = tomllib.loads(match["head"])
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise RuleError(f"{shown}:{int(line[1]) + 1 if line else 1}: {error}") from None
    _check_rule(head, _Place(shown, match["head"]))
    return {**{key: _plain(value) for key, value in head.items()}, "body": match["body"].strip(), "file": shown}


def _plain(value: object) -> Any:
    """TOML values as JSON: dates become text."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


class _Place:
    """Turns a complaint about a key into file:line."""

    def __init__(self, file: str, head: str) -> None:
        self._file = file
        self._lines = head.split("\n")

    def error(self, message: str, near: str = "") -> RuleError:
        """A RuleError at the first line of the head that contains `near`."""
        line = next((i for i, text in enumerate(self._lines, 2) if near and near in text), 1)
        return RuleError(f"{self._file}:{line}: {message}")


def _check_rule(head: Mapping[str, Any], place: _Place) -> None:
    _check_keys(head, _RULE_KEYS, _REQUIRED, "rule", place)
    if not re.fullmatch(r"[A-Z]{2,8}\d{4}", head["id"]):
        raise place.error(f"id {head['id']!r} is not two to eight capitals and four digits, such as KD2101", "id")
    if "when" not in head and not head.get("symptom"):
        raise place.error("a rule needs a [when] or a [[symptom]]")
    if "when" in head:
        _check_condition(head["when"], place)
    for symptom in head.get("symptom", ()):
        _check_keys(symptom, _SYMPTOM_KEYS, ("match",), "[[symptom]]", place)
        for pattern in (symptom[key] for key in ("match", "unless", "near") if key in symptom):
            _check_pattern(pattern, place)
    for remedy in head.get("remedy", ()):
        _check_keys(remedy, _REMEDY_KEYS, ("title",), "[[remedy]]", place)
        if "when" in remedy:
            _check_condition(remedy["when"], place)
    for evidence in head.get("evidence", ()):
        _check_keys(evidence, _EVIDENCE_KEYS, ("kind", "url", "seen"), "[[evidence]]", place)
    for example in head.get("example", ()):
        _check_keys(example, _EXAMPLE_KEYS, ("name", "expect"), "[[example]]", place)


def _check_keys(data: object, allowed: Mapping[str, type], required: tuple[str, ...], what: str, place: _Place) -> None:
    if not isinstance(data, dict):
        raise place.error(f"{what} is not a table")
    for key, value in data.items():
        if key not in allowed:
            raise place.error(f"unknown key {key!r} in {what}; known: {', '.join(allowed)}", key)
        if type(value) is not allowed[key]:
            raise place.error(f"{key} in {what} must be a {allowed[key].__name__}", key)
        if key in _CHOICES and value not in _CHOICES[key]:
            raise place.error(f"{key} is {value!r}; one of {', '.join(_CHOICES[key])}", key)
    for key in required:
        if key not in data:
            raise place.error(f"{what} lacks {key!r}")


def _check_condition(data: object, place: _Place) -> None:
    if not isinstance(data, dict) or not data:
        raise place.error(f"a condition is a table, found {data!r}", "when")
    if "fact" in data:
        operators = [key for key in data if key != "fact"]
        if len(operators) != 1 or operators[0] not in OPERATORS:
            raise place.error(f"{data['fact']}: exactly one of {', '.join(OPERATORS)}", str(data["fact"]))
        if operators[0] == "matches":
            _check_pattern(data["matches"], place)
        return
    for key, items in data.items():
        if key not in ("all", "any", "not"):
            raise place.error(f"unknown key {key!r} in a condition; all, any, not, or a fact", key)
        for item in items if isinstance(items, list) else [items]:
            _check_condition(item, place)


def _check_pattern(pattern: object, place: _Place) -> None:
    if not isinstance(pattern, str) or len(pattern) > 300:
        raise place.error("a pattern is a text of at most 300 characters", "match")
    try:
        re.compile(pattern)
    except re.error as error:
        raise place.error(f"bad pattern: {error}", pattern) from None
    # A repeated group that itself repeats can take exponential time on hostile text.
    if re.search(r"[+*}]\)[+*{]", pattern):
        raise place.error("a repetition inside a repeated group can take exponential time", pattern)
