from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.build_label import BuildLabel, parse_build_label


@pytest.mark.parametrize(
    ("version", "label"),
    [
        ("2.8.3+cu12torch2.8cxx11abiTRUE", BuildLabel("2.8", "12", True)),
        ("2.8.3+cu12torch2.8cxx11abitrue", BuildLabel("2.8", "12", True)),  # as installers normalise it
        ("2.6.3+cu123torch2.1cxx11abiFALSE", BuildLabel("2.1", "12.3", False)),
        ("2.8.3+cu130torch2.9", BuildLabel("2.9", "13.0")),
        ("2.8.3+cu130torch2.10", BuildLabel("2.10", "13.0")),
        ("2.7.4.post1+cu124torch2.5.1cxx11abiFALSE", BuildLabel("2.5", "12.4", False)),
        ("2.7.4.post1+pt270cu126", BuildLabel("2.7", "12.6")),
        ("3.0.0+pt2100cu128", BuildLabel("2.10", "12.8")),
        ("3.0.0+pt29cu128", BuildLabel("2.9", "12.8")),
        ("3.0.0+pt210cu128", BuildLabel(None, "12.8")),  # 2.1.0 or 2.10
        ("3.0.0+pt213cu130", BuildLabel(None, "13.0")),
        ("2.8.3+rocm6.3torch2.7cxx11abiTRUE", BuildLabel("2.7", None, True)),
        ("2.8.3", BuildLabel()),
        ("2.8.3+maxlogits.4aa5fbf", BuildLabel()),
        ("2.8.3+", BuildLabel()),
        ("", BuildLabel()),
        ("torch2.8cu12", BuildLabel()),  # no local label
    ],
)
def test_labels_that_were_seen(version: str, label: BuildLabel) -> None:
    assert parse_build_label(version) == label


@given(
    torch=st.tuples(st.integers(1, 9), st.integers(0, 30)),
    cuda=st.one_of(st.integers(10, 19).map(str), st.tuples(st.integers(10, 19), st.integers(0, 9))),
    abi=st.sampled_from([None, True, False]),
    upper=st.booleans(),
)
def test_a_label_that_is_written_is_read_back(
    torch: tuple[int, int], cuda: str | tuple[int, int], abi: bool | None, upper: bool
) -> None:
    digits, wanted = (cuda, cuda) if isinstance(cuda, str) else (f"{cuda[0]}{cuda[1]}", f"{cuda[0]}.{cuda[1]}")
    label = f"cu{digits}torch{torch[0]}.{torch[1]}" + ("" if abi is None else f"cxx11abi{abi}")
    version = "2.8.3+" + (label.upper() if upper else label)
    assert parse_build_label(version) == BuildLabel(f"{torch[0]}.{torch[1]}", wanted, abi)


@given(st.text())
def test_any_text_is_read_without_a_fault(text: str) -> None:
    found = parse_build_label(text)
    assert found == BuildLabel() or "+" in text
