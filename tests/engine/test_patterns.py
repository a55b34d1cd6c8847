"""Patterns: the letters they must contain, gaps, and time that is linear in the text."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.patterns import complaint, parse, squeeze


@pytest.mark.parametrize(
    ("match", "letters"),
    [
        ("too old for torch", {"toooldfortorch"}),
        (r"found version \d+\)", {"foundversion"}),
        (r"(cicc|ptxas) died", {"cicc", "ptxas"}),
        (r"No devices were found|RmInitAdapter failed!", {"nodeviceswerefound", "rminitadapterfailed!"}),
        (r"supports? fp16", {"support"}),
        (r"libcudart\.so\.\d+", {"libcudart.so."}),
        (r"(?i)GPT-oss", {"gpt-oss"}),
        (r"(?:optional words)? needed", {"needed"}),
        (r"(?!never)always", {"always"}),
        (r"\d+\.\d+", set()),
    ],
)
def test_a_match_is_known_to_contain_letters(match: str, letters: set[str]) -> None:
    assert parse(match).pieces[0].letters == letters


@given(st.sampled_from([s.match for r in shipped_rules() for s in r.symptoms]), st.data())
def test_what_the_pattern_matches_passes_the_letters(match: str, data: st.DataObject) -> None:
    """Otherwise a symptom would be ruled out before it is looked for."""
    pattern = parse(match)
    text = "\n".join(data.draw(st.from_regex(re.compile(piece.source, re.MULTILINE))) for piece in pattern.pieces)
    assert pattern.may_match(squeeze(text))


def test_pieces_are_joined_within_their_gap_only() -> None:
    pattern = parse(r"import flash_attn[\s\S]{0,40}ImportError")
    assert pattern.find("import flash_attn\n  raise\nImportError") == (0, 37)
    assert pattern.find("import flash_attn\n" + "x" * 60 + "\nImportError") is None
    assert pattern.find("ImportError\nimport flash_attn") is None


def test_a_later_beginning_is_taken_where_the_first_is_too_far_off() -> None:
    text = "import flash_attn" + "." * 100 + "import flash_attn ImportError"
    assert parse(r"import flash_attn[\s\S]{0,40}ImportError").find(text) == (117, 146)


@pytest.mark.parametrize(
    ("match", "words"),
    [
        (r"failed:[^\n]*flash_attn", "has no bound"),
        (r"failed \S+ here", "has no bound"),
        (r"\d+\.\d+", "letters in a row"),
        (r"(one[\s\S]{0,10}two|three)", "a gap stands inside a group"),
        (r"nvcc[^\n]{0,300}\n?[^\n]{0,300}Killed", "steps"),
    ],
)
def test_a_pattern_that_could_be_slow_is_complained_about(match: str, words: str) -> None:
    assert words in complaint(match)


def test_two_words_that_fill_a_text_cost_no_square_of_it() -> None:
    """The regular expression with its gap in one takes minutes here."""
    pattern = parse(r"flash_attn[\s\S]{0,4000}ninja: build stopped")
    text = "flash_attn " * 50_000
    start = time.process_time()
    assert pattern.find(text) is None
    assert time.process_time() - start < 1
