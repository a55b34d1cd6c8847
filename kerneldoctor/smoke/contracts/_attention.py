"""What the attention contracts share: parameters, inputs, options. It must not be a contract itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from .. import attention
from ..protocol import Json
from ._calling import parameters, window
from ._contract import Contract, Draft, Draw, Params, Workload

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

LSE_OPTIONS = ("return_attn_probs", "return_softmax_lse", "return_lse")
#: A log-sum-exp is kept in fp32 by every kernel; its scores come from exact products of low-precision numbers.
LSE_FLOOR = 2e-3

DEFAULTS: dict[str, Json] = {
    "dtype": "bfloat16",
    "heads": 4,
    "kv_heads": 4,
    "head_dim": 64,
    "causal": False,
    "window": None,
    "softcap": 0.0,
    "scale": None,
    "magnitude": 1.0,
    "layout": "contiguous",
    "lse": False,
    "deterministic": False,
    "backward": True,
}


class Attention(Contract):
    """A contract of attention over q, k and v."""

    differentiable: ClassVar[tuple[str, ...]] = ("q", "k", "v")
    exact_repeat = True
    same_dtype = ("out",)

    def position(self, name: str, shape: tuple[int, ...]) -> int | None:
        """Rows along the sequence are neighbours; lse comes as (…, seqlen, heads, 1)."""
        return len(shape) - 3

    def floor(self, name: str, params: Params) -> float:
        """The log-sum-exp has one of its own."""
        return LSE_FLOOR if name == "lse" else 0.0


def draft(case: str, quick: int | None = None, **params: Json) -> Draft:
    """A draft with the usual parameters where none are named."""
    return Draft(case, {**DEFAULTS, **params}, quick)


def shaped(workload: Workload) -> dict[str, Json]:
    """The parameters that a workload fixes."""
    return {
        "dtype": workload.dtype,
        "heads": workload.heads,
        "kv_heads": workload.kv_heads,
        "head_dim": workload.head_dim,
        "causal": workload.causal,
        "window": [workload.window - 1, 0 if workload.causal else workload.window - 1] if workload.window else None,
        "softcap": workload.softcap,
    }


def qkv(params: Params, draw: Draw, q_shape: tuple[int, ...], k_shape: tuple[int, ...]) -> Tensors:
    """q, k and v of these leading shapes, as (…, heads, head_dim).

    magnitude scales q and k, so that softmax goes from flat to one key; v keeps its size.
    """
    dim, layout = params["head_dim"], params["layout"]
    return {
        name: draw.normal(*shape, params[heads], dim, dtype=params["dtype"], scale=scale, layout=layout)
        for name, shape, heads, scale in (
            ("q", q_shape, "heads", params["magnitude"]),
            ("k", k_shape, "kv_heads", params["magnitude"]),
            ("v", k_shape, "kv_heads", 1.0),
        )
    }


def options(function: Any, params: Params) -> dict[str, tuple[Any, Any]]:
    """The options of a case for `invoke`, each with its neutral value."""
    made: dict[str, tuple[Any, Any]] = {
        "softmax_scale": (params["scale"], None),
        "causal": (params["causal"], False),
        "softcap": (params["softcap"], 0.0),
        "deterministic": (params["deterministic"], False),
        "dropout_p": (params.get("dropout", 0.0), 0.0),
    }
    if params["window"]:
        made["window_size"] = (window(function, tuple(params["window"])), None)
    if params["lse"]:
        made |= dict.fromkeys(lse_option(function), (True, False))
    return made


def lse_option(function: Any) -> tuple[str, ...]:
    """The parameter that asks for the log-sum-exp, if the function has one."""
    known: Mapping[str, Any] = parameters(function) or {}
    return tuple(name for name in LSE_OPTIONS if name in known)[:1]


def with_lse(out: torch.Tensor, lse: torch.Tensor | None, blind: torch.Tensor) -> Tensors:
    """Outputs by name. lse (…, heads, seqlen) becomes (…, seqlen, heads, 1) so that its rows lie as those of out do.

    Where a query sees no key, kernels write inf, -inf or 0; that is theirs to choose, so it is not compared.
    """
    if lse is None:
        return {"out": out}
    rows = lse.transpose(-1, -2)
    return {"out": out, "lse": rows.masked_fill(blind, 0.0)[..., None]}


def blind_queries(params: Params, seqlen_q: int, seqlen_k: int, device: Any) -> torch.Tensor:
    """Boolean (seqlen_q, 1): which queries see no key."""
    return ~attention.visible(attention.Rule.of(dict(params)), seqlen_q, seqlen_k, device).any(-1, keepdim=True)
