"""The contracts of RMSNorm and LayerNorm, as layers and functions. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol import Json
from ._calling import find, invoke
from ._contract import Contract, Draft, Draw, Params
from ._layers import layer, parameter, run

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

EPS = 1e-5
#: (batch, tokens, hidden, dtype, magnitude): hidden sizes of models, and one that is no power of two.
SHAPES = (
    (2, 37, 1024, "bfloat16", 1.0),
    (1, 131, 2880, "float16", 4.0),
    (3, 1, 64, "bfloat16", 0.003),  # so small that the epsilon counts
)


class Norm(Contract):
    """What both have in common."""

    differentiable: ClassVar[tuple[str, ...]] = ("x", "weight")
    any_export = True
    #: the names that also take a bias
    with_bias: ClassVar[tuple[str, ...]] = ()
    functions: ClassVar[tuple[str, ...]] = ()
    first: ClassVar[int] = 0

    def drafts(self, device: str) -> list[Draft]:
        """Each layer and function with its backward."""
        made = []
        for order, kind in enumerate(self.exports):
            for number, (batch, tokens, hidden, dtype, magnitude) in enumerate(SHAPES):
                params: dict[str, Json] = {
                    "function": kind,
                    "shape": [batch, tokens, hidden],
                    "dtype": dtype,
                    "magnitude": magnitude,
                    "bias": kind in self.with_bias,
                    "backward": True,
                }
                quick = self.first + 2 * order + number if number < 2 else None
                made.append(Draft(f"{self.name}-{kind}-{batch}x{tokens}x{hidden}-{dtype}", params, quick))
        return made

    def applies(self, params: Params, names: set[str]) -> bool:
        """Whether the kernel has this one."""
        return params["function"] in names

    def gradients(self, params: Params) -> tuple[str, ...]:
        """The bias as well, where there is one."""
        wanted = super().gradients(params)
        return (*wanted, "bias") if wanted and params["bias"] else wanted

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """x with a mean that is not zero, so that subtracting it or not shows; weights around one."""
        dtype, size = params["dtype"], params["magnitude"]
        made = {
            "x": draw.normal(*params["shape"], dtype=dtype, scale=size, shift=size / 2),
            "weight": draw.normal(params["shape"][-1], dtype=dtype, scale=0.3, shift=1.0),
        }
        return {**made, "bias": draw.normal(params["shape"][-1], dtype=dtype)} if params["bias"] else made

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """layer(x), or f(x, weight, bias, eps=…)."""
        name = params["function"]
        if name in self.functions:
            arguments = {"x": tensors["x"], "weight": tensors["weight"], "bias": tensors.get("bias")}
            return {"out": invoke(find(kernel, name), arguments, {"eps": (EPS, None)})}
        weights: Tensors = {str(key): tensors[key] for key in ("weight", "bias") if key in tensors}
        attributes: dict[str, Any] = {"eps": EPS, "variance_epsilon": EPS}
        attributes |= {key: parameter(value) for key, value in weights.items()}
        size = params["shape"][-1]
        made = layer(
            kernel,
            name,
            attributes,
            {"hidden_size": size, "normalized_shape": size, "eps": EPS, "bias": params["bias"]},
        )
        made.to(device=tensors["x"].device, dtype=tensors["x"].dtype)
        return {"out": run(made, weights, tensors["x"])}


class RmsNorm(Norm):
    """x / rms(x) * weight."""

    name = "rms_norm"
    description = "RMSNorm layers and functions: forward, gradients of input and weight"
    exports = ("RMSNorm", "LlamaRMSNorm", "LigerRMSNorm", "rms_norm_fn")
    functions = ("rms_norm_fn",)

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch; the statistics in fp32, as every model does it."""
        x = tensors["x"].float()
        return {
            "out": (x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt()).to(tensors["x"].dtype) * tensors["weight"]
        }


class LayerNorm(Norm):
    """(x - mean(x)) / std(x) * weight + bias."""

    name = "layer_norm"
    description = "LayerNorm layers and functions: forward, gradients of input, weight and bias"
    exports = ("LayerNorm", "LigerLayerNorm", "layer_norm_fn")
    with_bias = ("LigerLayerNorm", "layer_norm_fn")
    functions = ("layer_norm_fn",)
    first = 8

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        from torch.nn import functional

        size = (params["shape"][-1],)
        out: torch.Tensor = functional.layer_norm(tensors["x"], size, tensors["weight"], tensors.get("bias"), EPS)
        return {"out": out}


CONTRACTS = (RmsNorm(), LayerNorm())
