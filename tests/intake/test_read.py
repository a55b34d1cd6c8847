"""The interface of intake: what `read` promises for any text."""

from __future__ import annotations

from kerneldoctor.environment import Environment
from kerneldoctor.intake import read

PIP_LIST = """\
Package           Version
----------------- ------------
certifi           2026.1.4
flash_attn        2.8.3
packaging         26.0
pip               26.0
torch             2.9.1+cu128
transformers      5.16.1
"""


def test_a_value_keeps_the_line_it_came_from() -> None:
    pasted = read("hello\n\n" + PIP_LIST)
    version = pasted.environment.fact("torch.version")
    assert version.value == "2.9.1+cu128"
    assert version.note == "line 9: torch 2.9.1+cu128"
    assert pasted.kinds == ("pip list",)


def test_what_a_whole_list_does_not_hold_is_absent_and_what_a_snippet_does_not_hold_is_unknown() -> None:
    assert read(PIP_LIST).environment.fact("packages.kernels.version").is_absent
    snippet = read("\n".join(line for line in PIP_LIST.splitlines() if not line.startswith("pip ")))
    assert snippet.environment.fact("packages.kernels.version").is_unknown


def test_nothing_is_known_of_an_empty_text() -> None:
    pasted = read("")
    assert pasted.environment.fact("gpus").is_unknown
    assert pasted.sightings == ()
    assert isinstance(pasted.environment, Environment)
