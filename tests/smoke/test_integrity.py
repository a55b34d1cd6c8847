"""What a kernel replaces of that with which it is judged is named, early or late; what a right one brings is not."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from kerneldoctor.smoke import numerics  # noqa: E402
from kerneldoctor.smoke.integrity import Integrity  # noqa: E402


def zero(*arguments: Any, **options: Any) -> Any:
    return torch.zeros(())


@pytest.mark.parametrize(
    ("holder", "name", "said"),
    [
        (torch.Tensor, "norm", "torch.Tensor.norm"), (torch.Tensor, "__sub__", "torch.Tensor.__sub__"),
        (torch.Tensor, "normal_", "torch.Tensor.normal_"), (torch.linalg, "vector_norm", "torch.linalg.vector_norm"),
        (torch, "isfinite", "torch.isfinite"), (json, "dumps", "json.dumps"), (os, "write", "os.write"),
        (dataclasses, "asdict", "dataclasses.asdict"), (numerics, "compare", "kerneldoctor's numerics.compare"),
    ],
)  # fmt: skip
def test_what_is_replaced_is_named(holder: Any, name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = Integrity()
    assert integrity.trouble("cpu") == ""
    with monkeypatch.context() as patch:
        patch.setattr(holder, name, zero)
        replaced = integrity.replaced()
    assert said in replaced


def test_what_is_changed_below_the_names_is_seen_by_its_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = Integrity()
    monkeypatch.setattr(numerics, "ROW_FLOOR", 1e9)
    monkeypatch.setattr(numerics, "WHOLE_FLOOR", 1e9)
    assert integrity.replaced() == ()
    assert "a wrong tensor is taken for right" in integrity.trouble("cpu")


def test_what_right_kernels_do_to_torch_is_no_trouble() -> None:
    integrity = Integrity()
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(3)
        assert integrity.trouble("cpu") == ""
    finally:
        torch.set_default_dtype(before)
