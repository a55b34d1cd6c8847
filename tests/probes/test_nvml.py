from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.host import RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes import nvml
from kerneldoctor.probes.nvml import NVML_ERRORS, NvmlAnswer, ask_nvml, read_answer
from tests.probes import nvml_stub


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml_stub.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def ask(stub: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(mode: str) -> NvmlAnswer:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(stub.parent))
        monkeypatch.setenv("STUB_NVML", mode)
        return ask_nvml(RealHost())

    return ask


def test_healthy_machine(ask: Any) -> None:
    answer = ask("0")
    assert (answer.error, answer.text) == ("", "")
    assert (answer.driver["version"], answer.driver["cuda"]) == ("580.95.05", 13000)
    first, second = answer.gpus
    assert (first["name"], first["uuid"], first["compute_capability"]) == ("NVIDIA H200", "GPU-00000001", [9, 0])
    assert (first["memory"], first["mig"], second["index"]) == (150754820096, None, 1)


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (4, "insufficient_permissions"),
        (9, "driver_not_loaded"),
        (15, "gpu_is_lost"),
        (18, "driver_library_mismatch"),
        (999, "unknown_error"),
        (77, "nvml_77"),
    ],
)
def test_errors_of_nvml_are_told_apart(ask: Any, number: int, name: str) -> None:
    answer = ask(str(number))
    assert (answer.error, answer.gpus) == (name, ())
    assert answer.text


@pytest.mark.parametrize(("mode", "said"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV"), ("exit", "ended early")])
def test_nvml_that_ends_its_process_does_not_end_ours(ask: Any, mode: str, said: str) -> None:
    answer = ask(mode)
    assert answer.error == "crashed"
    assert said in answer.text
    assert "nvmlInit" in answer.text


def test_no_core_dump_is_left(ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ask("abort")
    assert list(tmp_path.iterdir()) == []


def test_hang_is_said_within_the_limit_and_leaves_no_process(
    ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "TIME_LIMIT", 1.0)
    monkeypatch.setenv("STUB_PIDS", str(tmp_path / "pids"))
    began = time.monotonic()
    answer = ask("hang")
    assert time.monotonic() - began < 15
    assert answer.error == "timeout"
    assert answer.text == "NVML gave no answer within 1 s (at: nvmlInit)"
    for pid in (tmp_path / "pids").read_text().split():
        assert _gone(int(pid))


def _gone(pid: int) -> bool:
    for _ in range(50):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def test_hang_at_a_later_gpu_keeps_what_came_before(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "TIME_LIMIT", 1.0)
    answer = ask("hang-late")
    assert (answer.error, answer.driver["version"]) == ("timeout", "580.95.05")
    assert "GPU 1" in answer.text
    assert answer.gpus[0]["name"] == "NVIDIA H200"
    assert answer.gpus[1] == {"index": 1}


def test_lost_gpu_does_not_hide_the_others(ask: Any) -> None:
    answer = ask("lost")
    assert (answer.error, len(answer.gpus), answer.gpus[0]["name"]) == ("gpu_is_lost", 2, "NVIDIA H200")
    assert answer.text.startswith("GPU 1: ")


def test_mig_devices_with_their_gpu_instances(ask: Any) -> None:
    first, second = ask("mig").gpus
    assert first["mig_devices"] == [["MIG-101", 1], ["MIG-102", 1], ["MIG-103", 2]]
    assert (first["mig"], second["mig"], second["mig_devices"]) == (True, False, [])


def test_question_that_a_gpu_does_not_support(ask: Any) -> None:
    answer = ask("unified")  # memory of GB10
    assert (answer.error, answer.gpus[0]["memory"], answer.gpus[0]["errors"]["memory"]) == ("", None, 3)


def test_library_that_prints_to_stdout(ask: Any) -> None:
    assert ask("noisy").error == ""


def test_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if any(Path(p).exists() for p in ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/dev/nvidiactl")):
        pytest.skip("this machine has the driver")
    assert ask_nvml(RealHost()).error == "library_not_found"


def test_library_that_only_we_found(stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setenv("STUB_NVML", "0")
    assert ask_nvml(RealHost(), str(stub)).driver["version"] == "580.95.05"


def test_binding_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_binding_folder", lambda: "/nowhere")
    assert ask_nvml(RealHost()).error == "binding_missing"


def test_sick_python_environment_does_not_reach_the_child(
    ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert ask("0").error == ""


def test_recording_answers_as_the_machine_did(ask: Any) -> None:
    ask("18")  # sets the environment
    recording = RecordingHost(RealHost())
    live = ask_nvml(recording)
    capture = json.loads(json.dumps(recording.capture(lambda name: False)))
    assert ask_nvml(RecordedHost(capture)) == live
    assert sys.executable not in json.dumps(capture)


def test_machine_that_was_never_asked() -> None:
    answer = ask_nvml(RecordedHost({"schema": "kerneldoctor.capture/1"}))
    assert (answer.error, answer.gpus) == ("crashed", ())
    assert "not in the recording" in answer.text


def test_names_of_errors_are_unique() -> None:
    assert len(set(NVML_ERRORS.values())) == len(NVML_ERRORS)


keys = st.sampled_from(["driver", "gpu", "count", "error", "stage", "done", "index", "errors"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values.map(json.dumps) | st.text(max_size=20), max_size=4), st.none() | st.integers(-64, 255))
def test_any_output_of_the_child_is_read(lines: list[str], code: int | None) -> None:
    answer = read_answer({"lines": lines, "code": code, "trouble": "", "stderr": ""})
    assert answer.error or any('"done": true' in line for line in lines)
