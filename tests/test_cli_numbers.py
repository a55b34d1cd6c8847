"""Numbers that are none, and seeds that torch does not take, are refused in a line by every command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kerneldoctor.cli import cli


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("try", "a/b", "--timeout"), ("try", "a/b", "--total-timeout"), ("try", "a/b", "--memory"),
        ("compare", "a/b", "--timeout"), ("compare", "a/b", "--memory"), ("preflight", "--timeout"),
        ("pins", "--timeout"), ("prefetch", "a/b", "--timeout"), ("prefetch", "a/b", "--fetch-timeout"),
        ("variants", "a/b", "--timeout"),
    ],
)  # fmt: skip
def test_a_number_that_is_none_is_refused(arguments: tuple[str, ...], number: str) -> None:
    result = CliRunner().invoke(cli, [*arguments, number])
    assert result.exit_code == 2, result.output
    assert f"Invalid value for '{arguments[-1]}'" in result.output


@pytest.mark.parametrize("seed", ["9" * 23, "-1", str(2**63)])
def test_a_seed_that_torch_does_not_take_is_refused(seed: str) -> None:
    result = CliRunner().invoke(cli, ["try", "a/b", "--seed", seed])
    assert result.exit_code == 2, result.output
    assert "--seed" in result.output
