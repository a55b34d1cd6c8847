"""The contracts: each file in this folder that does not start with an underscore says CONTRACTS = (…,) and is found.

Nothing here imports torch: the parent lists contracts and chooses cases without it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from ._contract import Contract

__all__ = ["Contract", "contract", "contracts", "matching"]


@cache
def contracts() -> tuple[Contract, ...]:
    """Every contract, by name."""
    found: list[Contract] = []
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            found += importlib.import_module(f"{__name__}.{module.name}").CONTRACTS
    return tuple(sorted(found, key=lambda one: one.name))


def contract(name: str) -> Contract:
    """The contract of this name; KeyError when there is none."""
    return {one.name: one for one in contracts()}[name]


def matching(exports: Iterable[str]) -> tuple[Contract, ...]:
    """The contracts that a kernel with these public names can be held to.

    A name that a contract asks for may also lie in the kernel's `layers` ("layers.RMSNorm" for "RMSNorm").
    """
    names = set(exports)
    names |= {name.removeprefix("layers.") for name in names if name.startswith("layers.")}
    return tuple(one for one in contracts() if one.fits(names))
