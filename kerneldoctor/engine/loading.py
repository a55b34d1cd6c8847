"""Rule files and tables from disk: the shipped ones, and an organisation's own (`--rules DIR`).

A rule is a Markdown file whose head is TOML in a ```toml fence. All shipped rules and tables are compiled to one
`bundle.json` when the package is built; a checkout whose rule files are newer than its bundle is read from the
files. What a rule means is not checked here: see `lint`.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..errors import RuleError
from .case import Row, Tables
from .conditions import OPERATORS
from .model import Condition, Evidence, Example, Leaf, Remedy, Rule, Symptom, Tree

_HEAD = re.compile(r"\A```toml\n(?P<head>.*?)\n```\n(?P<body>.*)\Z", re.DOTALL)
_PACKAGE = Path(__file__).resolve().parent.parent
BUNDLE = "bundle.json"

_RULE_KEYS = {
    "id": str, "name": str, "title": str, "diagnosis": str, "severity": str, "confidence": str, "component": str,
    "added": datetime.date, "review_by": datetime.date, "withdrawn": datetime.date, "superseded_by": str,
    "aliases": list, "each": str, "when": dict, "explains": list, "symptom": list, "remedy": list,
    "evidence": list, "example": list,
}  # fmt: skip
_REQUIRED = ("id", "name", "title", "diagnosis", "severity", "confidence", "component", "added", "review_by")
_SYMPTOM_KEYS = {"match": str, "where": str, "note": str}
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
}


def rules_folder() -> Path:
    """Where the shipped rules are: beside the package in a checkout, inside it in an installed wheel."""
    checkout = _PACKAGE.parent / "rules"
    return checkout if (checkout / "tables").is_dir() else _PACKAGE / "rules"


def shipped_rules() -> tuple[Rule, ...]:
    """Every shipped rule, by id."""
    return tuple(rule_from_json(item) for item in _bundle()["rules"])


def shipped_tables() -> Tables:
    """Every shipped table: name to rows."""
    return cast(Tables, _bundle()["tables"])


def load_rules(folder: Path) -> tuple[Rule, ...]:
    """The rules of a folder, by id. Raises RuleError with file and line."""
    if not folder.is_dir():
        raise RuleError(f"{folder}: no such folder of rules")
    rules = [rule_from_json(read_rule(path, path.relative_to(folder).as_posix())) for path in _rule_files(folder)]
    seen: dict[str, str] = {}
    for rule in rules:
        if rule.id in seen:
            raise RuleError(f"{rule.file}:1: id {rule.id} is already used by {seen[rule.id]}")
        seen[rule.id] = rule.file
    return tuple(sorted(rules, key=lambda rule: rule.id))


def all_rules(extra: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those of extra folders. An extra rule may not shadow a shipped id."""
    rules = {rule.id: rule for rule in shipped_rules()}
    for folder in extra:
        for rule in load_rules(folder):
            if rule.id in rules:
                raise RuleError(f"{folder / rule.file}:1: id {rule.id} is already used by {rules[rule.id].file}")
            rules[rule.id] = rule
    return tuple(rules[key] for key in sorted(rules))


def compile_bundle(folder: Path) -> dict[str, Any]:
    """What `bundle.json` holds for a folder of rules."""
    rules = [read_rule(path, path.relative_to(folder).as_posix()) for path in _rule_files(folder)]
    tables = {path.stem: read_table(path) for path in sorted((folder / "tables").glob("*.toml"))}
    return {"rules": sorted(rules, key=lambda rule: str(rule["id"])), "tables": tables}


def write_bundle(folder: Path) -> Path:
    """Compile a folder of rules into its `bundle.json`, in one step so that no reader sees half of it."""
    target = folder / BUNDLE
    scratch = target.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(json.dumps(compile_bundle(folder), separators=(",", ":"), sort_keys=True), "utf-8")
    scratch.replace(target)
    return target


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
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
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


def rule_from_json(data: Mapping[str, Any]) -> Rule:
    """A Rule from what `read_rule` returned."""
    return Rule(
        **{key: str(data.get(key, "")) for key in
           ("id", "name", "title", "diagnosis", "component", "added", "review_by", "withdrawn", "superseded_by",
            "each", "body", "file")},
        severity=data["severity"],
        confidence=data["confidence"],
        aliases=tuple(data.get("aliases", ())),
        when=parse_condition(data["when"]) if "when" in data else None,
        explains=tuple(data.get("explains", ())),
        symptoms=tuple(Symptom(s["match"], s.get("where", ""), s.get("note", "")) for s in data.get("symptom", ())),
        remedies=tuple(_remedy(r) for r in data.get("remedy", ())),
        evidence=tuple(Evidence(e["kind"], e["url"], e.get("says", ""), e["seen"]) for e in data.get("evidence", ())),
        examples=tuple(_example(e) for e in data.get("example", ())),
    )  # fmt: skip


def parse_condition(data: Mapping[str, Any]) -> Condition:
    """A condition from its checked JSON form. Several keys of one level are joined by `all`."""
    if "fact" in data:
        operator = next(key for key in data if key != "fact")
        operand = tuple(data[operator]) if isinstance(data[operator], list) else data[operator]
        return Leaf(data["fact"], operator, operand)
    parts: list[Condition] = []
    for kind in ("all", "any", "not"):
        if kind in data:
            items = data[kind] if isinstance(data[kind], list) else [data[kind]]
            parts.append(Tree(cast(Any, kind), tuple(parse_condition(item) for item in items)))
    return parts[0] if len(parts) == 1 else Tree("all", tuple(parts))


@functools.cache
def _bundle() -> dict[str, Any]:
    folder = rules_folder()
    bundle = folder / BUNDLE
    # In a wheel the bundle was made from the very files beside it; in a checkout a rule may have been edited since.
    if bundle.is_file() and (folder.parent == _PACKAGE or bundle.stat().st_mtime >= _newest(folder)):
        return _as_tables(json.loads(bundle.read_text("utf-8")))
    return _as_tables(compile_bundle(folder))


def _as_tables(bundle: dict[str, Any]) -> dict[str, Any]:
    tables: dict[str, tuple[Row, ...]] = {name: tuple(rows) for name, rows in bundle["tables"].items()}
    return {"rules": bundle["rules"], "tables": tables}


def _newest(folder: Path) -> float:
    """When a rule or table below a folder was last changed."""
    newest = 0.0
    for root, _, names in os.walk(folder):
        newest = max(
            newest, *(os.stat(os.path.join(root, n)).st_mtime for n in names if n.endswith((".md", ".toml"))), 0
        )
    return newest


def _rule_files(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*.md") if path.name.upper() != "README.MD"))


def _plain(value: object) -> Any:
    """TOML values as JSON: dates become text."""
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _remedy(data: Mapping[str, Any]) -> Remedy:
    when = parse_condition(data["when"]) if "when" in data else None
    text = {key: str(data.get(key, "")) for key in ("command", "pin", "snippet", "verify", "undo", "note")}
    return Remedy(title=data["title"], when=when, effect=data.get("effect", "safe"), **text)


def _example(data: Mapping[str, Any]) -> Example:
    return Example(
        data["name"],
        data["expect"],
        data.get("facts", {}),
        tuple(data.get("absent", ())),
        data.get("text", ""),
        tuple(data.get("needs", ())),
    )


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
        _check_pattern(symptom["match"], place)
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
    if not isinstance(pattern, str) or len(pattern) > 200:
        raise place.error("a pattern is a text of at most 200 characters", "match")
    try:
        re.compile(pattern)
    except re.error as error:
        raise place.error(f"bad pattern: {error}", pattern) from None
    # A repeated group that itself repeats can take exponential time on hostile text.
    if re.search(r"[+*}]\)[+*{]", pattern):
        raise place.error("a repetition inside a repeated group can take exponential time", pattern)
