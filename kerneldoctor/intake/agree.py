"""Whether two values of one fact can both be true, and which of them says more. Pure."""

from __future__ import annotations

import re
from typing import Any

_VERSIONED = ("version", "cuda", "hip", "nvcc_version", "compute_capability", "kernel")


def agree(path: str, one: Any, other: Any) -> bool:
    """Whether both can be true: "2.9" and "2.9.1+cu128", "H100" and "NVIDIA H100 80GB HBM3"."""
    if one == other:
        return True
    if one is None or other is None or isinstance(one, (bool, int, float)):
        return False
    if not isinstance(one, str) or not isinstance(other, str):
        return isinstance(one, tuple) and isinstance(other, tuple)
    field = path.rpartition(".")[2]
    if field in ("name", "distribution"):
        return _words_agree(one, other)
    if field in _VERSIONED or field.endswith("_version"):
        return _versions_agree(one, other)
    if field in ("attn_implementation", "commit", "revision", "build_id"):
        return one.startswith(other) or other.startswith(one)
    return one.lower() == other.lower()


def finer(path: str, one: Any, other: Any) -> bool:
    """Whether `one`, which agrees with `other`, says more."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) > len(other)
    if not isinstance(one, str) or not isinstance(other, str) or one == other:
        return False
    if path.endswith("version") and ("+" in one) != ("+" in other):
        return "+" in one and len(one.partition("+")[0].split(".")) >= len(other.split("."))
    return len(one) > len(other)


def _versions_agree(one: str, other: str) -> bool:
    (a, _, label_a), (b, _, label_b) = one.lower().partition("+"), other.lower().partition("+")
    if label_a and label_b and not (label_a.startswith(label_b) or label_b.startswith(label_a)):
        return False
    short, long = sorted((_parts(a), _parts(b)), key=len)
    return long[: len(short)] == short


def _parts(version: str) -> list[str]:
    return [
        str(int(p)) if p.isdigit() else p for p in re.split(r"[.\-_]|(?<=\d)(?=[a-z])", version.removeprefix("v")) if p
    ]


_FILLER = frozenset(
    {"nvidia", "geforce", "tesla", "gpu", "graphics", "amd", "instinct", "lts", "gnu", "linux", "quadro", "the"}
)


def _words_agree(one: str, other: str) -> bool:
    a, b = _words(one), _words(other)
    if not a or not b:
        return True
    return a <= b or b <= a


def _words(text: str) -> frozenset[str]:
    words = frozenset(re.findall(r"[a-z]+\d+[a-z]*|\d+(?:\.\d+)*|[a-z]+", text.lower().replace("-", " ")))
    joined = re.sub(r"\b(rtx|gtx|h|a|l|v|t|b) (\d)", r"\1\2", text.lower().replace("-", " "))
    return (
        (words | frozenset(re.findall(r"[a-z]+\d+[a-z]*", joined))) - _FILLER
        if " " not in text.strip()
        else words - _FILLER
    )
