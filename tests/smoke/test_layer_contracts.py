"""The contracts that are not attention: everything right passes, and what is wrong in one place is found there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from kerneldoctor.smoke import device_memory  # noqa: E402
from kerneldoctor.smoke.bench import run_case  # noqa: E402
from kerneldoctor.smoke.cases import choose  # noqa: E402
from kerneldoctor.smoke.contracts import contract, contracts, matching  # noqa: E402
from kerneldoctor.smoke.device_memory import Behind, Fences  # noqa: E402
from kerneldoctor.smoke.protocol import Case, Result, Selection  # noqa: E402

from . import layer_kernels  # noqa: E402

pytestmark = pytest.mark.torch
KERNEL = layer_kernels.right()
CASES = {case.id: case for case in choose(layer_kernels.exports(KERNEL), Selection("full", seed=5), "cpu")}


def run(case: Case, module: Any) -> Result:
    return run_case(case, contract(case.contract), module, "cpu", lambda _: None, "n")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_right_kernel_passes(case: Case) -> None:
    result = run(case, KERNEL)
    assert (result.outcome, result.detail) == ("passed", "")
    assert result.errors


def test_every_contract_is_tried() -> None:
    attention = {"flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flash_attn_dropout"}
    tried = {one.name for one in matching(layer_kernels.exports(KERNEL))}
    assert tried | attention == {one.name for one in contracts()}


def replaced(**changes: Any) -> SimpleNamespace:
    """The right kernel with other functions, or other layers."""
    layers = {name: value for name, value in changes.items() if hasattr(KERNEL.layers, name)}
    made = SimpleNamespace(**{**vars(KERNEL), **{n: v for n, v in changes.items() if n not in layers}})
    made.layers = SimpleNamespace(**{**vars(KERNEL.layers), **layers})
    return made


def outcomes(module: SimpleNamespace, contract_name: str, function: str = "") -> list[Result]:
    cases = [c for c in CASES.values() if c.contract == contract_name]
    return [run(case, module) for case in cases if not function or case.params["function"] == function]


def some_wrong(results: list[Result], tensor: str) -> bool:
    return any(result.outcome == "wrong" and tensor in result.detail for result in results)


def silu_of_the_other_half(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return KERNEL.mul_and_silu(out, x)


def last_row_left_out(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    KERNEL.silu_and_mul(out[:-1], x[:-1])
    return out


def one_row_too_many(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    KERNEL.silu_and_mul(out, x)
    torch.as_strided(out, (4,), (1,), out.storage_offset() + out.numel()).zero_()
    return out


def in_place(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    KERNEL.silu_and_mul(out, x)
    x.zero_()
    return out


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (silu_of_the_other_half, "out is off"),
        (last_row_left_out, "not finite"),
        (one_row_too_many, "out was written behind its end"),
        (in_place, "x is an input and was changed"),
    ],
)
def test_a_wrong_activation_is_found(function: Any, said: str) -> None:
    assert some_wrong(outcomes(replaced(silu_and_mul=function), "activation", "silu_and_mul"), said)


def test_the_exact_gelu_is_told_from_its_approximation() -> None:
    def approximate(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return out.copy_(functional.gelu(x, approximate="tanh"))

    assert some_wrong(outcomes(replaced(gelu=approximate), "activation", "gelu"), "out is off")


def test_an_activation_that_returns_its_output_is_understood() -> None:
    results = outcomes(replaced(silu_and_mul=lambda x: KERNEL.layers.SiluAndMul()(x)), "activation", "silu_and_mul")
    assert {result.outcome for result in results} == {"passed"}


def test_an_activation_layer_without_a_gradient_cannot_train() -> None:
    class Silu(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.silu(x).detach()

    results = outcomes(replaced(Silu=Silu), "activation_layer", "Silu")
    assert {(r.outcome, r.direction, r.forward) for r in results} == {("unsupported", "backward", True)}
    assert results[0].detail == "the output of Silu carries no gradient: it has no backward"


def test_a_layer_that_says_that_it_has_no_backward_is_believed() -> None:
    class Silu(nn.Module):
        has_backward = False  # the kernels library then does not train with it, whatever its output carries

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.silu(x)

    results = outcomes(replaced(Silu=Silu), "activation_layer", "Silu")
    assert {(r.outcome, r.direction, r.forward) for r in results} == {("unsupported", "backward", True)}
    assert results[0].detail == "Silu says that it has no backward (has_backward = False)"


class NoMean(nn.Module):
    """A sum in place of the mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * (wide.square().sum(-1, keepdim=True) + self.variance_epsilon).rsqrt()).to(x.dtype) * self.weight


class CentredNorm(nn.Module):
    """A LayerNorm in place of an RMSNorm."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], self.weight, None, self.variance_epsilon)


class FrozenWeight(nn.Module):
    """No gradient for the weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layer_kernels.rms_norm(x, self.weight.detach(), self.variance_epsilon)


class WithoutEpsilon(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return layer_kernels.rms_norm(x, self.weight, 0.0)


@pytest.mark.parametrize(
    ("layer", "said"),
    [(NoMean, "out is off"), (CentredNorm, "out is off"), (FrozenWeight, "dweight"), (WithoutEpsilon, "is off")],
)
def test_a_wrong_norm_is_found(layer: type[nn.Module], said: str) -> None:
    assert some_wrong(outcomes(replaced(RMSNorm=layer), "rms_norm", "RMSNorm"), said)


def test_rotating_pairs_in_place_of_halves_is_found() -> None:
    def interleaved(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        def turned(x: torch.Tensor) -> torch.Tensor:
            pairs = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
            return x * cos[:, None] + pairs * sin[:, None]

        return turned(q), turned(k)

    results = outcomes(replaced(apply_rotary_transformers=interleaved), "apply_rotary_transformers")
    assert some_wrong(results, "q_out is off")


def test_a_rotation_that_the_gradient_does_not_know_is_found() -> None:
    """An operator that rotates a clone in place without autograd hands gradients through unrotated."""

    def forgetful(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        turned = layer_kernels.apply_rotary_transformers(q.detach(), k.detach(), cos, sin)
        return tuple(x + (t - x).detach() for x, t in zip((q, k), turned, strict=True))

    results = outcomes(replaced(apply_rotary_transformers=forgetful), "apply_rotary_transformers")
    assert {(result.outcome, result.direction) for result in results} == {("wrong", "backward")}


def test_a_gradient_whose_memory_is_taken_for_granted_is_found() -> None:
    """With one token a tensor is contiguous whatever its strides say, so who goes by them reads the wrong rows."""

    class Turn(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(cos, sin)
            return layer_kernels.apply_rotary_transformers(x, x, cos, sin)[0]

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            rows = grad.transpose(1, 2).contiguous()  # (batch, tokens, heads, head_dim)
            row = rows.stride(1)
            flat = torch.as_strided(rows, (rows.shape[0] * rows.shape[1], *rows.shape[2:]), (row, *rows.stride()[2:]))
            given = flat.view(rows.shape).transpose(1, 2)
            cos, sin = ctx.saved_tensors
            return layer_kernels.apply_rotary_transformers(given, given, cos, -sin)[0], None, None

    def careless(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
        return Turn.apply(q, cos, sin), Turn.apply(k, cos, sin)

    results = outcomes(replaced(liger_rotary_pos_emb=careless), "liger_rotary_pos_emb")
    wrong = [result for result in results if result.outcome == "wrong"]
    assert [result.id for result in wrong] == ["liger_rotary_pos_emb-1x6x80-bfloat16"]
    assert (wrong[0].direction, wrong[0].forward) == ("backward", True)
    assert wrong[0].detail.startswith("dq is off")


def test_the_other_form_of_apply_rotary_is_not_judged_by_this_contract() -> None:
    def apply_rotary(x: Any, cos: Any, sin: Any, seqlen_offsets: int = 0, interleaved: bool = False) -> Any:
        raise AssertionError

    assert {r.outcome for r in outcomes(replaced(apply_rotary=apply_rotary), "apply_rotary")} == {"unsupported"}


def test_looking_again_behind_an_output_leaves_alone_what_was_made_in_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Liger keeps the gradient where the logits were; here memory behind it looks written, for another reason."""

    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                leaf = logits.detach().clone().requires_grad_(True)
                loss = functional.cross_entropy(leaf.float(), labels)
                (made,) = torch.autograd.grad(loss, leaf)
            ctx.save_for_backward(logits.detach().copy_(made))
            return loss.detach()

        @staticmethod
        def backward(ctx: Any, one: torch.Tensor) -> Any:
            return ctx.saved_tensors[0].mul_(one), None

    class Suspicious(Fences):
        def behind(self, outputs: Any) -> dict[str, Behind]:
            return {name: Behind(tensor.data_ptr(), tensor.nbytes, 1) for name, tensor in outputs.items()}

    class LigerCrossEntropyLoss(nn.Module):
        def __init__(self, ignore_index: int) -> None:
            super().__init__()

        def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return InPlace.apply(logits, labels)

    monkeypatch.setattr(device_memory, "Fences", Suspicious)
    module = replaced(LigerCrossEntropyLoss=LigerCrossEntropyLoss)
    results = outcomes(module, "cross_entropy", "LigerCrossEntropyLoss")
    assert {(result.outcome, result.detail) for result in results} == {("passed", "")}


def test_ignored_labels_that_count_are_found() -> None:
    def counts_all(logits: torch.Tensor, labels: torch.Tensor) -> Any:
        losses = functional.cross_entropy(logits.float(), labels.clamp(min=0), reduction="none")
        return losses, None

    assert some_wrong(outcomes(replaced(cross_entropy_loss=counts_all), "cross_entropy", "cross_entropy_loss"), "loss")


def test_eight_bits_are_forgiven_but_a_missing_mask_is_not() -> None:
    def without_mask(q: Any, k: Any, v: Any, tensor_layout: str = "HND", is_causal: bool = False) -> Any:
        return KERNEL.sageattn(q, k, v, tensor_layout)

    assert some_wrong(outcomes(replaced(sageattn=without_mask), "sageattn"), "out is off")


def test_a_gelu_in_a_swiglu_layer_is_found() -> None:
    results = outcomes(replaced(LigerSwiGLUMLP=KERNEL.layers.LigerGEGLUMLP), "gated_mlp", "LigerSwiGLUMLP")
    assert some_wrong(results, "out is off")


def test_a_convolution_that_sees_the_future_is_found() -> None:
    def centred(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: Any = None) -> torch.Tensor:
        out = functional.conv1d(x, weight[:, None], bias, padding=weight.shape[1] - 1, groups=x.shape[1])[..., 1:]
        out = functional.pad(out, (0, 1))[..., : x.shape[-1]]
        return functional.silu(out) if activation else out

    assert some_wrong(outcomes(replaced(causal_conv1d_fn=centred), "causal_conv1d_fn"), "out is off")
