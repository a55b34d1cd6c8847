"""The subtly wrong attention kernels that the numerics must catch, each with what is wrong as its name."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .attention_kernels import kernel, tiled

#: Bugs of the dense core; what each does stands where Tiled looks for it.
IN_THE_CORE = (
    "causal sees the next key",
    "causal misses the own key",
    "causal from the top left",
    "no causal mask when the lengths differ",
    "window one too wide",
    "window one too narrow",
    "window is ignored",
    "scale of the padded head dim",
    "kv heads interleaved",
    "dropout at p = 0",
    "padded keys count in the softmax",
    "the last partial block is dropped",
    "keys past 1024 are lost",
    "lse of rows past 1024 keys",
    "backward with a stale lse past 512 keys",
    "dk of the last head of a group",
    "dk averaged over the group",
    "dv of the last head of a group",
    "sums in low precision",
    "weights in fp8",
    "everything through bf16",
    "dq without the scale",
    "dk scaled twice",
    "the row sum is missing in dS",
    "softcap is ignored",
    "softcap has no gradient of its own",
    "no maximum is subtracted",
    "no rescaling when the maximum rises",
    "blind rows average the values",
    "blind rows are not written",
    "nan gradient of blind rows",
    "dk of the last key is not written",
    "the last columns of the head are not written",
    "the second sequence reads the first one's values",
    "the backward is not repeatable",
    "q is scaled in place",
    "strides are ignored",
    "writes before q",
    "writes behind k",
    "softmax_scale is ignored",
    "right side of the window is ignored",
    "another dropout mask in the backward",
    "dropout without rescaling",
)


def mutants() -> dict[str, SimpleNamespace]:
    """Each wrong kernel by what is wrong with it."""
    made = {bug: kernel(tiled(bug)) for bug in IN_THE_CORE}
    return {**made, **_around_the_core()}


def _around_the_core() -> dict[str, SimpleNamespace]:
    right = kernel(tiled())

    def leaking(q, k, v, cu_seqlens_q, cu_seqlens_k, *args, **kwargs):
        """Each sequence but the last sees the first key of the next one."""
        moved = cu_seqlens_k.clone()
        moved[1:-1] += 1
        return right.flash_attn_varlen_func(q, k, v, cu_seqlens_q, moved.clamp(max=k.shape[0]), *args, **kwargs)

    def confused_by_empty(q, k, v, cu_seqlens_q, cu_seqlens_k, *args, **kwargs):
        """Behind an empty sequence everything is taken for one sequence."""
        lengths = cu_seqlens_q.diff()
        if bool((lengths == 0).any()):
            keep = torch.arange(len(cu_seqlens_q)) <= int((lengths == 0).nonzero()[0])
            keep[-1] = True
            cu_seqlens_q, cu_seqlens_k = cu_seqlens_q[keep], cu_seqlens_k[keep]
        return right.flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, *args, **kwargs)

    def last_token_lost(q, k, v, *args, **kwargs):
        out = right.flash_attn_varlen_func(q, k, v, *args, **kwargs)
        hole = torch.ones(q.shape[0], 1, 1)
        hole[-1] = 0
        return (out[0] * hole, *out[1:]) if isinstance(out, tuple) else (out * hole).to(out.dtype)

    def stale(q, k_cache, v_cache, *args, cache_seqlens=None, k=None, v=None, **kwargs):
        """Sees one entry beyond the length where nothing is appended."""
        longer = cache_seqlens + (k is None)
        return right.flash_attn_with_kvcache(q, k_cache, v_cache, *args, cache_seqlens=longer, k=k, v=v, **kwargs)

    def appended_late(q, k_cache, v_cache, *args, cache_seqlens=None, k=None, v=None, **kwargs):
        return right.flash_attn_with_kvcache(
            q, k_cache, v_cache, *args, cache_seqlens=cache_seqlens + (k is not None), k=k, v=v, **kwargs
        )

    def not_appended(q, k_cache, v_cache, *args, **kwargs):
        return right.flash_attn_with_kvcache(q, k_cache.clone(), v_cache.clone(), *args, **kwargs)

    core = tiled()
    return {
        "a packed sequence sees a key of the next": kernel(core, flash_attn_varlen_func=leaking),
        "an empty sequence confuses those behind it": kernel(core, flash_attn_varlen_func=confused_by_empty),
        "the last packed token is lost": kernel(core, flash_attn_varlen_func=last_token_lost),
        "a stale cache entry is seen": kernel(core, flash_attn_with_kvcache=stale),
        "new keys land one too late": kernel(core, flash_attn_with_kvcache=appended_late),
        "new keys are not stored": kernel(core, flash_attn_with_kvcache=not_appended),
    }
