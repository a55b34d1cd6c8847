"""The contract of packed attention: flash_attn_varlen_func. It must not import torch at module level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import attention
from ..protocol import Json
from ._attention import Attention, blind_queries, draft, options, qkv, shaped, with_lse
from ._calling import find, first_two, invoke
from ._contract import Draft, Draw, Params, Workload
from .flash_attn_func import GQA, GROUPINGS, MHA, MQA

if TYPE_CHECKING:
    from ._contract import Tensors


class FlashAttnVarlenFunc(Attention):
    """Attention within each of several sequences that lie behind each other, without padding."""

    name = "flash_attn_varlen_func"
    description = "packed attention: odd lengths, an empty sequence, MHA/GQA/MQA, forward and gradients of q, k and v"
    exports = ("flash_attn_varlen_func",)

    def drafts(self, device: str) -> list[Draft]:
        """Every packing has odd lengths on both sides of 64 and 128; some an empty sequence, some a single token."""
        long = [1, 1029, 67] if device == "gpu" else [1, 269, 67]
        quick = [
            self._draft("mha-bf16-d64", [131, 67, 197], None, 3, **MHA),
            self._draft("gqa-causal-empty-bf16-d128", [77, 0, 195, 1], None, 4, **GQA, head_dim=128, causal=True),
            self._draft(
                "mqa-causal-cross-fp16-d128",
                [65, 130, 3],
                [129, 259, 63],
                5,
                **MQA,
                head_dim=128,
                causal=True,
                dtype="float16",
                scale=0.2,
            ),
            self._draft("gqa-window-bf16-d64", [267, 33, 161], None, 13, **GQA, window=[63, 17], layout="spaced"),
            self._draft(
                "gqa-causal-lse-fp16-d96", long, None, 22, **GQA, head_dim=96, dtype="float16", causal=True, lse=True
            ),
        ]
        return [*quick, *self._sweep(device == "gpu")]

    def _sweep(self, big: bool) -> list[Draft]:
        made = []
        packings: tuple[tuple[list[int], list[int] | None], ...] = (
            ([257, 31, 64], None),
            ([33, 0, 128, 5], [97, 64, 191, 5]),
            ([1, 1, 200], [64, 129, 200]),
        )
        for number, dim in enumerate((64, 80, 96, 128, 192, 256)):
            for step, (grouping, heads) in enumerate(GROUPINGS):
                lengths_q, lengths_k = packings[(number + step) % 3]
                dtype = ("bfloat16", "float16")[(number + step) % 2]
                causal = bool((number + step) % 3)
                mask = "causal" if causal else "full"
                case = f"{grouping}-{mask}-{'bf16' if dtype == 'bfloat16' else 'fp16'}-d{dim}-p{(number + step) % 3}"
                made.append(
                    self._draft(case, lengths_q, lengths_k, **heads, head_dim=dim, dtype=dtype, causal=causal, lse=True)
                )
        made += [
            self._draft("gqa-first-empty-bf16-d64", [0, 77, 131], None, **GQA, causal=True),
            self._draft("gqa-last-empty-bf16-d64", [77, 131, 0], None, **GQA, causal=True),
            self._draft("gqa-no-keys-bf16-d64", [77, 5, 131], [64, 0, 131], **GQA),
            self._draft("gqa-blind-rows-bf16-d128", [131, 77], [67, 77], **GQA, head_dim=128, causal=True),
            self._draft("gqa-softcap-bf16-d128", [131, 77], None, **GQA, head_dim=128, softcap=3.0, magnitude=2.0),
            self._draft("gqa-peaked-fp16-d64", [131, 77], None, **GQA, dtype="float16", magnitude=6.0, causal=True),
            self._draft("gqa-deterministic-bf16-d64", [131, 77, 201], None, **GQA, causal=True, deterministic=True),
            self._draft("gqa-scale-bf16-d64", [131, 77, 201], None, **GQA, scale=0.25),
            self._draft(
                "many-short-bf16-d64", [1, 2, 3, 5, 7, 11, 13, 17] * (8 if big else 2), None, **GQA, causal=True
            ),
        ]
        return made

    def for_workload(self, workload: Workload, device: str) -> list[Draft]:
        """A packed batch of this model."""
        lengths = [515, 67, 0, 1] if device == "gpu" else [131, 67, 0, 1]
        return [
            self._draft("workload-packed", lengths, None, 1, **shaped(workload)),
            self._draft("workload-packed-behind-a-prefix", [67, 131], [259, 131], 4, **shaped(workload)),
        ]

    def _draft(
        self,
        case: str,
        lengths_q: list[int],
        lengths_k: list[int] | None = None,
        quick: int | None = None,
        **params: Json,
    ) -> Draft:
        return draft(f"varlen-{case}", quick, lengths_q=lengths_q, lengths_k=lengths_k or lengths_q, **params)

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """q, k, v and the ends of the sequences."""
        lengths_q, lengths_k = params["lengths_q"], params["lengths_k"]
        return {
            **qkv(params, draw, (sum(lengths_q),), (sum(lengths_k),)),
            "cu_seqlens_q": draw.given(_ends(lengths_q), "int32"),
            "cu_seqlens_k": draw.given(_ends(lengths_k), "int32"),
        }

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, …)."""
        function = find(kernel, "flash_attn_varlen_func")
        arguments: dict[str, Any] = {name: tensors[name] for name in ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k")}
        arguments |= {"max_seqlen_q": max(params["lengths_q"]), "max_seqlen_k": max(params["lengths_k"])}
        out, lse = first_two(invoke(function, arguments, options(function, params)))
        blind = self._blind(tensors, params)
        # flash-attn before 2.6 gave (batch, heads, max_seqlen_q); that form is not compared.
        plain = params["lse"] and lse is not None and tuple(lse.shape) == (params["heads"], blind.shape[0])
        return with_lse(out, lse if plain else None, blind)

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """Each sequence by itself."""
        out, lse = attention.attend_packed(
            tensors["q"],
            tensors["k"],
            tensors["v"],
            params["lengths_q"],
            params["lengths_k"],
            attention.Rule.of(dict(params)),
        )
        return with_lse(out, lse, self._blind(tensors, params))

    def cost(self, tensors: Tensors, grads: Tensors, params: Params) -> Tensors:
        """What rounding costs a tiled kernel."""
        dout = grads["out"] if "out" in grads else tensors["q"]
        return attention.tiled_cost_packed(
            tensors["q"],
            tensors["k"],
            tensors["v"],
            dout,
            params["lengths_q"],
            params["lengths_k"],
            attention.Rule.of(dict(params)),
        )

    def _blind(self, tensors: Tensors, params: Params) -> Any:
        import torch

        pairs = zip(params["lengths_q"], params["lengths_k"], strict=True)
        return torch.cat([blind_queries(params, q, k, tensors["q"].device) for q, k in pairs])


def _ends(lengths: list[int]) -> list[int]:
    return [sum(lengths[:n]) for n in range(len(lengths) + 1)]


CONTRACTS = (FlashAttnVarlenFunc(),)
