"""A kernel in PyTorch with every export that a contract other than attention asks for, and ways to make it wrong."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional


def right() -> SimpleNamespace:
    """Everything right; activations fill the given output, layers are written like the Hub's, without a constructor."""
    made = SimpleNamespace(layers=SimpleNamespace())
    for name, function in _activations().items():
        setattr(made, name, _filling(function, name.startswith("fatrelu")))
    for name, kind in _layers().items():
        setattr(made.layers, name, kind)
    made.relu = lambda x, out=None: torch.relu(x) if out is None else out.copy_(torch.relu(x))
    made.apply_rotary = apply_rotary
    made.apply_rotary_transformers = made.liger_rotary_pos_emb = apply_rotary_transformers
    made.rms_norm_fn = lambda x, weight, bias, residual=None, eps=1e-6: rms_norm(x, weight, eps)
    made.layer_norm_fn = lambda x, weight, bias, residual=None, eps=1e-6: functional.layer_norm(
        x, x.shape[-1:], weight, bias, eps
    )
    made.cross_entropy_loss = lambda logits, labels, ignore_index=-100: (
        functional.cross_entropy(logits.float(), labels, ignore_index=ignore_index, reduction="none"),
        None,
    )
    made.LigerForCausalLMLoss = fused_loss
    made.causal_conv1d_fn = conv
    made.sageattn = sageattn
    return made


def exports(kernel: SimpleNamespace) -> tuple[str, ...]:
    """Its public names, as the child lists them."""
    return (*(n for n in vars(kernel) if n != "layers"), "layers", *(f"layers.{n}" for n in vars(kernel.layers)))


def rms_norm(x, weight, eps):
    wide = x.float()
    return (wide * (wide.pow(2).mean(-1, keepdim=True) + eps).rsqrt()).to(x.dtype) * weight


def apply_rotary(x1, x2, cos, sin, out1, out2, conj):
    sin = -sin if conj else sin
    one, two = x1.float() * cos - x2.float() * sin, x1.float() * sin + x2.float() * cos
    out1.copy_(one)
    out2.copy_(two)


def apply_rotary_transformers(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)

    def turned(x):
        half = x.shape[-1] // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    return turned(q), turned(k)


def fused_loss(
    logits, labels, vocab_size, ignore_index=-100, shift_labels=None, hidden_states=None, lm_head_weight=None, **kwargs
):
    scores = hidden_states.view(-1, kwargs["hidden_size"]) @ lm_head_weight.T
    return functional.cross_entropy(scores.float(), shift_labels.view(-1), ignore_index=ignore_index)


def sageattn(q, k, v, tensor_layout="HND", is_causal=False, sm_scale=None, **kwargs):
    """Scores from q and k in 8 bits, one scale a token."""
    assert tensor_layout == "NHD"

    def quantised(x):
        step = x.float().abs().amax(-1, keepdim=True) / 127
        return (x / step).round() * step

    low = v.dtype
    q, k, v = (x.transpose(1, 2) for x in (quantised(q), quantised(k), v.float()))
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
    return out.transpose(1, 2).to(low)


def conv(x, weight, bias=None, seq_idx=None, activation=None):
    taps = weight.shape[1]
    out = functional.conv1d(x, weight.unsqueeze(1), bias, padding=taps - 1, groups=x.shape[1])[..., : x.shape[-1]]
    return functional.silu(out) if activation == "silu" else out


def _activations() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    def both(function, x):
        return function(x[..., : x.shape[-1] // 2]) * x[..., x.shape[-1] // 2 :]

    return {
        "silu_and_mul": lambda x: both(functional.silu, x),
        "mul_and_silu": lambda x: both(functional.silu, x.roll(x.shape[-1] // 2, -1)),
        "gelu_and_mul": lambda x: both(functional.gelu, x),
        "gelu_tanh_and_mul": lambda x: both(lambda y: functional.gelu(y, approximate="tanh"), x),
        "fatrelu_and_mul": lambda x: both(lambda y: functional.threshold(y, 0.25, 0.0), x),
        "silu": functional.silu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_fast": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
        "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
    }


def _filling(function: Callable[[torch.Tensor], torch.Tensor], threshold: bool) -> Callable[..., torch.Tensor]:
    def fill(out, x):
        return out.copy_(function(x))

    def fill_with_threshold(out, x, threshold=0.0):
        assert threshold == 0.25
        return out.copy_(function(x))

    return fill_with_threshold if threshold else fill


def _layers() -> dict[str, type[nn.Module]]:
    functions = _activations()

    def of(function) -> type[nn.Module]:
        class Layer(nn.Module):
            def forward(self, x):
                return function(x)

        return Layer

    class RMSNorm(nn.Module):
        def forward(self, hidden_states):
            return rms_norm(hidden_states, self.weight, self.variance_epsilon)

    class LayerNorm(nn.Module):
        def forward(self, x):
            return functional.layer_norm(x, x.shape[-1:], self.weight, None, self.variance_epsilon)

    class LigerLayerNorm(nn.Module):
        def __init__(self, hidden_size, eps=1e-6):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden_size))
            self.bias = nn.Parameter(torch.zeros(hidden_size))
            self.eps = eps

        def forward(self, x):
            return functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)

    def mlp(activation):
        class Mlp(nn.Module):
            def forward(self, x):
                return self.down_proj(activation(self.gate_proj(x)) * self.up_proj(x))

        return Mlp

    names = {
        "SiluAndMul": "silu_and_mul",
        "MulAndSilu": "mul_and_silu",
        "GeluAndMul": "gelu_and_mul",
        "GeluTanhAndMul": "gelu_tanh_and_mul",
        "FatreluAndMul": "fatrelu_and_mul",
        "Silu": "silu",
        "Gelu": "gelu",
        "GeluTanh": "gelu_tanh",
        "FastGELU": "gelu_fast",
        "NewGELU": "gelu_new",
        "QuickGELU": "gelu_quick",
    }
    swiglu, geglu = mlp(functional.silu), mlp(lambda x: functional.gelu(x, approximate="tanh"))
    return {
        **{layer: of(functions[function]) for layer, function in names.items()},
        "ReLU": nn.ReLU,
        "RMSNorm": RMSNorm,
        "LlamaRMSNorm": RMSNorm,
        "LigerRMSNorm": RMSNorm,
        "LayerNorm": LayerNorm,
        "LigerLayerNorm": LigerLayerNorm,
        "LigerSwiGLUMLP": swiglu,
        "LigerTiledSwiGLUMLP": swiglu,
        "LigerGEGLUMLP": geglu,
        "LigerTiledGEGLUMLP": geglu,
        "CrossEntropyLoss": nn.CrossEntropyLoss,
        "LigerCrossEntropyLoss": nn.CrossEntropyLoss,
    }
