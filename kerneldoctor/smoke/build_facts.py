"""What the files of one build say of it, as the facts that rules read. Imports nothing of the build."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..engine.case import Kernel
from ..environment import Fact, absent, known, unknown
from ..hub.listing import build_id
from ..hub.metadata import Metadata
from ..hub.variant import Framework, Variant, parse_variant
from .trial import Subject

_FRAMEWORKS = {
    Framework.TORCH: "torch",
    Framework.TORCH_STABLE_ABI: "torch-stable-abi",
    Framework.TVM_FFI: "tvm-ffi",
    Framework.NOARCH: "torch-noarch",
}
_NO_METADATA = unknown("metadata.json could not be read")


def kernel_of(subject: Subject, metadata: Metadata | None, trusted: Fact[bool]) -> Kernel:
    """The build as the subject of a question to the rules."""
    variant = parse_variant(subject.variant)
    number = subject.revision[1:] if subject.revision[:1] == "v" and subject.revision[1:].isdecimal() else ""
    return Kernel(
        repo=known(subject.repo, "reference") if subject.repo else unknown("a folder names no repository"),
        version=known(int(number), "reference") if number else _version(metadata),
        revision=known(subject.revision, "reference") if subject.revision else unknown("no revision was named"),
        commit=known(subject.commit, "Hub") if subject.commit else unknown("a folder names no commit"),
        variant=known(subject.variant, "name of the folder") if subject.variant else unknown("no build folder"),
        framework=_of_variant(variant, lambda v: _FRAMEWORKS[v.framework]),
        backend=known(metadata.backend, "metadata.json")
        if metadata and metadata.backend
        else _of_variant(variant, lambda v: v.backend),
        cuda=_cuda(variant),
        build_id=known(subject.build_id, "name of the compiled file")
        if subject.build_id
        else absent("no compiled file with a build id"),
        archs=_listed(metadata, metadata.archs if metadata else ()),
        python_depends=_listed(metadata, metadata.python_depends if metadata else ()),
        minver=_minver(metadata),
        trusted_publisher=trusted,
    )


def build_id_of(folder: Path, metadata: Metadata | None) -> str:
    """The build id in the name of a compiled file, else at the end of the id in metadata.json."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in sorted(names):
            if found := build_id(name):
                return found
    return metadata.build_id if metadata is not None else ""


def _version(metadata: Metadata | None) -> Fact[Any]:
    if metadata is None:
        return _NO_METADATA
    if metadata.version is None:
        return unknown("metadata.json names no version")
    return known(metadata.version, "metadata.json")


def _of_variant(variant: Variant | None, take: Any) -> Fact[Any]:
    return known(take(variant), "name of the build") if variant is not None else unknown("no name of a build")


def _cuda(variant: Variant | None) -> Fact[Any]:
    if variant is None:
        return unknown("no name of a build")
    if variant.backend != "cuda" or variant.backend_version is None:
        return absent("the name says no CUDA release")
    return known("{}.{}".format(*variant.backend_version), "name of the build")


def _listed(metadata: Metadata | None, values: tuple[str, ...]) -> Fact[Any]:
    if metadata is None:
        return _NO_METADATA
    return known(values, "metadata.json") if values else absent("metadata.json")


def _minver(metadata: Metadata | None) -> Fact[Any]:
    if metadata is None:
        return _NO_METADATA
    return known(metadata.minver, "metadata.json") if metadata.minver else absent("metadata.json")
