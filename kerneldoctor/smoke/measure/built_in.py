"""The attention that PyTorch brings, in the interface of flash-attn and called as transformers calls it. Child side.

Each takes q, k, v as (batch, seqlen, heads, head_dim), as a model's projections make them. It must not time anything.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..contracts._contract import Unsupported

if TYPE_CHECKING:
    import torch

#: What torch names the graph of a fused sdpa by, and what people call that backend. Without one it was plain math.
_NODES = (
    ("FlashAttentionForCpu", "flash for the CPU"),
    ("FlashAttention", "flash"),
    ("Cudnn", "cudnn"),
    ("EfficientAttention", "efficient"),
    ("FusedAttentionOverrideable", "overrideable"),
)
_BACKENDS = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-math": "MATH",
}
_CHOICES = {
    "ERROR": "none", "MATH": "math", "FLASH_ATTENTION": "flash", "EFFICIENT_ATTENTION": "efficient",
    "CUDNN_ATTENTION": "cudnn", "OVERRIDEABLE": "overrideable",
}  # fmt: skip


class BuiltIn:
    """What the attentions share. `taken` says which backend ran, by "forward" (no gradients) and "step"."""

    def __init__(self) -> None:
        self.taken: dict[str, str] = {}
        self.remarks: list[str] = []

    def prepare(self, seqlen: int, causal: bool, like: torch.Tensor) -> None:
        """Makes what a model makes once for all its layers: a mask."""

    def flash_attn_func(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        softmax_scale: float | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        """Attention over (batch, seqlen, heads, head_dim)."""
        raise NotImplementedError


class Eager(BuiltIn):
    """Matrix product, softmax in fp32, matrix product: every score is kept."""

    def __init__(self) -> None:
        super().__init__()
        self._mask: tuple[int, torch.Tensor] | None = None

    def prepare(self, seqlen: int, causal: bool, like: torch.Tensor) -> None:
        """The additive mask, in the dtype of the model."""
        import torch

        self._mask = None
        if causal:
            mask = torch.full((seqlen, seqlen), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device)
            self._mask = (seqlen, mask.triu_(1))

    def flash_attn_func(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        softmax_scale: float | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        """Attention over (batch, seqlen, heads, head_dim)."""
        import torch

        if causal and (self._mask is None or self._mask[0] != q.shape[1]):
            self.prepare(q.shape[1], causal, q)
        q, k, v = q.transpose(1, 2), *_repeated(k.transpose(1, 2), v.transpose(1, 2), q.shape[2])
        scores = torch.matmul(q, k.transpose(2, 3)) * (softmax_scale or q.shape[-1] ** -0.5)
        if causal and self._mask is not None:
            scores = scores + self._mask[1]
        weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(weights, v).transpose(1, 2).contiguous()


class Sdpa(BuiltIn):
    """scaled_dot_product_attention: with the backend that it takes by itself, or with one alone."""

    def __init__(self, backend: str | None = None) -> None:
        super().__init__()
        self._backend, self._repeats = backend, False
        if backend is not None:
            from torch.nn import attention

            chosen = getattr(attention.SDPBackend, backend)
            # For the life of this process, which measures nothing else.
            self._only: Any = attention.sdpa_kernel([chosen])
            self._only.__enter__()

    def flash_attn_func(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        softmax_scale: float | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        """Attention over (batch, seqlen, heads, head_dim)."""
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if self._repeats:
            out = self._attend(q, *_repeated(k, v, q.shape[1]), softmax_scale, causal)
        else:
            out = self._first(q, k, v, softmax_scale, causal)
        self._note_taken(out, q, k, v, causal)
        return out.transpose(1, 2).contiguous()

    def _first(self, q: Any, k: Any, v: Any, scale: float | None, causal: bool) -> Any:
        """With grouped heads as they are; a backend that has no such thing gets keys and values repeated."""
        if self._backend is None:
            return self._attend(q, k, v, scale, causal)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                return self._attend(q, k, v, scale, causal)
            except RuntimeError as error:
                if "No available kernel" not in str(error):
                    raise
            if k.shape[1] != q.shape[1]:
                try:
                    out = self._attend(q, *_repeated(k, v, q.shape[1]), scale, causal)
                except RuntimeError as error:
                    if "No available kernel" not in str(error):
                        raise
                else:
                    self._repeats = True
                    self.remarks.append("keys and values repeated for each query head: it takes no grouped heads")
                    return out
        raise Unsupported(f"sdpa has no such backend for these inputs here{_why(said)}")

    def _attend(self, q: Any, k: Any, v: Any, scale: float | None, causal: bool) -> Any:
        import torch

        grouped = {"enable_gqa": True} if k.shape[1] != q.shape[1] else {}
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, **grouped)

    def _note_taken(self, out: Any, q: Any, k: Any, v: Any, causal: bool) -> None:
        """Of a graph torch says by its name what made it; without one, what it would choose for such inputs."""
        kind = "step" if out.grad_fn is not None else "forward"
        if kind in self.taken or self._repeats:
            return
        if out.grad_fn is not None:
            self.taken[kind] = next((name for node, name in _NODES if node in out.grad_fn.name()), "math")
            return
        import torch

        choose: Any = getattr(torch, "_fused_sdp_choice", None)
        if choose is not None:
            from torch.nn.attention import SDPBackend

            number = choose(q, k, v, None, 0.0, causal, enable_gqa=k.shape[1] != q.shape[1])
            names = {int(value.value): name for name, value in SDPBackend.__members__.items()}
            found = _CHOICES.get(names.get(int(number), ""), f"number {number}")
            self.taken[kind] = "flash for the CPU" if found == "flash" and q.device.type == "cpu" else found


class Flex(BuiltIn):
    """flex_attention, compiled for each shape."""

    def __init__(self) -> None:
        import torch
        from torch.nn.attention import flex_attention as room

        super().__init__()
        self._room: Any = room
        self._call: Any = torch.compile(room.flex_attention, dynamic=False)
        self._mask: tuple[int, Any] | None = None

    def prepare(self, seqlen: int, causal: bool, like: torch.Tensor) -> None:
        """The block mask. What was compiled for other lengths is dropped: torch keeps eight variants only."""
        import torch

        torch.compiler.reset()
        self._mask = None
        if causal:
            made = self._room.create_block_mask(
                lambda batch, head, query, key: query >= key, None, None, seqlen, seqlen, device=str(like.device)
            )
            self._mask = (seqlen, made)

    def flash_attn_func(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        softmax_scale: float | None = None,
        causal: bool = False,
    ) -> torch.Tensor:
        """Attention over (batch, seqlen, heads, head_dim)."""
        if causal and (self._mask is None or self._mask[0] != q.shape[1]):
            self.prepare(q.shape[1], causal, q)
        mask = self._mask[1] if causal and self._mask is not None else None
        grouped = k.shape[2] != q.shape[2]
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        out: torch.Tensor = self._call(q, k, v, block_mask=mask, scale=softmax_scale, enable_gqa=grouped)
        return out.transpose(1, 2).contiguous()


def built_in(name: str) -> BuiltIn:
    """The attention of this name; KeyError when there is none."""
    if name in _BACKENDS:
        return Sdpa(_BACKENDS[name])
    made: BuiltIn = {"eager": Eager, "sdpa": Sdpa, "flex": Flex}[name]()
    return made


def _repeated(k: Any, v: Any, heads: int) -> tuple[Any, Any]:
    """Keys and values (batch, heads, …) for every query head, as repeat_kv of transformers lays them out."""
    group = heads // k.shape[1]
    return (k, v) if group == 1 else (k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1))


def _why(said: list[warnings.WarningMessage]) -> str:
    """What torch warned of: why each backend was not taken."""
    texts = [str(one.message).partition("(Triggered")[0].strip() for one in said]
    telling = [text for text in dict.fromkeys(texts) if "not used because" not in text and "disabled" not in text]
    return f": {'; '.join(telling)}"[:400] if telling else ""
