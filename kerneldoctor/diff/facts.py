"""The facts of two Environments side by side: where they differ, and how much a difference counts. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from ..engine.case import ITEMS, Case
from ..engine.conditions import BINARY, leaves
from ..engine.model import Rule
from ..engine.templates import holds_facts
from ..environment import Environment, Fact, Packages
from ..values import dataclass

# decides: a finding that only one side has rests on it. read: some rule reads it. noise: differs between any two.
Weight = Literal["decides", "read", "other", "noise"]
WEIGHTS: tuple[Weight, ...] = ("decides", "read", "other", "noise")
_NOISE = re.compile(
    r".*(?:_free_bytes|\.memory_bytes|\.uuid|\.location|\.file|\.executable|\.path|\.home|_cache|_home)"
    r"|system\.(?:kernel|cpu|memory_bytes)|python\.site_packages|gpus\[\d+\]\.index|torch\.git_version"
    r"|driver\.(?:libcuda|device_nodes)|toolkit\.(?:cudart|nvrtc|nvccs)|huggingface\.(?:cached_kernels|cache_.*)"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that is not the same on both sides."""

    path: str  # "torch.cuda", "gpus[0].name", "packages.kernels", "extensions[flash_attn_2_cuda].archs"
    a: Fact[Any]
    b: Fact[Any]
    weight: Weight
    rules: tuple[str, ...] = ()  # whose finding, which only one side has, rests on it

    @property
    def one_sided(self) -> bool:
        """Whether it is not known on one side, so that it may be no difference at all."""
        return self.a.is_unknown or self.b.is_unknown


def differences(
    a: Environment, b: Environment, deciding: Mapping[str, tuple[str, ...]], read: frozenset[str]
) -> tuple[Difference, ...]:
    """Where the facts differ, what counts most first; paths of `deciding` and `read` are those of rules."""
    left, right = dict(flat(a)), dict(flat(b))
    found = []
    for path in dict.fromkeys((*left, *right)):
        one, other = left.get(path, _other_side(path, a)), right.get(path, _other_side(path, b))
        listed_once = path not in left or path not in right
        if listed_once and (one.is_unknown or other.is_unknown):
            continue  # of an item that only one side has, what nobody knows is no difference
        if (one.is_unknown and other.is_unknown) or (one.state, one.value) == (other.state, other.value):
            continue
        named = _as_in_rules(path)
        rules = next((deciding[name] for name in named if name in deciding), ())
        found.append(Difference(path, one, other, _weight(path, rules, not read.isdisjoint(named)), rules))
    return tuple(sorted(found, key=lambda d: (WEIGHTS.index(d.weight), d.one_sided)))


def flat(environment: Environment) -> Iterator[tuple[str, Fact[Any]]]:
    """Every fact by its path; items of lists by number, extensions by module, packages by name."""
    yield from _walk(environment, "")


def read_paths(rules: Iterable[Rule], environments: Iterable[Environment], tables: Any) -> frozenset[str]:
    """The recorded facts that rules read, straight or through a derived fact."""
    found: set[str] = set()
    rules = tuple(rules)
    for environment in environments:
        case = Case(environment, tables)
        cases = {each: case.blank_item(each) for each in ITEMS}
        for rule in rules:
            if rule.when is None or rule.withdrawn:
                continue
            here = cases[rule.each] if rule.each else case
            for leaf in leaves(rule.when):
                for path in (leaf.fact, leaf.operand) if leaf.operator in BINARY else (leaf.fact,):
                    found |= {path, *here.basis(path)}
    return frozenset(found)


def _walk(node: Any, path: str) -> Iterator[tuple[str, Fact[Any]]]:
    if isinstance(node, Fact):
        items = node.value if isinstance(node.value, tuple) else ()
        if not holds_facts(items):
            yield path, node
            return
        for number, item in enumerate(items):
            yield from _walk(item, f"{path}[{getattr(item, 'module', number)}]")
    elif isinstance(node, Packages):
        for name, package in sorted(node.items.items()):
            yield f"{path}.{name}", package.version
    elif dataclasses.is_dataclass(node):
        for part in dataclasses.fields(node):
            value = getattr(node, part.name)
            if isinstance(value, Fact | Packages) or dataclasses.is_dataclass(value):
                yield from _walk(value, f"{path}.{part.name}" if path else part.name)


def _other_side(path: str, environment: Environment) -> Fact[Any]:
    """What a side has at a path that it does not list: something that is not there, or was not looked for."""
    from ..environment import absent, unknown

    if path.startswith("packages."):
        return environment.packages.get(path.removeprefix("packages.")).version
    head = path.partition("[")[0]
    try:
        listed = environment.fact(head)
    except KeyError:
        return unknown("not listed")
    return unknown(listed.note) if listed.is_unknown else absent(listed.note)


def _as_in_rules(path: str) -> tuple[str, ...]:
    """The spellings under which rules name the fact at a path."""
    head, bracket, rest = path.partition("[")
    if bracket:
        item = ITEMS[head][0] if head in ITEMS else head
        return (f"{item}{rest.partition(']')[2]}", head)
    return (f"{path}.version", path) if path.startswith("packages.") else (path,)


def _weight(path: str, rules: tuple[str, ...], read: bool) -> Weight:
    if rules:
        return "decides"
    if _NOISE.fullmatch(path):
        return "noise"
    return "read" if read else "other"
