"""Reads the GPU of a what-if as people write it: product, compute capability, AMD architecture; sees no machine.

AMD products: https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..engine.case import Tables
from ..engine.facts.driver import product_row
from ..errors import UsageError
from ..values import dataclass

_CAPABILITY = re.compile(r"(?:sm_?|compute_)?(\d{1,2})\.?(\d)[af]?", re.ASCII)
_AMD = re.compile(r"gfx[0-9a-f]{3,5}", re.ASCII)
_AMD_PRODUCTS = {
    "MI100": "gfx908", "MI210": "gfx90a", "MI250": "gfx90a", "MI250X": "gfx90a", "MI300A": "gfx942",
    "MI300X": "gfx942", "MI325X": "gfx942", "MI350X": "gfx950", "MI355X": "gfx950",
}  # fmt: skip
_NUMBER = re.compile(r"[2-5]0[5-9]0(?: ?(?:ti|super))*", re.ASCII)
_GLUED = re.compile(r"(?<=[a-z])(?=\d{3,4}(?!\d))|(?<=\d)(?=(?:ti|super|ada)\b)", re.ASCII)


@dataclass(frozen=True, slots=True)
class NamedGpu:
    """One GPU that was named."""

    name: str
    vendor: str  # nvidia | amd
    capability: str  # "9.0"; "" for one of AMD


def read_gpus(names: Sequence[str], tables: Tables) -> list[NamedGpu]:
    """The GPUs, of which a comma may stand between two. Raises UsageError for one that is not known."""
    return [_read(name.strip(), tables) for text in names for name in text.split(",") if name.strip()]


def _read(text: str, tables: Tables) -> NamedGpu:
    plain = text.lower()
    if found := _CAPABILITY.fullmatch(plain):
        major, minor = found.groups()
        return NamedGpu(f"GPU of capability {major}.{minor}", "nvidia", f"{major}.{minor}")
    if _AMD.fullmatch(plain):
        return NamedGpu(plain, "amd", "")
    words = re.sub(r"^(?:amd |instinct )+", "", plain).upper().replace(" ", "")
    if words in _AMD_PRODUCTS:
        return NamedGpu(_AMD_PRODUCTS[words], "amd", "")
    spaced = _GLUED.sub(" ", f"rtx {plain}" if _NUMBER.fullmatch(plain) else plain)
    products = tables.get("gpu_products", ())
    row = product_row(text, products) or product_row(spaced, products)
    if row is None:
        raise UsageError(
            f"--gpu {text[:60]!r} is no GPU known here: write its compute capability, as in sm_120 or 12.0"
        )
    return NamedGpu(text, "nvidia", str(row["capability"]))
