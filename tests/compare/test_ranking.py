"""Samples to timings, timings to an order."""

from __future__ import annotations

import pytest

from kerneldoctor.compare.ranking import pool, rank

from .samples import comparison, entry, every, report


def test_rounds_count_alike_however_many_calls_fitted_into_them() -> None:
    found = pool([[1.0] * 100, [3.0, 3.0, 3.0, 3.0]], cold=True)
    assert found is not None
    assert (found.median, found.least, found.most, found.count) == (2.0, 1.0, 3.0, 8)
    assert found.rounds == (1.0, 3.0)


@pytest.mark.parametrize("rounds", [[], [[]], [[], []]])
def test_without_samples_there_is_no_timing(rounds: list[list[float]]) -> None:
    assert pool(rounds, cold=False) is None


def test_one_sample_is_a_timing_without_a_spread() -> None:
    found = pool([[2.5]], cold=False)
    assert found is not None
    assert (found.q1, found.median, found.q3, found.count) == (2.5, 2.5, 2.5, 1)


def test_the_fastest_comes_first_and_who_was_not_measured_is_not_ranked() -> None:
    found = comparison()
    forward = next(one for one in found.ranks if (one.direction, one.length) == ("forward", 1024))
    assert forward.groups == (("fa3-fwd",), ("kernels-community/flash-attn2@v2",), ("sdpa",), ("eager",))
    assert forward.stable
    step = next(one for one in found.ranks if (one.direction, one.length) == ("step", 4096))
    assert [name for group in step.groups for name in group] == ["kernels-community/flash-attn2@v2", "sdpa"]


def test_what_is_nearer_than_two_per_cent_shares_a_place() -> None:
    found = rank([entry("a", every(1.0)), entry("b", every(1.015)), entry("c", every(1.2))], 1024, "forward")
    assert found is not None
    assert found.groups == (("a", "b"), ("c",))


def test_places_do_not_chain() -> None:
    """Each of a long row is near its neighbour; the last is not near the first."""
    found = rank([entry(str(n), every(1.0 + 0.015 * n)) for n in range(4)], 1024, "forward")
    assert found is not None
    assert found.groups == (("0", "1"), ("2", "3"))


def test_an_order_that_one_round_turns_is_not_stable() -> None:
    rounds = [{1024: report(1024, 1.0, None)}, {1024: report(1024, 1.0, None)}, {1024: report(1024, 2.2, None)}]
    other = [{1024: report(1024, 2.0, None)}] * 3
    found = rank([entry("a", rounds), entry("b", other)], 1024, "forward")
    assert found is not None
    assert found.rounds == 3
    assert (found.groups == (("a",), ("b",))) != found.stable


def test_one_alone_has_no_rank() -> None:
    assert rank([entry("a", every(1.0))], 1024, "forward") is None
