"""Checks a few rows of an output that is too long to be checked whole. Child side; it must not time anything.

Small shapes are checked whole before; what goes wrong only behind some length is seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import numerics
from ..attention import Rule, attend
from ..torch_math import plain_math

if TYPE_CHECKING:
    import torch


def find_wrong_row(
    out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, device: str
) -> str:
    """Which of some rows is off and by how much; "" when all of them are right."""
    length, last = q.shape[1], q.shape[0] - 1
    if tuple(out.shape) != tuple(q.shape):
        return f"out has shape {tuple(out.shape)} instead of {tuple(q.shape)}"
    for row in sorted({0, length // 2, length - 1}):
        keys = row + 1 if causal else length
        one = slice(last, last + 1)
        qs, ks, vs = q[one, row : row + 1].detach(), k[one, :keys].detach(), v[one, :keys].detach()
        with plain_math(device):
            exact, _ = attend(qs.float(), ks.float(), vs.float(), Rule())
            low, _ = attend(qs, ks, vs, Rule())
            # The kernel may round in another order: a bound for what is wrong, the checks before are for what is worse.
            _, why = numerics.compare(out[one, row : row + 1].detach(), exact, [low], slack=2.0)
        if why:
            return f"out at row {row} of {length} {why}"
    return ""
