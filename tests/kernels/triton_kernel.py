"""Attention in Triton in the interface of flash-attn, right, with one fault on the GPU at a time that is switched on.

Copied into kernels in Hub layout by `layout.py`, which fills in FAULT. The backward is plain PyTorch.
"""

import torch
import triton
import triton.language as tl

FAULT = ""
_FAR, _ENDLESS, _NEAR = 1, 2, 3  # what a faulty launch does


@torch.compiler.disable  # a graph break: inductor does not take these launches (torch 2.11)
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
    if dropout_p:
        raise NotImplementedError("dropout is not supported")
    scale = softmax_scale if softmax_scale is not None else q.shape[-1] ** -0.5
    left, right = (-1 if side is None else side for side in window_size)
    out, lse = _Attention.apply(q, k, v, scale, left, 0 if causal else right, softcap, _fault_of(q, causal, left))
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
    q_ends, k_ends = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for number in range(len(q_ends) - 1):
        rows, keys = slice(*q_ends[number : number + 2]), slice(*k_ends[number : number + 2])
        options = (dropout_p, softmax_scale, causal, window_size, softcap, deterministic, True)
        out, lse, _ = flash_attn_func(q[None, rows], k[None, keys], v[None, keys], *options)
        parts.append(out[0])
        lses.append(lse[0])
    out, lse = torch.cat(parts), torch.cat(lses, dim=1)
    return (out, lse, None) if return_attn_probs else out


def _fault_of(q, causal, left):
    """The fault of this launch; most launches of a faulty kernel are right."""
    if FAULT == "far-write" and causal and q.shape[-1] == 128:
        return _FAR
    if FAULT == "endless" and left >= 0:
        return _ENDLESS
    if FAULT == "near-write" and q.numel() * q.element_size() % 512:
        return _NEAR
    return 0


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, scale, left, right, softcap, fault):
        batch, seqlen_q, heads, dim = q.shape
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(batch, heads, seqlen_q, dtype=torch.float32, device=q.device)
        if out.numel():
            flag = torch.zeros(1, dtype=torch.int32, device=q.device)
            grid = (triton.cdiv(seqlen_q, 32), batch * heads)
            _forward[grid](
                q, k, v, out, lse, flag, *q.stride(), *k.stride(), *v.stride(), *out.stride(), heads,
                heads // k.shape[2], seqlen_q, k.shape[1], scale, float(softcap), left, right, out.numel(), 1 << 40,
                DIM=dim, WIDE=max(16, triton.next_power_of_2(dim)), ROWS=32, KEYS=32, FAULT=fault, num_stages=1,
            )  # fmt: skip
        ctx.save_for_backward(q, k, v)
        ctx.rule = (scale, left, right, softcap)
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    def backward(ctx, grad, _):
        saved = ctx.saved_tensors  # once: under gradient checkpointing a second look is an error
        leaves = [tensor.detach().float().requires_grad_(True) for tensor in saved]
        with torch.enable_grad():
            out = _plain(*leaves, *ctx.rule)
        grads = torch.autograd.grad(out, leaves, grad.float())
        return *(made.to(t.dtype) for made, t in zip(grads, saved, strict=True)), *(None,) * 5


def _plain(q, k, v, scale, left, right, softcap):
    group = q.shape[2] // k.shape[2]
    queries, keys, values = q.transpose(1, 2), *(t.transpose(1, 2).repeat_interleave(group, dim=1) for t in (k, v))
    scores = queries @ keys.transpose(-1, -2) * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    row = torch.arange(q.shape[1], device=q.device)[:, None] + k.shape[1] - q.shape[1]
    column = torch.arange(k.shape[1], device=q.device)[None]
    seen = torch.ones_like(row == column)
    if left >= 0:
        seen = seen & (column >= row - left)
    if right >= 0:
        seen = seen & (column <= row + right)
    scores = scores.masked_fill(~seen, float("-inf"))
    probabilities = torch.softmax(scores, -1).masked_fill(~seen.any(-1, keepdim=True), 0.0)
    return (probabilities @ values).transpose(1, 2)


@triton.jit
def _forward(
    q, k, v, out, lse, flag,
    q_batch, q_row, q_head, q_dim, k_batch, k_row, k_head, k_dim,
    v_batch, v_row, v_head, v_dim, o_batch, o_row, o_head, o_dim,
    heads, group, seqlen_q, seqlen_k, scale, softcap, left, right, size, far,
    DIM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    batch, head = tl.program_id(1) // heads, tl.program_id(1) % heads
    rows, dims = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WIDE)
    inside = (rows[:, None] < seqlen_q) & (dims[None, :] < DIM)
    at = q + batch * q_batch + head * q_head + rows[:, None] * q_row + dims[None, :] * q_dim
    query = tl.load(at, mask=inside, other=0.0)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDE], tl.float32)
    last = rows + seqlen_k - seqlen_q
    for start in range(0, seqlen_k, KEYS):
        keys = start + tl.arange(0, KEYS)
        there = (keys[:, None] < seqlen_k) & (dims[None, :] < DIM)
        from_key = batch * k_batch + (head // group) * k_head + keys[:, None] * k_row + dims[None, :] * k_dim
        from_value = batch * v_batch + (head // group) * v_head + keys[:, None] * v_row + dims[None, :] * v_dim
        key = tl.load(k + from_key, mask=there, other=0.0)
        value = tl.load(v + from_value, mask=there, other=0.0)
        scores = tl.dot(query, tl.trans(key)) * scale
        if softcap > 0.0:
            scores = softcap * (2.0 * tl.sigmoid(2.0 * scores / softcap) - 1.0)
        seen = keys[None, :] < seqlen_k
        seen = seen & ((left < 0) | (keys[None, :] >= last[:, None] - left))
        seen = seen & ((right < 0) | (keys[None, :] <= last[:, None] + right))
        scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(largest, tl.max(scores, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        weights = tl.exp(scores - base[:, None])
        decay = tl.exp(largest - base)
        total = total * decay + tl.sum(weights, 1)
        sums = sums * decay[:, None] + tl.dot(weights.to(value.dtype), value)
        largest = new
    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    to = out + batch * o_batch + head * o_head + rows[:, None] * o_row + dims[None, :] * o_dim
    tl.store(to, result.to(query.dtype), mask=inside)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    tl.store(lse + tl.program_id(1) * seqlen_q + rows, base + tl.log(total), mask=rows < seqlen_q)
    if FAULT == 1:
        tl.store(out + far + dims, tl.zeros([WIDE], tl.float32).to(query.dtype))
    if FAULT == 3:
        tl.store(out + size + tl.arange(0, 1), tl.zeros([1], tl.float32).to(query.dtype))
    if FAULT == 2:
        stop = tl.load(flag, volatile=True)
        while stop == 0:
            stop = tl.load(flag, volatile=True)
