"""How a line is said: a report, mere talk of an error, or one that was mended since; and by whom."""

from __future__ import annotations

import pytest

from kerneldoctor.diagnosis.answer import diagnose_text
from kerneldoctor.intake import read
from kerneldoctor.intake.voices import MOST, voices

SYMBOL = "ImportError: /e/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi"
DRIVER = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."


def standing(text: str) -> tuple[str, str]:
    best = diagnose_text(text).answers[0]
    return best.standing, best.finding.certainty


@pytest.mark.parametrize(
    "text",
    [
        f"README change: explain this one\n\n> {DRIVER}",
        f"### Known issues\n- `{DRIVER}`: update the driver\n### My question\nHow do I profile?",
        f"# Release notes 3.1\n* better text for `{DRIVER}`",
        f"<!-- paste the error, for example\n{DRIVER}\n-->\nMy loss is flat.",
        f'RFC: catch it\n```python\nraise RuntimeError("{DRIVER}")\n```',
        f"Users would see '{DRIVER}' there, I think. Can we document it?",
        f'with pytest.raises(RuntimeError, match="{DRIVER[14:]}")',
    ],
    ids=["quoted in a proposal", "template", "release notes", "comment", "source", "hypothesis", "test"],
)
def test_who_only_speaks_of_a_message_has_no_confirmed_fault(text: str) -> None:
    found = diagnose_text(f"{text}\ntorch 2.8.0+cu128")
    assert all(answer.finding.certainty == "possible" for answer in found.answers)
    assert all(answer.standing == "mentioned" for answer in found.answers)
    assert not found.environment.driver.cuda.is_known


@pytest.mark.parametrize(
    "text",
    [
        f"{SYMBOL}\n\nEdit: solved by reinstalling.",
        f"{SYMBOL}\nI rebuilt it from source and it imports now, thanks!",
        f"**ann**: {SYMBOL}\n**maint**: take 2.8.3\n**ann**: that fixed it",
        f"ann commented on Aug 3\n\n{SYMBOL}\n\nbob commented on Aug 4\n\ndid you rebuild?\n\n"
        "ann commented on Aug 5\n\nClosing, works again.",
        f"{SYMBOL}\n解决了, 谢谢",
    ],
    ids=["edit", "own words", "bold names", "comments", "chinese"],
)
def test_what_was_mended_in_the_thread_is_named_as_such(text: str) -> None:
    assert standing(text) == ("mended", "possible")
    assert diagnose_text(text).answers[0].ask is None


@pytest.mark.parametrize(
    "text",
    [
        f"{SYMBOL}\nReinstalling did not help.",
        f"{SYMBOL}\nHow can this be fixed?",
        f"I fixed the driver and it works now.\nBut then:\n{SYMBOL}\nstill the same",
        f"{SYMBOL}\nthis solved it for an hour, but now I get the same error",
        f"**ann**: {SYMBOL}\n**bob**: for me 2.8.3 solved it",
        f"{SYMBOL}\nI hope this gets fixed. Is this solved in main?",
        f"> {SYMBOL}\n\nwhat should I do",
    ],
)
def test_what_is_still_open_stays_open(text: str) -> None:
    assert standing(text) == ("open", "confirmed")


def test_the_open_fault_and_the_facts_are_of_one_person() -> None:
    found = diagnose_text(
        f"**ann** · 2025-06-01\ntorch 2.7.0, RTX 3090\n{SYMBOL}\n\n**bob** · 2025-06-02\nhere it is "
        f"RTX 3060, torch 2.8.0+cu128\n{DRIVER}\n\n**ann**\nreinstalling solved it\n"
    )
    assert found.answers[0].finding.rule == "KD1001"
    assert found.answers[0].standing == "open"
    assert found.environment.torch.version.value == "2.8.0+cu128"
    assert found.environment.gpus.value is not None
    assert [gpu.name.value for gpu in found.environment.gpus.value] == ["RTX 3060"]


def test_fields_in_bold_are_no_speakers() -> None:
    text = "**GPU**: RTX 4090\n**OS**: Ubuntu 22.04\n**torch**: 2.8.0+cu128\n**Driver**: 570.124.06"
    assert {said.speaker for said in voices(text.split("\n"))} == {""}
    assert read(text).environment.driver.version.value == "570.124.06"


def test_advice_of_another_is_no_fact_and_an_upgrade_that_did_not_help_is() -> None:
    facts = read("RTX 5080, torch 2.6.0+cu124, fails.\nI upgraded to torch 2.7.0+cu128 but still the same").environment
    assert facts.torch.version.value == "2.7.0+cu128"
    assert read("RTX 5080, torch 2.6.0\n@ann use torch 2.9.1").environment.torch.version.value == "2.6.0"


def test_a_log_is_not_listened_to() -> None:
    assert voices(["x" * MOST, "solved"]) == []
