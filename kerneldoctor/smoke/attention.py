"""What attention is, written out in plain PyTorch: the fp32 reference, and what low precision may cost.

Shapes are flash-attn's: q is (batch, seqlen_q, heads, head_dim), k and v have kv_heads. It must not know any kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: A tiled kernel rounds weights before it divides by their sum, relative to a maximum that may be an older one: then
#: not even a weight of 1 is exact. This factor is about as badly rounded as one can be in bf16.
UNEVEN = 1.0034


@dataclass(frozen=True, slots=True)
class Rule:
    """Which keys a query sees and how scores are made.

    causal and window are aligned to the bottom right corner (flash-attn >= 2.1): query i sees key j when
    i + seqlen_k - seqlen_q - left <= j <= i + seqlen_k - seqlen_q + right; -1 is no limit.
    """

    causal: bool = False
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    scale: float | None = None

    @classmethod
    def of(cls, params: dict[str, Any]) -> Rule:
        """The rule of a case's parameters; what is not named is off."""
        left, right = params.get("window") or (-1, -1)
        return cls(
            bool(params.get("causal", False)), (left, right), float(params.get("softcap") or 0.0), params.get("scale")
        )


def visible(rule: Rule, seqlen_q: int, seqlen_k: int, device: Any) -> torch.Tensor:
    """Boolean (seqlen_q, seqlen_k): which key each query sees."""
    import torch

    query = torch.arange(seqlen_q, device=device)[:, None] + (seqlen_k - seqlen_q)
    key = torch.arange(seqlen_k, device=device)[None, :]
    left, right = rule.window
    right = 0 if rule.causal else right
    seen = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool, device=device)
    if left >= 0:
        seen &= key >= query - left
    if right >= 0:
        seen &= key <= query + right
    return seen


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of one dense batch in the dtype of its inputs, every step rounded to it; differentiable.

    lse is (batch, heads, seqlen_q) in fp32, natural logarithm; a query that sees no key has out 0 and lse -inf.
    """
    import torch

    k, v = (_per_query_head(x, q.shape[2]) for x in (k, v))
    scale = rule.scale if rule.scale is not None else q.shape[-1] ** -0.5
    scores = torch.matmul(q.transpose(1, 2) * scale, k.permute(0, 2, 3, 1))
    if rule.softcap:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    seen = visible(rule, q.shape[1], k.shape[1], q.device)
    blind = ~seen.any(-1, keepdim=True)
    # A row of -inf only has no softmax and a NaN gradient, so such rows get scores first and lose them afterwards.
    scores = scores.masked_fill(~seen & ~blind, float("-inf"))
    weights = torch.softmax(scores, dim=-1).masked_fill(blind, 0.0)
    out = torch.matmul(weights, v.transpose(1, 2)).transpose(1, 2)
    with torch.no_grad():
        lse = torch.logsumexp(scores.float(), dim=-1).masked_fill(blind[:, 0], float("-inf"))
    return out, lse


def tiled_cost(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dout: torch.Tensor, rule: Rule
) -> dict[str, torch.Tensor]:
    """out, dq, dk, dv in the order of rounding of a tiled kernel: fp32 scores; weights, dS and out in low precision.

    Its backward takes rowsum(dout * out) from the rounded out, which leaves noise where the exact gradient is zero (a
    query with one key). PyTorch's own softmax backward has none there, so it alone would be too strict a measure.
    """
    import torch

    low, heads, group = q.dtype, q.shape[2], q.shape[2] // k.shape[2]
    scale = rule.scale if rule.scale is not None else q.shape[-1] ** -0.5
    qf, kf, vf, gf = (
        x.float().transpose(1, 2) for x in (q, _per_query_head(k, heads), _per_query_head(v, heads), dout)
    )
    scores = (qf @ kf.transpose(-1, -2)) * scale
    slope = torch.ones((), device=q.device)
    if rule.softcap:
        squashed = torch.tanh(scores / rule.softcap)
        scores, slope = squashed * rule.softcap, 1 - squashed * squashed
    seen = visible(rule, q.shape[1], k.shape[1], q.device)
    blind = ~seen.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~seen & ~blind, float("-inf")), -1).masked_fill(blind, 0.0)
    rounded = (weights * UNEVEN).to(low).float() / UNEVEN
    out = (rounded @ vf).to(low)
    dots = (gf * out.float()).sum(-1, keepdim=True)
    dscores = (weights * (gf @ vf.transpose(-1, -2) - dots) * slope).to(low).float()
    dq = (dscores @ kf) * scale
    dk = (dscores.transpose(-1, -2) @ qf) * scale
    dv = rounded.transpose(-1, -2) @ gf

    def grouped(x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(1, (-1, group)).sum(2)

    made = {"out": out, "dq": dq, "dk": grouped(dk), "dv": grouped(dv)}
    return {name: x.to(low).transpose(1, 2) for name, x in made.items()}


def packed(lengths: Sequence[int]) -> list[slice]:
    """Where each sequence of a packed batch lies."""
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


def attend_packed(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths_q: Sequence[int], lengths_k: Sequence[int], rule: Rule
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attend` for a packed batch: q is (total_q, heads, head_dim); lse is (heads, total_q)."""
    import torch

    outs, lses = [], []
    for at_q, at_k in zip(packed(lengths_q), packed(lengths_k), strict=True):
        out, lse = attend(q[at_q][None], k[at_k][None], v[at_k][None], rule)
        outs.append(out[0])
        lses.append(lse[0])
    return torch.cat(outs), torch.cat(lses, dim=-1)


def tiled_cost_packed(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    lengths_q: Sequence[int],
    lengths_k: Sequence[int],
    rule: Rule,
) -> dict[str, torch.Tensor]:
    """`tiled_cost` for a packed batch."""
    import torch

    parts = [
        tiled_cost(q[at_q][None], k[at_k][None], v[at_k][None], dout[at_q][None], rule)
        for at_q, at_k in zip(packed(lengths_q), packed(lengths_k), strict=True)
    ]
    return {name: torch.cat([part[name][0] for part in parts]) for name in parts[0]}


def _per_query_head(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values repeated for their group: query heads 0..g-1 share KV head 0, the next g share KV head 1."""
    return x if x.shape[2] == heads else x.repeat_interleave(heads // x.shape[2], dim=2)
