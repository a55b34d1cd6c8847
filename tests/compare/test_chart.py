"""The chart: where labels go, what is drawn, and that its SVG brings nothing along."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneldoctor.cli import cli
from kerneldoctor.report import chart, html
from kerneldoctor.report.compare_checks import of_comparison

from .samples import comparison

drawn = pytest.mark.skipif(not chart.is_available(), reason="matplotlib is not installed")


def test_labels_keep_apart_and_in_order() -> None:
    places = chart.spread([0.5, 0.51, 0.49, 0.99, 1.0], 0.1)
    assert places == pytest.approx([0.5, 0.6, 0.49 - 0.0, 0.9, 1.0], abs=0.11)
    ordered = sorted(places)
    assert all(b - a >= 0.1 - 1e-9 for a, b in itertools.pairwise(ordered))
    assert 0 <= ordered[0] <= ordered[-1] <= 1
    assert sorted(range(5), key=lambda n: places[n]) == [2, 0, 1, 3, 4]


def test_more_labels_than_there_is_room_for_share_it_evenly() -> None:
    places = chart.spread([0.5] * 21, 0.1)
    assert sorted(places) == pytest.approx([n / 20 for n in range(21)])
    assert chart.spread([], 0.1) == []
    assert chart.spread([0.3], 0.1) == [0.3]


def test_lines_end_where_memory_ran_out_and_say_so() -> None:
    step, forward, memory = chart.panels(comparison())
    eager = step.lines[0]
    assert (eager.name, eager.points, eager.full) == ("eager", ((1024, pytest.approx(11.0)),), 2048)
    assert [line.name for line in forward.lines] == ["eager", "sdpa", "flash-attn2@v2", "fa3-fwd"]
    # A line looks the same in every panel.
    assert {line.name: line.number for line in step.lines}.items() <= {
        line.name: line.number for line in forward.lines
    }.items()
    assert [y for _, y in memory.lines[1].points] == [3.0, 3.0, 3.0]


def test_without_matplotlib_the_command_says_how_to_get_it_before_it_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(chart, "is_available", lambda: False)
    found = CliRunner().invoke(cli, ["compare", "--chart", str(tmp_path / "a.png")], standalone_mode=False)
    assert 'pip install "kerneldoctor[chart]"' in str(found.exception)


@pytest.mark.parametrize("name", ["a.jpg", "nowhere/a.png", "a"])
def test_a_chart_that_cannot_be_written_is_refused_before_anything_is_measured(name: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["compare", "--chart", str(tmp_path / name)], standalone_mode=False)
    assert "--chart" in str(found.exception)


@drawn
def test_the_files_are_what_they_are_called() -> None:
    assert chart.png(comparison()).startswith(b"\x89PNG\r\n")
    text = chart.svg(comparison())
    assert text == chart.svg(comparison())
    for label in ("flash-attn2@v2", "runs out of memory", "Attention on NVIDIA H200", "1k", "4k"):
        assert label in text


@drawn
def test_the_drawing_in_a_page_brings_no_style_script_or_address() -> None:
    figure = chart.inline_svg(comparison())
    page = html.render(of_comparison(comparison(), "0", "2026-12-01", figure))
    assert "<svg" in page
    for bad in ("<metadata", "@import", "xlink", 'href="http', "src="):
        assert bad not in page
    assert page.count("<style") == 1
    assert "flash-attn2@v2" in page
