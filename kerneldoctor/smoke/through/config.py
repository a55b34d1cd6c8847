"""Makes the config of a small model of an architecture: two layers, few words, attention as the real one has it.

Child side; nothing but a config is ever downloaded, and no weights. It must not know any kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..loading import Refusal

_LAYERS = 2
_WORDS = 512
_INNER = 1024  # of the feed-forward layers, which are not what is tried
_EXPERTS = 4
_WINDOW = 32  # shorter than the sequences, so that a sliding window is met
_MOST_PARAMETERS = 1_500_000_000
_SMALLER = {
    "intermediate_size": _INNER, "moe_intermediate_size": _INNER, "shared_expert_intermediate_size": _INNER,
    "ffn_dim": _INNER, "n_inner": _INNER, "num_experts": _EXPERTS, "num_local_experts": _EXPERTS,
    "n_routed_experts": _EXPERTS, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1,
    "first_k_dense_replace": 1,
}  # fmt: skip
#: Where attention is every so many layers: of the two that are left, the second one.
_SPARSE: Mapping[str, Any] = {"attn_layer_period": 2, "attn_layer_offset": 1}
_ATTENTION = ("full_attention", "sliding_attention", "chunked_attention", "attention")
_SHAPE = {"heads": "num_attention_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim"}


def make_config(model: str | None, shape: Mapping[str, Any]) -> Any:
    """The config of the model to build. model: a config.json, its folder, a name on the Hub, None for the default.

    shape: heads, kv_heads, head_dim, window where they were asked for. Raises Refusal where there is no such model.
    """
    config = _default(shape) if model is None else _cut(_read(model))
    for name, attribute in _SHAPE.items():
        if name in shape and model is not None and hasattr(config, attribute):
            setattr(config, attribute, shape[name])
    _without_chance(config)
    return config


def _default(shape: Mapping[str, Any]) -> Any:
    import transformers

    kind = getattr(transformers, "Qwen3Config", transformers.LlamaConfig)
    window = {"use_sliding_window": True, "sliding_window": shape.get("window"), "max_window_layers": 0}
    return kind(
        hidden_size=256, intermediate_size=512, num_hidden_layers=_LAYERS, vocab_size=_WORDS,
        num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"], head_dim=shape["head_dim"],
        max_position_embeddings=2048, **(window if shape.get("window") else {}),
    )  # fmt: skip


def _read(model: str) -> Any:
    from transformers import AutoConfig

    path = Path(model).expanduser()
    try:
        config = AutoConfig.from_pretrained(str(path) if path.exists() else model)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error).strip().split("\n")[0][:300]
        raise Refusal("no-model", f"transformers makes no config of {model}: {why}", error) from error
    return config.get_text_config()


def _cut(config: Any) -> Any:
    """Two layers of it, one of each kind of attention where there are several; few words, narrow feed-forward."""
    count = int(config.num_hidden_layers)
    chosen = _layers(_kinds(config), count)
    for name, value in list(vars(config).items()):
        if isinstance(value, list) and len(value) == count > len(chosen):
            setattr(config, name, [value[index] for index in chosen])
    config.num_hidden_layers = len(chosen)
    for name, value in _SPARSE.items():
        if hasattr(config, name):
            setattr(config, name, value)
    for name, most in {**_SMALLER, "vocab_size": _WORDS, "sliding_window": _WINDOW}.items():
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > most:
            setattr(config, name, most)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(config, name, None)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    return config


def _layers(kinds: list[str], count: int) -> list[int]:
    firsts = list({kind: kinds.index(kind) for kind in kinds}.values())[:_LAYERS]
    others = [index for index in range(count) if index not in firsts]
    return sorted([*firsts, *others][: min(_LAYERS, count)])


def _without_chance(config: Any) -> None:
    """No dropout; weights so large that attention is far from uniform, or its faults would drown in rounding."""
    for name, value in list(vars(config).items()):
        if name.endswith(("dropout", "_pdrop")) and isinstance(value, (int, float)):
            setattr(config, name, 0.0)
    if hasattr(config, "initializer_range"):
        config.initializer_range = 1 / math.sqrt(config.hidden_size)


def has_other_layers(config: Any) -> bool:
    """Whether some layers are no softmax attention: linear attention, a state space, a convolution."""
    return any(kind not in _ATTENTION for kind in _kinds(config))


def _kinds(config: Any) -> list[str]:
    """The kind of every layer, where the architecture has several; hybrids before layer_types name them otherwise."""
    return list(getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or [])


def check_size(config: Any) -> None:
    """Refusal when even the cut model is too large to be built; counted without memory."""
    import copy

    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation="eager")
    size = sum(parameter.numel() for parameter in model.parameters())
    if size > _MOST_PARAMETERS:
        raise Refusal("no-model", f"with {_LAYERS} layers this model still has {size / 1e9:.1f} billion parameters: "
                      "give its attention instead, with --heads, --kv-heads and --head-dim")  # fmt: skip
