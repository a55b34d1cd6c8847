"""Lays sequences into a batch in the ways that people train and generate with. Child side; judges nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_IGNORED = -100  # the label that transformers leaves out of its loss
_FIRST_WORD = 3  # the ones before it are often special


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, the sequences in it one by one, and where each lies: (row, begin, end)."""

    inputs: dict[str, Any]
    labels: torch.Tensor
    sequences: tuple[torch.Tensor, ...]
    places: tuple[tuple[int, int, int], ...]

    def rows(self, logits: torch.Tensor) -> torch.Tensor:
        """What belongs to the sequences, one row a token, without padding."""
        import torch

        return torch.cat([logits[row, begin:end] for row, begin, end in self.places])


def make_sequences(lengths: list[int], words: int, seed: int, device: str) -> tuple[torch.Tensor, ...]:
    """Random sequences of these lengths; drawn on the CPU, so that every device gets the same."""
    import torch

    source = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(_FIRST_WORD, words, (length,), generator=source).to(device) for length in lengths)


def lay_out(layout: str, sequences: tuple[torch.Tensor, ...]) -> Batch:
    """The sequences as a batch of this layout, see plan.Scene."""
    return _packed(sequences, layout == "packed-kwargs") if layout.startswith("packed") else _padded(layout, sequences)


def _padded(layout: str, sequences: tuple[torch.Tensor, ...]) -> Batch:
    import torch

    longest = max(len(sequence) for sequence in sequences)
    ids = sequences[0].new_zeros(len(sequences), longest)
    mask, labels, places = torch.zeros_like(ids), torch.full_like(ids, _IGNORED), []
    for row, sequence in enumerate(sequences):
        begin = longest - len(sequence) if layout == "padded-left" else 0
        end = begin + len(sequence)
        ids[row, begin:end], mask[row, begin:end] = sequence, 1
        labels[row, begin + 1 : end] = sequence[1:]
        places.append((row, begin, end))
    inputs = {"input_ids": ids}
    if layout != "unpadded":
        inputs["attention_mask"] = mask
    if layout == "padded-left":
        # As `generate` counts them: padding has no place of its own.
        inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    return Batch(inputs, labels, sequences, tuple(places))


def _packed(sequences: tuple[torch.Tensor, ...], with_kwargs: bool) -> Batch:
    """As TRL's padding-free and transformers' DataCollatorWithFlattening do it: no mask, position ids start anew."""
    import torch

    ids = torch.cat(sequences)[None]
    positions = torch.cat([torch.arange(len(s), device=ids.device) for s in sequences])[None]
    labels = torch.cat([torch.cat([s.new_full((1,), _IGNORED), s[1:]]) for s in sequences])[None]
    ends = [0, *accumulate(len(s) for s in sequences)]
    inputs: dict[str, Any] = {"input_ids": ids, "position_ids": positions}
    if with_kwargs:
        bounds = torch.tensor(ends, dtype=torch.int32, device=ids.device)
        longest = max(len(s) for s in sequences)
        inputs |= {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": longest, "max_length_k": longest}
    return Batch(inputs, labels, sequences, tuple((0, a, b) for a, b in pairwise(ends)))
