"""The contract of the short causal convolution of state space models. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol import Json
from ._calling import find
from ._contract import Contract, Draft, Draw, Params

if TYPE_CHECKING:
    from ._contract import Tensors

#: (batch, channels, tokens, taps, dtype, activation)
SHAPES = (
    (2, 96, 131, 4, "bfloat16", "silu"),
    (1, 64, 67, 3, "float16", None),
    (2, 128, 1, 2, "bfloat16", "silu"),
    (1, 256, 2051, 4, "bfloat16", "silu"),
)


class CausalConv1d(Contract):
    """causal_conv1d_fn(x, weight, bias, activation=…): each channel by itself, seeing only the past."""

    name = "causal_conv1d_fn"
    description = "causal depthwise convolution: forward, gradients of input, weight and bias"
    exports = ("causal_conv1d_fn",)
    differentiable: ClassVar[tuple[str, ...]] = ("x", "weight", "bias")

    def drafts(self, device: str) -> list[Draft]:
        """Every number of taps, one token, and many."""
        made = []
        for number, (batch, channels, tokens, taps, dtype, activation) in enumerate(SHAPES):
            params: dict[str, Json] = {
                "shape": [batch, channels, tokens],
                "taps": taps,
                "dtype": dtype,
                "activation": activation,
                "backward": True,
            }
            made.append(Draft(f"causal-conv1d-{channels}x{tokens}-taps{taps}-{dtype}", params, number))
        return made

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """x as (batch, channels, tokens)."""
        channels, dtype = params["shape"][1], params["dtype"]
        return {
            "x": draw.normal(*params["shape"], dtype=dtype),
            "weight": draw.normal(channels, params["taps"], dtype=dtype, scale=params["taps"] ** -0.5),
            "bias": draw.normal(channels, dtype=dtype),
        }

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """causal_conv1d_fn(x, weight, bias, activation=…)."""
        function = find(kernel, "causal_conv1d_fn")
        return {"out": function(*(tensors[n] for n in self.differentiable), activation=params["activation"])}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        from torch.nn import functional

        x, weight = tensors["x"], tensors["weight"]
        padded = functional.pad(x, (weight.shape[1] - 1, 0))
        out = functional.conv1d(padded, weight[:, None], tensors["bias"], groups=x.shape[1])
        return {"out": functional.silu(out) if params["activation"] else out}


CONTRACTS = (CausalConv1d(),)
