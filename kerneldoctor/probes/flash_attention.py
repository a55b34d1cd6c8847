"""States which FlashAttention is there: FA2 `flash_attn`, FA3 `flash_attn_interface`, FA4 `flash_attn.cute`.

The three share names, and stubs and leftovers answer to them too, so each name is looked at together with the
distributions that own it. Nothing is imported; whether the compiled part fits torch is looked at by `extensions`.
"""

from __future__ import annotations

import posixpath
import urllib.parse
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ..build_label import parse_build_label
from ..environment import Fact, FlashAttention, absent, blank, known, unknown
from ..errors import ProbeError
from ..host import exists
from . import distributions
from .importables import Importable, ImportPath, assigned
from .scene import Distribution, Scene

FA2, FA4 = "flash-attn", "flash-attn-4"
# Distributions of FA3 in order of preference: upstream's name, upstream's name of early 2025, a build on PyPI.
FA3 = ("flash-attn-3", "flashattn-hopper", "fa3-fwd")
FA2_BINARIES = ("flash_attn_2_cuda", "flash_attn_cuda")
FA3_BINARIES = ("flash_attn_3_cuda", "flashattn_hopper_cuda")
FA3_FOLDERS = ("flash_attn_3", "flashattn_hopper", "fa3_fwd")
FA3_MODULES = ("flash_attn_interface", "fa3_fwd_interface")
AMD_SWITCH = "FLASH_ATTENTION_TRITON_AMD_ENABLE"  # FA2 then runs on Triton and needs no compiled part
VARIABLES = (AMD_SWITCH,)  # what is read of the environment; a capture must keep it


def probe(scene: Scene) -> dict[str, object]:
    """The sections of the three generations."""
    path = ImportPath(scene)
    return {
        "flash_attn": _second(scene, path),
        "flash_attn_3": _third(scene, path),
        "flash_attn_4": _fourth(scene, path),
    }


def _second(scene: Scene, path: ImportPath) -> FlashAttention:
    place, distribution = path.first("flash_attn"), scene.distribution(FA2)
    if place is None and distribution is None:
        return blank(FlashAttention, path.nothing("flash_attn"))
    kind, why = _kind_of_second(scene, path, place, distribution)
    if kind == "namespace_only":
        section = blank(FlashAttention, absent(why))
    else:
        section = _described(scene, distribution, place, "flash_attn")
    return _with(scene, section, _kind(scene, path, kind, why, distribution), "flash_attn", place)


def _kind_of_second(
    scene: Scene, path: ImportPath, place: Importable | None, distribution: Distribution | None
) -> tuple[str, str]:
    if place is None or (place.kind == "namespace" and distribution is not None):
        return "metadata_only", f"metadata without a flash_attn package beside {distribution and distribution.metadata}"
    if place.kind == "module":
        return "stub", f"{place.path} is a single file"
    if place.kind == "namespace":
        if any(exists(scene.host, posixpath.join(p.path, "cute")) for p in path.find("flash_attn")):
            return "namespace_only", f"{place.path} holds only flash_attn.cute"
        return "leftover", f"{place.path} has no __init__.py"
    binary = _binary(path, FA2_BINARIES)
    if distribution is None:
        return ("leftover" if binary else "stub"), f"{place.path} has no metadata"
    if binary or scene.host.environ.get(AMD_SWITCH, "").upper() == "TRUE":
        return "complete", binary or AMD_SWITCH
    if _was_installed(scene, distribution, FA2_BINARIES):
        return "incomplete", f"{FA2_BINARIES[0]} was installed and is gone"
    return "incomplete", f"no {FA2_BINARIES[0]} on the path: built without its compiled part"


def _third(scene: Scene, path: ImportPath) -> FlashAttention:
    place = next((p for name in FA3_MODULES if (p := path.first(name)) is not None), None)
    distribution = next((d for name in FA3 if (d := scene.distribution(name)) is not None), None)
    binary = _binary(path, FA3_BINARIES) or _binary_in_folder(scene, path, FA3_FOLDERS)
    if place is None and distribution is None and not binary:
        return blank(FlashAttention, path.nothing("flash_attn_interface"))
    section = _described(scene, distribution, place, "flash_attn_interface")
    if place is None:
        kind, why = ("metadata_only", "metadata without the module") if distribution else ("leftover", binary)
    elif binary and distribution is None:
        kind, why = "leftover", f"{place.path} has no metadata"
    elif binary:
        kind, why = "complete", binary
    else:
        kind, why = "incomplete" if distribution else "stub", f"{place.path} without a compiled part"
    name = posixpath.basename(place.path).split(".")[0] if place else "flash_attn_interface"
    return _with(scene, section, _kind(scene, path, kind, why, distribution), name, place)


def _fourth(scene: Scene, path: ImportPath) -> FlashAttention:
    distribution = scene.distribution(FA4)
    first = path.first("flash_attn")
    # A regular package hides what other folders of the path hold under its name.
    places = path.find("flash_attn") if first is None or first.kind == "namespace" else (first,)
    folder = next((f for p in places if exists(scene.host, f := posixpath.join(p.path, "cute"))), None)
    if folder is None and distribution is None:
        return blank(FlashAttention, path.nothing("flash_attn.cute"))
    if distribution is None:
        owner = scene.distribution(FA2)
        # flash-attn 2.8 ships an early copy, which breaks with newer CUTLASS releases.
        why = f"{folder} came with {owner.name} {owner.version}" if owner else f"{folder} has no metadata"
        section = blank(FlashAttention, absent(why))
        if owner:
            section = replace(section, distribution=known(owner.name, owner.metadata))
        kind = "stub" if owner else "leftover"
    else:
        section = _described(scene, distribution, None, "")
        kind, why = _kind_of_fourth(scene, folder)
    place = Importable("", folder, "package") if folder else None
    return _with(scene, section, _kind(scene, path, kind, why, distribution), "flash_attn/cute", place)


def _kind_of_fourth(scene: Scene, folder: str | None) -> tuple[str, str]:
    if folder is None:
        return "metadata_only", "metadata without flash_attn/cute"
    whole = exists(scene.host, posixpath.join(folder, "__init__.py"))
    return ("complete", folder) if whole else ("incomplete", f"no __init__.py in {folder}")


def _described(scene: Scene, distribution: Distribution | None, place: Importable | None, what: str) -> FlashAttention:
    """Version, distribution and build of one generation."""
    if distribution is None:
        written = _written_version(scene, place) if place else None
        no_metadata = absent(f"no metadata of {what}")
        return replace(blank(FlashAttention, no_metadata), version=written or no_metadata)
    text, source = _labelled_version(scene, distribution)
    label = parse_build_label(text)

    def told(value: Any) -> Fact[Any]:
        return absent(f"the version in {source} does not tell") if value is None else known(value, source)

    return FlashAttention(
        version=known(text, source) if text else unknown(f"{distribution.metadata} names no version"),
        distribution=known(distribution.name, distribution.metadata),
        built_for_torch=told(label.torch),
        built_for_cuda=told(label.cuda),
        built_for_cxx11_abi=told(label.cxx11_abi),
    )


def _labelled_version(scene: Scene, distribution: Distribution) -> tuple[str, str]:
    """The version with its local label, and where it stands.

    The wheels of the release page carry the label in their file name only, and pip keeps that in direct_url.json.
    """
    version = distribution.version
    if "+" in version:
        return version, distribution.metadata
    try:
        url = (distributions.direct_url(scene.host, distribution) or {}).get("url")
    except ProbeError:
        return version, distribution.metadata
    file = posixpath.basename(urllib.parse.unquote(urllib.parse.urlsplit(url).path)) if isinstance(url, str) else ""
    parts = file.split("-")
    if len(parts) >= 5 and file.endswith(".whl") and parts[1].partition("+")[0] == version:
        return parts[1], posixpath.join(distribution.metadata, "direct_url.json")
    return version, distribution.metadata


def _written_version(scene: Scene, place: Importable) -> Fact[str] | None:
    """`__version__` of a package that has no metadata."""
    file = posixpath.join(place.path, "__init__.py") if place.kind == "package" else place.path
    try:
        version = assigned(scene.host, file).get("__version__")
    except ProbeError:
        return None
    return known(version, file) if isinstance(version, str) else None


def _binary(path: ImportPath, modules: Iterable[str]) -> str:
    """The file of the first compiled top-level module among `modules`, or ""."""
    for module in modules:
        for root, names in path.names():
            file = next((n for n in names if n.startswith(f"{module}.") and n.endswith((".so", ".pyd"))), None)
            if file:
                return posixpath.join(root, file)
    return ""


def _binary_in_folder(scene: Scene, path: ImportPath, folders: Iterable[str]) -> str:
    for folder in folders:
        for place in path.find(folder):
            try:
                names = scene.host.listdir(place.path) if place.kind != "module" else ()
            except ProbeError:
                continue
            file = next((n for n in names if n.startswith("_C.") and n.endswith((".so", ".pyd"))), None)
            if file:
                return posixpath.join(place.path, file)
    return ""


def _was_installed(scene: Scene, distribution: Distribution, modules: Iterable[str]) -> bool:
    try:
        files = distributions.record_paths(scene.host, distribution)
    except ProbeError:
        return False
    return any(file.startswith(f"{module}.") for file in files for module in modules)


def _owners(scene: Scene, name: str) -> Fact[tuple[str, ...]]:
    """Distributions whose list of files has `name`. Only those that could be are asked: a list can have 20,000 rows."""
    owners = []
    for distribution in {d.name: d for d in reversed(scene.distributions)}.values():
        if "flash" not in distribution.name and distribution.name not in FA3:
            continue
        try:
            files = distributions.record_paths(scene.host, distribution)
        except ProbeError:
            files = ()
        if any(file.startswith((f"{name}/", f"{name}.")) for file in files):
            owners.append(distribution.name)
    return known(tuple(sorted(owners)), "lists of installed files")


def _with(
    scene: Scene,
    section: FlashAttention,
    kind: Fact[str],
    name: str,
    place: Importable | None,
) -> FlashAttention:
    """The section with what is common to all: its kind, who owns the name, where it lies."""
    location = known(place.path, "sys.path") if place else absent(kind.note)
    return replace(section, kind=kind, providers=_owners(scene, name), location=location)


def _kind(scene: Scene, path: ImportPath, kind: str, why: str, distribution: Distribution | None) -> Fact[str]:
    if distribution is None and path.gap and kind != "namespace_only":
        return unknown(path.gap)
    if kind == "metadata_only" and distribution is not None:
        marked = distributions.editable_names(scene.host, scene.target.sys_path)
        if distributions.editable(scene.host, distribution, marked).value:
            return unknown("installed as a link to a source folder, which cannot be followed from files")
    return known(kind, why)
