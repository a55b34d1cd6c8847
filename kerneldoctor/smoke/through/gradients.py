"""The gradients of a model's parameters, and which of them are wrong. Child side; knows no kernel and no layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import numerics
from ..bench import Bench

if TYPE_CHECKING:
    from ..contracts._contract import Tensors

_PREFIX = "grad "
_NAMED = 3  # that a sentence names


def gradients_of(model: Any) -> Tensors:
    """The gradient of every parameter that has one, by its name."""
    return {f"{_PREFIX}{name}": p.grad for name, p in model.named_parameters() if p.grad is not None}


def judge_gradients(bench: Bench, got: Tensors, exact: Tensors, baselines: list[Tensors]) -> None:
    """Compares every parameter's gradient; one sentence names those that are furthest off."""
    wanted = [name for name in exact if name.startswith(_PREFIX)]
    bad: list[tuple[float, str]] = []
    for name in wanted:
        if name not in got:
            bad.append((float("inf"), f"{name} is missing"))
            continue
        error, why = numerics.compare(got[name], exact[name], [b[name] for b in baselines if name in b], gradient=True)
        bench.errors[name] = error
        if why:
            bad.append((float("inf") if error.ratio is None else error.ratio, f"{name} {why}"))
    if bad:
        worst = [text for _, text in sorted(bad, key=lambda one: -one[0])]
        more = f"; and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        bench.wrong(f"{len(bad)} of {len(wanted)} parameter gradients are off: {'; '.join(worst[:_NAMED])}{more}")
