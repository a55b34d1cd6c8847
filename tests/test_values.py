"""Our dataclass behaves as the one of the standard library does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from kerneldoctor import values

T = TypeVar("T")


def plain(define: Callable[[type[Any]], type[Any]]) -> Any:
    class Point(Generic[T]):
        """Doc."""

        x: int
        y: tuple[int, ...] = (2,)
        labels: dict[str, int] = dataclasses.field(default_factory=dict, repr=False)
        note: str = dataclasses.field(default="", compare=False)

        @property
        def double(self) -> int:
            return self.x * 2

    return define(Point)


OURS = plain(values.dataclass(frozen=True, slots=True))
THEIRS = plain(dataclasses.dataclass(frozen=True, slots=True))


@values.dataclass(frozen=True, slots=True)
class Named:
    """Has a hash and a text of its own."""

    name: str
    size: int = 1

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return 7


def outcome(act: Callable[[], Any]) -> object:
    try:
        return act()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}".replace("FrozenInstanceError: ", "AttributeError: ")


@pytest.mark.parametrize(
    "act",
    [
        lambda kind: repr(kind(1)),
        lambda kind: repr(kind(y=(), x=1, note="n")),
        lambda kind: kind(),
        lambda kind: kind(1, 2, 3, 4, 5),
        lambda kind: kind(1, z=2),
        lambda kind: kind(1) == kind(1, note="not compared"),
        lambda kind: kind(1) == kind(2),
        lambda kind: kind(1) == (1, (2,), {}),
        lambda kind: hash(kind(1, (2,), (), "a")) == hash(kind(1, (2,), (), "b")),
        lambda kind: hash(kind(1)),
        lambda kind: kind(1).labels is kind(1).labels,
        lambda kind: kind(3).double,
        lambda kind: (kind.__doc__, kind.__match_args__, kind.__slots__, kind.__qualname__, kind.__module__),
        lambda kind: dataclasses.asdict(kind(1, labels={"a": 1})),
        lambda kind: repr(dataclasses.replace(kind(1), x=9)),
        lambda kind: [(f.name, f.type, f.compare) for f in dataclasses.fields(kind)],
        lambda kind: copy.deepcopy(kind(1, labels={"a": 1})).labels,
        lambda kind: copy.copy(kind(1)) == kind(1),
        lambda kind: hasattr(kind(1), "__dict__"),
    ],
)
def test_it_does_what_the_standard_one_does(act: Callable[[Any], object]) -> None:
    assert outcome(lambda: act(OURS)) == outcome(lambda: act(THEIRS))


def test_a_value_cannot_be_changed() -> None:
    point = OURS(1)
    for change in (lambda: setattr(point, "x", 2), lambda: delattr(point, "x"), lambda: setattr(point, "new", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert point.x == 1


def test_methods_that_a_class_writes_itself_stay() -> None:
    assert (str(Named("a")), hash(Named("a")), Named("a") == Named("a")) == ("a", 7, True)
    assert pickle.loads(pickle.dumps(Named("a", 3))) == Named("a", 3)


def test_what_it_cannot_do_it_refuses() -> None:
    def keyword_only() -> None:
        @values.dataclass(frozen=True, slots=True)
        class Odd:
            name: str = dataclasses.field(kw_only=True)

    def after() -> None:
        @values.dataclass(frozen=True, slots=True)
        class Odd:
            name: str

            def __post_init__(self) -> None: ...

    for define in (keyword_only, after):
        with pytest.raises(TypeError, match="standard library"):
            define()
