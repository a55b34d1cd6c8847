"""The contract of SageAttention: attention in 8 bits, for inference. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .. import attention
from ..protocol import Json
from ._attention import Attention, draft, qkv
from ._calling import find, first_two
from ._contract import Draft, Draw, Params
from .flash_attn_func import GQA, MHA

if TYPE_CHECKING:
    from ._contract import Tensors


class SageAttention(Attention):
    """sageattn(q, k, v, tensor_layout="NHD", is_causal=…)."""

    name = "sageattn"
    description = "SageAttention's 8-bit attention, forward only, with the tolerance that 8 bits need"
    exports = ("sageattn",)
    differentiable: ClassVar[tuple[str, ...]] = ()
    exact_repeat = False
    # Its paper reports errors of one to a few per cent; bf16 costs about 0.4: https://arxiv.org/abs/2410.02367
    slack = 15.0

    def drafts(self, device: str) -> list[Draft]:
        """The head dimensions that it has."""
        shapes: tuple[tuple[str, int, dict[str, Json], bool, str], ...] = (
            ("mha", 64, MHA, False, "float16"),
            ("gqa", 128, GQA, True, "bfloat16"),
            ("gqa", 64, GQA, True, "float16"),
            ("mha", 128, MHA, False, "bfloat16"),
        )
        return [
            draft(
                f"sage-{grouping}-{'causal' if causal else 'full'}-d{dim}-{dtype}",
                number,
                **heads,
                batch=2,
                seqlen=261 if device == "gpu" else 131,
                head_dim=dim,
                causal=causal,
                dtype=dtype,
                backward=False,
            )
            for number, (grouping, dim, heads, causal, dtype) in enumerate(shapes)
        ]

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """q, k and v of one length."""
        shape = (params["batch"], params["seqlen"])
        return qkv(params, draw, shape, shape)

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """sageattn over (batch, seqlen, heads, head_dim)."""
        q, k, v = (tensors[name] for name in ("q", "k", "v"))
        out, _ = first_two(find(kernel, "sageattn")(q, k, v, tensor_layout="NHD", is_causal=params["causal"]))
        return {"out": out}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        out, _ = attention.attend(tensors["q"], tensors["k"], tensors["v"], attention.Rule.of(dict(params)))
        return {"out": out}


CONTRACTS = (SageAttention(),)
