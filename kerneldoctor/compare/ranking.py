"""From samples to one timing, and from timings to an order that holds in every round. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence

from .model import Entry, Rank, Timing
from .workload import Direction

#: Medians this near are one place: less than this is not seen again the next day.
_SAME = 0.02


def pool(rounds: Sequence[Sequence[float]], cold: bool) -> Timing | None:
    """All samples of all rounds as one timing; None without any."""
    filled = [list(samples) for samples in rounds if samples]
    if not filled:
        return None
    medians = tuple(statistics.median(samples) for samples in filled)
    # Each round counts alike, however many calls fitted into it.
    fewest = min(map(len, filled))
    every = sorted(sample for samples in filled for sample in samples[:fewest])
    q1, _, q3 = statistics.quantiles(every, n=4, method="inclusive") if len(every) > 1 else (every[0],) * 3
    return Timing(statistics.median(every), q1, q3, every[0], every[-1], len(every), medians, cold)


def rank(entries: Iterable[Entry], length: int, direction: Direction) -> Rank | None:
    """The order at one length; None where fewer than two were measured."""
    timings: dict[str, Timing] = {}
    for entry in entries:
        cell = entry.cell(length, direction)
        if cell is not None and cell.timing is not None:
            timings[entry.implementation.name] = cell.timing
    if len(timings) < 2:
        return None
    groups = _grouped(timings)
    rounds = min(len(timing.rounds) for timing in timings.values())
    return Rank(length, direction, groups, rounds, _is_stable(groups, timings, rounds))


def _grouped(timings: Mapping[str, Timing]) -> tuple[tuple[str, ...], ...]:
    """Fastest first; who is as near to the first of a group as its spread is belongs to it."""
    order = sorted(timings, key=lambda name: timings[name].median)
    groups: list[list[str]] = []
    for name in order:
        if groups and _same(timings[groups[-1][0]], timings[name]):
            groups[-1].append(name)
        else:
            groups.append([name])
    return tuple(tuple(group) for group in groups)


def _same(faster: Timing, slower: Timing) -> bool:
    return slower.median <= faster.median * (1 + _SAME) or slower.q1 <= faster.q3


def _is_stable(groups: Sequence[Sequence[str]], timings: Mapping[str, Timing], rounds: int) -> bool:
    """Whether in each round every member of a group was faster than every member of the next one."""

    def holds(number: int) -> bool:
        spans = [[timings[name].rounds[number] for name in group] for group in groups]
        return all(max(faster) < min(slower) for faster, slower in itertools.pairwise(spans))

    return all(holds(number) for number in range(rounds))
