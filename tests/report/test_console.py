"""What a person reads: golden pages, and the promises about every page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.engine.model import Severity, UsedFact
from kerneldoctor.environment import Environment, Fact, Gpu, LibraryOverride, known, unknown
from kerneldoctor.report.console import Style, render
from kerneldoctor.report.model import Ignore
from tests.report.samples import BARE, BROKEN, HANGING, HEALTHY, gpu, make_report

OVERRIDE = LibraryOverride("LD_PRELOAD", "/opt/libcudnn.so.9", "cudnn")


@pytest.mark.parametrize(
    ("name", "environment"), [("healthy", HEALTHY), ("bare", BARE), ("broken", BROKEN), ("hanging", HANGING)]
)
def test_page(name: str, environment: Environment, golden: Callable[[str, str], None]) -> None:
    golden(f"{name}.txt", render(make_report(environment), Style(width=80)))


def test_page_with_ignores_and_everything_shown(golden: Callable[[str, str], None]) -> None:
    ignores = (
        Ignore("TST1001", "we stay on this set", "2027-01-31"),
        Ignore("TST2001", "card goes back", "2026-11-30"),
        Ignore("TST3001", "old ticket"),
    )
    page, facts, list_of_facts = render(make_report(BROKEN, ignores), Style(width=100, verbose=True)).partition(
        "\nEvery fact\n"
    )
    assert facts, "--verbose lists every fact"
    golden("verbose.txt", page)
    assert "  gpus[2].name = NVIDIA GeForce RTX 5090 [NVML]\n" in list_of_facts
    assert "  torch.archs = unknown (no permission to read libtorch_cuda.so)\n" in list_of_facts
    assert "  packages.kernels = 0.17.2 [METADATA]\n" in list_of_facts
    assert "  flash_attn.version = none [site-packages]\n" in list_of_facts


def test_quiet_page(golden: Callable[[str, str], None]) -> None:
    golden("quiet.txt", render(make_report(BROKEN), Style(width=80, quiet=True)))


def test_a_healthy_machine_needs_no_scrolling() -> None:
    assert len(render(make_report(HEALTHY), Style(width=100)).splitlines()) <= 16


@pytest.mark.parametrize("width", [10, 40, 45, 60, 80, 120, 200, 400])
@pytest.mark.parametrize("environment", [HEALTHY, BROKEN, HANGING])
def test_lines_fit_and_nothing_trails(width: int, environment: Environment) -> None:
    for line in render(make_report(environment), Style(width=width)).splitlines():
        assert line == line.rstrip()
        copied = re.search(r"pip install|https?://|kerneldoctor scan", line)
        one_word = " " not in line[12:].strip()  # beside its label; a path stays whole
        assert len(line) <= min(max(width, 40), 200) or copied or one_word, line


def test_commands_stay_in_one_piece_on_a_narrow_terminal() -> None:
    page = render(make_report(BROKEN), Style(width=60))
    assert "/home/alice/venv/bin/python -m pip install 'kernels>=0.18.2,<0.19'\n" in page


def test_equal_gpus_are_one_line_and_the_visible_ones_are_counted() -> None:
    eight = replace(HEALTHY, gpus=known(tuple(gpu(i, "NVIDIA H100 80GB HBM3", "9.0", 80) for i in range(8)), "NVML"))
    assert "8 x NVIDIA H100 80GB HBM3 (9.0, 80 GiB)\n" in render(make_report(eight), Style())
    assert "2 of 3 visible (CUDA_VISIBLE_DEVICES=0,2)" in " ".join(render(make_report(BROKEN), Style()).split())


UNSEEN: Fact[tuple[Gpu, ...]] = unknown("no answer within 8 s")


@pytest.mark.parametrize("environment", [Environment(), replace(HEALTHY, gpus=UNSEEN)])
def test_what_was_not_looked_at_is_never_fine(environment: Environment) -> None:
    page = render(make_report(environment), Style())
    assert page.startswith("Could not determine which GPUs there are")
    assert "Nothing wrong" not in page


def test_color_only_when_asked_for() -> None:
    report = make_report(BROKEN)
    plain, colored = render(report, Style()), render(report, Style(color=True))
    assert "\x1b" not in plain
    assert "\x1b[1;31m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_rules_that_were_not_asked_are_told_apart_from_fine_ones() -> None:
    page = render(replace(make_report(HEALTHY), out_of_scope=("KD2101", "KD2102")), Style(width=120))
    assert "; 2 rules about a kernel or workload that was not named\n" in page


def test_markup_in_facts_is_text() -> None:
    odd = replace(
        HEALTHY, system=replace(HEALTHY.system, distribution=known("[red]Odd :smile: OS[/red]", "os-release"))
    )
    assert "[red]Odd :smile: OS[/red]" in render(make_report(odd), Style())


def test_control_characters_in_facts_do_not_reach_the_terminal() -> None:
    evil = replace(
        HEALTHY, system=replace(HEALTHY.system, distribution=known("Evil\x1b]0;title\x07\x1b[2J", "os-release"))
    )
    page = render(make_report(evil), Style())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", page)


def test_a_rule_past_its_review_says_so() -> None:
    environment = replace(
        BROKEN, packages=replace(BROKEN.packages, items={"kernels": BROKEN.packages.items["kernels"]})
    )
    assert "this rule was not reviewed since 2026-11-30" in render(make_report(environment), Style())


def test_a_note_stays_short() -> None:
    base = make_report(BROKEN)
    notes = tuple(replace(finding, severity="info", explained_by="") for finding in base.findings[:1])
    page = render(replace(base, findings=notes), Style(width=120))
    assert "  do this   Install kernels in the range that it accepts\n" in page
    assert "  or  " not in page
    assert "  seen " not in page
    assert "  or  " in render(replace(base, findings=notes), Style(width=120, verbose=True))


def test_a_fact_of_a_list_item_is_unknown_for_the_reason_of_its_list() -> None:
    reasons = {
        "gpu.mig": "no answer within 8 s",
        "extension.cxx11_abi": "not looked at",
        "kernels.trust": "0.99 is newer than any known here",
    }
    undetermined = {f"KD{number}": (fact,) for number, fact in enumerate(reasons)}
    report = replace(make_report(HANGING), undetermined=undetermined, reasons=reasons)
    page = " ".join(render(report, Style(width=120)).split())
    assert "1 check needs gpu.mig (no answer within 8 s); run where the NVIDIA driver answers" in page
    assert "1 check needs extension.cxx11_abi (not looked at); run `kerneldoctor scan` on that machine" in page
    assert "1 check needs kernels.trust (0.99 is newer than any known here); a newer kerneldoctor may know it" in page


def test_facts_that_are_unknown_for_different_reasons_are_not_named_under_one() -> None:
    undetermined = {"KD1": ("gpu.mig", "torch.archs")}
    reasons = {"gpu.mig": "no answer", "torch.archs": "no permission"}
    page = render(replace(make_report(HEALTHY), undetermined=undetermined, reasons=reasons), Style(width=120))
    assert "1 check needs gpu.mig (no answer)" in page


def test_a_list_of_things_is_counted_not_spelt_out() -> None:
    base = make_report(BROKEN)
    used = (UsedFact("gpus", BROKEN.gpus.value, "NVML"), UsedFact("system.library_overrides", (OVERRIDE,), "variables"))
    page = render(replace(base, findings=(replace(base.findings[0], facts=used),)), Style(width=160))
    assert "  seen      gpus = 3 GPUs; system.library_overrides = LD_PRELOAD /opt/libcudnn.so.9 cudnn\n" in page


@pytest.mark.parametrize("severity", ["error", "warning"])
def test_the_headline_does_not_pass_over_what_may_be_wrong(severity: Severity) -> None:
    base = make_report(BROKEN)
    possible = replace(base.findings[0], certainty="possible", severity=severity)
    summary = replace(base.summary, error=0, warning=0, info=0, not_determined=1, fine=50)
    page = render(replace(base, findings=(possible,), summary=summary), Style(width=160, color=True))
    assert "Nothing certainly wrong, but 1 fault may be there: 50 checks fine, 1 not determined" in page
    assert "\x1b[1;32m" not in page  # not in green


def test_the_headline_says_when_little_could_be_checked() -> None:
    summary = replace(make_report(HEALTHY).summary, fine=5, not_determined=70)
    page = render(replace(make_report(HEALTHY), summary=summary), Style(width=160))
    assert page.startswith("Nothing wrong found in the little that could be checked: 5 checks fine, 70 not determined")
