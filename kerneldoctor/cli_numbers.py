"""Numbers on the command line that are finite: NaN passes every comparison of a range. Knows no option."""

from __future__ import annotations

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A range of real numbers, without the two that are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails, as click does, for one outside of the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


SEED = click.IntRange(0, 2**63 - 2)  # torch takes 64 bits, and the next seed is used as well
GIB = Finite(1, 2**20)  # of memory
SECONDS = Finite(1, 86400)
