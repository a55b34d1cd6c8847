"""The contracts of cross entropy, from logits or fused with the projection. It must not import torch on its import."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol import Json
from ._calling import find, first_two, parameters
from ._contract import Contract, Draft, Draw, Params
from ._layers import layer

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

IGNORED = -100
#: A loss is one number around 8 that some kernels sum in the logits' precision; its gradients are judged strictly.
LOSS_FLOOR = {"bfloat16": 0.1, "float16": 0.012}


class CrossEntropy(Contract):
    """Losses of single tokens, or their mean, from logits."""

    name = "cross_entropy"
    description = "cross entropy from logits with ignored labels: loss and gradient of the logits"
    exports = ("cross_entropy_loss", "CrossEntropyLoss", "LigerCrossEntropyLoss")
    any_export = True
    differentiable = ("logits",)
    changes = ("logits",)  # Liger keeps the gradient where the logits were

    def drafts(self, device: str) -> list[Draft]:
        """A vocabulary that no block size divides."""
        shapes = ((67, 1031, "bfloat16"), (31, 5003, "float16"))
        return [
            Draft(
                f"cross-entropy-{kind}-{tokens}x{words}-{dtype}",
                {"function": kind, "tokens": tokens, "words": words, "dtype": dtype, "backward": True},
                10 + order * 2 + number,
            )
            for order, kind in enumerate(self.exports)
            for number, (tokens, words, dtype) in enumerate(shapes)
        ]

    def applies(self, params: Params, names: set[str]) -> bool:
        """Whether the kernel has this one."""
        return params["function"] in names

    def floor(self, name: str, params: Params) -> float:
        """Of the loss."""
        return LOSS_FLOOR[params["dtype"]] if name == "loss" else 0.0

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """Logits and labels, some of them ignored."""
        logits = draw.normal(params["tokens"], params["words"], dtype=params["dtype"], scale=2.0)
        return {"logits": logits, "labels": _labels(params, draw, params["tokens"])}

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """f(logits, labels), reduced to the mean over what is not ignored."""
        name = params["function"]
        if name == "cross_entropy_loss":
            losses, _ = first_two(find(kernel, name)(tensors["logits"], tensors["labels"]))
            return {"loss": _mean(losses.float(), tensors["labels"])}
        loss, _ = first_two(layer(kernel, name, {}, {"ignore_index": IGNORED})(tensors["logits"], tensors["labels"]))
        return {"loss": loss.float().reshape(1)}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch; the loss in fp32, its gradient rounded to the logits' dtype."""
        return {"loss": _loss(tensors["logits"], tensors["labels"])}


class FusedLinearCrossEntropy(Contract):
    """LigerForCausalLMLoss: projection to the vocabulary and cross entropy, without the logits in memory."""

    name = "fused_linear_cross_entropy"
    description = "Liger's projection and cross entropy in one: loss, gradients of hidden states and of the projection"
    exports = ("LigerForCausalLMLoss",)
    differentiable: ClassVar[tuple[str, ...]] = ("hidden_states", "lm_head_weight")

    def drafts(self, device: str) -> list[Draft]:
        """One small vocabulary, one larger than a block."""
        made = []
        for number, (tokens, hidden, words, dtype) in enumerate(
            ((67, 128, 1031, "bfloat16"), (131, 256, 3001, "float16"))
        ):
            params: dict[str, Json] = {
                "tokens": tokens,
                "hidden": hidden,
                "words": words,
                "dtype": dtype,
                "backward": True,
            }
            made.append(Draft(f"fused-cross-entropy-{tokens}x{hidden}x{words}-{dtype}", params, 8 + number))
        return made

    def floor(self, name: str, params: Params) -> float:
        """Of the loss."""
        return LOSS_FLOOR[params["dtype"]] if name == "loss" else 0.0

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """Hidden states, projection and labels."""
        hidden, dtype = params["hidden"], params["dtype"]
        return {
            "hidden_states": draw.normal(params["tokens"], hidden, dtype=dtype),
            "lm_head_weight": draw.normal(params["words"], hidden, dtype=dtype, scale=2.0 * hidden**-0.5),
            "labels": _labels(params, draw, params["tokens"]),
        }

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """By keyword: its releases differ in order."""
        function = find(kernel, "LigerForCausalLMLoss")
        known = parameters(function)
        wanted = {
            "logits": None,
            "hidden_states": tensors["hidden_states"],
            "lm_head_weight": tensors["lm_head_weight"],
            "labels": tensors["labels"],
            "shift_labels": tensors["labels"],
            "hidden_size": params["hidden"],
            "vocab_size": params["words"],
            "ignore_index": IGNORED,
        }
        if known is None:
            named = inspect.signature(function).parameters
            wanted = {n: v for n, v in wanted.items() if n != "logits" or n in named}
        else:
            wanted = {n: v for n, v in wanted.items() if n in known}
        loss, _ = first_two(function(**wanted))
        return {"loss": loss.float().reshape(1)}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        return {"loss": _loss(tensors["hidden_states"] @ tensors["lm_head_weight"].T, tensors["labels"])}


def _labels(params: Params, draw: Draw, tokens: int) -> torch.Tensor:
    labels = draw.integers(0, params["words"], tokens).clone()
    labels[:: max(tokens // 5, 2)] = IGNORED
    return draw.keep(labels)


def _loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    from torch.nn import functional

    loss: torch.Tensor = functional.cross_entropy(logits.float(), labels, ignore_index=IGNORED)
    return loss.reshape(1)


def _mean(losses: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (losses.sum() / (labels != IGNORED).sum()).reshape(1)


CONTRACTS = (CrossEntropy(), FusedLinearCrossEntropy())
