"""The contract of Liger's gated MLP layers. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._contract import Contract, Draft, Draw, Params
from ._layers import layer, parameter, run

if TYPE_CHECKING:
    from ._contract import Tensors

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
#: (batch, tokens, hidden, width, dtype)
SHAPES = ((2, 37, 128, 344, "bfloat16"), (1, 67, 192, 512, "float16"))


class GatedMlp(Contract):
    """down(activation(gate(x)) * up(x))."""

    name = "gated_mlp"
    description = "Liger's SwiGLU and GEGLU layers, also tiled: forward, gradients of the input and of the projections"
    exports = ("LigerSwiGLUMLP", "LigerGEGLUMLP", "LigerTiledSwiGLUMLP", "LigerTiledGEGLUMLP")
    any_export = True
    differentiable = ("x", *PROJECTIONS)

    def drafts(self, device: str) -> list[Draft]:
        """Each layer in both precisions."""
        return [
            Draft(
                f"mlp-{kind}-{tokens}x{hidden}x{width}-{dtype}",
                {"function": kind, "shape": [batch, tokens, hidden], "width": width, "dtype": dtype, "backward": True},
                4 + order if number == 0 else None,
            )
            for order, kind in enumerate(self.exports)
            for number, (batch, tokens, hidden, width, dtype) in enumerate(SHAPES)
        ]

    def applies(self, params: Params, names: set[str]) -> bool:
        """Whether the kernel has this layer."""
        return params["function"] in names

    def gradients(self, params: Params) -> tuple[str, ...]:
        """A tiled layer adds to the .grad of its weights by itself, so only the input's gradient comes back."""
        wanted = super().gradients(params)
        return wanted[:1] if "Tiled" in params["function"] else wanted

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """x and the three weights, scaled so that every stage has values around one."""
        hidden, width, dtype = params["shape"][-1], params["width"], params["dtype"]
        shapes = {"gate_proj": (width, hidden), "up_proj": (width, hidden), "down_proj": (hidden, width)}
        made = {"x": draw.normal(*params["shape"], dtype=dtype)}
        return {
            **made,
            **{name: draw.normal(*shape, dtype=dtype, scale=shape[1] ** -0.5) for name, shape in shapes.items()},
        }

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """layer(x)."""
        import torch

        made = layer(kernel, params["function"], {}, {"config": _Config(params)})
        for name in PROJECTIONS:
            out, into = tensors[name].shape
            linear = torch.nn.Linear(into, out, bias=False, device="meta")
            linear.weight = parameter(tensors[name])
            setattr(made, name, linear)
        weights = {f"{name}.weight": tensors[name] for name in PROJECTIONS}
        return {"out": run(made, weights, tensors["x"])}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        from torch.nn import functional

        gate, up = (functional.linear(tensors["x"], tensors[name]) for name in PROJECTIONS[:2])
        swiglu = "SwiGLU" in params["function"]
        gated = functional.silu(gate) if swiglu else functional.gelu(gate, approximate="tanh")
        return {"out": functional.linear(gated * up, tensors["down_proj"])}


class _Config:
    """What the layers of the liger-kernel package read from a model's configuration."""

    def __init__(self, params: Params) -> None:
        self.hidden_size, self.intermediate_size = params["shape"][-1], params["width"]
        self.hidden_act = "silu" if "SwiGLU" in params["function"] else "gelu_pytorch_tanh"
        self.mlp_bias = False


CONTRACTS = (GatedMlp(),)
