"""`dataclass` for our values: frozen and slotted as the standard library makes them, in a fifth of the time.

`dataclasses.dataclass(frozen=True, slots=True)` writes and compiles six methods for every class. That takes 0.7 ms,
and a scan imports a hundred such classes. Here only `__init__` is compiled; the other methods are shared. The fields
are the standard library's, so `fields`, `replace`, `asdict` and `match` work, and type checkers see the original.
It must not grow features: a class that needs more takes the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

__all__ = ["dataclass"]
T = TypeVar("T")


def _define(cls: type[T]) -> type[T]:
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    made.__compared__ = tuple(f.name for f in dataclasses.fields(made) if f.compare)
    made.__init__ = _initialiser(made)
    for name, method in _SHARED.items():
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _initialiser(made: Any) -> Callable[..., None]:
    """`__init__` of a class: its fields as parameters, each put into its slot past the lock of `_refuse`."""
    scope: dict[str, Any] = {"__put": object.__setattr__, "__default": object()}
    parameters, body = ["self"], []
    for field in dataclasses.fields(made):
        name = value = field.name
        if not field.init or field.kw_only or hasattr(made, "__post_init__"):
            raise TypeError(f"{made.__qualname__}.{name}: this needs the dataclass of the standard library")
        if field.default_factory is not dataclasses.MISSING:
            scope[f"__make_{name}"] = field.default_factory
            value = f"__make_{name}() if {name} is __default else {name}"
            name += "=__default"
        elif field.default is not dataclasses.MISSING:
            scope[f"__{name}"] = field.default
            name += f"=__{name}"
        parameters.append(name)
        body.append(f" __put(self, {field.name!r}, {value})\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(body) or ' pass'}", scope)
    made_init: Callable[..., None] = scope["__init__"]
    made_init.__qualname__ = f"{made.__qualname__}.__init__"
    return made_init


def _equal(self: Any, other: object) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in value.__compared__])


def _repr(self: Any) -> str:
    shown = ", ".join([f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr])
    return f"{self.__class__.__qualname__}({shown})"


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED: dict[str, Callable[..., Any]] = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__getstate__": _get_state,  # without these two, copy and pickle would use __setattr__
    "__setstate__": _set_state,
}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: Literal[True], slots: Literal[True]) -> Callable[[type[T]], type[T]]:
        """A frozen, slotted dataclass. Raises TypeError for a class that uses more than plain fields."""
        return _define
