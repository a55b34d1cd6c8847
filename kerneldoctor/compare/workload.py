"""What is measured: the shapes of a model's attention, and what a pass over them costs in operations. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import UsageError

Direction = Literal["forward", "backward", "step"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "step")

#: https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json
_QWEN3_8B: Mapping[str, Any] = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16"}
_ON_A_GPU = {"batch": 8, "lengths": (1024, 2048, 4096, 8192, 16384), "origin": "the shapes of Qwen3-8B", **_QWEN3_8B}
#: The same grouping, small: the CPU is there to see that it works.
_ON_A_CPU = {
    "batch": 1, "lengths": (128, 256, 512), "origin": "small, for the CPU", "heads": 4, "kv_heads": 1, "head_dim": 64,
    "dtype": "bfloat16",
}  # fmt: skip
#: Matrix products only, as flash-attn's own benchmark counts: two of 2·b·h·s²·d in the forward, five in the backward.
FORMULA = (
    "4·batch·heads·length²·head_dim operations in the forward, half of that when causal; "
    "2.5 times as many in the backward"
)
_TIMES: Mapping[Direction, float] = {"forward": 1.0, "backward": 2.5, "step": 3.5}
_LONGEST, _MOST_LENGTHS = 1 << 20, 16


@dataclass(frozen=True, slots=True)
class Workload:
    """The attention of one layer, at several lengths."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: str
    causal: bool
    lengths: tuple[int, ...]  # ascending
    backward: bool
    origin: str  # where the shapes come from, in words

    def operations(self, length: int, direction: Direction) -> float:
        """Floating-point operations of one pass, by FORMULA."""
        forward = 4.0 * self.batch * self.heads * length**2 * self.head_dim
        return forward * (0.5 if self.causal else 1.0) * _TIMES[direction]

    def tokens(self, length: int) -> int:
        """Tokens that one pass is over."""
        return self.batch * length

    @property
    def directions(self) -> tuple[Direction, ...]:
        """What is measured."""
        return DIRECTIONS if self.backward else ("forward",)

    def params(self) -> dict[str, Any]:
        """As the child reads it, without a length."""
        return {
            "batch": self.batch, "heads": self.heads, "kv_heads": self.kv_heads, "head_dim": self.head_dim,
            "dtype": self.dtype, "causal": self.causal, "backward": self.backward,
        }  # fmt: skip


def make_workload(device: str, asked: Mapping[str, Any], of_model: Mapping[str, Any], model: str = "") -> Workload:
    """The workload for a device: single options before a model's config before the default.

    asked: those of batch, heads, kv_heads, head_dim, dtype, causal, lengths, backward that were given. Raises
    UsageError for heads that do not go together, and for lengths that are none.
    """
    usual = _ON_A_CPU if device == "cpu" else _ON_A_GPU
    given = {name: value for name, value in asked.items() if value is not None}
    shape = {name: of_model[name] for name in ("heads", "kv_heads", "head_dim", "dtype") if name in of_model}
    origin = f"the shapes of {model}" if model else usual["origin"]
    if "heads" in given and "kv_heads" not in given:
        shape["kv_heads"] = given["heads"]
    if given.keys() & {"heads", "kv_heads", "head_dim"}:
        origin = "shapes as asked"
    found = {"causal": True, "backward": True, **usual, **shape, "origin": origin, **given}
    if found["heads"] % found["kv_heads"]:
        raise UsageError(f"{found['heads']} query heads cannot share {found['kv_heads']} key and value heads")
    return Workload(**{**found, "lengths": _checked(found["lengths"])})


def parse_lengths(text: str) -> tuple[int, ...]:
    """ "1k,2k,4096" as numbers. Raises UsageError for what is none."""
    found = []
    for part in text.split(","):
        word = part.strip().lower()
        number, factor = (word[:-1], 1024) if word.endswith("k") else (word, 1)
        if not (number.isdecimal() and number.isascii() and len(number) < 8):
            raise UsageError(f"--lengths {text}: {part.strip()!r} is no length; give numbers such as 512 or 8k")
        found.append(int(number) * factor)
    return _checked(found)


def _checked(lengths: Any) -> tuple[int, ...]:
    ordered = tuple(sorted(set(lengths)))
    if not ordered or ordered[0] < 1 or ordered[-1] > _LONGEST:
        raise UsageError(f"lengths from 1 to {_LONGEST} tokens can be measured")
    if len(ordered) > _MOST_LENGTHS:
        raise UsageError(f"at most {_MOST_LENGTHS} lengths can be measured in one go")
    return ordered


def length_text(length: int) -> str:
    """ "8k" for 8192, "1000" for 1000."""
    return f"{length // 1024}k" if length % 1024 == 0 else str(length)
