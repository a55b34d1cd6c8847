"""The cases of a comparison: two that check, then one a length that measures. Pure, no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..contracts._attention import DEFAULTS
from ..protocol import Case, Json

#: Why a length was not measured after a restart: the parent, who knows what became of the check, asks for it again.
UNCHECKED = "its check was not seen in this process"
#: (batch, length): not a multiple of any block, with more than one block of keys; and one that is.
_CHECKS = {"cpu": ((2, 131), (1, 256)), "gpu": ((1, 1037), (2, 512))}
CHECKS = 2  # of each device


def check_cases(params: Mapping[str, Json], device: str) -> tuple[Case, ...]:
    """Whether an implementation is right for these heads, at lengths at which fp32 can be asked."""
    shape = {name: value for name, value in params.items() if name in DEFAULTS}
    return tuple(
        Case(
            f"check-{length}", "check",
            {**DEFAULTS, **shape, "batch": batch, "seqlen_q": length, "seqlen_k": length}, seed=0,
        )
        for batch, length in _CHECKS["cpu" if device == "cpu" else "gpu"]
    )  # fmt: skip


def measure_cases(params: Mapping[str, Json], lengths: Iterable[tuple[int, bool]], checked: bool) -> tuple[Case, ...]:
    """One case a length, with or without its backward. checked: it is known to be right; else its checks come first."""
    return tuple(
        Case(
            f"length-{length}",
            "measure",
            {**params, "seqlen": length, "backward": backward, "checked": checked},
            seed=0,
        )
        for length, backward in lengths
    )
