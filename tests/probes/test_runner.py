"""Probes run side by side: each may be slow, broken or missing, and costs nobody else's facts."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace

import pytest

from kerneldoctor.environment import Environment
from kerneldoctor.errors import ProbeError
from kerneldoctor.probes import huggingface, runner, system
from kerneldoctor.probes.runner import PROBES, run_probes, start_probes
from kerneldoctor.probes.scene import Scene
from tests.fake_host import FakeHost
from tests.probes.scenes import scene

HOST = FakeHost(files={"/etc/os-release": 'PRETTY_NAME="Debian 12"'}, programs={"ninja": "/usr/bin/ninja"})
TARGET = scene(HOST).target


def test_every_part_of_the_environment_has_a_probe() -> None:
    parts = [part for probe in (*PROBES, runner.DEEP) for part in probe.parts]
    assert sorted(parts) == sorted(Environment.__dataclass_fields__)


def test_a_probe_that_raises_leaves_the_reason_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(scene: Scene) -> dict[str, object]:
        raise ZeroDivisionError("oops")

    def refused(scene: Scene) -> dict[str, object]:
        raise ProbeError("no permission to read /etc")

    monkeypatch.setattr(huggingface, "probe", broken)
    monkeypatch.setattr(system, "probe", refused)
    found = run_probes(HOST, TARGET)
    assert found.huggingface.token.note == "the huggingface probe failed: ZeroDivisionError: oops"
    assert found.system.os.note == "no permission to read /etc"
    assert found.toolkit.ninja.value is True


def test_a_probe_that_cannot_be_imported_costs_its_own_facts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kerneldoctor.probes.huggingface", None)
    found = run_probes(HOST, TARGET)
    assert "the huggingface probe failed" in found.huggingface.token.note
    assert found.toolkit.ninja.value is True


def test_a_probe_that_does_not_come_back_is_left_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = threading.Event()

    def hanging(scene: Scene) -> dict[str, object]:
        stuck.wait(20)
        return {}

    monkeypatch.setattr(system, "probe", hanging)
    short = tuple(replace(probe, seconds=0.3) if probe.module == "system" else probe for probe in PROBES)
    monkeypatch.setattr(runner, "PROBES", short)
    began = time.monotonic()
    found = run_probes(HOST, TARGET)
    stuck.set()
    assert time.monotonic() - began < 15
    assert (found.system.os.is_unknown, found.system.os.note) == (True, "no answer within 0.3 s")
    assert found.toolkit.ninja.value is True


def test_the_caller_may_work_while_the_probes_look(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = threading.Event()

    def patient(scene: Scene) -> dict[str, object]:
        if not ready.wait(20):
            raise ProbeError("nobody worked meanwhile")
        raise ProbeError("somebody did")

    monkeypatch.setattr(system, "probe", patient)
    finish = start_probes(HOST, TARGET)
    ready.set()
    assert finish().system.os.note == "somebody did"
