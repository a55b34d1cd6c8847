"""Three-valued conditions (Kleene) over facts: true, false, or None for "cannot tell"."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from ..environment import Fact, State
from .case import Case
from .model import Condition, Leaf, Tree

Truth = bool | None

UNARY = ("is", "one_of", "in", "at_least", "at_most", "has", "matches", "present")
BINARY = ("same_as", "differs_from", "newer_than", "older_than")
OPERATORS = (*UNARY, *BINARY)


def evaluate(condition: Condition, case: Case) -> Truth:
    """The truth of a condition in a case."""
    if isinstance(condition, Leaf):
        return evaluate_leaf(condition, case)
    if condition.kind == "not":
        return negate(evaluate(condition.items[0], case))
    decisive = condition.kind == "any"  # one true settles `any`, one false settles `all`
    doubt = False
    for item in condition.items:
        truth = evaluate(item, case)
        if truth is decisive:
            return decisive
        doubt = doubt or truth is None
    return None if doubt else not decisive


def evaluate_leaf(leaf: Leaf, case: Case) -> Truth:
    """The truth of one comparison. On an absent fact every operator but `present` is false."""
    fact = case.fact(leaf.fact)
    if leaf.operator == "present":
        return None if fact.is_unknown else fact.is_known is leaf.operand
    if leaf.operator in BINARY:
        return _compare_facts(leaf.operator, fact, case.fact(leaf.operand))
    if fact.state is not State.KNOWN:
        return None if fact.is_unknown else False
    return _UNARY[leaf.operator](fact.value, leaf.operand)


def negate(truth: Truth) -> Truth:
    """Kleene negation."""
    return None if truth is None else not truth


def leaves(condition: Condition | None) -> Iterator[Leaf]:
    """Every comparison of a condition, in order."""
    if isinstance(condition, Leaf):
        yield condition
    elif isinstance(condition, Tree):
        for item in condition.items:
            yield from leaves(item)


def undecided(condition: Condition, case: Case) -> Iterator[Leaf]:
    """The comparisons that keep a condition from being decided."""
    if evaluate(condition, case) is not None:
        return
    if isinstance(condition, Leaf):
        yield condition
    else:
        for item in condition.items:
            yield from undecided(item, case)


def deciding(condition: Condition, case: Case) -> Iterator[Leaf]:
    """The comparisons that speak for a condition: those that are true, or false below a `not`."""
    if isinstance(condition, Leaf):
        if evaluate_leaf(condition, case) is not None:
            yield condition
        return
    for item in condition.items:
        if condition.kind != "any" or evaluate(item, case):
            yield from deciding(item, case)


@functools.lru_cache(maxsize=4096)
def parse_version(text: str) -> Version | None:
    """A version, or None where the text is none. CUDA, driver, glibc and compute capability count as versions."""
    try:
        return Version(text)
    except ValueError:  # InvalidVersion, or a number of more digits than Python reads
        return None


def major_of(version: object) -> int | None:
    """The first number of a version, 13 of "13.0"; None where it is no version."""
    parsed = parse_version(str(version))
    return parsed.major if parsed is not None else None


@functools.lru_cache(maxsize=4096)
def parse_specifier(text: str) -> SpecifierSet | None:
    """A version specifier, or None where the text is none."""
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def in_range(version: object, specifier: str) -> Truth:
    """Whether a version lies in a specifier, pre-releases included; None where it is no version.

    A nightly counts as the release it leads to when the bound is that release: 2.14.0.dev20261101 is not in
    ">=2.14", as PEP 440 has it; write ">=2.14.dev0" where nightlies are meant.
    """
    parsed, wanted = parse_version(str(version)), parse_specifier(specifier)
    if parsed is None or wanted is None:
        return None
    return wanted.contains(parsed, prereleases=True)


@functools.lru_cache(maxsize=4096)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _equal(value: object, operand: object) -> bool:
    return type(value) is type(operand) and value == operand


def _at_least(value: Any, operand: Any) -> Truth:
    return bool(value >= operand) if isinstance(value, (int, float)) else None


def _at_most(value: Any, operand: Any) -> Truth:
    return bool(value <= operand) if isinstance(value, (int, float)) else None


_UNARY: dict[str, Callable[[Any, Any], Truth]] = {
    "is": _equal,
    "one_of": lambda value, operand: any(_equal(value, item) for item in operand),
    "in": in_range,
    "at_least": _at_least,
    "at_most": _at_most,
    "has": lambda value, operand: operand in value if isinstance(value, (tuple, list)) else None,
    "matches": lambda value, operand: bool(_pattern(operand).search(str(value)[:65536])),
}


def _compare_facts(operator: str, left: Fact[Any], right: Fact[Any]) -> Truth:
    if left.is_absent or right.is_absent:
        return False
    if left.is_unknown or right.is_unknown:
        return None
    if operator in ("same_as", "differs_from"):
        return (left.value == right.value) is (operator == "same_as")
    one, other = parse_version(str(left.value)), parse_version(str(right.value))
    if one is None or other is None:
        return None
    return one > other if operator == "newer_than" else one < other
