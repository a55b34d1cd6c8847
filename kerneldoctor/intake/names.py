"""The distributions that reports speak of by name, and how names are normalised. Looks at no text."""

from __future__ import annotations

import re

_RUN = re.compile(r"[-_.\s]+")

# What people and tools write for a distribution -> its normalised name on PyPI.
SYNONYMS = {
    "flash attention": "flash-attn",
    "flash-attention": "flash-attn",
    "flashattention": "flash-attn",
    "flashattention2": "flash-attn",
    "flashattention-2": "flash-attn",
    "flash-attention-2": "flash-attn",
    "flash-attn2": "flash-attn",
    "flash-attn-2": "flash-attn",
    "fa2": "flash-attn",
    "flashattn": "flash-attn",
    "flash-attn-cuda": "flash-attn",
    "fa3": "flash-attn-3",
    "flash-attention-3": "flash-attn-3",
    "flash-attn3": "flash-attn-3",
    "fa4": "flash-attn-4",
    "flash-attention-4": "flash-attn-4",
    "flash-attn4": "flash-attn-4",
    "hf-hub": "huggingface-hub",
    "hf-kernels": "kernels",
    "huggingface-kernels": "kernels",
    "pytorch": "torch",
    "pytorch-triton": "pytorch-triton",
    "liger-kernel": "liger-kernel",
    "flashinfer": "flashinfer-python",
    "nvidia-cutlass-dsl": "nvidia-cutlass-dsl",
    "cutlass-dsl": "nvidia-cutlass-dsl",
    "cutlass": "nvidia-cutlass-dsl",
    "deep-speed": "deepspeed",
    "hugging-face-transformers": "transformers",
    "transformer": "transformers",
    "bnb": "bitsandbytes",
    "te": "transformer-engine",
    "transformerengine": "transformer-engine",
    "trl-version": "trl",
}

# Distributions that are taken from "name: version" lines and from sentences.
KNOWN = frozenset((
    "accelerate", "aiter", "apex", "auto-gptq", "autoawq", "axolotl", "bitsandbytes", "causal-conv1d",
    "compressed-tensors", "cuda-python", "cupy", "datasets", "deep-ep", "deep-gemm", "deepspeed", "diffusers",
    "einops", "fa3-fwd", "fla", "flash-attn", "flash-attn-3", "flash-attn-4", "flash-linear-attention",
    "flash-mla", "flashinfer-cubin", "flashinfer-jit-cache", "flashinfer-python", "gptqmodel", "grouped-gemm",
    "hf-transfer", "hf-xet", "httpx", "huggingface-hub", "kernels", "lightning", "liger-kernel", "llamafactory",
    "lmdeploy", "mamba-ssm", "megatron-core", "minference", "natten", "ninja", "numpy", "nvidia-cutlass-dsl",
    "optimum", "packaging", "peft", "pip", "pytorch-lightning", "pytorch-triton", "pytorch-triton-rocm",
    "quack-kernels", "ray", "safetensors", "sageattention", "scipy", "sentence-transformers", "setuptools",
    "sgl-kernel", "sglang", "tensorrt", "tensorrt-llm", "tilelang", "tokenizers", "torch", "torchao",
    "torchaudio", "torchtune", "torchvision", "torch-tensorrt", "transformer-engine", "transformer-engine-torch",
    "transformers", "triton", "triton-kernels", "triton-windows", "trl", "unsloth", "unsloth-zoo", "uv", "verl",
    "vllm", "wheel", "xformers", "xgrammar",
))  # fmt: skip


def normalise(name: str) -> str:
    """A distribution's name as in https://packaging.python.org/en/latest/specifications/name-normalization/."""
    return _RUN.sub("-", name.strip()).strip("-").lower()


def distribution(name: str) -> str | None:
    """The distribution that a key of a report means, or None for a word that is none that we know."""
    plain = normalise(name)
    plain = SYNONYMS.get(plain, plain)
    return plain if plain in KNOWN or (plain.startswith("nvidia-") and plain.count("-") > 1) else None
