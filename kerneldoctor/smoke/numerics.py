"""Judges one tensor: how far it is from the fp32 reference, measured by what low precision costs PyTorch itself.

Three checks, any of which fails it: everything finite, each row close, the whole tensor close. It must not know any
kernel or contract. tests/benchmarks/numerics.py measured the factors: right implementations stay within what is
allowed over many seeds, subtly wrong ones do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .protocol import TensorError

if TYPE_CHECKING:
    import torch

#: A row (the last dimension) may be this many times as far off as the worst baseline row near it, this many times as
#: its own baseline, and this many units of rounding of itself, together. A query that looks at one key alone is hard
#: for low precision, and the baseline may have been lucky there.
NEAR_FACTOR = 4.0
OWN_FACTOR = 4.0
OWN_UNITS = 4.0
#: But never less than this many units of rounding of the rows near it: the baseline may happen to be exact.
ROW_FLOOR = 2.0
#: The whole tensor may be this many times as far off as the baseline, in the root mean square. Kernels sum gradients
#: over blocks and over the heads of a group in more ways than outputs.
OUTPUT_FACTOR = 1.7
GRADIENT_FACTOR = 2.75
WHOLE_FLOOR = 0.75
#: Few rows scatter: with n of them both factors grow by this over the square root of n.
FEW_ROWS = 3.0
#: Rows this near count as neighbours: what a position sees, and so its rounding, changes slowly along a sequence.
NEIGHBOURS = 32


def compare(
    got: torch.Tensor,
    reference: torch.Tensor,
    baselines: Sequence[torch.Tensor],
    *,
    position: int | None = None,
    floor: float = 0.0,
    gradient: bool = False,
    slack: float = 1.0,
) -> tuple[TensorError, str]:
    """The error of `got` and, when it is wrong, why; "" when it is right.

    reference is fp32; baselines are the same quantity from other low-precision math. position names the dimension along
    which rows are neighbours (None: all rows are alike). floor is an absolute error that every element may
    have; slack multiplies the whole tolerance.
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
        return TensorError(
            None, None, None, at
        ), f"has {count} of {value.numel()} elements not finite, the first at {at}"
    error = value - reference
    unit = torch.finfo(got.dtype).eps / 2
    rows = _rows(error, reference, baselines, position, unit, floor)
    factor = (GRADIENT_FACTOR if gradient else OUTPUT_FACTOR) * (1 + FEW_ROWS / rows.numel() ** 0.5)
    whole = _whole(error, reference, baselines, factor, unit, floor)
    # Beyond a million times over it makes no difference, and JSON has no infinity.
    ratio, relative = min(float(torch.maximum(rows.max(), whole)) / slack, 1e6), _relative(error, reference)
    at = _worst(error, rows)
    baseline = max((_relative(b.float() - reference, reference) for b in baselines), default=0.0)
    made = TensorError(relative, baseline, float(error.abs().max()), at, ratio)
    if ratio <= 1.0:
        return made, ""
    return made, (
        f"is off by {relative:.2g} (relative, root mean square) where low precision costs {baseline:.2g}; "
        f"at {at} it is {float(value[at]):.4g} instead of {float(reference[at]):.4g}"
    )


def _rows(
    error: torch.Tensor,
    reference: torch.Tensor,
    baselines: Sequence[torch.Tensor],
    position: int | None,
    unit: float,
    floor: float,
) -> torch.Tensor:
    """How many times over its tolerance each row is."""
    import torch

    size = reference.norm(dim=-1)
    allowed = ROW_FLOOR * unit * _nearby(size, position)
    for baseline in baselines:
        own = (baseline.float() - reference).norm(dim=-1)
        cost = NEAR_FACTOR * _nearby(own, position) + OWN_FACTOR * own + OWN_UNITS * unit * size
        allowed = torch.maximum(allowed, cost)
    return _over(error.norm(dim=-1), allowed + floor * error.shape[-1] ** 0.5)


def _whole(
    error: torch.Tensor,
    reference: torch.Tensor,
    baselines: Sequence[torch.Tensor],
    factor: float,
    unit: float,
    floor: float,
) -> torch.Tensor:
    import torch

    allowed = WHOLE_FLOOR * unit * reference.norm()
    for baseline in baselines:
        allowed = torch.maximum(allowed, factor * (baseline.float() - reference).norm())
    return _over(error.norm(), allowed + floor * error.numel() ** 0.5)


def _worst(error: torch.Tensor, rows: torch.Tensor) -> tuple[int, ...]:
    """The element that is furthest off in the row that is furthest over its tolerance."""
    place = int(rows.argmax())
    row: list[int] = []
    for length in reversed(rows.shape):  # torch.unravel_index imports sympy for this
        place, at = divmod(place, length)
        row.insert(0, at)
    return (*row, int(error[tuple(row)].abs().argmax()))


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
