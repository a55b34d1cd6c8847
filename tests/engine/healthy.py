"""A healthy H200 as facts, and machines that differ from it in a few."""

from __future__ import annotations

from typing import Any

H200: dict[str, Any] = {
    "system": {"os": "linux", "machine": "x86_64", "libc": "glibc", "libc_version": "2.35", "glibcxx": "3.4.30"},
    "python": {"version": "3.12.7", "abi_tag": "cp312"},
    "driver": {"version": "580.159.04", "cuda": "13.0"},
    "gpus": [{"index": 0, "name": "NVIDIA H200", "vendor": "nvidia", "compute_capability": "9.0", "visible": True}],
    "torch": {"version": "2.11.0+cu130", "backend": "cuda", "cuda": "13.0", "cxx11_abi": True},
    "packages": {"transformers": "5.17.0", "triton": "3.6.0", "kernels": "0.16.2", "numpy": "2.5.2", "*": True},
    "extensions": [],
}


def machine(base: dict[str, Any] = H200, /, **sections: dict[str, Any] | list[Any]) -> dict[str, Any]:
    """A machine with some sections changed: dicts are merged, lists replace."""
    merged = dict(base)
    for name, value in sections.items():
        merged[name] = {**base.get(name, {}), **value} if isinstance(value, dict) else value
    return merged
