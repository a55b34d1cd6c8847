"""The contract of dense attention: flash_attn_func of flash-attn 2, 3 and 4. It must not import torch on its import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import attention
from ..protocol import Json
from ._attention import Attention, blind_queries, draft, options, qkv, shaped, with_lse
from ._calling import find, first_two, invoke
from ._contract import Draft, Draw, Params, Workload

if TYPE_CHECKING:
    from ._contract import Tensors

GQA: dict[str, Json] = {"heads": 8, "kv_heads": 2}
MQA: dict[str, Json] = {"heads": 6, "kv_heads": 1}
MHA: dict[str, Json] = {"heads": 4, "kv_heads": 4}
GROUPINGS = (("mha", MHA), ("gqa", GQA), ("mqa", MQA))


class FlashAttnFunc(Attention):
    """out = softmax(q k^T) v over (batch, seqlen, heads, head_dim)."""

    name = "flash_attn_func"
    description = "dense attention: masks, windows, softcap, MHA/GQA/MQA, forward and gradients of q, k and v"
    exports = ("flash_attn_func",)

    def drafts(self, device: str) -> list[Draft]:
        """Odd lengths on both sides of the block sizes 64, 128 and 256."""
        big = device == "gpu"
        return [*self._quick(big), *self._sweep(big)]

    def _quick(self, big: bool) -> list[Draft]:
        long = (1037, 4163) if big else (35, 2115)

        def lengths(on_a_gpu: tuple[int, int], on_a_cpu: tuple[int, int]) -> tuple[int, int]:
            return on_a_gpu if big else on_a_cpu

        return [
            self._draft("mha-bf16-d64", lengths((259, 387), (67, 195)), 0, **MHA),
            self._draft("gqa-causal-bf16-d128", lengths((197, 453), (67, 133)), 1, batch=3, **GQA, **_causal(128)),
            self._draft(
                "mqa-causal-fp16-d96",
                lengths((321, 321), (131, 131)),
                2,
                **MQA,
                head_dim=96,
                causal=True,
                dtype="float16",
                layout="transposed",
            ),
            self._draft(
                "gqa-window-causal-bf16-d128",
                lengths((389, 389), (133, 133)),
                7,
                **GQA,
                head_dim=128,
                causal=True,
                window=[63, 0],
            ),
            self._draft(
                "gqa-softcap-bf16-d256",
                lengths((141, 275), (35, 131)),
                8,
                **GQA,
                head_dim=256,
                softcap=3.0,
                magnitude=2.0,
            ),
            self._draft("long-lse-bf16-d128", long, 9, heads=2, kv_heads=1, head_dim=128, causal=True, lse=True),
            self._draft(
                "gqa-peaked-fp16-d80",
                lengths((193, 259), (67, 131)),
                10,
                **GQA,
                head_dim=80,
                dtype="float16",
                magnitude=6.0,
            ),
            self._draft(
                "gqa-deterministic-bf16-d64",
                lengths((261, 261), (131, 131)),
                11,
                **GQA,
                causal=True,
                deterministic=True,
            ),
            self._draft(
                "gqa-blind-rows-bf16-d64", lengths((267, 139), (139, 67)), 12, **GQA, causal=True, layout="spaced"
            ),
            self._draft("gqa-scale-bf16-d192", lengths((131, 259), (35, 131)), 20, **GQA, head_dim=192, scale=0.25),
            self._draft("gqa-window-both-sides-fp16-d64", lengths((131, 323), (67, 133)), 21, **GQA, **_both_sides()),
        ]

    def _sweep(self, big: bool) -> list[Draft]:
        made = []
        masks: tuple[tuple[str, dict[str, Json]], ...] = (("full", {}), ("causal", {"causal": True}))
        for number, dim in enumerate((64, 80, 96, 128, 192, 256)):
            for dtype in ("bfloat16", "float16"):
                for step, (grouping, heads) in enumerate(GROUPINGS):
                    mask, rule = masks[(number + step) % 2]
                    lengths = ((257, 257), (129, 323), (67, 191))[(number + step) % 3]
                    made.append(
                        self._draft(
                            f"{grouping}-{mask}-{_short(dtype)}-d{dim}-{lengths[0]}x{lengths[1]}",
                            lengths,
                            **heads,
                            **rule,
                            head_dim=dim,
                            dtype=dtype,
                            lse=True,
                        )
                    )
        edges = (
            (1, 1),
            (1, 259),
            (63, 64),
            (64, 65),
            (65, 63),
            (127, 129),
            (128, 128),
            (255, 257),
            (256, 513),
            (259, 1),
        )
        made += [
            self._draft(f"gqa-causal-bf16-d128-{q}x{k}", (q, k), **GQA, head_dim=128, causal=True, lse=True)
            for q, k in edges
        ]
        made += [
            self._draft(f"gqa-window-{left}-{right}-bf16-d64", (261, 389), **GQA, window=[left, right])
            for left, right in ((0, 0), (1, 0), (127, 0), (128, 64), (-1, 31), (31, -1), (700, 700))
        ]
        made += [
            self._draft(f"gqa-causal-magnitude-{size}-{_short(dtype)}-d128", (131, 261), **GQA, **common)
            for size in (0.05, 3.0, 12.0)
            for dtype in ("bfloat16", "float16")
            for common in ({"head_dim": 128, "causal": True, "magnitude": size, "dtype": dtype},)
        ]
        made += [
            self._draft(f"mha-{layout}-bf16-d128", (197, 261), **MHA, head_dim=128, layout=layout)
            for layout in ("transposed", "spaced")
        ]
        made += [
            self._draft("gqa-softcap-causal-window-bf16-d128", (261, 261), **GQA, head_dim=128, **_gemma()),
            self._draft(
                "mha-deterministic-fp16-d128", (197, 261), **MHA, head_dim=128, dtype="float16", deterministic=True
            ),
        ]
        long = ((2051, 2051), (67, 16411)) if big else ((523, 523), (19, 4115))
        made += [
            self._draft(f"long-{q}x{k}-bf16-d64", (q, k), heads=2, kv_heads=1, batch=1, causal=True, lse=True)
            for q, k in long
        ]
        return made

    def for_workload(self, workload: Workload, device: str) -> list[Draft]:
        """A prompt, a prompt behind a prefix, and one longer than the window."""
        lengths = [(261, 261), (131, 515), (1037, 1037)] if device == "gpu" else [(131, 131), (67, 259), (261, 261)]
        return [
            self._draft(f"workload-{q}x{k}", (q, k), number * 3, **shaped(workload), lse=number == 1)
            for number, (q, k) in enumerate(lengths)
        ]

    def _draft(self, case: str, lengths: tuple[int, int], quick: Json = None, batch: Json = 2, **params: Json) -> Draft:
        return draft(f"dense-{case}", quick, batch=batch, seqlen_q=lengths[0], seqlen_k=lengths[1], **params)

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """q, k and v."""
        batch = params["batch"]
        return qkv(params, draw, (batch, params["seqlen_q"]), (batch, params["seqlen_k"]))

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """flash_attn_func(q, k, v, …)."""
        function = find(kernel, "flash_attn_func")
        arguments = {name: tensors[name] for name in ("q", "k", "v")}
        out, lse = first_two(invoke(function, arguments, options(function, params)))
        return with_lse(out, lse if params["lse"] else None, self._blind(tensors, params))

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same in PyTorch."""
        out, lse = attention.attend(tensors["q"], tensors["k"], tensors["v"], attention.Rule.of(dict(params)))
        return with_lse(out, lse, self._blind(tensors, params))

    def cost(self, tensors: Tensors, grads: Tensors, params: Params) -> Tensors:
        """What rounding costs a tiled kernel."""
        rule = attention.Rule.of(dict(params))
        dout = grads["out"] if "out" in grads else tensors["q"]
        return attention.tiled_cost(tensors["q"], tensors["k"], tensors["v"], dout, rule)

    def _blind(self, tensors: Tensors, params: Params) -> Any:
        return blind_queries(params, params["seqlen_q"], params["seqlen_k"], tensors["q"].device)


def _short(dtype: str) -> str:
    return {"bfloat16": "bf16", "float16": "fp16"}[dtype]


def _causal(head_dim: int) -> dict[str, Json]:
    return {"head_dim": head_dim, "causal": True}


def _both_sides() -> dict[str, Json]:
    return {"dtype": "float16", "window": [40, 17]}


def _gemma() -> dict[str, Json]:
    return {"causal": True, "window": [95, 0], "softcap": 5.0, "magnitude": 2.0}


CONTRACTS = (FlashAttnFunc(),)
