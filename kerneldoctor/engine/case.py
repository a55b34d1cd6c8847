"""One question to the rules: an Environment, perhaps a candidate kernel and a workload, and what follows from them.

`Case.fact` answers every path that a rule may name: recorded facts, the item of an `each` rule (`gpu.…`,
`extension.…`), `kernel.…`, `workload.…`, and derived facts. A derived fact is a pure function over these and the
tables, registered with `derived` under a path of its own, so that rules stay plain comparisons.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from ..environment import (
    NOT_LOOKED,
    Environment,
    Extension,
    Fact,
    Gpu,
    fact_paths,
    fact_type,
    hints,
    lookup,
    unknown,
)
from ..values import dataclass

Row = Mapping[str, Any]
Tables = Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """The candidate build of a Hub kernel that a question is about."""

    repo: Fact[str] = NOT_LOOKED  # "kernels-community/flash-attn2"
    version: Fact[int] = NOT_LOOKED  # 3 for branch v3
    revision: Fact[str] = NOT_LOOKED  # as asked
    commit: Fact[str] = NOT_LOOKED  # 40 hex digits
    variant: Fact[str] = NOT_LOOKED  # "torch-stable-abi210-cu130-x86_64-linux"
    framework: Fact[str] = NOT_LOOKED  # torch | torch-stable-abi | tvm-ffi | torch-noarch
    backend: Fact[str] = NOT_LOOKED  # cuda | rocm | xpu | metal | cpu | cann | neuron
    cuda: Fact[str] = NOT_LOOKED  # of the build, "12.8"
    build_id: Fact[str] = NOT_LOOKED  # suffix of the compiled file, "48628c8"
    archs: Fact[tuple[str, ...]] = NOT_LOOKED
    python_depends: Fact[tuple[str, ...]] = NOT_LOOKED
    minver: Fact[str] = NOT_LOOKED
    trusted_publisher: Fact[bool] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Workload:
    """What the kernel is wanted for."""

    backward: Fact[bool] = NOT_LOOKED  # training
    q_heads: Fact[int] = NOT_LOOKED
    kv_heads: Fact[int] = NOT_LOOKED
    head_dim: Fact[int] = NOT_LOOKED
    dtype: Fact[str] = NOT_LOOKED  # float16 | bfloat16 | float32
    causal: Fact[bool] = NOT_LOOKED
    sliding_window: Fact[int] = NOT_LOOKED
    softcap: Fact[float] = NOT_LOOKED
    dropout: Fact[float] = NOT_LOOKED
    varlen: Fact[bool] = NOT_LOOKED
    sinks: Fact[bool] = NOT_LOOKED
    compile: Fact[bool] = NOT_LOOKED  # under torch.compile
    model_type: Fact[str] = NOT_LOOKED  # "qwen3"
    attn_implementation: Fact[str] = NOT_LOOKED
    padding_side: Fact[str] = NOT_LOOKED
    distributed: Fact[bool] = NOT_LOOKED  # more than one process


ITEMS: Mapping[str, tuple[str, type]] = {"gpus": ("gpu", Gpu), "extensions": ("extension", Extension)}
"""For `each`: the list's path, the name of one item in fact paths, and its schema."""

_QUESTION: Mapping[str, type] = {"kernel": Kernel, "workload": Workload}


@dataclass(frozen=True, slots=True)
class Derived:
    """A fact that follows from others."""

    path: str
    kind: type
    doc: str
    compute: Callable[[Case], Fact[Any]]


DERIVED: dict[str, Derived] = {}


def derived(path: str, kind: type) -> Callable[[Callable[[Case], Fact[Any]]], Callable[[Case], Fact[Any]]]:
    """Register a derived fact under `path`; the function's docstring is its documentation.

    The function reads what it needs through `case.fact` and `case.table`, and returns `unknown(...)` when a fact
    that decides is unknown; the case notes which of the facts it read were unknown.
    """

    def register(compute: Callable[[Case], Fact[Any]]) -> Callable[[Case], Fact[Any]]:
        if path in DERIVED:
            raise ValueError(f"derived fact {path} is registered twice")
        DERIVED[path] = Derived(path, kind, (compute.__doc__ or "").strip(), compute)
        return compute

    return register


@dataclasses.dataclass(slots=True)
class _Memo:
    fact: Fact[Any]
    reads: dict[str, Fact[Any]]  # recorded facts below a derived one


@dataclasses.dataclass(slots=True)
class Case:
    """See the module. Facts are memoised, so one Case serves all rules."""

    environment: Environment
    tables: Tables = field(default_factory=dict)
    kernel: Kernel | None = None
    workload: Workload | None = None
    item_name: str = ""
    item: object | None = None
    _memo: dict[str, _Memo] = field(default_factory=dict)
    _reads: list[dict[str, Fact[Any]]] = field(default_factory=list)

    def fact(self, path: str) -> Fact[Any]:
        """The fact at a path. Raises KeyError when no schema and no derived fact has it."""
        memo = self._memo.get(path)
        if memo is None:
            memo = self._memo[path] = self._find(path)
        if self._reads:
            self._reads[-1].update(memo.reads)
        return memo.fact

    def basis(self, path: str) -> Mapping[str, Fact[Any]]:
        """The recorded facts that the fact at `path` rests on (itself, unless it is derived)."""
        self.fact(path)
        return self._memo[path].reads

    def table(self, name: str) -> tuple[Row, ...]:
        """The rows of a table; empty where the bundle has none of that name."""
        return self.tables.get(name, ())

    def items(self, each: str) -> Iterator[Case]:
        """A Case per item of a list fact. Nothing where the list is absent; one unknown item where it is unknown."""
        name, kind = ITEMS[each]
        listed = self.environment.fact(each)
        values: tuple[object, ...] = listed.value or () if not listed.is_unknown else (_unknown_item(kind, listed),)
        for value in values:
            yield Case(self.environment, self.tables, self.kernel, self.workload, name, value)

    def blank_item(self, each: str) -> Case:
        """A Case about an item of a list of which nothing is known."""
        name, kind = ITEMS[each]
        return Case(self.environment, self.tables, self.kernel, self.workload, name, _unknown_item(kind))

    def _find(self, path: str) -> _Memo:
        rule = DERIVED.get(path)
        if rule is None:
            fact = self._recorded(path)
            return _Memo(fact, {path: fact})
        self._reads.append({})
        try:
            fact = rule.compute(self)
        finally:
            reads = self._reads.pop()
        return _Memo(fact, reads)

    def _recorded(self, path: str) -> Fact[Any]:
        head, _, rest = path.partition(".")
        if head in _QUESTION:
            section = self.kernel if head == "kernel" else self.workload
            fact_type(rest, _QUESTION[head])
            return lookup(section, rest) if section is not None else unknown(f"no {head} was named")
        if head == self.item_name and rest:
            return lookup(self.item, rest)
        return self.environment.fact(path)


def schema_type(path: str, each: str = "") -> Any:
    """The value type of any path that a rule may name. Raises KeyError."""
    if path in DERIVED:
        return DERIVED[path].kind
    head, _, rest = path.partition(".")
    if head in _QUESTION:
        return fact_type(rest, _QUESTION[head])
    if each and head == ITEMS[each][0]:
        return fact_type(rest, ITEMS[each][1])
    return fact_type(path)


def schema_paths() -> list[str]:
    """Every path that a rule may name, for messages that offer the nearest right one."""
    paths = [path for path, _ in fact_paths()] + list(DERIVED)
    for name, kind in (*_QUESTION.items(), *ITEMS.values()):
        paths += [path for path, _ in fact_paths(kind, f"{name}.")]
    return paths


def _unknown_item(kind: type, why: Fact[Any] = NOT_LOOKED) -> object:
    """An item of which nothing is known, for the reason that its list gives; a plain field reads "?"."""
    return kind(
        **{name: why if typing.get_origin(fact_hint) is Fact else "?" for name, fact_hint in hints(kind).items()}
    )
