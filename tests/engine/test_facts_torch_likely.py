"""The torch wheel that is advised where a report leaves out the system, the Python or the driver."""

from __future__ import annotations

import pytest

from kerneldoctor.diagnosis.answer import diagnose_text
from kerneldoctor.engine import facts  # noqa: F401 - registers the facts
from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import shipped_tables


def advice(report: str) -> list[str]:
    case = Case(diagnose_text(report).environment, shipped_tables())
    return [str(case.fact(f"torch.likely_{name}").value) for name in ("release", "wheel", "driver")]


@pytest.mark.parametrize(
    ("report", "answer"),
    [
        ("RTX 5090, torch 2.6.0+cu124", ["2.7.1", "cu128", "570.26"]),
        ("RTX 5090, torch 2.6.0+cu124, Windows 11", ["2.7.1", "cu128", "570.65"]),
        ("Tesla V100, torch 2.9.1+cu130", ["2.9.1", "cu128", "525.60.13"]),
        ("Tesla P100, torch 2.8.0+cu128", ["2.8.0", "cu126", "525.60.13"]),
        ("RTX 4090, torch 2.9.1+cu130, driver 550.54.14", ["2.9.1", "cu128", "525.60.13"]),
        ("GH200, aarch64, torch 2.7.1+cpu, driver 570.124.06", ["2.7.1", "cu128", "525.60.13"]),
        ("Tesla K80, torch 2.9.1+cu128", ["None", "None", "None"]),
        ("Jetson AGX Orin, torch 2.7.0", ["None", "None", "None"]),
        ("torch 2.9.1+cu130", ["None", "None", "None"]),
    ],
)
def test_the_wheel_and_the_driver_that_it_needs(report: str, answer: list[str]) -> None:
    assert advice(report) == answer


def test_the_advice_stands_in_the_answer_and_the_fall_back_only_where_there_is_no_wheel() -> None:
    message = "\nRuntimeError: CUDA error: no kernel image is available for execution on the device"
    best = diagnose_text("RTX 5070, torch 2.5.1+cu124" + message).answers[0]
    assert [advice.command.split()[-1] for advice in best.finding.remedies] == [
        "https://download.pytorch.org/whl/cu128"
    ]
    assert "driver 570.26" in best.finding.remedies[0].note
    old = diagnose_text(
        "GTX 680 with CUDA capability sm_30 is not compatible with the current PyTorch installation.\ntorch 2.9.1+cu128"
        + message
    ).answers[0]
    assert old.finding.rule == "KD4005"
    assert [advice.title.split(" for ")[0] for advice in old.finding.remedies] == ["Build torch from source"]
