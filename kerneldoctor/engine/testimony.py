"""Facts that the matched symptoms of a text tell, put where nothing better is known. Reads no text itself.

A named group tells a value (`toolkit__nvcc_version`), `says` a fact that follows from the words. What a report of the
machine shows stays: an error message may be about another machine, or be quoted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ..environment import Environment, Fact, Gpu, Package, Packages, known
from .case import Kernel
from .symptoms import Hit

T = TypeVar("T")


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


def testify(environment: Environment, facts: dict[str, Fact[Any]]) -> Environment:
    """The environment with the told facts where it knew nothing."""
    packages, gpus = environment.packages, environment.gpus
    sections: dict[str, dict[str, Fact[Any]]] = {}
    for path, fact in facts.items():
        head, _, rest = path.partition(".")
        if head == "packages":
            packages = _with_package(packages, rest.partition(".")[0], fact)
        elif head == "gpu":
            gpus = _with_gpu(gpus, rest, fact)
        elif head != "kernel" and environment.fact(path).is_unknown:
            sections.setdefault(head, {})[rest] = fact
    changed: dict[str, Any] = {
        head: dataclasses.replace(getattr(environment, head), **given) for head, given in sections.items()
    }
    return dataclasses.replace(environment, packages=packages, gpus=gpus, **changed)


def testify_kernel(kernel: Kernel, facts: dict[str, Fact[Any]]) -> Kernel:
    """The same for what the text tells of a Hub kernel."""
    given = {path.removeprefix("kernel."): fact for path, fact in facts.items() if path.startswith("kernel.")}
    return dataclasses.replace(kernel, **{name: f for name, f in given.items() if getattr(kernel, name).is_unknown})


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
