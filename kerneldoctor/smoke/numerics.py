"""Judges one tensor: how far it is from the fp32 reference, measured by what low precision costs PyTorch itself.

Three checks, any of which fails it: everything finite, each row close, the whole tensor close. It must not know any
kernel or contract. The factors were measured by tests/benchmarks/numerics.py: the right implementations stay below half of
what is allowed, the subtly wrong ones go above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .protocol import TensorError

if TYPE_CHECKING:
    import torch

#: A row (the last dimension) may be this many times as far off as the worst of the baseline's rows near it.
ROW_FACTOR = 3.0
#: And by this many units of rounding of the rows near it, where the baseline happens to be exact.
ROW_FLOOR = 2.0
#: The whole tensor may be this many times as far off as the baseline, in the root mean square.
ALL_FACTOR = 2.0
ALL_FLOOR = 1.0
#: Rows this near count as neighbours: what a position sees, and so its rounding, changes slowly along a sequence.
NEIGHBOURS = 16


def compare(
    got: torch.Tensor,
    reference: torch.Tensor,
    baselines: Sequence[torch.Tensor],
    *,
    position: int | None = None,
    floor: float = 0.0,
) -> tuple[TensorError, str]:
    """The error of `got` and, when it is wrong, why; "" when it is right.

    reference is fp32; baselines are the same quantity from other low-precision math. position names the dimension along
    which rows are neighbours (None: all rows are alike). floor is an absolute error that is always allowed in a row.
    """
    import torch

    if tuple(got.shape) != tuple(reference.shape):
        return TensorError(None, None, None), f"has shape {tuple(got.shape)} instead of {tuple(reference.shape)}"
    if got.numel() == 0:
        return TensorError(0.0, 0.0, 0.0, (), 0.0), ""
    value, reference = got.detach().float(), reference.detach().float()
    if not bool(torch.isfinite(value).all()):
        at = _first(~torch.isfinite(value))
        count = int((~torch.isfinite(value)).sum())
        return TensorError(None, None, None, at), f"has {count} of {value.numel()} elements not finite, the first at {at}"
    error = value - reference
    unit = torch.finfo(got.dtype).eps / 2
    ratios = torch.stack(
        [
            _rows(error, reference, baselines, position, unit, floor),
            _whole(error, reference, baselines, unit, floor),
        ]
    )
    ratio, relative = float(ratios.max()), _relative(error, reference)
    worst = error.abs()
    at = tuple(int(i) for i in torch.unravel_index(worst.argmax(), worst.shape))
    baseline = max((_relative(b.float() - reference, reference) for b in baselines), default=0.0)
    made = TensorError(relative, baseline, float(worst.max()), at, ratio)
    if ratio <= 1.0:
        return made, ""
    return made, (
        f"is off by {relative:.2g} (relative, root mean square) where low precision costs {baseline:.2g}; worst {made.worst:.3g} "
        f"at {at}: {float(value[at]):.4g} instead of {float(reference[at]):.4g}"
    )


def _rows(
    error: torch.Tensor,
    reference: torch.Tensor,
    baselines: Sequence[torch.Tensor],
    position: int | None,
    unit: float,
    floor: float,
) -> torch.Tensor:
    """How many times over its tolerance the worst row is."""
    import torch

    width = error.shape[-1] ** 0.5
    size = _nearby(reference.norm(dim=-1), position)
    allowed = ROW_FLOOR * unit * size + floor * width
    for baseline in baselines:
        cost = _nearby((baseline.float() - reference).norm(dim=-1), position)
        allowed = torch.maximum(allowed, ROW_FACTOR * cost + ROW_FLOOR * unit * size)
    return _over(error.norm(dim=-1), allowed).max()


def _whole(
    error: torch.Tensor, reference: torch.Tensor, baselines: Sequence[torch.Tensor], unit: float, floor: float
) -> torch.Tensor:
    import torch

    cost = [(baseline.float() - reference).norm() for baseline in baselines]
    worst = torch.stack(cost).max() if cost else torch.zeros((), device=error.device)
    return _over(
        error.norm(), ALL_FACTOR * worst + ALL_FLOOR * unit * reference.norm() + floor * error.numel() ** 0.5
    )


def _nearby(rows: torch.Tensor, position: int | None) -> torch.Tensor:
    """The largest value among the rows near each row: all heads and sequences, positions within NEIGHBOURS."""
    import torch

    if position is None or rows.ndim == 0:
        return rows.max()
    others = [d for d in range(rows.ndim) if d != position]
    along = rows.amax(dim=others) if others else rows
    reach = torch.nn.functional.max_pool1d(along[None, None], 2 * NEIGHBOURS + 1, stride=1, padding=NEIGHBOURS)[0, 0]
    shape = [1] * rows.ndim
    shape[position] = -1
    return reach.view(shape)


def _over(error: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """error / allowed, where nothing over nothing is fine."""
    import torch

    return torch.where(error == 0, torch.zeros_like(error), error / allowed)


def _relative(error: torch.Tensor, reference: torch.Tensor) -> float:
    norm = float(reference.norm())
    return float(error.norm()) / norm if norm else float(error.norm())


def _first(where: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in where.nonzero()[0])
