"""What is said of other users of a GPU and of its clocks."""

from __future__ import annotations

from pathlib import Path

from kerneldoctor.compare.gpu_watch import GpuWatch, others, throttled
from kerneldoctor.environment import unknown

QUIET = {"time": 1.0, "busy": 0, "used": 500 << 20, "processes": [], "clock": 1980, "reasons": 0}


def test_a_quiet_gpu_is_not_spoken_of() -> None:
    assert others([QUIET, QUIET], "") == ()
    assert throttled([QUIET]) == ()


def test_somebody_else_on_the_gpu_disturbs() -> None:
    found = others([{**QUIET, "busy": 97, "processes": [41, 42], "used": 30 << 30}] * 3, "")
    assert len(found) == 1
    assert "97 % busy, 2 other processes ran on it, 30 GiB of its memory were in use" in found[0]
    assert "disturbed" in found[0]


def test_not_being_able_to_look_is_said() -> None:
    assert others([], "no permission") == ("whether something else uses the GPU is not known: no permission",)


def test_what_a_container_does_not_tell_is_no_disturbance() -> None:
    assert others([{**QUIET, "busy": None, "processes": None, "used": None}], "") == ()


def test_clocks_held_down_are_named_with_their_span() -> None:
    idle = {**QUIET, "reasons": 0x1, "clock": 345}  # between two processes of ours
    samples = [{**QUIET, "reasons": 0x4, "clock": 1400}, QUIET, idle, QUIET, QUIET]
    assert throttled(samples) == (
        "the clocks were held down by the power limit in 25 % of the time; SM clock 1400 to 1980 MHz",
    )


def test_a_gpu_without_a_name_is_looked_at_no_further(tmp_path: Path) -> None:
    with GpuWatch(unknown("NVML hangs"), tmp_path) as watch:
        assert watch.before() == ("whether something else uses the GPU is not known: NVML hangs",)
        assert watch.during([(0.0, 1e12)]) == ()


def test_the_sampler_says_why_it_cannot_sample(tmp_path: Path) -> None:
    """Here there is no such GPU, and mostly no driver at all: a child says so, and nothing hangs."""
    from kerneldoctor.environment import known

    with GpuWatch(known("GPU-00000000-0000-0000-0000-000000000000", "NVML"), tmp_path) as watch:
        (said,) = watch.before()
    assert said.startswith("whether something else uses the GPU is not known: ")
    assert not said.endswith("NVML gave no answer")
