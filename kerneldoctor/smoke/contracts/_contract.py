"""What a contract is: how a kind of kernel is called, and the same in plain PyTorch.

A newcomer adds one file with a subclass and CONTRACTS = (ItsName(),). It must not judge, nor import torch when it
is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol import Json

if TYPE_CHECKING:
    import torch

    Tensors = dict[str, torch.Tensor]

Params = Mapping[str, Json]


class Unsupported(Exception):
    """The kernel has no such feature, by its signature or its own words; the message says which."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A case before it has a seed. A smaller `quick` goes first into the quick set; None keeps it out of it."""

    id: str
    params: dict[str, Json]
    quick: int | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """What a model asks of attention: the numbers of its config.json."""

    heads: int
    kv_heads: int
    head_dim: int
    dtype: str = "bfloat16"
    window: int | None = None
    softcap: float = 0.0
    causal: bool = True


class Contract:
    """One kind of kernel.

    exports:        public names that the kernel must have; with `any_export` one of them is enough.
    differentiable: inputs whose gradients are compared, when the case asks for the backward.
    changes:        inputs that the kernel is meant to change; they are outputs as well.
    slack:          how many times the usual tolerance a kernel that computes in less than its inputs' precision gets.
    exact_repeat:   the forward is claimed to give the same bits every time.
    same_dtype:     outputs that come in the dtype that the same math has in plain PyTorch.
    training_only:  inference has no use for it (dropout).
    """

    name: ClassVar[str]
    description: ClassVar[str]
    exports: ClassVar[tuple[str, ...]]
    any_export: ClassVar[bool] = False
    differentiable: ClassVar[tuple[str, ...]] = ()
    changes: ClassVar[tuple[str, ...]] = ()
    slack: ClassVar[float] = 1.0
    exact_repeat: ClassVar[bool] = False
    same_dtype: ClassVar[tuple[str, ...]] = ()
    training_only: ClassVar[bool] = False

    def fits(self, names: set[str]) -> bool:
        """Whether a kernel with these public names can be held to this contract."""
        return (any if self.any_export else all)(name in names for name in self.exports)

    def drafts(self, device: str) -> list[Draft]:
        """Every case, sized for "cpu" or "gpu"."""
        raise NotImplementedError

    def for_workload(self, workload: Workload, device: str) -> list[Draft]:
        """Cases of exactly this model's shape; none where the contract has nothing to do with it."""
        return []

    def applies(self, params: Params, names: set[str]) -> bool:
        """Whether a kernel that fits has what this case calls (one function of several)."""
        return True

    def gradients(self, params: Params) -> tuple[str, ...]:
        """The inputs whose gradients this case compares."""
        return self.differentiable if params.get("backward") else ()

    def inputs(self, params: Params, draw: Draw) -> Tensors:
        """The kernel's tensor arguments, fresh and random."""
        raise NotImplementedError

    def call(self, kernel: Any, tensors: Tensors, params: Params) -> Tensors:
        """Calls the kernel; its outputs by name. Raises Unsupported where it has no such feature."""
        raise NotImplementedError

    def math(self, tensors: Tensors, params: Params) -> Tensors:
        """The same outputs from plain PyTorch, in the dtype of the tensors; differentiable."""
        raise NotImplementedError

    def cost(self, tensors: Tensors, grads: Tensors, params: Params) -> Tensors:
        """More low-precision math for the tolerance: outputs, and gradients as "d" + input name. Often none."""
        return {}

    def position(self, name: str, shape: tuple[int, ...]) -> int | None:
        """The dimension along which rows of this output or gradient are neighbours, see numerics.compare."""
        return None

    def floor(self, name: str, params: Params) -> float:
        """An absolute error that is always allowed in this output or gradient."""
        return 0.0

    def examine(self, bench: Any) -> None:
        """Runs the case on the bench; overridden where comparing once is not the question (dropout)."""
        bench.standard()


class Draw:
    """Random tensors of one case: one generator, so that a seed gives the same inputs again on the same device."""

    def __init__(self, seed: int, device: str, keep: Callable[[torch.Tensor, str], torch.Tensor]) -> None:
        import torch

        # Drawn on the CPU: the same numbers for every device, and no kernel of the device is needed to make them.
        self._generator = torch.Generator().manual_seed(seed)
        self._device, self._keep = device, keep

    def normal(
        self, *shape: int, dtype: str, scale: float = 1.0, shift: float = 0.0, layout: str = "contiguous"
    ) -> torch.Tensor:
        """Normally distributed values, fenced."""
        import torch

        values = torch.randn(shape, generator=self._generator) * scale + shift
        return self._keep(values.to(self._device, getattr(torch, dtype)), layout)

    def integers(self, low: int, high: int, *shape: int, dtype: str = "int64") -> torch.Tensor:
        """Whole numbers in [low, high), fenced."""
        import torch

        values = torch.randint(low, high, shape, generator=self._generator)
        return self._keep(values.to(self._device, getattr(torch, dtype)), "contiguous")

    def given(self, values: Iterable[Any], dtype: str) -> torch.Tensor:
        """These values, fenced."""
        import torch

        return self._keep(torch.tensor(list(values), dtype=getattr(torch, dtype), device=self._device), "contiguous")

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that was made by hand, fenced."""
        return self._keep(tensor, "contiguous")

    def order(self, count: int) -> list[int]:
        """The numbers below count, shuffled."""
        import torch

        return [int(n) for n in torch.randperm(count, generator=self._generator)]
