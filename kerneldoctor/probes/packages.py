"""Lists the installed distributions with version, origin and place. It must not say which versions are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..environment import Fact, Package, Packages, known, unknown
from ..host import Host
from ..values import dataclass
from .distributions import editable, editable_names, installer, metadata, unreadable_folders
from .scene import Distribution, Scene

INTERESTING = frozenset(
    {
        "accelerate",
        "apache-tvm-ffi",
        "bitsandbytes",
        "causal-conv1d",
        "deepspeed",
        "diffusers",
        "einops",
        "fa3-fwd",
        "flash-attn",
        "flash-attn-3",
        "flash-attn-4",
        "flash-linear-attention",
        "flashinfer-python",
        "hf-xet",
        "huggingface-hub",
        "kernels",
        "kernels-data",
        "liger-kernel",
        "mamba-ssm",
        "numpy",
        "nvidia-cutlass-dsl",
        "optimum",
        "peft",
        "pytorch-triton",
        "pytorch-triton-rocm",
        "quack-kernels",
        "safetensors",
        "sentence-transformers",
        "sgl-kernel",
        "sglang",
        "tokenizers",
        "torch",
        "torchao",
        "torchaudio",
        "torchvision",
        "transformers",
        "triton",
        "trl",
        "unsloth",
        "unsloth-zoo",
        "vllm",
        "vllm-flash-attn",
        "xformers",
    }
)
"""Distributions whose own files are read (metadata, installer); of all others the folder name says enough."""

_NOT_READ: Fact[Any] = unknown("read only for packages that kernels depend on")


def probe(scene: Scene) -> Mapping[str, object]:
    """The `packages` part. Raises ProbeError when no folder of the path could be listed."""
    host, path = scene.host, scene.target.sys_path
    marked = editable_names(host, path)
    items = {name: _package(host, which, marked) for name, which in in_force(scene.distributions).items()}
    gaps = unreadable_folders(host, path)
    note = f"the list has gaps: {'; '.join(gaps)}" if gaps else f"listed on the path of {scene.target.executable}"
    return {"packages": Packages(dict(sorted(items.items())), not gaps, note)}


@dataclass(frozen=True, slots=True)
class InForce:
    """The distribution that an import would meet, and others of its name in the same folder."""

    first: Distribution
    beside: tuple[Distribution, ...] = ()


def in_force(distributions: tuple[Distribution, ...]) -> dict[str, InForce]:
    """By name: the distribution that comes first on the path, with what lies beside it in its folder.

    One that a later folder holds too is shadowed, as everywhere in Python, and left out.
    """
    found: dict[str, InForce] = {}
    for distribution in distributions:
        held = found.get(distribution.name)
        if held is None:
            found[distribution.name] = InForce(distribution)
        elif held.first.root == distribution.root:
            found[distribution.name] = InForce(held.first, (*held.beside, distribution))
    return found


def version_of(host: Host, which: InForce) -> Fact[str]:
    """The version in force; unknown when two metadata folders lie side by side and disagree."""
    every = (which.first, *which.beside)
    if len({d.version for d in every}) > 1:
        whole = [d for d in every if not metadata(host, d).problem]
        if len(whole) != 1:
            versions = ", ".join(sorted(d.version for d in every if d.version))
            return unknown(f"{len(every)} metadata folders in {which.first.root}: {versions}")
        return known(whole[0].version, f"{whole[0].metadata}; of another folder for it METADATA is gone")
    if which.first.name not in INTERESTING:
        version = which.first.version
        return known(version, which.first.metadata) if version else unknown(f"no version in {which.first.metadata}")
    # importlib.metadata, and with it transformers and kernels, believes the file rather than the folder name.
    read = metadata(host, which.first)
    if read.version or which.first.version:
        note = which.first.metadata if not read.problem else f"name of {which.first.metadata}; {read.problem}"
        return known(read.version or which.first.version, note)
    return unknown(read.problem)


def _package(host: Host, which: InForce, marked: frozenset[str]) -> Package:
    first = which.first
    interesting = first.name in INTERESTING
    return Package(
        version=version_of(host, which),
        installer=installer(host, first) if interesting else _NOT_READ,
        location=known(first.root, first.metadata),
        editable=editable(host, first, marked) if interesting or first.name in marked else _NOT_READ,
    )
