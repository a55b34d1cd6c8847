"""A comparison as a chart: time and memory against length, as PNG or SVG. It draws what is there and decides nothing.

matplotlib is an optional extra, imported when something is drawn.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from xml.etree.ElementTree import fromstring, register_namespace, tostring

from ..compare.model import Comparison, Entry
from ..compare.workload import Direction, length_text

HOW_TO_GET = 'a chart needs matplotlib: pip install "kerneldoctor[chart]", or pip install matplotlib'
#: Okabe and Ito's palette, which people with any colour vision tell apart (https://jfly.uni-koeln.de/color/), without
#: its yellow, which is too pale on white, and three darker ones; each with a marker of its own.
_COLORS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f", "#8b4513", "#332288",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*", "h")
_INK, _SOFT, _GRID = "#1b2028", "#57606a", "#d8dee4"
_WIDTH, _PANEL, _TOP = 4.7, 2.75, 0.8  # inches: on a phone a page shows it nearly as large as on paper
_LETTER = 0.076  # inches that a letter of a label takes
_GAP = 0.078  # of a panel's height, between two labels
_HIGHEST = 0.96  # of a panel's height: above it is the title
_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def png(found: Comparison) -> bytes:
    """The chart as PNG, sharp enough for print."""
    return _saved(found, "png")


def svg(found: Comparison) -> str:
    """The chart as an SVG file."""
    return _saved(found, "svg").decode("utf-8")


def inline_svg(found: Comparison) -> str:
    """The chart as an SVG element for a page: without style sheet and metadata, so that nothing can be loaded by it."""
    register_namespace("", _SVG)
    root = fromstring(svg(found))
    for parent in root.iter():
        for child in [c for c in parent if c.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style")]:
            parent.remove(child)
        if _LINK in parent.attrib:
            parent.set("href", parent.attrib.pop(_LINK))
    # What the style sheet said; and as wide as there is room for.
    root.set("style", "stroke-linejoin:round;stroke-linecap:butt;width:100%;max-width:44rem")
    root.set("role", "img")
    root.set("aria-label", "Time and peak memory against sequence length; the tables below hold the figures")
    return re.sub(r"\s+\n", "\n", tostring(root, "unicode"))


@dataclass(frozen=True, slots=True)
class Line:
    """One implementation in one panel."""

    name: str
    number: int  # of the implementation: its colour and marker are the same in every panel
    points: tuple[tuple[int, float], ...]
    full: int | None = None  # the length at which memory ran out


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the figure."""

    title: str
    lines: tuple[Line, ...]


def panels(found: Comparison) -> tuple[Panel, ...]:
    """What is drawn: the step, the forward, and the memory of the larger of the two. Empty ones are left out."""
    main: Direction = "step" if found.workload.backward else "forward"
    made = []
    if main == "step":
        made.append(Panel("Training step (forward and backward), ms", _lines(found, "step", _ms)))
    made.append(Panel("Forward, ms", _lines(found, "forward", _ms)))
    made.append(Panel(f"Peak memory of the {_word(main)} without inputs, GiB", _lines(found, main, _gib)))
    return tuple(panel for panel in made if panel.lines)


def _word(direction: Direction) -> str:
    return "training step" if direction == "step" else direction


def _ms(cell: Any) -> float | None:
    return cell.timing.median if cell.timing is not None else None


def _gib(cell: Any) -> float | None:
    return cell.peak_bytes / 2**30 if cell.timing is not None and cell.peak_bytes else None


def _lines(found: Comparison, direction: Direction, value: Any) -> tuple[Line, ...]:
    made = []
    for number, entry in enumerate(found.entries):
        cells = [cell for cell in entry.cells if cell.direction == direction]
        points = tuple((cell.length, float(y)) for cell in cells if (y := value(cell)) is not None)
        if points:
            made.append(Line(_short(entry), number, points, _full(entry, direction)))
    return tuple(made)


def _short(entry: Entry) -> str:
    """Without the owner, and of a commit its start: the table has the whole name."""
    name = entry.implementation.name.rpartition("/")[2]
    return re.sub(r"@([0-9a-f]{7})[0-9a-f]{33}$", r"@\1", name)


def _full(entry: Entry, direction: Direction) -> int | None:
    cells = (cell for cell in entry.cells if cell.direction == direction)
    return next((cell.length for cell in cells if cell.outcome == "oom"), None)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places between 0 and 1 as near to the wanted ones as can be, in their order and at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    gap = min(gap, 1 / max(1, len(wanted) - 1))
    places = [0.0] * len(wanted)
    lowest = 0.0
    for number in order:
        places[number] = lowest = max(wanted[number], lowest)
        lowest += gap
    highest = 1.0
    for number in reversed(order):
        places[number] = highest = min(places[number], highest)
        highest -= gap
    return places


# --- drawing ----------------------------------------------------------------------------------------------------------


def _saved(found: Comparison, form: str) -> bytes:
    import matplotlib

    # Texts stay texts, and the same figures make the same file.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "kerneldoctor", "font.family": "DejaVu Sans", "font.size": 9}
    with matplotlib.rc_context(settings), io.BytesIO() as target:
        options: Mapping[str, Any] = {"metadata": {"Date": None}} if form == "svg" else {"dpi": 200}
        _figure(found).savefig(target, format=form, facecolor="white", **options)
        return target.getvalue()


def _figure(found: Comparison) -> Any:
    from matplotlib.figure import Figure

    drawn = panels(found)
    height = _TOP + _PANEL * max(1, len(drawn))
    figure = Figure(figsize=(_WIDTH, height))
    longest = max((len(line.name) for panel in drawn for line in panel.lines), default=0)
    right = 1 - (0.3 + longest * _LETTER) / _WIDTH
    for number, panel in enumerate(drawn):
        bottom = height - _TOP - _PANEL * (number + 1)
        axes = figure.add_axes((0.095, (bottom + 0.5) / height, right - 0.095, (_PANEL - 0.85) / height))
        _draw(axes, panel, found.workload.lengths)
    for number, text in enumerate(_title(found, drawn)):
        size, color = (11, _INK) if number == 0 else (8, _SOFT)
        figure.text(0.02, 1 - (0.24 + 0.18 * number) / height, text, size=size, color=color)
    if not drawn:
        figure.text(0.02, 0.4, "nothing was measured", color=_INK)
    return figure


def _title(found: Comparison, drawn: Sequence[Panel]) -> tuple[str, ...]:
    work = found.workload
    kind = {"bfloat16": "bf16", "float16": "fp16"}.get(work.dtype, work.dtype)
    mask = "causal" if work.causal else "not causal"
    lines = (
        f"Attention on {found.device_name}",
        f"batch {work.batch}, {work.heads}/{work.kv_heads} heads d{work.head_dim}, {kind}, {mask}; torch {found.torch}",
    )
    greedy = any(line.full is not None for panel in drawn for line in panel.lines)
    return (*lines, "\N{MULTIPLICATION X} the next length runs out of memory") if greedy else lines


def _draw(axes: Any, panel: Panel, lengths: Sequence[int]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.set_title(panel.title, loc="left", size=9.5, color=_INK, weight="bold")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for line in panel.lines:
        _plot(axes, line)
    axes.xaxis.set_major_locator(FixedLocator(list(lengths)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, place: length_text(round(value))))
    _widen(axes, panel)
    axes.yaxis.set_major_locator(LogLocator(subs=_steps(*axes.get_ylim())))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("sequence length, tokens", color=_SOFT, size=8.5)
    axes.grid(True, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=_SOFT, length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    _name_lines(axes, panel)


def _plot(axes: Any, line: Line) -> None:
    color, marker, dashes = _look(line.number)
    axes.plot(
        *zip(*line.points, strict=True), color=color, marker=marker, markersize=5, linewidth=1.6, linestyle=dashes
    )
    if line.full is not None:
        axes.plot(*line.points[-1], color="#b3261e", marker="x", markersize=9, markeredgewidth=1.8, linestyle="none")


def _look(number: int) -> tuple[str, str, str]:
    """Colour, marker, dashes: different for twenty lines."""
    place = number % len(_COLORS)
    return _COLORS[place], _MARKERS[place], "-" if number < len(_COLORS) else "--"


def _widen(axes: Any, panel: Panel) -> None:
    """At least one whole power of ten, so that the axis has figures."""
    values = [y for line in panel.lines for _, y in line.points]
    low, high = min(values) / 1.25, max(values) * 1.25
    while high / low < 12:
        low, high = low / 1.2, high * 1.2
    axes.set_ylim(low, high)


def _steps(low: float, high: float) -> tuple[float, ...]:
    """Where a power of ten is ticked: finer where there are few of them."""
    return (1.0, 2.0, 5.0) if high / low < 1000 else (1.0, 3.0) if high / low < 10000 else (1.0,)


def _name_lines(axes: Any, panel: Panel) -> None:
    """Each line's name at the right, level with its end as far as there is room, and a thin thread to it."""
    to_place = axes.transScale + axes.transLimits
    ends = [to_place.transform(line.points[-1]) for line in panel.lines]
    for line, end, place in zip(panel.lines, ends, _below_title(ends), strict=True):
        color, marker, _ = _look(line.number)
        options = {"transform": axes.transAxes, "clip_on": False}
        axes.plot((float(end[0]), 1.025), (float(end[1]), place), color=color, linewidth=0.8, linestyle=":", **options)
        axes.plot(1.04, place, color=color, marker=marker, markersize=5, linestyle="none", **options)
        axes.text(1.06, place, line.name, size=8.5, color=_INK, va="center", transform=axes.transAxes)


def _below_title(ends: Sequence[Any]) -> list[float]:
    """Where the names go, as parts of the panel's height."""
    return [place * _HIGHEST for place in spread([float(y) / _HIGHEST for _, y in ends], _GAP)]
