"""Reads what a model and a run were told: attention, heads, types, training or inference."""

from __future__ import annotations

import re

from .model import Source
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_NUMBERS = {
    "q_heads": re.compile(
        r"(?<!\w)(?:num_attention_heads|num_query_heads|n_heads|q_heads|nheads"
        r"|num_heads)[\"']?\s{0,3}[=:]\s{0,3}(\d{1,4})\b"
    ),
    "kv_heads": re.compile(
        r"(?<!\w)(?:num_key_value_heads|num_kv_heads|n_kv_heads|kv_heads|nheads_k"
        r"|num_heads_k)[\"']?\s{0,3}[=:]\s{0,3}(\d{1,4})\b"
    ),
    "head_dim": re.compile(
        r"(?<!\w)(?:head_dim|head_size|headdim|head dim(?:ension)?)[\"']?\s{0,3}(?:[=:]|of|is)?\s{0,3}(\d{2,4})\b"
    ),
    "sliding_window": re.compile(r"(?<!\w)sliding_window[\"']?\s{0,3}[=:]\s{0,3}(\d{1,7})\b"),
}
_SAID_HEADS = re.compile(
    r"(\d{1,3}) (?:query|q|attention) heads?\b.{0,40}?(\d{1,3}) (?:kv|key[-/ ]?value|key/value)[ -]heads?",
    re.IGNORECASE,
)
_SHORT_HEADS = re.compile(
    r"\b(?:H|heads?)\s?[=:]?\s?(\d{1,3})\s?/\s?(?:H?kv|KV)?\s?[=:]?\s?(\d{1,3}) (?:heads|q/kv)", re.IGNORECASE
)
_FLOATS = {
    "softcap": re.compile(
        r"(?<!\w)(?:attn_logit_softcapping|softcap|logits_soft_cap)[\"']?\s{0,3}[=:]\s{0,3}(\d{1,4}(?:\.\d{1,4})?)"
    ),
    "dropout": re.compile(
        r"(?<!\w)(?:attention_dropout|attn_dropout|dropout_p|attn_pdrop)[\"']?\s{0,3}[=:]\s{0,3}(\d(?:\.\d{1,6})?)"
    ),
}
_ATTENTION = re.compile(
    r"_?attn[_-]implementation[\"']?\]?\s{0,3}(?:[=:]|\s)\s{0,3}[\"'`{]{0,3}([A-Za-z][\w./@|:-]{2,120})"
)
_CALLED = re.compile(r"set_attn_implementation\(\s{0,3}[\"']([\w./@|:-]{3,120})")
_DTYPE = re.compile(
    r"(?:torch_)?dtype[\"']?\s{0,3}[=:]\s{0,3}[\"']?(?:torch\.|jnp\.)?(float16|bfloat16|float32|half|bf16|fp16|fp32"
    r"|float)\b"
)
_PRECISION = re.compile(
    r"\b(bf16|fp16)\s{0,2}[=:]\s{0,2}(True|true)\b|--(bf16|fp16)\b(?! false)|(?:mixed_precision"
    r"|precision)[\"']?\s{0,2}[=:]\s{0,2}[\"']?(bf16|fp16)\b"
)
_MODEL_TYPE = re.compile(r"[\"']?model_type[\"']?\s{0,3}[=:]\s{0,3}[\"']([a-z][a-z0-9_-]{1,40})[\"']")
_PADDING = re.compile(r"padding_side[\"']?\s{0,3}=\s{0,3}[\"'](left|right)[\"']")
_TYPES = {"half": "float16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32"}
_TRAINING = re.compile(
    r"loss\.backward\(|trainer\.train\(|accelerator\.backward\(|in _?backward\b|_backward\b.{0,3}$"
    r"|autograd[/\\]function\.py"
    r"|\b(?:SFT|DPO|GRPO|PPO|ORPO|KTO|Reward|RLOO)(?:Trainer|Config)\b|\btrl (?:sft|dpo|grpo)\b|in training_step\b"
    r"|in _inner_training_loop"
    r"|_engine_run_backward|\bbackward pass\b"
)
_TRAINING_WORDS = re.compile(
    r"\b(?:fine-?tun(?:e|ing)|(?:pre-?)?training|train(?:s|ed)? (?:a|the|my|with))\b", re.IGNORECASE
)
_INFERENCE = re.compile(
    r"\bmodel\.generate\(|torch\.(?:inference_mode|no_grad)\(\)|in generate\b|\bvllm serve\b|LLM\(model=|in _sample\b"
)
_INFERENCE_WORDS = re.compile(r"\binference(?: only)?\b|\bserving\b|\bgeneration\b", re.IGNORECASE)
_MODE = re.compile(r"\s*(?:[-*]\s*)?mode\s*[:=]\s*(training|inference|eval)", re.IGNORECASE)
_VARLEN = re.compile(r"varlen|cu_seqlens|unpad_input|padding_free\s?=\s?True|packing\s?=\s?True")
_COMPILED = re.compile(
    r"torch\.compile\(|torch/_dynamo|torch/_inductor|_dynamo\.exc|torch_compile\s?=\s?True|--torch_compile"
)
_DISTRIBUTED = re.compile(
    r"\btorchrun\b|accelerate launch|deepspeed --|torch\.distributed\.(?:run|launch)"
    r"|--nproc[_-]per[_-]node[= ](?!1\b)|\[rank[1-9]\d{0,3}\]|\bsrun\b|tensor[_-]parallel[_-]size[= ](?!1\b)\d"
)
_KIND = "workload"


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line that may tell what the kernel is used for."""
    text = line.text

    def note(field: str, value: object, source: Source = Source.PRINTED) -> None:
        notebook.add(f"workload.{field}", value, line, _KIND, source)

    low = line.low
    if "head" in low or "sliding_window" in low:
        for field, pattern in _NUMBERS.items():
            if found := pattern.search(text):
                note(field, int(found[1]))
        if "heads" in low and (heads := _SAID_HEADS.search(text)):
            note("q_heads", int(heads[1]), Source.SAID)
            note("kv_heads", int(heads[2]), Source.SAID)
    if "soft" in low or "drop" in low:
        for field, pattern in _FLOATS.items():
            if found := pattern.search(text):
                note(field, float(found[1]))
    if "implementation" in low:
        _attention(line, notebook)
    if "dtype" in low and (dtype := _DTYPE.search(text)):
        note("dtype", _TYPES.get(dtype[1], dtype[1]))
    elif ("16" in low or "precision" in low) and (precision := _PRECISION.search(text)):
        word = precision[1] or precision[3] or precision[4]
        note("dtype", _TYPES[word])
    if "model_type" in low and (model := _MODEL_TYPE.search(text)):
        note("model_type", model[1])
    if "padding_side" in low and (padding := _PADDING.search(text)):
        note("padding_side", padding[1])
    _modes(line, notebook)
    return False


def _attention(line: Line, notebook: Notebook) -> None:
    found = _CALLED.search(line.text) or _ATTENTION.search(line.text)
    if found is None:
        return
    value = found[1].rstrip(".,:;|")
    if value.lower() in (
        "is",
        "to",
        "and",
        "or",
        "str",
        "none",
        "not",
        "with",
        "the",
        "argument",
        "parameter",
        "set",
        "in",
        "for",
        "flag",
    ) or value.startswith("self."):
        return
    hedged = (
        re.search(r"\b(?:works?|instead|fine|should|try|switch|default|fall(?:s|ing)? ?back)\b", line.low)
        or "?" in line.text
    )
    source = Source.MENTIONED if hedged else Source.PRINTED
    notebook.add("workload.attn_implementation", value, line, _KIND, source)


def _modes(line: Line, notebook: Notebook) -> None:
    text, low = line.text, line.low

    def note(field: str, value: object, source: Source) -> None:
        notebook.add(f"workload.{field}", value, line, _KIND, source)

    if mode := _MODE.match(text):
        note("backward", mode[1].lower() == "training", Source.TABLE)
    elif _TRAINING.search(text):
        note("backward", True, Source.RUN)
    elif _INFERENCE.search(text):
        note("backward", False, Source.SAID)
    elif not _NEGATED.search(low):
        if _TRAINING_WORDS.search(low) and "training/inference" not in low:
            note("backward", True, Source.SAID)
        elif _INFERENCE_WORDS.search(low) and "training" not in low:
            note("backward", False, Source.SAID)
    if _VARLEN.search(text):
        note("varlen", True, Source.RUN)
    if _COMPILED.search(text):
        note("compile", True, Source.RUN)
    if _DISTRIBUTED.search(text) or low.startswith("[rank1]"):
        note("distributed", True, Source.RUN)
    if "sinks" in low and re.search(r"\bs_aux\b|\bsinks\s?=", text):
        note("sinks", True, Source.RUN)
    if "causal" in low and (causal := re.search(r"\b(?:is_)?causal\s?=\s?(True|False)", text)):
        note("causal", causal[1] == "True", Source.RUN)


_NEGATED = re.compile(r"\b(?:not|no|n't|without|isn't|works?|fine|after|before|when i|if)\b")

CUES = ("heads", "head_dim", "head dim", "headdim", "head_size", "nheads", "sliding_window", "softcap", "dropout",
        "attn_pdrop", "attn_implementation",
        "attn-implementation", "dtype", "bf16", "fp16", "precision", "model_type", "padding_side", "backward",
        "train", "generate(", "inference",
        "no_grad", "in generate", "vllm serve", "llm(", "in _sample", "varlen", "cu_seqlens", "unpad",
        "padding_free", "packing", "compile", "dynamo",
        "inductor", "torchrun", "accelerate launch", "deepspeed --", "distributed", "nproc", "[rank", "srun",
        "tensor_parallel", "tensor-parallel", "sinks", "s_aux", "causal",
        "mode:", "mode :", "serving", "generation", "trl ", "finetun", "fine-tun", "autograd")  # fmt: skip
RECOGNISER = Recogniser("workload", CUES, read)
