"""What a rule, a condition and a finding are. Values only: nothing here reads files or decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Generic, Literal, TypeVar

from ..values import dataclass

T = TypeVar("T")

Severity = Literal["error", "warning", "info"]
Confidence = Literal["confirmed", "reported", "inferred"]
Certainty = Literal["confirmed", "possible"]
Effect = Literal["safe", "caution", "destructive"]
Expect = Literal["fires", "silent", "undetermined", "symptom"]
Strength = Literal["decisive", "telling", "hint"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # by harm, worst first


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison: `fact` `operator` `operand`."""

    fact: str
    operator: str
    operand: Any


@dataclass(frozen=True, slots=True)
class Tree:
    """`all`, `any` or `not` over conditions."""

    kind: Literal["all", "any", "not"]
    items: tuple[Condition, ...]


Condition = Leaf | Tree


@dataclass(frozen=True, slots=True)
class Symptom:
    """A pattern over error text.

    A named group of the pattern is a fact that the text tells: `torch__cuda` is torch.cuda.

    decisive: only this fault writes that text. telling: it speaks for this fault, others may write it too. hint: words
    of a person about what went wrong, which say nothing without facts. Words that other software writes as well weigh
    a step less (decisive: telling, telling: hint) where `near` does not stand around them.
    """

    match: str
    where: str = ""
    note: str = ""
    strength: Strength = "telling"
    unless: str = ""  # a pattern that must not stand near the match: the same text by another fault's hand
    near: str = ""  # a pattern of the component itself that stands around the match: its path, module or command
    says: Mapping[str, Any] = field(default_factory=dict)  # facts that follow from the text, by path


@dataclass(frozen=True, slots=True)
class Remedy:
    """One way to mend it. `command` is shown, never run."""

    title: str
    when: Condition | None
    command: str
    pin: str
    snippet: str
    verify: str
    effect: Effect
    undo: str
    note: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where we know it from; `says` is in our own words."""

    kind: Literal["report", "fix", "reproduction", "vendor"]
    url: str
    says: str
    seen: str


@dataclass(frozen=True, slots=True)
class Example:
    """An input with the answer that the rule must give on it."""

    name: str
    expect: Expect
    facts: Mapping[str, Any]
    absent: tuple[str, ...]
    text: str
    needs: tuple[str, ...]


class Deferred(Generic[T]):
    """A value that is made when it is first asked for. Two are equal when their values are."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: T | None = None

    @property
    def value(self) -> T:
        """The value, made once."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __eq__(self, other: object) -> bool:
        return self.value == other.value if isinstance(other, Deferred) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Details:
    """What a rule holds for its findings, symptoms and page: a scan reads it for few of its rules."""

    diagnosis: str
    symptoms: tuple[Symptom, ...]
    remedies: tuple[Remedy, ...]
    evidence: tuple[Evidence, ...]
    examples: tuple[Example, ...]
    body: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One known fault."""

    id: str
    name: str
    title: str
    severity: Severity
    confidence: Confidence
    component: str
    added: str
    review_by: str
    withdrawn: str
    superseded_by: str
    aliases: tuple[str, ...]
    each: str
    when: Condition | None
    explains: tuple[str, ...]
    file: str
    details: Deferred[Details]

    @property
    def diagnosis(self) -> str:
        """What goes wrong, in one sentence."""
        return self.details.value.diagnosis

    @property
    def symptoms(self) -> tuple[Symptom, ...]:
        """Patterns over error text."""
        return self.details.value.symptoms

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Ways to mend it, the best first."""
        return self.details.value.remedies

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Where we know it from."""
        return self.details.value.evidence

    @property
    def examples(self) -> tuple[Example, ...]:
        """Inputs with the right answer."""
        return self.details.value.examples

    @property
    def body(self) -> str:
        """The page, in Markdown."""
        return self.details.value.body


@dataclass(frozen=True, slots=True)
class UsedFact:
    """A fact that decided a finding."""

    fact: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Advice:
    """A remedy with the facts of this machine filled in."""

    title: str
    command: str
    pin: str
    snippet: str
    verify: str
    effect: Effect
    undo: str
    note: str
    certain: bool  # False: the remedy's own condition could not be decided


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds, or may hold, on this machine."""

    rule: str
    name: str
    aliases: tuple[str, ...]
    title: str
    severity: Severity
    certainty: Certainty
    confidence: Confidence
    component: str
    diagnosis: str
    subject: str  # the GPU or extension it is about, or ""
    facts: tuple[UsedFact, ...]
    missing: tuple[str, ...]
    remedies: tuple[Advice, ...]
    references: tuple[str, ...]
    explains: tuple[str, ...]
    explained_by: str  # the rule id of its cause among the same findings, or ""
    review_by: str
