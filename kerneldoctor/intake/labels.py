"""Reads what names carry: local labels of versions, wheel file names, build folders of kernels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_TORCH_CUDA = re.compile(r"cu(\d{2})(\d)")
_TORCH_ROCM = re.compile(r"rocm(\d{1,2}(?:\.\d{1,2}){0,2})")
_CUDA = re.compile(r"(?<![a-z])cu(?:da)?_?(\d{2,4})(?!\d)")
_TORCH = re.compile(r"(?:torch|pt)_?v?(\d{1,2})[._](\d{1,2})")
_TORCH_DIGITS = re.compile(r"(?:torch|pt)_?(\d{2,4})(?!\d)")
_ABI = re.compile(r"cxx11_?abi_?(true|false|1|0)")
_VARIANT = re.compile(
    r"(torch-stable-abi|torch|tvm-ffi)(\d)(\d{1,2})(?:-(cxx11|cxx98))?"
    r"-(?:(cu|rocm|xpu|cann)(\d{1,5})(\d)|(cpu|metal|neuron|tpu))-(x86_64|aarch64|arm64)-(linux|windows|darwin)"
)
_BACKENDS = {"cu": "cuda"}


@dataclass(frozen=True, slots=True)
class BuildLabel:
    """What a build is for; None where its label does not tell."""

    torch: str | None = None  # "2.8"
    cuda: str | None = None  # "12" or "12.8"
    cxx11_abi: bool | None = None


@dataclass(frozen=True, slots=True)
class VariantName:
    """The parts of a build folder's name that facts ask for."""

    name: str
    framework: str
    framework_version: str  # "2.10"
    backend: str
    backend_version: str  # "13.0" or ""
    machine: str
    os: str


def torch_facts(version: str) -> Iterator[tuple[str, Any]]:
    """A version of torch, and the backend that its local label names."""
    if version.endswith(("+cuda", "+cu", "+")):  # "torch 2.1.0+cuda 12.1"
        version = version.partition("+")[0]
    yield "torch.version", version
    label = version.partition("+")[2].lower()
    if cuda := _TORCH_CUDA.match(label):
        yield "torch.backend", "cuda"
        yield "torch.cuda", f"{cuda[1]}.{cuda[2]}"
    elif rocm := _TORCH_ROCM.match(label):
        yield "torch.backend", "rocm"
        yield "torch.hip", rocm[1]
        yield "torch.cuda", None
    elif label.startswith(("cpu", "xpu")):
        yield "torch.backend", label[:3]
        yield "torch.cuda", None


def build_label(version: str) -> BuildLabel:
    """What an extension's wheel was built for, from its label: "2.8.3+cu12torch2.8cxx11abiTRUE"."""
    label = version[:200].partition("+")[2].lower()
    cuda, abi = _CUDA.search(label), _ABI.search(label)
    return BuildLabel(
        torch=_label_torch(label),
        cuda=(cuda[1] if len(cuda[1]) == 2 else f"{cuda[1][:2]}.{int(cuda[1][2:])}") if cuda else None,
        cxx11_abi=abi[1] in ("true", "1") if abi else None,
    )


def _label_torch(label: str) -> str | None:
    if dotted := _TORCH.search(label):
        return f"{int(dotted[1])}.{int(dotted[2])}"
    run_together = _TORCH_DIGITS.search(label)
    if run_together is None:
        return None
    digits = run_together[1]
    if len(digits) == 3 and (not digits.endswith("0") or digits[1] == "1"):
        return None  # "213" may be 2.13 or 2.1.3, "210" 2.10 or 2.1.0
    return f"{digits[0]}.{int(digits[1:-1] if len(digits) > 2 else digits[1:])}"


def variant(name: str) -> VariantName | None:
    """The parts of "torch-stable-abi210-cu130-x86_64-linux", or of "torch-cuda" (no compiled code)."""
    found = _VARIANT.fullmatch(name)
    if found is None:
        if re.fullmatch(r"torch-(?:cuda|rocm|xpu|cpu|metal|npu|neuron|universal)", name):
            return VariantName(name, "torch-noarch", "", name.partition("-")[2], "", "", "")
        return None
    backend = found[8] or _BACKENDS.get(found[5], found[5])
    release = f"{int(found[6])}.{found[7]}" if found[5] else ""
    return VariantName(name, found[1], f"{found[2]}.{int(found[3])}", backend, release, found[9], found[10])


VARIANT_NAME = re.compile(
    r"(?<![\w-])((?:torch(?:-stable-abi)?|tvm-ffi)\d{2,3}(?:-cxx(?:11|98))?-[a-z]{2,6}\d{0,6}-(?:x86_64|aarch64"
    r"|arm64)-(?:linux|windows|darwin))(?![\w-])"
)
