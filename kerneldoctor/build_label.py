"""Reads what a wheel was built for from the local label of its version. Pure; it looks at nothing.

There is no standard for these labels. Those read here were seen on flash-attn, causal-conv1d and mamba-ssm wheels:
`cu12torch2.8cxx11abiTRUE` (https://github.com/Dao-AILab/flash-attention/releases), `cu130torch2.9`
(https://github.com/mjun0812/flash-attention-prebuild-wheels), `pt270cu126`, `rocm6.3torch2.7`.
"""

from __future__ import annotations

import re

from .values import dataclass

_CUDA = re.compile(r"(?<![a-z])cu(?:da)?_?(\d{2,4})(?!\d)")
_TORCH = re.compile(r"(?:torch|pt)_?v?(\d+)[._](\d+)")
_TORCH_DIGITS = re.compile(r"(?:torch|pt)_?(\d{2,4})(?!\d)")
_ABI = re.compile(r"cxx11_?abi_?(true|false|1|0)")
_LENGTH_LIMIT = 200


@dataclass(frozen=True, slots=True)
class BuildLabel:
    """What a build is for; None where the label does not tell."""

    torch: str | None = None  # "2.8"
    cuda: str | None = None  # "12" or "12.8"
    cxx11_abi: bool | None = None


def parse_build_label(version: str) -> BuildLabel:
    """Read the part behind "+" of a version or of a wheel's file name. What is no such label tells nothing."""
    label = version[:_LENGTH_LIMIT].partition("+")[2].lower()
    cuda, abi = _CUDA.search(label), _ABI.search(label)
    return BuildLabel(
        torch=_torch(label),
        cuda=_cuda(cuda[1]) if cuda else None,
        cxx11_abi=abi[1] in ("true", "1") if abi else None,
    )


def _cuda(digits: str) -> str:
    """ "12" is any CUDA 12, "128" is 12.8."""
    return digits if len(digits) == 2 else f"{digits[:2]}.{int(digits[2:])}"


def _torch(label: str) -> str | None:
    dotted = _TORCH.search(label)
    if dotted:
        return f"{int(dotted[1])}.{int(dotted[2])}"
    run_together = _TORCH_DIGITS.search(label)
    if run_together is None:
        return None
    digits = run_together[1]
    if len(digits) == 3 and not digits.endswith("0"):
        return None  # "213" may be 2.13 or 2.1.3
    if len(digits) == 3 and digits[1] == "1":
        return None  # "210" may be 2.10 or 2.1.0
    return f"{digits[0]}.{int(digits[1:-1] if len(digits) > 2 else digits[1:])}"
