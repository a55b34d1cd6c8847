"""What the tables say of a device's peak, and of building flash-attn from source. Pure; invents no number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .model import BuildCost, Peak


def peak_of(name: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Peak:
    """The dense bf16 (and fp16) peak of the device that torch calls so."""
    if not name:
        return Peak(None, "no peak is known for the CPU")
    for row in tables.get("gpu_peaks", ()):
        if name in row["names"]:
            return Peak(float(row["dense_bf16_tflops"]), str(row["source"]))
    return Peak(None, f"no peak is known for {name}")


def build_cost(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> BuildCost:
    """How long a build of flash-attn takes, by its own words."""
    row = tables["flash_attn_build"][0]
    return BuildCost(float(row["least_seconds"]), float(row["most_seconds"]), str(row["text"]), str(row["source"]))
