"""The contracts of rotary position embedding, in its three forms. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol import Json
from ._calling import find, parameters
from ._contract import Contract, Draft, Draw, Params, Unsupported

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

#: (batch, tokens, heads, kv_heads, head_dim, dtype)
SHAPES = ((2, 67, 8, 2, 128, "bfloat16"), (1, 131, 4, 4, 64, "float16"), (3, 1, 6, 1, 80, "bfloat16"))


class ApplyRotary(Contract):
    """apply_rotary(x1, x2, cos, sin, out1, out2, conj): both halves of the head rotated into given outputs."""

    name = "apply_rotary"
    description = "rotary embedding of two halves into given outputs, and its inverse"
    exports = ("apply_rotary",)
    changes = ("out1", "out2")

    def drafts(self, device: str) -> list[Draft]:
        """Forward and conjugate."""
        return [
            Draft(
                f"rotary-{'conj' if conj else 'plain'}-{tokens}x{heads}x{dim}-{dtype}",
                {"shape": [batch, tokens, heads, dim], "dtype": dtype, "conj": conj, "backward": False},
                number * 2 + conj if number < 2 else None,
            )
            for number, (batch, tokens, heads, _, dim, dtype) in enumerate(SHAPES)
            for conj in (False, True)
        ]

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """Halves of x, cos and sin of each position, and outputs full of NaN."""
        batch, tokens, heads, dim = params["shape"]
        half = (batch, tokens, heads, dim // 2)
        made = {name: draw.normal(*half, dtype=params["dtype"]) for name in ("x1", "x2")}
        cos, sin = _angles(tokens, dim // 2, made["x1"])
        made |= {"cos": draw.keep(cos[:, None]), "sin": draw.keep(sin[:, None])}
        return {**made, **{name: draw.keep(made["x1"].new_full(half, float("nan"))) for name in ("out1", "out2")}}

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """apply_rotary(x1, x2, cos, sin, out1, out2, conj)."""
        function = find(kernel, "apply_rotary")
        known = parameters(function)
        if known is not None and "x1" not in known:
            raise Unsupported(f"this apply_rotary takes {', '.join(known)}: not the form with two halves")
        function(*(tensors[name] for name in ("x1", "x2", "cos", "sin", "out1", "out2")), params["conj"])
        return {name: tensors[name] for name in self.changes}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        one, two, cos, sin = (tensors[name] for name in ("x1", "x2", "cos", "sin"))
        sin = -sin if params["conj"] else sin
        return {"out1": one * cos - two * sin, "out2": one * sin + two * cos}


class RotaryTransformers(Contract):
    """f(q, k, cos, sin, unsqueeze_dim=1) with transformers' signature: new q and k, and their gradients."""

    name = "apply_rotary_transformers"
    description = "rotary embedding with transformers' signature: q and k, and their gradients"
    exports = ("apply_rotary_transformers",)
    differentiable = ("q", "k")

    def drafts(self, device: str) -> list[Draft]:
        """With the memory layouts of contiguous tensors and of projections."""
        made = []
        for number, (batch, tokens, heads, kv_heads, dim, dtype) in enumerate(SHAPES):
            params: dict[str, Json] = {
                "shape": [batch, tokens, dim],
                "heads": heads,
                "kv_heads": kv_heads,
                "dtype": dtype,
                "layout": ("transposed", "contiguous")[number % 2],
                "backward": True,
            }
            made.append(Draft(f"{self.name}-{tokens}x{heads}x{dim}-{dtype}", params, 4 + number))
        return made

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """q and k as (batch, heads, tokens, head_dim); cos and sin with both halves alike."""
        batch, tokens, dim = params["shape"]
        made = {
            name: draw.normal(batch, params[heads], tokens, dim, dtype=params["dtype"], layout=params["layout"])
            for name, heads in (("q", "heads"), ("k", "kv_heads"))
        }
        cos, sin = _angles(tokens, dim // 2, made["q"])
        for name, half in (("cos", cos), ("sin", sin)):
            made[name] = draw.keep(half.repeat(1, 2)[None].expand(batch, -1, -1))
        return made

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """f(q, k, cos, sin)."""
        function = find(kernel, self.exports[0])
        if isinstance(function, type):
            function = function()
        q, k = function(*(tensors[name] for name in ("q", "k", "cos", "sin")))
        return {"q_out": q, "k_out": k}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        import torch

        cos, sin = tensors["cos"][:, None], tensors["sin"][:, None]

        def rotated(x: torch.Tensor) -> torch.Tensor:
            one, two = x.chunk(2, dim=-1)
            return x * cos + torch.cat((-two, one), dim=-1) * sin

        return {"q_out": rotated(tensors["q"]), "k_out": rotated(tensors["k"])}


class LigerRotary(RotaryTransformers):
    """liger_rotary_pos_emb; it rotates in place where the memory allows, and says so.

    Autograd hands over gradients in whatever layout they were made in: eager attention makes (batch, heads, tokens,
    head_dim), fused attention (batch, tokens, heads, head_dim). With one token both are "contiguous" after a transpose,
    with other strides, and 0.8.5 goes by the stride: its dq is then wrong from the second batch row on
    (ops/rope.py, rope_backward, of https://pypi.org/project/liger-kernel/0.8.5/).
    """

    name = "liger_rotary_pos_emb"
    description = "Liger's rotary embedding: q and k, and their gradients"
    exports = ("liger_rotary_pos_emb",)
    changes = ("q", "k")


def _angles(tokens: int, half: int, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(cos, sin), each (tokens, half), rounded to the dtype of `like`."""
    import torch

    speed = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    turn = torch.arange(3, tokens + 3, dtype=torch.float64)[:, None] * speed  # position 0 would rotate nothing
    return turn.cos().to(like.device, like.dtype), turn.sin().to(like.device, like.dtype)


CONTRACTS = (ApplyRotary(), RotaryTransformers(), LigerRotary())
