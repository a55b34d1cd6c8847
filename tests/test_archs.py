"""GPU code against GPUs: what runs, what does not, and what cannot be told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.archs import Arch, normalise_arch, normalise_archs, parse_arch, supports_gpu


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("8.0", "8.0"),
        ("9.0a", "9.0a"),
        ("10.0f", "10.0f"),
        ("12.0+PTX", "12.0+PTX"),
        ("12.0+ptx", "12.0+PTX"),
        ("sm_90", "9.0"),
        ("sm_90a", "9.0a"),
        ("SM_120", "12.0"),
        ("sm90", "9.0"),
        ("sm_121a", "12.1a"),
        ("compute_90", "9.0+PTX"),
        ("compute_100f", "10.0f+PTX"),
        ("90", "9.0"),
        ("90a", "9.0a"),
        ("120", "12.0"),
        ("90-real", "9.0"),
        ("90-virtual", "9.0+PTX"),
        (" 8.6 ", "8.6"),
        ("gfx942", "gfx942"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
        ("gfx11-generic", "gfx11-generic"),
    ],
)
def test_every_spelling_has_one_normal_form(written: str, normal: str) -> None:
    assert normalise_arch(written) == normal
    assert normalise_arch(normal) == normal


@pytest.mark.parametrize("text", ["", "9", "sm_", "9.0b", "lto_90", "native", "all-major", "8.0;9.0", "\u0669.\u0660"])
def test_what_is_no_architecture_is_none(text: str) -> None:
    assert normalise_arch(text) is None


def test_a_list_is_sorted_and_folded() -> None:
    found = normalise_archs(["sm_100", "sm_90", "compute_120", "sm_120", "sm_80", "sm_80", "nonsense", "sm_90a"])
    assert found == ("8.0", "9.0", "9.0a", "10.0", "12.0+PTX")


@pytest.mark.parametrize(
    ("archs", "gpu", "runs"),
    [
        (["8.0"], "8.0", True),
        (["8.0"], "8.6", True),  # same major, newer minor
        (["8.6"], "8.0", False),
        (["8.0", "9.0"], "12.0", False),  # RTX 50 with machine code only
        (["8.0", "9.0+PTX"], "12.0", True),  # compiled by the driver
        (["9.0+PTX"], "8.9", False),
        (["9.0a"], "9.0", True),
        (["9.0a"], "10.0", False),
        (["9.0a+PTX"], "10.0", False),  # the intermediate form of 9.0a is bound to it as well
        (["10.0a"], "10.3", False),
        (["10.0f"], "10.3", True),
        (["10.0f"], "10.1", False),  # Thor is no member of that family
        (["10.0f+PTX"], "12.0", False),
        (["12.0f"], "12.1", True),
        (["10.0"], "12.0", False),
        (["10.1"], "11.0", None),  # Thor, before and after its renaming
        (["10.1", "10.0+PTX"], "11.0", True),
        (["sm_90"], "9.0", True),
        ([], "9.0", None),
        (["future_arch"], "9.0", None),
        (["future_arch", "9.0"], "9.0", True),
        (["future_arch", "8.0"], "9.0", None),
        (["9.0"], "RTX", None),
        (["gfx942", "gfx90a"], "gfx90a:sramecc+:xnack-", True),
        (["gfx942"], "gfx1100", False),
        (["gfx942"], "9.0", False),
        (["9.0"], "gfx942", False),
    ],
)
def test_what_runs_where(archs: list[str], gpu: str, runs: bool | None) -> None:
    assert supports_gpu(archs, gpu) is runs


def test_a_capability_may_be_two_numbers() -> None:
    assert supports_gpu(["8.0"], (8, 9)) is True


@given(st.integers(2, 15), st.integers(0, 9), st.sampled_from(["", "a", "f"]), st.booleans())
def test_printing_is_the_inverse_of_reading(major: int, minor: int, suffix: str, ptx: bool) -> None:
    arch = Arch(major, minor, suffix, ptx)
    assert parse_arch(str(arch)) == arch
    assert supports_gpu([str(arch)], (major, minor)) is True


@given(st.lists(st.text(max_size=8), max_size=5), st.text(max_size=8))
def test_any_text_gets_an_answer(archs: list[str], gpu: str) -> None:
    assert supports_gpu(archs, gpu) in (True, False, None)
