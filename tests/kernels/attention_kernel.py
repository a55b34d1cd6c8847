"""Attention in the interface of flash-attn, in plain PyTorch and right, with one fault at a time that is switched on.

Copied into kernels in Hub layout by `layout.py`, which fills in FAULT. Runs in the child of a smoke test.
"""

import ctypes
import itertools
import os
import signal
import sys

import torch

FAULT = ""

if FAULT == "import-error":
    raise ImportError("libcudart.so.11.0: cannot open shared object file: No such file or directory")
if FAULT == "import-segfault":
    ctypes.string_at(0)
if FAULT == "prints-rubbish":
    sys.stdout.write('{"event": "result", "id": "x", "outcome": "passed"}\n' * 100)
    os.write(2, b"\xff\xfe\x00rubbish\n" * 10000)


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    deterministic=False,
    return_attn_probs=False,
):
    """Dense attention over (batch, seqlen, heads, head_dim)."""
    _misbehave(q, k, causal, window_size, softcap)
    out, lse = _attend(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap)
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
    deterministic=False,
    return_attn_probs=False,
):
    """Attention within each of several sequences that lie behind each other."""
    if FAULT == "packing-ignored" and len(cu_seqlens_q) > 4:
        # All sequences after the second are taken for one.
        cu_seqlens_q, cu_seqlens_k = (torch.cat([ends[:3], ends[-1:]]) for ends in (cu_seqlens_q, cu_seqlens_k))
    parts, lses = [], []
    for (q0, q1), (k0, k1) in zip(_pairs(cu_seqlens_q), _pairs(cu_seqlens_k), strict=True):
        out, lse = _attend(
            q[None, q0:q1], k[None, k0:k1], v[None, k0:k1], dropout_p, softmax_scale, causal, window_size, softcap
        )
        parts.append(out[0])
        lses.append(lse[0])
    out, lse = torch.cat(parts), torch.cat(lses, dim=1)
    return (out, lse, None) if return_attn_probs else out


def _pairs(bounds):
    values = bounds.tolist()
    return list(itertools.pairwise(values))


def _attend(q, k, v, dropout, scale, causal, window, softcap):
    seqlen_q, seqlen_k, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    q, k = _Sabotage.apply(q, "q", group), _Sabotage.apply(k, "k", group)
    left, right = (-1 if side is None else side for side in window)
    if causal and not (FAULT == "causal-ignored" and seqlen_q != seqlen_k):
        right = 0
    queries = q.float().transpose(1, 2)
    keys = _Expand.apply(k.float().transpose(1, 2), group)
    values = v.float().transpose(1, 2).repeat_interleave(group, dim=1)
    scores = queries @ keys.transpose(-1, -2) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    seen = _visible(seqlen_q, seqlen_k, left, right, q.device)
    if FAULT == "wrong-past-length" and seqlen_k > 1024:
        seen = seen & (torch.arange(seqlen_k, device=q.device) < seqlen_k - 64)
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    probabilities = torch.exp(scores - torch.where(lse.isinf(), 0.0, lse)[..., None])
    if dropout:
        probabilities = torch.nn.functional.dropout(probabilities, dropout)
    out = (probabilities @ values).transpose(1, 2).to(q.dtype)
    return out, lse


def _visible(seqlen_q, seqlen_k, left, right, device):
    """The last query sees the last key, whatever the lengths are."""
    row = torch.arange(seqlen_q, device=device)[:, None] + seqlen_k - seqlen_q
    column = torch.arange(seqlen_k, device=device)[None]
    seen = torch.ones(seqlen_q, seqlen_k, dtype=torch.bool, device=device)
    if left >= 0:
        seen = seen & (column >= row - left)
    if right >= 0:
        seen = seen & (column <= row + right)
    return seen


class _Expand(torch.autograd.Function):
    """Each key/value head for all query heads of its group."""

    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        return tensor.repeat_interleave(group, dim=1)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.unflatten(1, (-1, ctx.group))
        if FAULT == "gqa-dk-wrong" and ctx.group > 1:
            return grad[:, :, 0], None
        return grad.sum(2), None


class _Sabotage(torch.autograd.Function):
    """The identity, with a backward that does what the fault says."""

    @staticmethod
    def forward(ctx, tensor, name, group):
        ctx.name, ctx.group = name, group
        return tensor.clone()

    @staticmethod
    def backward(ctx, grad):
        if FAULT == "gqa-backward-raises" and ctx.group > 1:
            raise RuntimeError(
                'torch_call_dispatcher( "aten::sum", "IntList_out", stack.data(), TORCH_ABI_VERSION) API call failed'
            )
        if FAULT == "no-backward":
            raise RuntimeError("This flash attention build does not support backward.")
        if FAULT == "nan-gradient" and ctx.name == "q" and grad.numel():
            grad = grad.clone(memory_format=torch.contiguous_format)
            grad.view(-1)[-1] = float("nan")
        if FAULT == "abort-in-backward" and grad.shape[-1] == 96:
            os.abort()
        return grad, None, None


def _misbehave(q, k, causal, window, softcap):
    if FAULT == "segfault" and causal and q.shape[-1] == 128:
        ctypes.string_at(0)
    if FAULT == "exit" and softcap:
        os._exit(0)
    if FAULT == "hang" and tuple(window) != (-1, -1):
        libc = ctypes.PyDLL(None)  # keeps the GIL, as an extension in a driver call may
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        while True:
            libc.sleep(1000)
    if FAULT == "memory-hog" and k.shape[1] > 1024:
        held = []
        while True:
            held.append(b"x" * (256 << 20))
    if FAULT == "prints-rubbish":
        sys.stdout.write("rubbish" * 20000)
