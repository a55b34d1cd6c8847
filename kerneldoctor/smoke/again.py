"""Calls a kernel again: its bits repeat, it is as right without gradients, and what it gave before stays as it was.

Child side. Judges through the bench; chooses no case and writes to no journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .torch_math import have_same_bits

if TYPE_CHECKING:
    import torch

    from .bench import Bench
    from .contracts._contract import Tensors


def call_again(
    bench: Bench, inputs: Tensors, leaves: Tensors, outputs: Tensors, right: tuple[Tensors, list[Tensors]]
) -> None:
    """Everything that more calls can show of a forward. right: the reference, and the baselines of its tolerance."""
    if bench.contract.changes:  # a cache that was written twice is another question
        return
    kept = {name: tensor.detach().clone() for name, tensor in outputs.items()}
    if bench.contract.exact_repeat:
        _repeat(bench, {**inputs, **leaves}, outputs)
    _without_gradients(bench, inputs, right, for_training=bool(leaves))
    _with_other_inputs(bench, inputs, outputs, kept)


def _repeat(bench: Bench, tensors: Tensors, outputs: Tensors) -> None:
    """The second call gives the bits of the first; one that tunes or compiles itself may settle with the second."""
    with bench.at("repeat-forward"):
        second = bench.contract.call(bench.kernel, tensors, bench.params)
    if _same(outputs, second):
        return
    with bench.at("repeat-forward"):
        third = bench.contract.call(bench.kernel, tensors, bench.params)
    if _same(second, third):
        bench.notes.append("the first forward gave other bits than the later ones, which agree")
    else:
        bench.same_bits(outputs, second, "a second forward")


def _without_gradients(bench: Bench, inputs: Tensors, right: tuple[Tensors, list[Tensors]], for_training: bool) -> None:
    """As models call it when they are evaluated or serve: kernels take another path there."""
    import torch

    mode = torch.no_grad() if for_training else torch.inference_mode()
    with bench.at("no-grad-forward"), mode:
        found = bench.contract.call(bench.kernel, inputs, bench.params)
    reference, baselines = right
    got = {name: _plain(tensor) for name, tensor in found.items() if name in reference}
    bench.judge(got, reference, baselines, "without gradients")


def _with_other_inputs(bench: Bench, inputs: Tensors, outputs: Tensors, kept: Mapping[str, torch.Tensor]) -> None:
    """A buffer that a kernel keeps for its results would be written over."""
    import torch

    other = {name: -tensor if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}
    with bench.at("other-inputs-forward"), torch.no_grad():
        bench.contract.call(bench.kernel, other, bench.params)
    for name, tensor in kept.items():
        if not have_same_bits(outputs[name], tensor):
            bench.wrong(f"{name}: a later call with other inputs changed this earlier result")


def _same(first: Tensors, second: Tensors) -> bool:
    return all(have_same_bits(tensor, second[name]) for name, tensor in first.items())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that may be computed with: an inference tensor may not be changed in place outside its mode."""
    import torch

    return torch.empty_like(tensor).copy_(tensor) if tensor.is_inference() else tensor
