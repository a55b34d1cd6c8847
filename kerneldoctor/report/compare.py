"""A comparison for people and programs: who was right, who was fast, what memory it took. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..compare.model import Cell, Comparison, Entry, Rank, Timing
from ..compare.workload import FORMULA, Direction, length_text
from ..environment import encode
from .layout import Page

SCHEMA = "kerneldoctor.comparison/1"
TITLES: dict[Direction, str] = {
    "step": "Training step of the attention alone (forward and backward)",
    "forward": "Forward alone, without gradients",
    "backward": "Backward alone",
}
_SHORT = {"bfloat16": "bf16", "float16": "fp16"}
_WORDS = {"oom": "OOM", "skipped": "not run", "unsupported": "none", "failed": "failed"}
_STANDINGS = {
    "right": "right", "forward-only": "forward right, no backward", "backward-failed": "forward right, backward not",
    "wrong": "WRONG, so no number", "failed": "failed", "refused": "refused", "unsupported": "not here",
    "unknown": "not determined",
}  # fmt: skip

Text = Callable[[Cell], str]


def to_json(found: Comparison) -> dict[str, Any]:
    """The published form."""
    work = found.workload
    return {
        "schema": SCHEMA,
        "workload": {**encode(work), "formula": FORMULA},
        "device": {"name": found.device, "gpu": found.device_name, "memory": found.device_memory},
        "torch": found.torch,
        "packages": dict(found.packages),
        "peak": {"dense_tflops": found.peak.tflops, "source": found.peak.source},
        "build_from_source": encode(found.build),
        "implementations": [_entry_json(entry) for entry in found.entries],
        "ranking": [encode(rank) for rank in found.ranks],
        "repeats": found.repeats,
        "seconds": round(found.seconds, 3),
        "disturbances": list(found.disturbances),
        "notes": list(found.notes),
        "exit_code": found.exit_code,
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    one, ready = entry.implementation, entry.ready
    subject = one.subject
    return {
        "name": one.name, "kind": one.kind, "asked": one.asked, "standing": entry.standing, "detail": entry.detail,
        "resolved": None if subject is None else {
            "reference": subject.reference, "repo": subject.repo, "revision": subject.revision,
            "commit": subject.commit, "variant": subject.variant, "build_id": subject.build_id,
            "source": subject.source,
        },
        "sdpa_backend": dict(entry.taken),
        "ready": None if ready is None else {**encode(ready), "seconds": ready.seconds},
        "results": [_cell_json(cell) for cell in entry.cells],
        "notes": list(entry.notes),
    }  # fmt: skip


def _cell_json(cell: Cell) -> dict[str, Any]:
    timing = cell.timing
    return {
        "length": cell.length, "direction": cell.direction, "outcome": cell.outcome, "detail": cell.detail,
        "ms": None if timing is None else {
            "median": timing.median, "q1": timing.q1, "q3": timing.q3, "least": timing.least, "most": timing.most,
            "count": timing.count, "rounds": list(timing.rounds), "cold_l2": timing.cold,
        },
        "peak_bytes": cell.peak_bytes, "total_bytes": cell.total_bytes,
        "first_call_seconds": cell.first_call_seconds, "tokens_per_second": cell.tokens_per_second,
        "tflops": cell.tflops, "share_of_peak": cell.share,
    }  # fmt: skip


def headline(found: Comparison) -> str:
    """The answer in a line: who is fastest at the longest length that any reached, and by how much."""
    rank = best_rank(found)
    if rank is None:
        return one_alone(found)
    first = rank.groups[0]
    what = {"step": "training step", "forward": "forward", "backward": "backward"}[rank.direction]
    others = [name for group in rank.groups[1:] for name in group]
    lead = ""
    base = next((name for name in ("sdpa", *others) if name in others), None)
    if base is not None:
        lead = f", {_median(found, base, rank) / _median(found, first[0], rank):.1f} times as fast as {base}"
    sure = (
        ""
        if rank.rounds < 2
        else f"; the same order in all {rank.rounds} rounds"
        if rank.stable
        else "; another order in some round"
    )
    verb = "are" if len(first) > 1 else "is"
    return f"{' and '.join(first)} {verb} fastest at {length_text(rank.length)} ({what}){lead}{sure}{_failures(found)}"


def _failures(found: Comparison) -> str:
    bad = [entry.implementation.name for entry in found.entries if entry.failed and entry.implementation.asked]
    return f"; {', '.join(bad)} failed" if bad else ""


def one_alone(found: Comparison) -> str:
    """The headline where there was nothing to compare."""
    measured = [entry.implementation.name for entry in found.entries if entry.is_measured]
    said = f"only {measured[0]} could be measured" if measured else "nothing could be measured"
    return f"{said}{_failures(found)}"


def best_rank(found: Comparison) -> Rank | None:
    """The order that a headline is about: of a step where there is one, at the longest length."""
    for direction in ("step", "forward"):
        of_it = [rank for rank in found.ranks if rank.direction == direction]
        if of_it:
            return max(of_it, key=lambda rank: rank.length)
    return None


def _median(found: Comparison, name: str, rank: Rank) -> float:
    cell = found.entry(name).cell(rank.length, rank.direction)
    assert cell is not None
    assert cell.timing is not None
    return cell.timing.median


def facts(found: Comparison) -> Iterator[tuple[str, str]]:
    """Label and text of what was measured, and where."""
    work = found.workload
    mask = "causal" if work.causal else "not causal"
    yield (
        "shapes",
        (
            f"batch {work.batch}, {work.heads}/{work.kv_heads} heads d{work.head_dim}, "
            f"{_SHORT.get(work.dtype, work.dtype)}, {mask}: {work.origin}"
        ),
    )
    packages = [f"{name} {found.packages[name]}" for name in ("triton", "kernels") if name in found.packages]
    place = f"{found.device_name} ({found.device})" if found.device_name.lower() != found.device else found.device
    yield "ran on", ", ".join((place, f"torch {found.torch or 'unknown'}", *packages))
    peak = f"{found.peak.tflops:g} TFLOP/s dense" if found.peak.tflops else "not known"
    yield "peak", f"{peak} ({found.peak.source})"
    yield "counted", FORMULA
    rounds = "round" if found.repeats == 1 else "rounds, every second one in reverse order"
    flushed = any(cell.timing is not None and cell.timing.cold for entry in found.entries for cell in entry.cells)
    yield (
        "timed",
        (
            f"median of {found.repeats} {rounds}, each in a new process, after warming up; "
            + ("L2 cache emptied before each forward and step" if flushed else _caches(found))
        ),
    )


def _caches(found: Comparison) -> str:
    return "on one thread, caches left as they are" if found.device == "cpu" else "caches left as they are"


def length_table(found: Comparison, direction: Direction, text: Text) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Head and rows: an implementation a row, a length a column; only those with a number or a reason."""
    head = ("", *(length_text(length) for length in found.workload.lengths))
    rows = []
    for entry in _in_order(found, direction):
        cells = [entry.cell(length, direction) for length in found.workload.lengths]
        if any(cell is not None and cell.outcome != "unsupported" for cell in cells):
            rows.append((entry.implementation.name, *("" if cell is None else text(cell) for cell in cells)))
    return head, rows


def _in_order(found: Comparison, direction: Direction) -> list[Entry]:
    """Fastest first at the longest length that each reached."""

    def key(entry: Entry) -> tuple[int, float]:
        reached = [c for c in entry.cells if c.direction == direction and c.timing is not None]
        last = reached[-1] if reached else None
        return (-last.length, last.timing.median) if last is not None and last.timing is not None else (0, 0.0)

    return sorted((entry for entry in found.entries if entry.cells), key=key)


def ms_text(cell: Cell) -> str:
    """The median, or why there is none."""
    return figure(cell.timing.median) if cell.timing is not None else _WORDS.get(cell.outcome, cell.outcome)


def spread_text(cell: Cell) -> str:
    """The median with its quartiles."""
    return _spread(cell.timing) if cell.timing is not None else ms_text(cell)


def _spread(timing: Timing) -> str:
    return f"{figure(timing.median)} ({figure(timing.q1)} to {figure(timing.q3)})"


def tflops_text(cell: Cell) -> str:
    """TFLOP/s with the share of the peak, where that is known."""
    if cell.tflops is None:
        return ms_text(cell)
    return figure(cell.tflops) + (f" ({cell.share:.0%})" if cell.share is not None else "")


def tokens_text(cell: Cell) -> str:
    """Tokens per second in thousands."""
    return figure(cell.tokens_per_second / 1e3) if cell.tokens_per_second is not None else ms_text(cell)


def memory_text(cell: Cell) -> str:
    """Peak memory above the inputs, in GiB."""
    if cell.peak_bytes is None:
        return "not told" if cell.timing is not None else ms_text(cell)
    return f"{cell.peak_bytes / 2**30:.2f}"


def figure(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value >= 100 or value <= 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def ready_rows(found: Comparison) -> Iterator[tuple[str, ...]]:
    """Name, seconds in all, and what they were spent on."""
    for entry in found.entries:
        ready = entry.ready
        if ready is None:
            continue
        fetch = "" if ready.fetch is None else f"{ready.fetch:.1f}"
        backward = "" if ready.first_backward is None else f"{ready.first_backward:.1f}"
        parts = (fetch, f"{ready.load:.1f}", f"{ready.first_forward:.1f}", backward)
        yield (entry.implementation.name, f"{ready.seconds:.1f}", *parts)


READY_HEAD = ("", "ready after, s", "fetch", "load", "first forward", "first backward")


def standing_rows(found: Comparison) -> Iterator[tuple[str, str, str]]:
    """Name, what the check said, and details."""
    for entry in found.entries:
        taken = {f"{name} took {backend}" for name, backend in entry.taken.items()} if entry.taken else set()
        backends = set(entry.taken.values())
        said = [f"takes {next(iter(backends))}"] if len(backends) == 1 and entry.implementation.name == "sdpa" else []
        said += sorted(taken) if len(backends) > 1 else []
        broken = dict.fromkeys(
            f"{length_text(c.length)}, {c.direction}: {c.detail}" for c in entry.cells if c.outcome == "failed"
        )
        details = "; ".join((*((entry.detail,) if entry.detail else ()), *said, *entry.notes, *broken))
        yield entry.implementation.name, _STANDINGS[entry.standing], details


def build_line(found: Comparison) -> str:
    """Ready times against building flash-attn."""
    return f"building flash-attn from source instead: {found.build.text} ({found.build.source})"


def render(found: Comparison, page: Page, verbose: bool = False) -> str:
    """The whole page: answer, shapes, who was right, tables."""
    page.line(headline(found), "bold")
    for label, text in facts(found):
        page.paragraph(f"  {label:<7} ", text)
    for text in found.disturbances:
        page.paragraph("  beware  ", text, "yellow")
    for text in found.notes:
        page.paragraph("  note    ", text)
    page.line()
    width = max((len(entry.implementation.name) for entry in found.entries), default=0)
    for name, standing, details in standing_rows(found):
        style = "bold red" if standing.startswith(("WRONG", "failed", "refused")) else ""
        page.paragraph(f"  {name:<{width}}  ", standing + (f": {details}" if details else ""), style)
    for title, head, rows in tables(found, verbose):
        page.line()
        page.line(title, "bold")
        _table(head, rows, page)
    page.paragraph("", build_line(found))
    return page.text()


def tables(found: Comparison, every: bool) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, head and rows of each table."""
    directions: Sequence[Direction] = ("step", "forward", "backward") if found.workload.backward else ("forward",)
    for direction in directions:
        if direction != "backward" or every:
            yield f"{TITLES[direction]}, ms", *length_table(found, direction, spread_text if every else ms_text)
    main = directions[0]
    share = ", share of the peak" if found.peak.tflops else ""
    yield f"TFLOP/s of the {main}{share}", *length_table(found, main, tflops_text)
    if every:
        yield f"Thousands of tokens a second, {main}", *length_table(found, main, tokens_text)
        if main == "step":
            yield f"TFLOP/s of the forward{share}", *length_table(found, "forward", tflops_text)
    if any(cell.peak_bytes is not None for entry in found.entries for cell in entry.cells):
        yield f"Peak memory of a {main} above its inputs, GiB", *length_table(found, main, memory_text)
        if every and main == "step":
            yield "Peak memory of a forward above its inputs, GiB", *length_table(found, "forward", memory_text)
    ready = list(ready_rows(found))
    if ready:
        yield "From the name to the first result, s (import of torch left out)", READY_HEAD, ready


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], page: Page) -> None:
    widths = [max(len(row[number]) for row in (head, *rows)) for number in range(len(head))]
    for row in (head, *rows):
        cells = [f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))]
        page.whole(f"  {'  '.join(cells)}".rstrip())
