"""Builds a layer of a kernel around given tensors. It must not be a contract.

The Hub's layers are written to lend their forward to somebody else's module, so most have no constructor of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._calling import find
from ._contract import Unsupported

if TYPE_CHECKING:
    import torch


def layer(kernel: Any, name: str, attributes: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """An instance of the layer class with these attributes; arguments are for a constructor, as far as it has them."""
    import torch

    kind = find(kernel, name)
    if not (inspect.isclass(kind) and issubclass(kind, torch.nn.Module)):
        raise Unsupported(f"{name} is not a layer")
    if kind.__init__ is torch.nn.Module.__init__:
        made = kind()
    else:
        known = inspect.signature(kind.__init__).parameters
        made = kind(**{key: value for key, value in arguments.items() if key in known})
    for key, value in attributes.items():
        setattr(made, key, value)
    return made


def run(module: Any, weights: Mapping[str, torch.Tensor], *inputs: torch.Tensor, **options: Any) -> Any:
    """The layer's forward with these tensors in place of its parameters, so that gradients reach them."""
    import torch

    return torch.func.functional_call(module, dict(weights), inputs, options)


def parameter(tensor: torch.Tensor) -> Any:
    """A parameter that `run` will replace."""
    import torch

    return torch.nn.Parameter(tensor.detach().clone())
