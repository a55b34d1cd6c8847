"""The page and words about Hub builds: every code has words, names and commands stay whole, colours are optional."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kerneldoctor.environment import Environment, Toolkit, absent
from kerneldoctor.hub.acceptance import Reason, ReasonCode
from kerneldoctor.hub.answer import Answer, Pin, best_version, find_pin
from kerneldoctor.hub.beyond import Verdict, VerdictCode
from kerneldoctor.hub.candidates import candidates
from kerneldoctor.hub.find_env import find_environments
from kerneldoctor.hub.listing import Build, Listing, Version
from kerneldoctor.hub.naming import meaning
from kerneldoctor.hub.reference import parse_reference
from kerneldoctor.report.layout import Page
from kerneldoctor.report.reasons import reason_text, verdict_text
from kerneldoctor.report.variants import headline, pin_lines
from kerneldoctor.report.variants_page import render
from tests.hub.machines import FLASH, STABLE, TABLES, live, machine, seen

V3 = Version("v3", "3" * 40, tuple(Build(STABLE.format(cuda)) for cuda in (126, 128, 130)), "observed", "2026-09", True)
V2 = Version(
    "v2",
    "",
    (
        Build("torch212-cxx11-cu130-x86_64-linux"),
        Build("torch213-cxx11-cu126-x86_64-linux", "8a730d9", "seen"),
        Build("torch213-cxx11-cpu-x86_64-linux"),
        Build("torch213-cxx11-cu130-aarch64-linux"),
    ),
    "derived",
    "2026-08-21",
    True,
)
V4 = Version("v4", "", (), "partial", "2026-10", False, "nothing of it was seen")
LISTING = Listing(FLASH, "index", "2026-10", (V4, V3, V2), ("the Hub was not asked: HF_HUB_OFFLINE is set",))


def answer(reference: str, environment: Environment, listing: Listing = LISTING, find_env: bool = False) -> Answer:
    parsed = parse_reference(reference)
    judged = candidates(listing, environment, TABLES)
    asked = parsed.revision or ""
    options = find_environments(listing, environment, TABLES, version=asked) if find_env else None
    meant = meaning(parsed, environment, TABLES)
    return Answer(meant, judged, environment, asked, False, find_pin(judged, TABLES, asked), options, listing.notes)


def test_the_page(golden: Callable[[str, str], None]) -> None:
    found = answer(f"{FLASH}@v2", machine("2.13.0+cu128", "12.0"), find_env=True)
    golden("variants.txt", render(found, Page(80)))


@pytest.mark.parametrize("width", [20, 60, 80, 400])
def test_what_is_copied_stays_in_one_piece_at_any_width(width: int) -> None:
    found = answer(f"{FLASH}@v3", machine())
    lines = render(found, Page(width)).splitlines()
    assert f'    attn_implementation="{FLASH}@{"3" * 40}"  # v3' in lines
    assert any(STABLE.format(130) in line for line in lines)


def test_colours_are_escape_sequences_and_nothing_else_changes() -> None:
    import re

    found = answer(f"{FLASH}@v3", machine())
    plain, colored = render(found, Page(80)), render(found, Page(80, color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_a_hostile_name_cannot_move_the_cursor() -> None:
    hostile = Version("v1", "", (Build("\x1b[2Jtorch"),), "live", "2026-12-01", True)
    assert "\x1b" not in render(answer(FLASH, machine(), Listing(FLASH, "live", "", (hostile,))), Page(80))


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_has_words(code: ReasonCode) -> None:
    assert reason_text(Reason(code, "WANTED", "FOUND"))


def test_without_torch_no_sentence_speaks_of_what_torch_is_built_for() -> None:
    bare = replace(machine("", absent("test")), toolkit=Toolkit(cudart=seen("/usr/lib/libcudart.so.13.0.1")))
    listing = live("torch-cpu", "torch-stable-abi210-cpu-x86_64-linux")
    page = " ".join(render(answer(f"{FLASH}@v3", bare, listing), Page(), show_all=True).split())
    assert "its builds are for cpu; no torch is installed, and without one kernels takes this machine for cuda" in page
    assert "here is cuda" not in page
    assert "torch is built for" not in page
    for code in (ReasonCode.BACKEND, ReasonCode.CUDA_MAJOR, ReasonCode.CUDA_NOT_EXACT, ReasonCode.CUDA_TOO_NEW):
        text = reason_text(Reason(code, "12.8", "13.0", without_torch=True))
        assert ("no torch is installed" in text) == (code is not ReasonCode.CUDA_NOT_EXACT)
        assert "torch is built" not in text
        assert "torch's" not in text


@pytest.mark.parametrize("asked", [FLASH, f"{FLASH}@v3"])
def test_a_cpu_build_of_torch_beside_a_gpu_is_said_in_the_answer(asked: str) -> None:
    listing = live("torch-stable-abi210-cpu-x86_64-linux")
    found = render(answer(asked, machine("2.13.0+cpu"), listing), Page())
    text = "on the CPU: torch 2.13.0+cpu is a CPU build and cannot use the GPU 9.0 [KD4007]"
    assert text in " ".join(found.partition("  here ")[0].split())
    assert "cannot use" not in render(answer(asked, machine("2.13.0+cpu", absent("test")), listing), Page())


@pytest.mark.parametrize("code", list(VerdictCode))
@pytest.mark.parametrize("certainty", ["confirmed", "possible"])
def test_every_verdict_has_words(code: VerdictCode, certainty: str) -> None:
    assert verdict_text(Verdict(code, certainty, "WANTED", "FOUND", "GPU"))  # type: ignore[arg-type]


class TestPins:
    def test_a_whole_commit_is_pinned_and_the_branch_is_a_comment(self) -> None:
        attention, call = pin_lines(Pin("v3", "3" * 40, "x", True), FLASH)
        assert attention == f'attn_implementation="{FLASH}@{"3" * 40}"  # v3'
        assert call == f'get_kernel("{FLASH}", revision="{"3" * 40}")  # v3'

    def test_without_a_commit_the_branch_is_what_can_be_typed(self) -> None:
        assert pin_lines(Pin("v3", "v3", "x", None), FLASH) == (
            f'attn_implementation="{FLASH}@v3"',
            f'get_kernel("{FLASH}", version=3)',
        )

    def test_a_kernel_that_is_no_attention_is_not_offered_as_one(self) -> None:
        assert pin_lines(Pin("v1", "v1", "x", False), "o/relu") == ('get_kernel("o/relu", version=1)',)

    def test_the_version_asked_for_comes_before_a_newer_one(self) -> None:
        judged = candidates(LISTING, machine("2.13.0+cu126", "9.0"), TABLES)
        newest, asked = best_version(judged), best_version(judged, "v2")
        assert (newest and newest.version.name, asked and asked.version.name) == ("v3", "v2")

    def test_nothing_is_pinned_where_nothing_is_known_to_work(self) -> None:
        assert find_pin(candidates(LISTING, machine("2.9.1+cu128"), TABLES), TABLES) is None


@pytest.mark.parametrize(
    ("reference", "torch", "text"),
    [
        (f"{FLASH}@v3", "2.13.0+cu130", "@v3 would load torch-stable-abi210-cu130-x86_64-linux (untested)"),
        (f"{FLASH}@v3", "2.9.1+cu130", "has no build for this machine: needs torch 2.10 or newer; here is 2.9"),
        (f"{FLASH}@v2", "2.11.0+cu130", "its builds are for torch 2.12 and 2.13; here is 2.11"),
        (f"{FLASH}@v4", "2.13.0+cu130", "cannot be judged: not all of its builds are known (seen 2026-10)"),
        (f"{FLASH}@v7", "2.13.0+cu130", "the index does not list this revision"),
        (FLASH, "2.13.0+cu130", f"{FLASH}: v3 would load here (untested)"),
        (FLASH, "2.13.0+cu126", f"{FLASH}: v3 and v2 would load here (untested)"),
        (FLASH, "2.9.1+cu130", "no version is known to be usable here"),
    ],
)
def test_the_headline_answers_the_question(reference: str, torch: str, text: str) -> None:
    assert text in headline(answer(reference, machine(torch)))
