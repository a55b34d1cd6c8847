"""The contracts of activations: functions that fill an output, and layers. It must not import torch on its import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ._calling import find, parameters
from ._contract import Contract, Draft, Draw, Params
from ._layers import layer

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

#: function name -> (layer name, halves): a gated one takes rows of twice the width of its output.
KINDS: dict[str, tuple[str, int]] = {
    "silu_and_mul": ("SiluAndMul", 2),
    "mul_and_silu": ("MulAndSilu", 2),
    "gelu_and_mul": ("GeluAndMul", 2),
    "gelu_tanh_and_mul": ("GeluTanhAndMul", 2),
    "fatrelu_and_mul": ("FatreluAndMul", 2),
    "silu": ("Silu", 1),
    "gelu": ("Gelu", 1),
    "gelu_tanh": ("GeluTanh", 1),
    "gelu_fast": ("FastGELU", 1),
    "gelu_new": ("NewGELU", 1),
    "gelu_quick": ("QuickGELU", 1),
    "relu": ("ReLU", 1),
}
LAYERS = {layer_name: function for function, (layer_name, _) in KINDS.items()}
#: (rows, width of the output, dtype, magnitude); odd rows, and widths that no vector of 8 divides.
SHAPES = (
    (67, 512, "bfloat16", 1.0),
    (3, 1037, "float16", 4.0),
    (1, 8, "bfloat16", 0.05),
    (5, 192, "float32", 1.0),  # only here the exact gelu can be told from its tanh form, 5e-4 apart
)
#: Kernels take fast exponentials in fp32.
FLOAT32_FLOOR = 1e-4
THRESHOLD = 0.25


class Activations(Contract):
    """Functions of the form f(out, x) of kernels-community/activation and /relu."""

    name = "activation"
    description = "activation functions that fill a given output: silu_and_mul, the gelu family, relu"
    exports = tuple(KINDS)
    any_export = True
    changes: ClassVar[tuple[str, ...]] = ("out",)
    first: ClassVar[int] = 0

    def drafts(self, device: str) -> list[Draft]:
        """Each function once in the quick set."""
        return [
            self._draft(kind, shape, quick=None if number else self.first + order)
            for order, kind in enumerate(self._names())
            for number, shape in enumerate(SHAPES)
        ]

    def _names(self) -> tuple[str, ...]:
        return tuple(KINDS)

    def _draft(self, kind: str, shape: tuple[int, int, str, float], quick: int | None) -> Draft:
        rows, width, dtype, magnitude = shape
        params = {
            "function": kind,
            "rows": rows,
            "width": width,
            "dtype": dtype,
            "magnitude": magnitude,
            "backward": False,
        }
        return Draft(f"{self.name}-{kind}-{rows}x{width}", params, quick)

    def applies(self, params: Params, names: set[str]) -> bool:
        """Whether the kernel has this function."""
        return params["function"] in names

    def floor(self, name: str, params: Params) -> float:
        """That of fp32, where there is no low precision to measure by."""
        return FLOAT32_FLOOR if params["dtype"] == "float32" else 0.0

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """x, and the output full of NaN."""
        made = self._x(params, draw)
        empty = made["x"].new_full((params["rows"], params["width"]), float("nan"))
        return {**made, "out": draw.keep(empty)}

    def _x(self, params: Params, draw: Draw) -> Tensors:
        halves = KINDS[self._function(params)][1]
        shape = (params["rows"], params["width"] * halves)
        return {"x": draw.normal(*shape, dtype=params["dtype"], scale=params["magnitude"])}

    def _function(self, params: Params) -> str:
        return str(params["function"])

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """f(out, x), f(x, out=…) or f(x), by its signature."""
        function = find(kernel, params["function"])
        known = list(parameters(function) or ("out", "x"))
        if "out" not in known:
            return {"out": function(tensors["x"])}
        more = {"threshold": THRESHOLD} if "threshold" in known else {}
        if known[0] == "out":
            function(tensors["out"], tensors["x"], **more)
        else:
            function(tensors["x"], out=tensors["out"], **more)
        return {"out": tensors["out"]}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        return {"out": _math(self._function(params))(tensors["x"])}


class ActivationLayers(Activations):
    """Layers of the form f(x)."""

    name = "activation_layer"
    description = "activation layers, forward and gradient of the input: SiluAndMul, the GELU family, ReLU"
    exports = tuple(LAYERS)
    differentiable = ("x",)
    changes = ()
    first = 20

    def drafts(self, device: str) -> list[Draft]:
        """Each layer, with its backward."""
        return [Draft(d.id, {**d.params, "backward": True}, d.quick) for d in super().drafts(device)]

    def _names(self) -> tuple[str, ...]:
        return tuple(LAYERS)

    def _function(self, params: Params) -> str:
        return LAYERS[params["function"]]

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """x."""
        return self._x(params, draw)

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """layer(x)."""
        made = layer(kernel, params["function"], {"threshold": THRESHOLD}, {"threshold": THRESHOLD})
        return {"out": made(tensors["x"])}


def _math(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    import torch
    from torch.nn import functional

    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]

    def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x, approximate="tanh")

    def gated(activation: Callable[[torch.Tensor], torch.Tensor], first: bool = True) -> Callable[..., torch.Tensor]:
        def both(x: torch.Tensor) -> torch.Tensor:
            one, other = halves(x)
            return activation(one) * other if first else one * activation(other)

        return both

    known: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "silu_and_mul": gated(functional.silu),
        "mul_and_silu": gated(functional.silu, first=False),
        "gelu_and_mul": gated(functional.gelu),
        "gelu_tanh_and_mul": gated(gelu_tanh),
        "fatrelu_and_mul": gated(lambda x: torch.where(x > THRESHOLD, x, torch.zeros_like(x))),
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": gelu_tanh,
        # Three names of one formula; the constant of the fast one differs in the tenth digit.
        "gelu_fast": gelu_tanh,
        "gelu_new": gelu_tanh,
        "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
        "relu": functional.relu,
    }
    return known[name]


CONTRACTS = (Activations(), ActivationLayers())
