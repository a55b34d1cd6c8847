"""Builds without an architecture list: what their CUDA release and date tell, and what they do not."""

from datetime import date
from itertools import pairwise

import pytest

from kerneldoctor.archs import normalise_archs
from kerneldoctor.hub.default_archs import ROWS, default_archs, derived_supports_gpu


@pytest.mark.parametrize(
    ("cuda", "gpu", "built", "runs"),
    [
        ((12, 6), "9.0", None, True),
        ((12, 6), "12.0", None, True),  # an RTX 50 takes the PTX of 9.0, compiled by its driver
        ((12, 8), "12.0", None, True),
        ((12, 8), "6.1", None, False),
        ((13, 0), "7.0", None, False),  # CUDA 13 dropped Volta, whatever the day
        ((13, 0), "12.1", None, True),
        ((13, 0), "11.0", date(2026, 1, 1), True),
        ((12, 9), "10.3", date(2026, 1, 1), True),
        ((12, 9), "10.3", date(2026, 9, 1), None),  # that list was not seen
        ((12, 6), "9.0", date(2025, 1, 1), None),  # nor those before August 2025
        ((10, 2), "7.0", None, None),
    ],
)
def test_what_a_build_without_a_list_runs_on(
    cuda: tuple[int, int], gpu: str, built: date | None, runs: bool | None
) -> None:
    assert derived_supports_gpu(cuda, gpu, built) is runs


def test_a_day_picks_one_list_and_eras_join_without_a_gap() -> None:
    assert all(len(default_archs((13, 0), built)) == 1 for built in (date(2025, 12, 1), date(2026, 6, 1)))
    thirteen = [row for row in ROWS if row.cuda == (13, 0)]
    assert all(before.until == after.since for before, after in pairwise(thirteen))


def test_every_list_is_written_in_our_form_and_names_its_source() -> None:
    for row in ROWS:
        assert normalise_archs(row.archs) == row.archs
        assert row.source.startswith("https://github.com/huggingface/")
