"""Facts that were edited by hand or written oddly by a tool: no derived fact may fail on them or believe them."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.engine.case import DERIVED, ITEMS, Case, Kernel, Workload
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.environment import Environment, Fact, Package, Packages, hints, known

REAL = Path(__file__).parent.parent / "cases/environments/h200-torch211-cu130-transformers517-kernels0162.json"
ODD = ("xyz", "", "12", "9.9.9.9", "12.", "sm_90", "é.1", "\ud800", "1" * 5000)
LISTED = (
    "torch", "transformers", "kernels", "huggingface-hub", "flash-attn", "flash-attn-4", "xformers", "triton", "numpy",
    "transformer-engine", "vllm", "nvidia-cutlass-dsl", "quack-kernels", "apache-tvm-ffi",
)  # fmt: skip


def filled(kind: Any) -> Any:
    """A value of a schema type in which everything is known: texts are "12.8", numbers 1, lists have one item."""
    if typing.get_origin(kind) is Fact:
        return known(filled(typing.get_args(kind)[0]), "x")
    if typing.get_origin(kind) is tuple:
        return (filled(typing.get_args(kind)[0]),)
    if kind is Packages:
        return Packages({name: filled(Package) for name in LISTED}, True, "x")
    if dataclasses.is_dataclass(kind):
        return kind(**{name: filled(hint) for name, hint in hints(kind).items()})
    return {str: "12.8", int: 1, float: 1.0}.get(kind, True)


def machine(name: str) -> dict[str, Any]:
    if name == "filled":
        return filled(Environment).to_json()  # type: ignore[no-any-return]
    document = json.loads(REAL.read_text("utf-8"))
    return document.get("environment", document)  # type: ignore[no-any-return]


def cases(document: dict[str, Any]) -> list[Case]:
    """A case about the first item of each list that derived facts may be about."""
    base = Case(Environment.from_json(document), shipped_tables(), filled(Kernel), filled(Workload))
    return [next(iter(base.items(each))) for each in ITEMS]


def derived_of(case: Case) -> list[str]:
    others = {name for name, _ in ITEMS.values()} - {case.item_name}
    return [path for path in DERIVED if path.partition(".")[0] not in others and not path.startswith("kernel.")]


def readers(document: dict[str, Any]) -> dict[str, set[str]]:
    """The recorded texts that derived facts read, each with these."""
    read: dict[str, set[str]] = {}
    for case in cases(document):
        for derived in derived_of(case):
            for path, fact in case.basis(derived).items():
                if (
                    isinstance(fact.value, str)
                    and path != "extension.module"
                    and not path.startswith(("kernel.", "workload."))
                ):
                    read.setdefault(path, set()).add(derived)
    return read


def fact_at(document: dict[str, Any], path: str) -> dict[str, Any]:
    head, _, rest = path.partition(".")
    lists = {name: each for each, (name, _) in ITEMS.items()}
    if head in lists:
        found: dict[str, Any] = document[lists[head]]["value"][0][rest]
        return found
    node: Any = document
    for name in path.replace("packages.", "packages.items.").split("."):
        node = node[name]
    return node  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["real", "filled"])
def test_no_derived_fact_fails_on_a_text_that_is_no_version(name: str) -> None:
    document = machine(name)
    read = readers(document)
    assert len(read) > 20
    for path, derived in read.items():
        fact = fact_at(document, path)
        right = fact["value"]
        for odd in ODD if path.endswith(("version", "cuda", "capability")) else ODD[:2]:
            fact["value"] = odd
            for case in cases(document):
                for reader in derived & set(derived_of(case)):
                    case.fact(reader)
        fact["value"] = right


@pytest.mark.parametrize("cuda", ["xyz", ""])
def test_what_is_no_cuda_release_is_as_good_as_unknown(cuda: str) -> None:
    document = machine("real")
    document["driver"]["cuda"]["value"] = cuda
    [case, *_] = cases(document)
    assert case.fact("driver.cuda_offered").value == "13.0"  # by the driver's version
    document["driver"]["version"] = {"unknown": "not in the paste"}
    [case, *_] = cases(document)
    assert case.fact("driver.cuda_offered").is_unknown
    assert case.fact("torch.driver_carries_cuda").is_unknown


@pytest.mark.parametrize(
    ("path", "derived"),
    [
        ("torch.cuda", "torch.driver_carries_cuda"),
        ("torch.cuda", "torch.driver_needed"),
        ("torch.cuda", "toolkit.same_major_as_torch"),
        ("torch.cuda", "flash_attn.label_cuda_ok"),
        ("torch.cuda", "extension.cudart_major_ok"),
        ("flash_attn.built_for_torch", "flash_attn.label_torch_ok"),
    ],
)
def test_a_comparison_with_what_is_no_release_is_undecided(path: str, derived: str) -> None:
    document = machine("filled")
    fact_at(document, path)["value"] = "xyz"
    case = next(c for c in cases(document) if derived in derived_of(c) and (c.item_name == "extension"))
    assert case.fact(derived).is_unknown
