"""Facts that the matched symptoms of a text tell, put where nothing better is known. Reads no text itself.

A named group tells a value (`toolkit__nvcc_version`), `says` a fact that follows from the words. What a report of the
machine shows stays: an error message may be about another machine, or be quoted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ..environment import Environment, Fact, Gpu, Package, Packages, known
from .case import Kernel, Tables, Workload
from .facts.attention_wheels import usual_abi
from .facts.driver import product_row
from .symptoms import Hit

Q = TypeVar("Q", Kernel, Workload)
_HOPPER = "flashattn-hopper"  # FlashAttention 3 as flash-attention's hopper folder once named it


def told(hits: Iterable[Hit]) -> dict[str, Fact[Any]]:
    """Facts by path (`gpu.…` is about any GPU), each with the line that tells it; of two the first counts."""
    facts: dict[str, Fact[Any]] = {}
    for hit in hits:
        where = f"line {hit.first_line}: {hit.lines[0] if hit.lines else ''}"
        for path, value in _values(hit):
            facts.setdefault(path, known(value, where))
    return facts


def path_of(group: str) -> str:
    """The fact path that a named group stands for: `packages__huggingface_hub__version`."""
    head, *rest = group.split("__")
    if head == "packages" and rest:
        rest[0] = rest[0].replace("_", "-")
    return ".".join([head, *rest])


def _values(hit: Hit) -> Iterator[tuple[str, Any]]:
    yield from hit.symptom.says.items()
    for group, value in hit.groups.items():
        yield path_of(group), value


def add_told(environment: Environment, facts: dict[str, Fact[Any]]) -> Environment:
    """The environment with the told facts where it knew nothing."""
    packages, gpus = environment.packages, environment.gpus
    sections: dict[str, dict[str, Fact[Any]]] = {}
    for path, fact in facts.items():
        head, _, rest = path.partition(".")
        if head == "packages":
            packages = _with_package(packages, rest.partition(".")[0], fact)
        elif head == "gpu":
            gpus = _with_gpu(gpus, rest, fact)
        elif head not in ("kernel", "workload") and environment.fact(path).is_unknown:
            sections.setdefault(head, {})[rest] = fact
    changed: dict[str, Any] = {
        head: dataclasses.replace(getattr(environment, head), **given) for head, given in sections.items()
    }
    return dataclasses.replace(environment, packages=packages, gpus=gpus, **changed)


def add_told_of(section: Q, head: str, facts: dict[str, Fact[Any]]) -> Q:
    """The same for what the text tells of a Hub kernel or a workload; `head` says which of the two."""
    given = {path.removeprefix(f"{head}."): fact for path, fact in facts.items() if path.startswith(f"{head}.")}
    return dataclasses.replace(section, **{name: f for name, f in given.items() if getattr(section, name).is_unknown})


def infer(environment: Environment, tables: Tables) -> Environment:
    """What a reader takes for granted: a product's capability, a torch wheel's ABI, that a listed package is all there.

    A scan looks at files and does not need this; of a paste nobody can say more.
    """
    changed: dict[str, Any] = {}
    if environment.gpus.value:
        gpus = tuple(_with_capability(gpu, tables) for gpu in environment.gpus.value)
        changed["gpus"] = known(gpus, environment.gpus.note)
    hopper = environment.packages.get(_HOPPER).version
    if hopper.is_known and not environment.flash_attn_3.version.is_known:
        changed["flash_attn_3"] = dataclasses.replace(
            environment.flash_attn_3,
            version=hopper,
            distribution=known(_HOPPER, hopper.note),
            kind=known("complete", hopper.note),
        )
    for name in ("flash_attn", "flash_attn_3", "flash_attn_4"):
        section = getattr(environment, name)
        if name not in changed and section.version.is_known and section.kind.is_unknown:
            changed[name] = dataclasses.replace(section, kind=known("complete", section.version.note))
    if environment.system.machine.is_unknown and environment.system.os.value == "linux" and _is_for_pc(environment):
        machine = known("x86_64", f"its GPU: {environment.gpus.note}")
        changed["system"] = dataclasses.replace(environment.system, machine=machine)
    if (abi := _usual_abi(environment, tables)) is not None:
        changed["torch"] = dataclasses.replace(environment.torch, cxx11_abi=abi)
    return dataclasses.replace(environment, **changed)


_ARM = re.compile(r"\b(?:GH\d|GB\d|Jetson|Orin|Thor|Xavier|Grace|DGX Spark)", re.IGNORECASE)


def _is_for_pc(environment: Environment) -> bool:
    """Whether all GPUs are named, and none is of those that come with an Arm processor."""
    names = [str(gpu.name.value) for gpu in environment.gpus.value or () if gpu.name.is_known]
    whole = bool(names) and len(names) == len(environment.gpus.value or ())
    return whole and not any(_ARM.search(name) for name in names)


def _usual_abi(environment: Environment, tables: Tables) -> Fact[bool] | None:
    """The new C++ string ABI where every build of that torch has it; None where it is known, or both kinds exist."""
    torch, system = environment.torch, environment.system
    if not torch.version.is_known or not torch.cxx11_abi.is_unknown:
        return None
    if system.os.value in ("windows", "darwin") or system.machine.value == "aarch64":
        return None
    usual = usual_abi(str(torch.version.value), tables.get("torch_abi", ()))
    return known(True, f"table torch_abi: {torch.version.note}") if usual is not None and usual[0] else None


def _with_capability(gpu: Gpu, tables: Tables) -> Gpu:
    if gpu.compute_capability.is_known or not gpu.name.is_known:
        return gpu
    row = product_row(str(gpu.name.value), tables.get("gpu_products", ()))
    if row is None:
        return gpu
    vendor = known("nvidia", "table gpu_products") if gpu.vendor.is_unknown else gpu.vendor
    capability = known(str(row["capability"]), "table gpu_products")
    return dataclasses.replace(gpu, compute_capability=capability, vendor=vendor)


def _with_package(packages: Packages, name: str, fact: Fact[Any]) -> Packages:
    if not packages.get(name).version.is_unknown:
        return packages
    return dataclasses.replace(packages, items={**packages.items, name: Package(version=fact)})


def _with_gpu(gpus: Fact[tuple[Gpu, ...]], name: str, fact: Fact[Any]) -> Fact[tuple[Gpu, ...]]:
    """A message speaks of the GPU in use: of several different ones it is not known which that is."""
    listed = gpus.value or ()
    if gpus.is_unknown or not listed:
        return known((dataclasses.replace(Gpu(), **{name: fact}),), fact.note) if gpus.is_unknown else gpus
    if len({gpu.name.value for gpu in listed}) > 1:
        return gpus
    filled = tuple(dataclasses.replace(g, **{name: fact}) if getattr(g, name).is_unknown else g for g in listed)
    return known(filled, gpus.note)
