"""The page, the table and the checks of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from kerneldoctor.report import html, markdown
from kerneldoctor.report.compare import figure, headline, render, to_json
from kerneldoctor.report.compare_checks import of_comparison
from kerneldoctor.report.layout import Page

from .samples import comparison
from .test_compare import SCHEMA


def page(width: int = 80, verbose: bool = False) -> list[str]:
    return render(comparison(), Page(width), verbose).splitlines()


def test_the_first_line_is_the_answer() -> None:
    assert headline(comparison()) == (
        "kernels-community/flash-attn2@v2 is fastest at 4k (training step), 1.2 times as fast as sdpa; "
        "the same order in all 2 rounds; bad failed"
    )


def test_out_of_memory_and_what_was_not_run_stand_in_the_table() -> None:
    lines = page()
    start = next(n for n, line in enumerate(lines) if line.startswith("Training step"))
    table = {line.split()[0]: line.split()[1:] for line in lines[start + 2 : start + 5]}
    assert table["kernels-community/flash-attn2@v2"] == ["1.40", "5.61", "22.5"]
    assert table["eager"] == ["11.0", "OOM", "not", "run"]
    assert "fa3-fwd" not in table  # it has no backward: a row of blanks would say nothing


def test_the_share_of_the_peak_stands_beside_tflops() -> None:
    work = comparison().workload
    expected = work.operations(4096, "step") / 22.455e-3 / 1e12
    assert any(f"{expected:,.0f} ({expected / 989:.0%})" in line for line in page())


def test_a_wrong_kernel_is_named_with_its_reason_and_is_in_no_table() -> None:
    lines = page()
    assert sum("bad" in line.split() for line in lines[2:]) == 1
    assert "WRONG, so no number: it is wrong: out is off by 0.05" in " ".join(" ".join(lines).split())


def test_disturbances_and_the_cost_of_building_are_said() -> None:
    text = " ".join(" ".join(page()).split())
    assert "beware the clocks were held down by the power limit in 40 % of the time" in text
    assert "building flash-attn from source instead: minutes to hours" in text


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_table_has_straight_columns(width: int) -> None:
    lines = page(width, verbose=True)
    start = next(n for n, line in enumerate(lines) if line.startswith("Forward alone"))
    ends = {line.rstrip()[-1] for line in lines[start + 2 : start + 4]}
    assert {len(line) for line in lines[start + 2 : start + 4]} == {len(lines[start + 2])}, ends


def test_json_is_what_its_schema_says_and_holds_the_code() -> None:
    found = json.loads(json.dumps(to_json(comparison())))
    jsonschema.validate(found, json.loads(SCHEMA.read_text("utf-8")))
    assert found["exit_code"] == 1
    assert found["implementations"][0]["results"][4]["outcome"] == "oom"


def test_nothing_measured_is_code_3_and_so_is_what_could_not_be_had() -> None:
    found = comparison()
    sdpa, bad = found.entry("sdpa"), found.entry("bad")
    assert replace(found, entries=(sdpa,)).exit_code == 0
    assert replace(found, entries=(sdpa, replace(bad, standing="unknown"))).exit_code == 3
    assert (
        replace(found, entries=(replace(bad, implementation=replace(bad.implementation, asked=False)),)).exit_code == 3
    )
    bystander = replace(bad, implementation=replace(bad.implementation, asked=False))
    assert replace(found, entries=(sdpa, bystander)).exit_code == 0
    greedy = found.entry("eager")
    assert replace(found, entries=(sdpa, greedy)).exit_code == 0  # out of memory is a result


def test_the_checks_are_one_an_implementation() -> None:
    checks = of_comparison(comparison(), "0", "2026-12-01")
    assert {check.title: check.status for check in checks.checks} == {
        "eager": "passed", "sdpa": "passed", "kernels-community/flash-attn2@v2": "passed", "fa3-fwd": "passed",
        "bad": "failed",
    }  # fmt: skip
    text = markdown.render(checks)
    assert "| eager | 11.0 (11.0 to 11.0) | OOM | not run |" in text
    assert "out is off by 0.05" in html.render(checks)


@pytest.mark.parametrize(
    ("value", "text"), [(1234.6, "1,235"), (100.4, "100"), (99.96, "100.0"), (12.34, "12.3"), (1.234, "1.23"),
                        (0.01234, "0.012"), (0.0, "0")],
)  # fmt: skip
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text
