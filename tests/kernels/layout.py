"""Writes kernels in the real Hub layout, good and broken: to a folder, or to the loopback Hub."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hub.server import Files, Hub

VARIANT = "torch-cpu"
GPU_VARIANT = "torch-cuda"
_SOURCE = Path(__file__).with_name("attention_kernel.py")
_TRITON_SOURCE = Path(__file__).with_name("triton_kernel.py")
#: Every way in which the attention kernel can be broken from inside.
FAULTS = (
    "gqa-backward-raises", "gqa-dk-wrong", "nan-gradient", "causal-ignored", "wrong-past-length", "no-backward",
    "segfault", "abort-in-backward", "hang", "exit", "memory-hog", "prints-rubbish", "import-error", "import-segfault",
)  # fmt: skip
#: Faults that calls of the functions alone need not meet.
MODEL_FAULTS = ("packing-ignored",)
#: Every way in which the Triton kernel can be broken.
TRITON_FAULTS = ("far-write", "near-write", "endless")


def attention(fault: str = "") -> Mapping[str, bytes]:
    """The files of one build: flash_attn_func and flash_attn_varlen_func."""
    assert fault in (*FAULTS, *MODEL_FAULTS, "")
    return {"__init__.py": _with_fault(_SOURCE, fault)}


def triton_attention(fault: str = "") -> Mapping[str, bytes]:
    """The same in Triton, for CUDA."""
    assert fault in (*TRITON_FAULTS, *MODEL_FAULTS, "")
    return {"__init__.py": _with_fault(_TRITON_SOURCE, fault)}


def _with_fault(path: Path, fault: str) -> bytes:
    text = path.read_text("utf-8")
    assert text.count('\nFAULT = ""\n') == 1
    return text.replace('\nFAULT = ""\n', f"\nFAULT = {fault!r}\n").encode()


def source(text: str) -> Mapping[str, bytes]:
    """The files of one build whose module is this text."""
    return {"__init__.py": text.encode()}


def metadata(build: Mapping[str, bytes], **changes: Any) -> bytes:
    """metadata.json of a build as the builder writes it, with the digest of its files. None removes a field."""
    files = {path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in sorted(build.items())}
    document = {
        "name": "test-attention",
        "id": "_test_attention_cpu_0123abc",
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": files},
    } | {key.replace("_", "-"): value for key, value in changes.items()}
    return json.dumps({key: value for key, value in document.items() if value is not None}, indent=2).encode()


def repository(build: Mapping[str, bytes], described: bytes | None = None, variant: str = VARIANT) -> Files:
    """The files of a repository with one build; `described` stands in for its metadata.json."""
    files = {**build, "metadata.json": metadata(build) if described is None else described}
    return {f"build/{variant}/{path}": data for path, data in files.items()}


def write(folder: Path, files: Files) -> Path:
    """The repository on disk."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def publish(hub: Hub, repo: str, files: Files, branch: str = "v1", trusted: bool = True) -> str:
    """The repository on a loopback Hub; its commit."""
    return hub.repo(repo, trusted).commit(files, branch)
