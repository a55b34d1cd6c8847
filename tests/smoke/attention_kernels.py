"""Attention as kernels do it, in PyTorch: right implementations, and one tiled one that can be made wrong on purpose.

Written apart from kerneldoctor.smoke.attention, so that a mistake there is not repeated here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class Call:
    """What one dense call asks for; window as flash-attn writes it."""

    causal: bool
    window: tuple[int, int]
    softcap: float
    scale: float
    dropout: float
    deterministic: bool
    grouped_from: int  # KV heads


Core = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Call], tuple[torch.Tensor, torch.Tensor]]


def kernel(core: Core, **replaced: Any) -> SimpleNamespace:
    """A module with flash-attn's three functions over one dense core: (out, lse (batch, heads, seqlen))."""

    def flash_attn_func(
        q,
        k,
        v,
        dropout_p=0.0,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        alibi_slopes=None,
        deterministic=False,
        return_attn_probs=False,
    ):
        call = Call(
            causal,
            tuple(window_size),
            softcap,
            softmax_scale or q.shape[-1] ** -0.5,
            dropout_p,
            deterministic,
            k.shape[2],
        )
        out, lse = core(q, k, v, call)
        return (out, lse, None) if return_attn_probs else out

    def flash_attn_varlen_func(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        dropout_p=0.0,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        alibi_slopes=None,
        deterministic=False,
        return_attn_probs=False,
        block_table=None,
    ):
        outs, lses = [], []
        ends_q, ends_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
        for n in range(len(ends_q) - 1):
            out, lse, _ = made.flash_attn_func(
                q[ends_q[n] : ends_q[n + 1]][None],
                k[ends_k[n] : ends_k[n + 1]][None],
                v[ends_k[n] : ends_k[n + 1]][None],
                dropout_p,
                softmax_scale,
                causal,
                window_size,
                softcap,
                None,
                deterministic,
                True,
            )
            outs.append(out[0])
            lses.append(lse[0])
        out, lse = torch.cat(outs), torch.cat(lses, dim=1)
        return (out, lse, None) if return_attn_probs else out

    def flash_attn_with_kvcache(
        q,
        k_cache,
        v_cache,
        k=None,
        v=None,
        cache_seqlens=None,
        block_table=None,
        softmax_scale=None,
        causal=False,
        window_size=(-1, -1),
        softcap=0.0,
        return_softmax_lse=False,
    ):
        if block_table is not None:
            raise RuntimeError("Paged KV cache is not supported by this build")
        outs, lses = [], []
        for row, length in enumerate(cache_seqlens.tolist()):
            if k is not None:
                k_cache[row, length : length + k.shape[1]] = k[row]
                v_cache[row, length : length + k.shape[1]] = v[row]
                length += k.shape[1]
            out, lse, _ = made.flash_attn_func(
                q[row : row + 1],
                k_cache[row : row + 1, :length],
                v_cache[row : row + 1, :length],
                0.0,
                softmax_scale,
                causal,
                window_size,
                softcap,
                None,
                False,
                True,
            )
            outs.append(out)
            lses.append(lse)
        out = torch.cat(outs)
        return (out, torch.cat(lses)) if return_softmax_lse else out

    made = SimpleNamespace(
        flash_attn_func=flash_attn_func,
        flash_attn_varlen_func=flash_attn_varlen_func,
        flash_attn_with_kvcache=flash_attn_with_kvcache,
    )
    made.__dict__.update(replaced)
    return made


def mask_of(call: Call, seqlen_q: int, seqlen_k: int) -> torch.Tensor:
    """True where a query sees a key."""
    mask = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool)
    offset = seqlen_k - seqlen_q
    if call.causal:
        mask = mask.tril(offset)
    left, right = call.window
    if left >= 0:
        mask = mask.triu(offset - left)
    if right >= 0:
        mask = mask.tril(offset + right)
    return mask


def rules_out(call: Call, *names: str) -> None:
    """Says, as a kernel would, that it has no such feature."""
    for name in names:
        if getattr(call, name):
            raise NotImplementedError(f"this kernel does not support {name}")


def math_low(q, k, v, call: Call):
    """Every step in the low precision of the inputs."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (
        q.transpose(1, 2),
        k.repeat_interleave(group, 2).transpose(1, 2),
        v.repeat_interleave(group, 2).transpose(1, 2),
    )
    mask = mask_of(call, q.shape[2], k.shape[2])
    scores = q @ k.transpose(-1, -2) * call.scale
    if call.softcap:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    seen = mask.any(-1)[:, None]
    scores = scores.masked_fill(~mask & seen, -math.inf)
    weights = scores.softmax(-1) * seen
    weights = torch.nn.functional.dropout(weights, call.dropout)
    lse = scores.float().logsumexp(-1).masked_fill(~seen[:, 0], -math.inf)
    return (weights @ v).transpose(1, 2), lse.detach()


def math_fp32(q, k, v, call: Call):
    """fp32 within, rounded once at the end."""
    out, lse = math_low(q.float(), k.float(), v.float(), call)
    return out.to(q.dtype), lse


def sdpa(backend: SDPBackend) -> Core:
    """PyTorch's own attention with a mask of our making."""

    def core(q, k, v, call: Call):
        rules_out(call, "softcap")
        mask = mask_of(call, q.shape[1], k.shape[1])
        seen = mask.any(-1)
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(
                q.transpose(1, 2),
                k.transpose(1, 2),
                v.transpose(1, 2),
                attn_mask=mask | ~seen[:, None],
                scale=call.scale,
                dropout_p=call.dropout,
                enable_gqa=True,
            ).transpose(1, 2)
        with torch.no_grad():
            _, lse = math_fp32(q, k, v, replace(call, dropout=0.0))
        return out * seen[None, :, None, None], lse

    return core


def flex(q, k, v, call: Call):
    """flex attention without compilation; it has no backward on a CPU, so the scores go through autograd there."""
    from torch.nn.attention.flex_attention import flex_attention

    rules_out(call, "dropout")
    if not q.shape[1]:
        return q.clone(), torch.zeros(q.shape[0], q.shape[2], 0)
    mask = mask_of(call, q.shape[1], k.shape[1])
    seen = mask.any(-1)

    def score(value, b, h, i, j):
        if call.softcap:
            value = call.softcap * torch.tanh(value / call.softcap)
        return torch.where((mask | ~seen[:, None])[i, j], value, -math.inf)

    out, lse = flex_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        score_mod=score,
        scale=call.scale,
        enable_gqa=True,
        return_lse=True,
    )
    return out.transpose(1, 2) * seen[None, :, None, None], lse.detach()


class Tiled(torch.autograd.Function):
    """Online softmax over blocks of keys and the backward from the log-sum-exp, as flash attention does it.

    Sums in fp32, weights and dS in the low precision of the inputs. `bug` makes it wrong in one way, see mutants.py.
    """

    @staticmethod
    def forward(ctx, q, k, v, call: Call, bug: str, block: int):
        low, dim = q.dtype, q.shape[-1]
        qf, kf, vf = _heads(q, k, v, bug)
        scale = call.scale
        if bug == "scale of the padded head dim" and dim % 64:
            scale = (dim + 64 - dim % 64) ** -0.5
        if bug == "softmax_scale is ignored":
            scale = dim**-0.5
        mask = _mask(call, q.shape[1], k.shape[1], bug)
        total = k.shape[1]
        maximum = torch.full(qf.shape[:-1], -math.inf)
        summed, out = torch.zeros(qf.shape[:-1]), torch.zeros(*qf.shape[:-1], dim)
        keep = torch.ones(*qf.shape[:-1], total)
        if call.dropout:
            keep = (torch.rand(keep.shape) >= call.dropout) / (
                1 if bug == "dropout without rescaling" else 1 - call.dropout
            )
        if bug == "dropout at p = 0":
            keep = (torch.rand(keep.shape) >= 0.02).float()
        for start in range(0, total, block):
            end = min(start + block, total)
            if bug == "the last partial block is dropped" and end - start < block and total > block:
                continue
            if bug == "keys past 1024 are lost" and start >= 1024:
                continue
            scores = qf @ kf[:, :, start:end].transpose(-1, -2) * scale
            if call.softcap and bug != "softcap is ignored":
                scores = call.softcap * torch.tanh(scores / call.softcap)
            scores = scores.masked_fill(~mask[:, start:end], -math.inf)
            raised = torch.maximum(maximum, scores.amax(-1))
            if bug == "no maximum is subtracted":
                raised = torch.zeros_like(raised)
            base = raised.masked_fill(raised == -math.inf, 0.0)
            weights = torch.exp(scores - base[..., None])
            if bug == "weights in fp8":
                weights = weights.to(torch.float8_e4m3fn).float()
            # A first block has nothing to rescale: exp(-inf) is 0.
            rescale = torch.exp(maximum - base)
            if bug == "no rescaling when the maximum rises":
                rescale = torch.where(maximum == -math.inf, rescale, torch.ones_like(rescale))
            summed = summed * rescale + weights.sum(-1)
            dropped = (weights * keep[..., start:end]).to(low).float()
            out = out * rescale[..., None] + _product(dropped, vf[:, :, start:end], low, bug)
            maximum = raised
        if bug == "padded keys count in the softmax" and total:
            summed = summed + (-total % 64) * torch.exp(-maximum) * mask[:, -1].float()
        seen = mask.any(-1)
        lse = torch.where(seen, maximum + summed.log(), -math.inf)
        out = out / summed.masked_fill(~seen, 1.0)[..., None]
        if bug == "blind rows average the values":
            out = torch.where(seen[:, None], out, vf.mean(2, keepdim=True))
        if bug == "lse of rows past 1024 keys" and total > 1024:
            lse = lse - 0.05
        if bug == "the last columns of the head are not written" and dim % 32:
            out[..., -(dim % 32) :] = 0
        out = out.to(torch.bfloat16 if bug == "everything through bf16" else low).to(low).transpose(1, 2)
        if bug == "blind rows are not written":
            unwritten = torch.empty_like(out)
            out = torch.where(seen[None, :, None, None], out, unwritten)
        if bug == "the second sequence reads the first one's values":
            out[1:] = out[:1]
        backward_lse = lse - 0.7 if bug == "backward with a stale lse past 512 keys" and total > 512 else lse
        ctx.save_for_backward(q, k, v, out, backward_lse, mask, keep)
        ctx.call, ctx.bug, ctx.scale = call, bug, scale
        return out, lse

    @staticmethod
    def backward(ctx, dout, _):
        q, k, v, out, lse, mask, keep = ctx.saved_tensors
        call, bug, scale, low = ctx.call, ctx.bug, ctx.scale, q.dtype
        qf, kf, vf = _heads(q, k, v, bug)
        g, o = dout.float().transpose(1, 2), out.float().transpose(1, 2)
        if bug == "another dropout mask in the backward":
            keep = (torch.rand(keep.shape) >= call.dropout) / (1 - call.dropout) if call.dropout else keep
        scores = qf @ kf.transpose(-1, -2) * scale
        slope = 1.0
        if call.softcap and bug != "softcap is ignored":
            squashed = torch.tanh(scores / call.softcap)
            scores = squashed * call.softcap
            slope = 1.0 if bug == "softcap has no gradient of its own" else 1 - squashed**2
        blind = (lse == -math.inf)[..., None]
        weights = torch.exp(scores - lse.masked_fill(blind[..., 0], 0.0)[..., None]).masked_fill(~mask | blind, 0.0)
        dots = 0.0 if bug == "the row sum is missing in dS" else (g * o).sum(-1, keepdim=True)
        dscores = (weights * ((g @ vf.transpose(-1, -2)) * keep - dots) * slope).to(low).float()
        dq = dscores @ kf * (1.0 if bug == "dq without the scale" else scale)
        dk = dscores.transpose(-1, -2) @ qf * (scale * scale if bug == "dk scaled twice" else scale)
        dv = (weights * keep).to(low).float().transpose(-1, -2) @ g
        kv_heads, group = k.shape[2], q.shape[2] // k.shape[2]

        def regroup(x, wrong):
            by = (
                x.unflatten(1, (group, kv_heads)).transpose(1, 2)
                if bug == "kv heads interleaved"
                else x.unflatten(1, (kv_heads, group))
            )
            if wrong == "last":
                return by[:, :, -1]
            return by.mean(2) if wrong == "mean" else by.sum(2)

        dk = regroup(dk, {"dk of the last head of a group": "last", "dk averaged over the group": "mean"}.get(bug))
        dv = regroup(dv, "last" if bug == "dv of the last head of a group" else None)
        dq, dk, dv = (x.to(low).transpose(1, 2).contiguous() for x in (dq, dk, dv))
        if bug == "nan gradient of blind rows":
            dq = dq.masked_fill(blind.transpose(1, 2), math.nan)
        if bug == "the backward is not repeatable":
            dk = dk * (1 + torch.finfo(low).eps * (torch.rand(dk.shape) > 0.999))
            dk = dk.to(low)
        if bug == "dk of the last key is not written" and dk.shape[1]:
            dk[:, -1] = torch.empty_like(dk[:, -1])
        return dq, dk, dv, None, None, None


def tiled(bug: str = "", block: int = 64) -> Core:
    """The tiled core, right or with one bug."""

    def core(q, k, v, call: Call):
        if bug == "q is scaled in place":
            with torch.no_grad():
                q.mul_(1.0009765625 * 1.01)
        if bug == "strides are ignored":
            q, k, v = (_flat(x) for x in (q, k, v))
        if bug == "writes before q":
            with torch.no_grad():
                torch.as_strided(q, (8,), (1,), max(q.storage_offset() - 8, 0)).zero_()
        if bug == "writes behind k":
            with torch.no_grad():
                torch.as_strided(k, (4,), (1,), k.storage_offset() + k.numel()).zero_()
        return Tiled.apply(q, k, v, call, bug, block)

    return core


def _flat(x: torch.Tensor) -> torch.Tensor:
    """The memory behind a tensor as if it were contiguous."""
    return x if x.is_contiguous() else torch.as_strided(x, x.shape, torch.empty(x.shape).stride()).clone()


def _heads(q, k, v, bug: str):
    group = q.shape[2] // k.shape[2]
    if bug == "kv heads interleaved":
        k, v = (x.repeat(1, 1, group, 1) for x in (k, v))
    else:
        k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    return (x.float().transpose(1, 2) for x in (q, k, v))


def _mask(call: Call, seqlen_q: int, seqlen_k: int, bug: str) -> torch.Tensor:
    left, right = call.window
    if bug == "window one too wide" and left >= 0:
        left += 1
    if bug == "window one too narrow" and left > 0:
        left -= 1
    if bug == "window is ignored":
        left, right = -1, -1
    if bug == "right side of the window is ignored":
        right = -1
    mask = mask_of(replace(call, causal=False, window=(left, right)), seqlen_q, seqlen_k)
    if not call.causal or (bug == "no causal mask when the lengths differ" and seqlen_q != seqlen_k):
        return mask
    offset = seqlen_k - seqlen_q
    if bug == "causal from the top left":
        offset = 0
    if bug == "causal sees the next key":
        offset += 1
    if bug == "causal misses the own key":
        offset -= 1
    return mask & torch.ones(seqlen_q, seqlen_k, dtype=torch.bool).tril(offset)


def _product(weights: torch.Tensor, values: torch.Tensor, low: torch.dtype, bug: str) -> torch.Tensor:
    if bug != "sums in low precision":
        return weights @ values
    total = torch.zeros(*weights.shape[:-1], values.shape[-1], dtype=low)
    for key in range(weights.shape[-1]):
        total = total + (weights[..., key, None] * values[..., key, None, :]).to(low)
    return total.float()
