"""The contract of decoding with a KV cache: flash_attn_with_kvcache. It must not import torch at module level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import attention
from ..protocol import Json
from ._attention import Attention, blind_queries, draft, options, qkv, shaped, with_lse
from ._calling import find, first_two, invoke
from ._contract import Draft, Draw, Params, Workload
from .flash_attn_func import GQA, MHA, MQA

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

#: What lies in a cache beyond its length: finite, so that a kernel may read it, and far too large to go unnoticed.
STALE = 40.0
PAGE = 256  # flash-attn 2 wants pages of a multiple of 256


class FlashAttnWithKvcache(Attention):
    """New queries against a cache with a length of its own for each sequence; new keys are appended in place."""

    name = "flash_attn_with_kvcache"
    description = "decoding: cache lengths per sequence, new keys appended in place, stale cache entries, pages"
    exports = ("flash_attn_with_kvcache",)
    differentiable = ()
    changes = ("k_cache", "v_cache")

    def drafts(self, device: str) -> list[Draft]:
        """One token and several, short caches and long ones."""
        far = 4093 if device == "gpu" else 1029
        return [
            self._draft("gqa-append-bf16-d128", 1, [5, 130, far], True, 6, **GQA, head_dim=128),
            self._draft("mha-several-fp16-d64", 7, [1, 257, 300], False, 14, **MHA, dtype="float16"),
            self._draft("mqa-append-several-bf16-d128", 5, [0, 131, far], True, 23, **MQA, head_dim=128),
            self._draft("gqa-long-bf16-d64", 1, [far, 63], False, **GQA, lse=True),
            self._draft("gqa-window-bf16-d128", 3, [65, 300], True, **GQA, head_dim=128, window=[63, 0]),
            self._draft("gqa-softcap-bf16-d256", 1, [65, 300], True, **GQA, head_dim=256, softcap=3.0, magnitude=2.0),
            self._draft("gqa-paged-bf16-d128", 1, [5, 259, 511], False, **GQA, head_dim=128, paged=True),
            self._draft(
                "gqa-paged-append-fp16-d128", 3, [5, 255, 500], True, **GQA, head_dim=128, dtype="float16", paged=True
            ),
            *(
                self._draft(f"gqa-append-fp16-d{d}", 2, [64, 127], True, **GQA, head_dim=d, dtype="float16")
                for d in (80, 96, 192)
            ),
        ]

    def for_workload(self, workload: Workload, device: str) -> list[Draft]:
        """Decoding with this model."""
        return [self._draft("workload-decode", 1, [5, 131, 511], True, 2, **shaped(workload))]

    def _draft(
        self, case: str, new: int, cached: list[int], append: bool, quick: int | None = None, **params: Json
    ) -> Draft:
        params = {"causal": True, **params, "backward": False, "new": new, "cached": cached, "append": append}
        return draft(f"kvcache-{case}", quick, **{"paged": False, **params})

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """q, the caches with rubbish beyond their length, and what is to be appended."""
        batch, dim, dtype = len(params["cached"]), params["head_dim"], params["dtype"]
        pages = -(-(max(params["cached"]) + params["new"] + 1) // PAGE)
        made = qkv(params, draw, (batch, params["new"]), (batch, pages * PAGE))
        made["k_cache"], made["v_cache"] = made.pop("k"), made.pop("v")
        for row, length in enumerate(params["cached"]):
            for name in self.changes:
                made[name][row, length:] *= STALE
        made = self._refenced(made, draw, params, pages)
        if params["append"]:
            for name, scale in (("k", params["magnitude"]), ("v", 1.0)):
                made[name] = draw.normal(batch, params["new"], params["kv_heads"], dim, dtype=dtype, scale=scale)
        made["cache_seqlens"] = draw.given(params["cached"], "int32")
        return made

    def _refenced(self, made: Tensors, draw: Draw, params: Params, pages: int) -> Tensors:
        """The caches as the kernel gets them, fenced after their stale part was written; in pages when asked."""
        if params["paged"]:
            order = draw.order(len(params["cached"]) * pages)
            table = [order[row * pages : (row + 1) * pages] for row in range(len(params["cached"]))]
            made["block_table"] = draw.given(table, "int32")
            where = made["block_table"].flatten().long()
            for name in self.changes:
                cut = made[name].reshape(-1, PAGE, *made[name].shape[2:])
                scattered = cut.clone()
                scattered[where] = cut
                made[name] = scattered
        return {name: draw.keep(tensor) if name in self.changes else tensor for name, tensor in made.items()}

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """flash_attn_with_kvcache(q, k_cache, v_cache, …); the changed caches are outputs."""
        function = find(kernel, "flash_attn_with_kvcache")
        wanted = options(function, params)
        wanted |= {name: (tensors[name], None) for name in ("k", "v", "cache_seqlens") if name in tensors}
        if "block_table" in tensors:
            wanted["block_table|page_table"] = (tensors["block_table"], None)
        arguments = {name: tensors[name] for name in ("q", "k_cache", "v_cache")}
        out, lse = first_two(invoke(function, arguments, wanted))
        made = with_lse(out, lse if params["lse"] else None, self._blind(tensors, params))
        return {**made, "k_cache": tensors["k_cache"], "v_cache": tensors["v_cache"]}

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """Appends, then attends each sequence to the keys that are valid."""
        import torch

        rule = attention.Rule.of(dict(params))
        caches = {name: self._in_order(tensors, name) for name in self.changes}
        outs, lses = [], []
        for row, length in enumerate(self._lengths(params)):
            if params["append"]:
                for name in ("k", "v"):
                    caches[f"{name}_cache"][row, length - params["new"] : length] = tensors[name][row]
            keys, values = (caches[name][row : row + 1, :length] for name in self.changes)
            out, lse = attention.attend(tensors["q"][row : row + 1], keys, values, rule)
            outs.append(out)
            lses.append(lse)
        made = with_lse(torch.cat(outs), torch.cat(lses), self._blind(tensors, params))
        return {**made, **{name: self._as_given(tensors, name, caches[name]) for name in self.changes}}

    def _lengths(self, params: Params) -> list[int]:
        return [length + (params["new"] if params["append"] else 0) for length in params["cached"]]

    def _in_order(self, tensors: Tensors, name: str) -> torch.Tensor:
        """A cache as (batch, capacity, kv_heads, head_dim), in memory of its own."""
        cache = tensors[name]
        if "block_table" not in tensors:
            return cache.clone()
        table = tensors["block_table"].long()
        return cache[table.flatten()].reshape(table.shape[0], -1, *cache.shape[2:])

    def _as_given(self, tensors: Tensors, name: str, ordered: torch.Tensor) -> torch.Tensor:
        if "block_table" not in tensors:
            return ordered
        pages = tensors[name].clone()
        pages[tensors["block_table"].flatten().long()] = ordered.reshape(-1, PAGE, *ordered.shape[2:])
        return pages

    def _blind(self, tensors: Tensors, params: Params) -> torch.Tensor:
        import torch

        rows = [blind_queries(params, params["new"], length, tensors["q"].device) for length in self._lengths(params)]
        return torch.stack(rows)


CONTRACTS = (FlashAttnWithKvcache(),)
