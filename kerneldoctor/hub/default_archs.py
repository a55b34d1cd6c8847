"""Derives which GPUs a Hub build was made for when its metadata does not say; reads no metadata itself.

Most kernels name no architectures, and the builder then compiles for its own default list, which hangs on the CUDA
release and on the date of the build. Every answer is derived, never observed, and holds only for a kernel that names
no architectures of its own (flash-attn2, for one, does).
"""

from __future__ import annotations

from datetime import date

from ..archs import supports_gpu
from ..values import dataclass
from .variant import Numbers

_VOLTA_TO_ADA = ("7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9")
_TURING_TO_ADA = _VOLTA_TO_ADA[2:]


@dataclass(frozen=True, slots=True)
class DefaultArchs:
    """One default list of the builder. It held from `since` on, and before `until` (None: to this day)."""

    cuda: Numbers  # from this CUDA release on
    cuda_below: Numbers
    since: date
    until: date | None
    archs: tuple[str, ...]
    source: str


# PTX came into the defaults on 2025-08-05; the lists before that day were not seen.
_PTX = date(2025, 8, 5)
_CUDA_13 = date(2025, 10, 3)
_GB10 = date(2026, 5, 21)  # the day is estimated from neighbouring pull requests
_B300 = date(2026, 8, 25)

ROWS: tuple[DefaultArchs, ...] = (
    DefaultArchs(
        *((11, 0), (12, 8), _PTX, None, (*_VOLTA_TO_ADA, "9.0+PTX")),
        "https://github.com/huggingface/kernel-builder/pull/196",
    ),
    DefaultArchs(
        *((12, 8), (12, 9), _PTX, None, (*_VOLTA_TO_ADA, "9.0", "10.0", "10.1", "12.0+PTX")),
        "https://github.com/huggingface/kernels/issues/720",
    ),
    DefaultArchs(  # from 2026-08-25 on CUDA 12.9 has 10.3 and 12.1 as well; that list was not seen in full
        *((12, 9), (13, 0), _PTX, _B300, (*_VOLTA_TO_ADA, "9.0", "10.0", "10.1", "12.0+PTX")),
        "https://github.com/huggingface/kernels/issues/720",
    ),
    DefaultArchs(
        *((13, 0), (14, 0), _CUDA_13, _GB10, (*_TURING_TO_ADA, "9.0", "10.0", "11.0", "12.0+PTX")),
        "https://github.com/huggingface/kernel-builder/pull/242",
    ),
    DefaultArchs(
        *((13, 0), (14, 0), _GB10, _B300, (*_TURING_TO_ADA, "9.0", "10.0", "11.0", "12.0", "12.1+PTX")),
        "https://github.com/huggingface/kernels/pull/576",
    ),
    DefaultArchs(
        *((13, 0), (14, 0), _B300, None, (*_TURING_TO_ADA, "9.0", "10.0", "10.3", "11.0", "12.0", "12.1+PTX")),
        "https://github.com/huggingface/kernels/pull/783",
    ),
)


def default_archs(cuda: Numbers, built: date | None = None) -> tuple[DefaultArchs, ...]:
    """The lists that a build for this CUDA release may have been made with: at most one when its day is known."""
    return tuple(
        row
        for row in ROWS
        if row.cuda <= cuda < row.cuda_below
        and (built is None or (row.since <= built and (row.until is None or built < row.until)))
    )


def derived_supports_gpu(cuda: Numbers, gpu: str | Numbers, built: date | None = None) -> bool | None:
    """Whether such a build runs on a GPU (see `supports_gpu`). None where no list is known or the lists disagree."""
    answers = {supports_gpu(row.archs, gpu) for row in default_archs(cuda, built)}
    return answers.pop() if len(answers) == 1 else None
