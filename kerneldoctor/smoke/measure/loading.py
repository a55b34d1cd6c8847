"""Loads what is to be measured: one of torch's own attentions, or a kernel as `try` loads it. Child side."""

from __future__ import annotations

from typing import Any

from .. import loading
from ..loading import Refusal
from ..protocol import KernelRequest, Loaded
from .built_in import built_in

__all__ = ["Refusal", "describe", "load"]


def load(request: KernelRequest, device: str) -> Any:
    """Something with a flash_attn_func; Refusal when it cannot be had."""
    if device == "cpu":
        import torch

        torch.set_num_threads(1)  # threads that wait for each other on a busy machine are all that would be measured
    if request.mode != "builtin":
        return loading.load(request, device)
    try:
        return built_in(str(request.module))
    except (ImportError, AttributeError) as error:  # a torch before flex attention, or before that backend
        raise Refusal("not-found", f"this torch has no {request.module}: {error}", error) from error


def describe(kernel: Any, request: KernelRequest, nonce: str) -> Loaded:
    """What was loaded."""
    if request.mode != "builtin":
        return loading.describe(kernel, request, nonce)
    return Loaded(nonce, str(request.module), None, ("flash_attn_func",), (), source="module")
