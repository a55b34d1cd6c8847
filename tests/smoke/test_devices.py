"""A device that is not there is undetermined, not failed; a word that is none is wrong use."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.environment import Environment, Gpu, Python, Torch, Visibility, absent, known, unknown
from kerneldoctor.errors import UndeterminedError, UsageError
from kerneldoctor.smoke.devices import find_devices


def machine(backend: str = "cuda", gpus: int | None = 2) -> Environment:
    listed = tuple(
        Gpu(index=known(n, "t"), name=known("NVIDIA H200", "t"), vendor=known("nvidia", "t"), visible=known(True, "t"))
        for n in range(gpus or 0)
    )
    return Environment(
        torch=Torch(version=known("2.13.0", "t"), backend=known(backend, "t")),
        python=Python(executable=known("/usr/bin/python3", "t")),
        gpus=known(listed, "t") if gpus is not None else unknown("NVML did not answer"),
        visibility=Visibility(count=known(gpus, "t") if gpus is not None else unknown("NVML did not answer")),
    )


@pytest.mark.parametrize(
    ("asked", "environment", "devices"),
    [
        ("auto", machine(), ("cuda:0",)),
        ("cuda", machine(), ("cuda:0",)),
        ("1", machine(), ("cuda:1",)),
        ("cuda:1", machine(), ("cuda:1",)),
        ("all", machine(), ("cuda:0", "cuda:1")),
        ("all", machine(gpus=1), ("cuda:0",)),
        ("cpu", machine(), ("cpu",)),
        ("auto", machine("cpu", 0), ("cpu",)),
        ("all", machine("cpu", 0), ("cpu",)),
        ("auto", machine(gpus=None), ("cuda:0",)),
        ("auto", machine("rocm", 0), ("cuda:0",)),
        ("auto", machine("xpu", 0), ("xpu:0",)),
    ],
)
def test_devices_are_those_that_torch_would_see(asked: str, environment: Environment, devices: tuple[str, ...]) -> None:
    assert find_devices(asked, Case(environment, shipped_tables())) == devices


@pytest.mark.parametrize(
    ("asked", "environment", "why"),
    [
        ("cuda", machine("cpu", 0), "built for the CPU only"),
        ("cuda", machine(gpus=0), "no GPU is visible"),
        ("auto", machine(gpus=0), "--device cpu"),
        ("2", machine(), "only 2 visible GPUs"),
        ("cpu", replace(machine(), torch=Torch(version=absent("no torch"))), "no torch is installed"),
    ],
)
def test_what_is_not_there_cannot_be_determined(asked: str, environment: Environment, why: str) -> None:
    with pytest.raises(UndeterminedError, match=why):
        find_devices(asked, Case(environment, shipped_tables()))


@pytest.mark.parametrize("asked", ["", "gpu0", "-1", "cuda:x", "tpu", "all:1"])
def test_a_word_that_is_no_device_is_wrong_use(asked: str) -> None:
    with pytest.raises(UsageError, match="--device"):
        find_devices(asked, Case(machine(), shipped_tables()))
