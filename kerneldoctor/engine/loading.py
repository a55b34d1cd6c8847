"""Rules and tables as values: the shipped ones, and an organisation's own (`--rules DIR`).

All shipped rules and tables are compiled to one bundle when the package is built; a checkout whose rule files are
newer than its bundle is read from the files. What a scan of all rules does not need is left as text until somebody
asks for it. How files are read is in `rule_files`; what a rule means is not checked here: see `lint`.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import RuleError
from .model import Condition, Deferred, Details, Evidence, Example, Leaf, Remedy, Rule, Symptom, Tree

if TYPE_CHECKING:  # `explain` reads rules and judges nothing
    from .case import Row, Tables

_PACKAGE = Path(__file__).resolve().parent.parent
BUNDLE = "bundle.jsonl"
FORMAT = 3  # of the bundle: counted up when what is written into it changes, so that no code reads another's
# The keys of a rule that only a finding, a symptom or a page needs: three quarters of the bundle.
_DETAILS = frozenset({"diagnosis", "symptom", "remedy", "evidence", "example", "body"})


def rules_folder() -> Path:
    """Where the shipped rules are: beside the package in a checkout, inside it in an installed wheel."""
    checkout = _PACKAGE.parent / "rules"
    return checkout if (checkout / "tables").is_dir() else _PACKAGE / "rules"


def shipped_rules() -> tuple[Rule, ...]:
    """Every shipped rule, by id."""
    return _shipped()[0]


def shipped_tables() -> Tables:
    """Every shipped table: name to rows."""
    return _shipped()[1]


def load_rules(folder: Path) -> tuple[Rule, ...]:
    """The rules of a folder, by id. Raises RuleError with file and line."""
    from .rule_files import read_rules

    if not folder.is_dir():
        raise RuleError(f"{folder}: no such folder of rules")
    rules = tuple(map(rule_from_json, read_rules(folder)))
    if not rules:
        raise RuleError(f"no rule files in {folder}: a rule is a Markdown file (*.md) that starts with a ```toml fence")
    return rules


def all_rules(extra: tuple[Path, ...] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those of extra folders. An extra rule may not shadow a shipped id."""
    rules = {rule.id: rule for rule in shipped_rules()}
    for folder in extra:
        for rule in load_rules(folder):
            if rule.id in rules:
                raise RuleError(f"{folder / rule.file}:1: id {rule.id} is already used by {rules[rule.id].file}")
            rules[rule.id] = rule
    return tuple(rules[key] for key in sorted(rules))


def compile_bundle(folder: Path) -> str:
    """The bundle of a folder of rules, a JSON value a line: what every scan needs, each rule's details, each table."""
    from .rule_files import read_rules, read_table

    rules = read_rules(folder)
    tables = {path.stem: read_table(path) for path in sorted((folder / "tables").glob("*.toml"))}
    heads = [{key: value for key, value in rule.items() if key not in _DETAILS} for rule in rules]
    details = [{key: value for key, value in rule.items() if key in _DETAILS} for rule in rules]
    parts = [{"format": FORMAT, "rules": heads, "tables": list(tables)}, *details, *tables.values()]
    return "\n".join(json.dumps(part, separators=(",", ":"), sort_keys=True) for part in parts)


def parse_bundle(text: str) -> tuple[tuple[Rule, ...], Tables]:
    """The rules and tables of what `compile_bundle` made."""
    first, *rest = text.split("\n")
    index = json.loads(first)
    heads, names = index["rules"], index["tables"]
    rules = tuple(_rule(head, functools.partial(json.loads, line)) for head, line in zip(heads, rest, strict=False))
    return rules, _Tables(dict(zip(names, rest[len(heads) :], strict=True)))


def write_bundle(folder: Path) -> Path:
    """Compile a folder of rules into its bundle, in one step so that no reader sees half of it."""
    target = folder / BUNDLE
    scratch = target.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(compile_bundle(folder), "utf-8")
    scratch.replace(target)
    return target


def rule_from_json(data: Mapping[str, Any]) -> Rule:
    """A Rule from what `read_rule` returned."""
    return _rule(data, lambda: data)


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
def _shipped() -> tuple[tuple[Rule, ...], Tables]:
    folder = rules_folder()
    bundle = folder / BUNDLE
    # In a wheel the bundle was made from the very files beside it; in a checkout a rule may have been edited since.
    if bundle.is_file() and (folder.parent == _PACKAGE or bundle.stat().st_mtime >= _newest(folder)):
        text = bundle.read_text("utf-8")
        if _is_ours(text):
            return parse_bundle(text)
    return parse_bundle(compile_bundle(folder))


def _is_ours(bundle: str) -> bool:
    """Whether the text was written by this code: an older or newer kerneldoctor may have left it in the folder."""
    return bundle.startswith(f'{{"format":{FORMAT},')


class _Tables(Mapping[str, "tuple[Row, ...]"]):
    """Tables by name; one is parsed when it is first asked for."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._rows: dict[str, tuple[Row, ...]] = {}

    def __getitem__(self, name: str) -> tuple[Row, ...]:
        if name not in self._rows:
            self._rows[name] = tuple(json.loads(self._texts[name]))
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _newest(folder: Path) -> float:
    """When a rule or table below a folder, or the code that compiles them, was last changed."""
    newest = max(os.stat(_PACKAGE / "engine" / name).st_mtime for name in ("loading.py", "rule_files.py"))
    for root, _, names in os.walk(folder):
        if root != str(folder):  # a file was removed or renamed; the folder itself changes with the bundle in it
            newest = max(newest, os.stat(root).st_mtime)
        newest = max(
            newest, *(os.stat(os.path.join(root, n)).st_mtime for n in names if n.endswith((".md", ".toml"))), 0
        )
    return newest


def _rule(data: Mapping[str, Any], details: Callable[[], Mapping[str, Any]]) -> Rule:
    """A rule whose details are read when they are first asked for."""
    texts = ("id", "name", "title", "component", "added", "review_by", "withdrawn", "superseded_by", "each", "file")
    return Rule(
        **{key: data.get(key, "") for key in texts},
        severity=data["severity"],
        confidence=data["confidence"],
        aliases=tuple(data.get("aliases", ())),
        when=parse_condition(data["when"]) if "when" in data else None,
        explains=tuple(data.get("explains", ())),
        details=Deferred(lambda: _details(details())),
    )


def _details(data: Mapping[str, Any]) -> Details:
    return Details(
        diagnosis=data.get("diagnosis", ""),
        symptoms=tuple(Symptom(**symptom) for symptom in data.get("symptom", ())),
        remedies=tuple(_remedy(r) for r in data.get("remedy", ())),
        evidence=tuple(Evidence(e["kind"], e["url"], e.get("says", ""), e["seen"]) for e in data.get("evidence", ())),
        examples=tuple(_example(e) for e in data.get("example", ())),
        body=data.get("body", ""),
    )


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
