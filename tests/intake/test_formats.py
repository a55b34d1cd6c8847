"""Every format that people paste is read back as it was printed, whatever surrounds it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from kerneldoctor.intake import read

from .printers import GPUS, PRINTERS, WRAPS, Machine, differences, machines, reader

MACHINE = Machine(
    torch="2.9.1", cuda="12.8", gpu=GPUS[0], gpus=2, driver="570.133.20", driver_cuda="12.9", python="3.12.11",
    flash_attn="2.8.3", kernels="0.16.0", transformers="5.16.1", hub="1.20.0",
)  # fmt: skip


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("form", PRINTERS)
def test_what_surrounds_a_paste_does_not_change_what_is_read(form: str, wrap: str) -> None:
    text, facts = PRINTERS[form](MACHINE)
    pasted = read(WRAPS[wrap](text))
    assert differences(reader(pasted.environment), facts.items()) == []
    assert pasted.contradictions == ()
    assert pasted.machines == 1


@pytest.mark.parametrize("form", PRINTERS)
@given(machine=machines())
@settings(max_examples=25, deadline=None)
def test_any_machine_is_read_as_it_was_printed(form: str, machine: Machine) -> None:
    text, facts = PRINTERS[form](machine)
    assert differences(reader(read(text).environment), facts.items()) == []
