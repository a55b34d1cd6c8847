"""Reads what names carry in a text: local labels of torch versions, build folders of kernels. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..hub.variant import parse_variant
from ..values import dataclass

_TORCH_CUDA = re.compile(r"cu(\d{2})(\d)")
_TORCH_ROCM = re.compile(r"rocm(\d{1,2}(?:\.\d{1,2}){0,2})")
_NOARCH = frozenset({"cuda", "rocm", "xpu", "cpu", "metal", "npu", "neuron", "universal"})


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


def variant(name: str) -> VariantName | None:
    """The parts of "torch-stable-abi210-cu130-x86_64-linux", or of "torch-cuda" (no compiled code)."""
    parts = parse_variant(name)
    if parts is None or (parts.is_noarch and parts.backend not in _NOARCH):  # "torch-ext", "torch-2.9" in prose
        return None
    framework = "torch-noarch" if parts.is_noarch else parts.framework.value
    version, release = _dotted(parts.framework_version), _dotted(parts.backend_version)
    return VariantName(name, framework, version, parts.backend, release, parts.machine, parts.os)


def _dotted(numbers: tuple[int, int] | None) -> str:
    return f"{numbers[0]}.{numbers[1]}" if numbers else ""


VARIANT_NAME = re.compile(
    r"(?<![\w-])((?:torch(?:-stable-abi)?|tvm-ffi)\d{2,3}(?:-cxx(?:11|98))?-[a-z]{2,6}\d{0,6}-(?:x86_64|aarch64"
    r"|arm64)-(?:linux|windows|darwin))(?![\w-])"
)
