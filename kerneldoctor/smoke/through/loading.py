"""Builds the model with the attention that was asked for, as a user's program does, and finds out what became of it.

Child side. What runs is read from the model and from the functions that transformers calls, never from what was asked.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.metadata
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from .. import loading
from ..loading import Refusal
from ..protocol import Json, KernelRequest, Loaded
from .causes import refusal_of
from .config import check_size, make_config
from .watching import Calls

__all__ = ["Refusal", "Subject", "describe", "load"]
_IMPORTS = {
    "transformers": ("transformers", "transformers.modeling_utils"),
    "trl": ("datasets", "trl", "trl.trainer.sft_trainer"),
}
_BUILT_IN = ("eager", "sdpa", "flex_attention")
_SAID = 6  # warnings of transformers that are kept


@dataclass
class Subject:
    """A model's config, the attention asked for, and the models that were built with it so far."""

    config: Any
    attention: str
    device: str
    trust: bool
    dtype: Any
    calls: Calls
    warnings: list[str] = field(default_factory=list)
    _models: dict[tuple[str, str], Any] = field(default_factory=dict)

    def tried(self) -> Any:
        """The model with the attention that was asked for."""
        return self._model(self.attention, "low")

    def like(self, attention: str, exact: bool = False) -> Any:
        """The same model with another attention; exact: in fp32, with the same weights."""
        return self._model(attention, "exact" if exact else "low")

    @property
    def runs(self) -> str:
        """The attention that the tried model says that it has."""
        return str(self.tried().config._attn_implementation)

    def _model(self, attention: str, precision: str) -> Any:
        found = self._models.get((attention, precision))
        if found is None:
            found = self.build(attention, precision == "exact")
            first = next(iter(self._models.values()), None)
            if first is not None:
                found.load_state_dict(first.state_dict())
            self._models[attention, precision] = found
        return found

    def build(self, attention: str, exact: bool) -> Any:
        """A new model with weights of its own."""
        import torch
        from transformers import AutoModelForCausalLM

        torch.manual_seed(0)
        trust = _all_publishers() if self.trust and attention == self.attention else contextlib.nullcontext()
        with trust:
            model = AutoModelForCausalLM.from_config(
                copy.deepcopy(self.config),
                attn_implementation=attention,
                dtype=torch.float32 if exact else self.dtype,
            )
        return model.to(self.device).train()


def load(request: KernelRequest, device: str) -> Subject:
    """The model, built with the attention; Refusal with the true cause where transformers does not take it."""
    import torch

    _import_library(str(request.through))
    workload = request.workload or {}
    config = _config(request.model, workload)
    dtype = getattr(torch, str(workload.get("dtype", "bfloat16")))
    subject = Subject(config, str(request.attention), device, request.trust_remote_code, dtype, Calls())
    try:
        with _warnings() as said:
            model = subject.tried()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a kernel is imported here: it raises anything, SystemExit included
        raise refusal_of(error, subject.attention) from error
    subject.warnings = said
    if not any("attention" in type(module).__name__.lower() for module in model.modules()):
        raise Refusal("no-attention", f"{type(model).__name__} has no attention: no kernel can be tried in it")
    if model.config._attn_implementation not in _BUILT_IN:
        subject.calls.watch(model.config._attn_implementation)
    return subject


def _config(model: str | None, workload: dict[str, Json]) -> Any:
    try:
        config = make_config(model, workload)
        if model is not None:
            check_size(config)
    except Refusal:
        raise
    except Exception as error:  # a config that was cut, in the code of any architecture
        why = f"{type(error).__name__}: {error}"[:300]
        raise Refusal("no-model", f"no small model can be made of {model}: {why}", error) from error
    return config


def _import_library(library: str) -> None:
    import torch

    if not torch.cuda.is_available():
        torch.set_num_threads(1)  # small tensors on a busy machine: threads that wait for each other cost seconds
    for name, modules in _IMPORTS.items():
        if name not in ("transformers", library):
            continue
        try:
            for module in modules:
                importlib.import_module(module)
        except Exception as error:  # as with torch
            reason: Any = f"no-{name}"
            raise Refusal(reason, f"{name} cannot be imported: {type(error).__name__}: {error}"[:500], error) from error


def _all_publishers() -> Any:
    """What from_pretrained(allow_all_kernels=True) does; from_config does not pass it on."""
    hub: Any = importlib.import_module("transformers.integrations.hub_kernels")
    allow: Callable[[], Any] | None = getattr(hub, "allow_all_hub_kernels", None)
    return allow() if allow is not None else contextlib.nullcontext()


@contextlib.contextmanager
def _warnings() -> Iterator[list[str]]:
    """What transformers warns of meanwhile: the only sign of a replacement that it makes by itself."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(" ".join(record.getMessage().split())[:400])  # type: ignore[method-assign]
    logger = logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        del said[_SAID:]


def describe(subject: Subject, request: KernelRequest, nonce: str) -> Loaded:
    """What transformers made of the name: the module that it really calls, and who chose it."""
    model = subject.tried()
    module = _module_of(subject.calls)
    runs = model.config._attn_implementation
    config = model.config
    through: dict[str, Json] = {
        "library": request.through, "version": importlib.metadata.version(str(request.through)),
        "asked": subject.attention, "runs": runs,
        "chosen_by": _chosen_by(subject.attention, runs, module), "functions": sorted(subject.calls.counts),
        "model": type(model).__name__, "layers": config.num_hidden_layers, "dtype": str(subject.dtype).split(".")[-1],
        "heads": getattr(config, "num_attention_heads", None),
        "kv_heads": getattr(config, "num_key_value_heads", None), "head_dim": _head_dim(config),
        "left_out": _left_out(model), "warnings": list(subject.warnings),
    }  # fmt: skip
    if module is None:
        return Loaded(nonce, runs, None, (), (request.through or "",), source="module", through=through)
    local = request.mode == "local" or "/" not in runs
    from_where = KernelRequest("module" if "/" not in runs else "local" if local else "hub")
    found = loading.describe(module, from_where, nonce)
    return replace(found, contracts=(request.through or "",), through=through)


def _left_out(model: Any) -> list[str]:
    """What the model asks of attention and transformers leaves out, because the kernel has no parameter for it."""
    utils: Any = importlib.import_module("transformers.modeling_flash_attention_utils")
    process = getattr(utils, "_process_flash_kwargs_fn", None)
    takes = getattr(process, "keywords", {}).get("supports_mapping", {})
    config = model.config
    wanted = {
        "attention sinks": (
            any(name.endswith("sinks") for name, _ in model.named_parameters()),
            ("s_aux", "learnable_sink"),
        ),
        "softcap": (bool(getattr(config, "attn_logit_softcapping", None)), ("softcap",)),
        "sliding window": (bool(getattr(config, "sliding_window", None)), ("window_size",)),
    }
    return [
        what
        for what, (asked, names) in wanted.items()
        if asked and takes and not any(takes.get(name) for name in names)
    ]


def _head_dim(config: Any) -> int | None:
    given = getattr(config, "head_dim", None)
    heads = getattr(config, "num_attention_heads", None)
    return int(given) if given else config.hidden_size // heads if heads else None


def _module_of(calls: Calls) -> ModuleType | None:
    """The top module of the functions that are called."""
    for function in calls.originals:
        module = sys.modules.get(str(getattr(function, "__module__", "")).partition(".")[0])
        if module is not None and module.__name__ not in ("transformers", "torch"):
            return module
    return None


def _chosen_by(asked: str, runs: str, module: ModuleType | None) -> str:
    """ "you": what was asked for runs. "transformers": something else does. "package": the installed flash-attn."""
    if runs != asked:
        return "transformers"
    return "you" if "/" in asked or module is None else "package"
