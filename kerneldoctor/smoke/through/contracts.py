"""The contracts that a kernel is held to within a model, by name. Child side; knows no kernel."""

from __future__ import annotations

from ..contracts._contract import Contract
from .contract import InModel


def contract(name: str) -> Contract:
    """The contract of this name; KeyError when there is none."""
    from .trainer import InTrainer

    one: Contract = {InModel.name: InModel, InTrainer.name: InTrainer}[name]()
    return one
