"""Which cases a kernel is held to within a model: how a batch is laid out, and what is done with it. Pure, no torch.

Both sides read it: the parent names the cases, the child makes their batches. It must not know any kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..protocol import Case

Library = Literal["transformers", "trl"]
#: train: logits, loss, gradients. generate: greedy decoding with a KV cache. sft: two steps of TRL's SFTTrainer.
Does = Literal["train", "generate", "sft"]

#: The default model: grouped-query attention, as most models have it.
DEFAULT_SHAPE: Mapping[str, Any] = {"heads": 8, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16"}


@dataclass(frozen=True, slots=True)
class Scene:
    """One case before it has a model and a seed.

    layout:  how sequences of `lengths` lie in a batch: "unpadded" (all of one length), "padded-right", "padded-left",
             "packed" (behind each other in a batch of one, position_ids start anew), "packed-kwargs" (the same with
             cu_seq_lens and max_length as arguments).
    asked:   only run when it was asked for by a flag of that name.
    """

    id: str
    does: Does
    layout: str
    lengths: tuple[int, ...]
    checkpointing: bool = False
    asked: str = ""

    def params(self, shape: Mapping[str, Any], backward: bool) -> dict[str, Any]:
        """The case's parameters, as the report shows them and the child reads them."""
        trains = backward and self.does != "generate"
        return {**shape, "layout": self.layout, "lengths": list(self.lengths), "does": self.does,
                "checkpointing": self.checkpointing, "compile": self.asked == "compile", "causal": True,
                "backward": trains}  # fmt: skip


_EVEN, _UNEVEN, _PACK, _TOY = (96, 96), (96, 41, 7), (37, 64, 5, 80), (40, 23, 9, 31, 17)
SCENES: Mapping[Library, tuple[Scene, ...]] = {
    "transformers": (
        Scene("unpadded", "train", "unpadded", _EVEN),
        Scene("padded-right", "train", "padded-right", _UNEVEN),
        Scene("padded-left", "train", "padded-left", _UNEVEN),
        Scene("packed", "train", "packed", _PACK),
        Scene("packed-kwargs", "train", "packed-kwargs", _PACK),
        Scene("checkpointing", "train", "unpadded", _EVEN, checkpointing=True),
        Scene("generate", "generate", "unpadded", (24, 24)),
        Scene("generate-padded", "generate", "padded-left", (24, 9)),
        Scene("compile", "train", "unpadded", _EVEN, asked="compile"),
    ),
    "trl": (
        Scene("sft-padded", "sft", "padded-right", _TOY),
        Scene("sft-padding-free", "sft", "padding-free", _TOY),
        Scene("sft-packing", "sft", "packing", _TOY),
    ),
}


def plan(
    library: Library, shape: Mapping[str, Any], backward: bool, flags: frozenset[str], seed: int
) -> tuple[Case, ...]:
    """The cases, in order. Without the backward there is nothing to checkpoint and nothing for a trainer to do."""
    wanted = [
        scene
        for scene in SCENES[library]
        if (not scene.asked or scene.asked in flags) and (backward or not scene.checkpointing)
    ]
    return tuple(Case(scene.id, library, scene.params(shape, backward), seed) for scene in wanted)
