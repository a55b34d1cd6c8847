"""Demands on a machine: met, not met, and not known."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from kerneldoctor.environment import Environment, known, unknown
from kerneldoctor.preflight.device import Machine
from kerneldoctor.preflight.launch import Launch
from kerneldoctor.preflight.machine import machine_checks, settled
from kerneldoctor.preflight.policy import Policy, RequiredGpu
from kerneldoctor.report.checks import Check
from tests.hub.machines import TABLES, gpu, machine, seen


def statuses(policy: Policy, environment: Environment) -> dict[str, str]:
    return {check.id: check.status for check in machine_checks(policy, Case(environment, TABLES))}


@pytest.mark.parametrize(
    ("name", "wanted", "status"),
    [
        ("torch", "2.13", "passed"),
        ("torch", "2.14", "failed"),
        ("cuda", "13.0", "passed"),
        ("driver", "580.100", "failed"),
        ("python", "3.11", "passed"),
        ("kernels", "0.17.3", "failed"),
        ("huggingface-hub", "1.3", "passed"),
        ("transformers", "5.0", "failed"),  # not installed
    ],
)
def test_an_oldest_release_is_held_against_what_is_installed(name: str, wanted: str, status: str) -> None:
    assert statuses(Policy(minimum={name: wanted}), machine()) == {f"minimum:{name}": status}


def test_a_release_that_is_not_known_is_not_passed() -> None:
    environment = machine(driver="")
    environment = Environment(driver=environment.driver.__class__(version=unknown("NVML gave no answer")))
    (check,) = machine_checks(Policy(minimum={"driver": "550"}), Case(environment, TABLES))
    assert check.status == "undetermined"
    assert "NVML gave no answer" in check.detail


@pytest.mark.parametrize(
    ("wanted", "failing"),
    [
        (RequiredGpu(("H100",)), set()),
        (RequiredGpu(("H200", "B200")), {"gpu:name"}),
        (RequiredGpu(compute_capability=">=9.0"), set()),
        (RequiredGpu(compute_capability=">=10.0"), {"gpu:compute-capability"}),
        (RequiredGpu(count=3), {"gpu:count"}),
    ],
)
def test_every_gpu_must_be_of_the_kind(wanted: RequiredGpu, failing: set[str]) -> None:
    gpus = seen((gpu("9.0", 0, "NVIDIA H100 80GB HBM3"), gpu("9.0", 1, "NVIDIA H100 PCIe")))
    found = statuses(Policy(gpu=wanted), machine(gpus=gpus))
    assert {name for name, status in found.items() if status == "failed"} == failing


def test_one_odd_gpu_among_many_is_found() -> None:
    gpus = seen((gpu("9.0", 0, "NVIDIA H100"), gpu("8.0", 1, "NVIDIA A100")))
    (check,) = (
        c for c in machine_checks(Policy(gpu=RequiredGpu(("H100",))), Case(machine(gpus=gpus), TABLES))
        if c.id == "gpu:name"
    )  # fmt: skip
    assert check.status == "failed"
    assert "NVIDIA A100" in check.detail


def test_gpus_that_cannot_be_seen_are_not_determined() -> None:
    found = statuses(Policy(gpu=RequiredGpu(("H100",))), machine(gpus=unknown("the driver hangs")))
    assert found == {"gpu:count": "undetermined"}


@pytest.mark.parametrize(
    ("fail_on", "status", "severity", "decisive"),
    [
        ("error", "failed", "error", True),
        ("error", "failed", "warning", False),
        ("warning", "failed", "warning", True),
        ("error", "undetermined", "error", True),
        ("info", "undetermined", "warning", False),
        ("never", "failed", "error", False),
        ("never", "undetermined", "error", False),
    ],
)
def test_what_the_exit_code_rests_on(fail_on: Any, status: Any, severity: Any, decisive: bool) -> None:
    assert settled(Check("a", "b", "c", status, severity), fail_on).decisive is decisive


def rank(local_rank: int | None) -> Launch:
    return Launch("torchrun", local_rank or 0, 8, local_rank, "0", "h", 1, False, "")


def eight(visible: int) -> Environment:
    gpus = seen(tuple(gpu("9.0", index) for index in range(visible)))
    environment = machine(gpus=gpus)
    return Environment(
        **{name: getattr(environment, name) for name in ("system", "python", "driver", "gpus", "torch", "packages")},
        visibility=environment.visibility.__class__(count=known(visible, "test")),
    )


@pytest.mark.parametrize(
    ("local_rank", "visible", "device"),
    [(3, 8, "cuda:3"), (3, 1, "cuda:0"), (None, 8, "cuda:0"), (0, 8, "cuda:0")],
)
def test_every_rank_has_its_own_gpu(local_rank: int | None, visible: int, device: str) -> None:
    """With one visible GPU the launcher has already given each rank its own."""
    assert Machine(eight(visible), "auto", rank(local_rank)).device == device


def test_a_rank_without_a_gpu_of_its_own_is_said() -> None:
    found = Machine(eight(4), "auto", rank(5))
    (check,) = found.checks(Policy(run="smoke"))
    assert check.status == "undetermined"
    assert "LOCAL_RANK is 5, but only 4 GPUs" in check.detail


def test_a_named_device_is_taken_as_it_is() -> None:
    assert Machine(eight(8), "cuda:1", rank(3)).device == "cuda:1"
    assert Machine(machine("2.13.0+cpu"), "auto", rank(3)).device == "cpu"
