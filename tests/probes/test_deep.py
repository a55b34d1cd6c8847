from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from kerneldoctor.environment import Deep
from kerneldoctor.host import CommandResult, RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes import deep
from kerneldoctor.probes.scene import Scene

from ..fake_host import FakeHost
from . import scenes

# A torch with as much as the child asks of it.
TORCH = """
class _C:
    _cuda_getArchFlags = staticmethod(lambda: "sm_80 sm_90a compute_120 gfx942")
class cuda:
    is_available = staticmethod(lambda: {available})
    synchronize = staticmethod(lambda: None)
    @staticmethod
    def init():
        raise RuntimeError("Found no NVIDIA driver on your system.")
class arange:
    def __init__(self, n, device, dtype): self.n = n
    def __mul__(self, k): return self
    def __add__(self, k): return self
    def sum(self): return self
    def item(self): return {total}
float32 = None
"""
DIE = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


class Modules:
    """Modules that the child finds on PYTHONPATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("torch", TORCH.format(available=False, total=0))

    def write(self, name: str, source: str) -> None:
        path = self.root / name.replace(".", "/") / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)

    def look(self, total: float = 30, step: float = 20) -> Deep:
        return deep.look(scenes.scene(RealHost(), executable=sys.executable), total, step)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Modules:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Modules(tmp_path)


def test_torch_without_a_gpu_says_why(modules: Modules) -> None:
    found = modules.look()
    assert found.torch_imports.value is True
    assert found.torch_error.is_absent
    assert found.cuda_available.value is False
    assert found.cuda_error.value == "RuntimeError: Found no NVIDIA driver on your system."
    assert found.torch_archs.value == ("8.0", "9.0a", "12.0+PTX")
    assert found.gpu_kernel_runs.is_absent
    assert found.flash_attn_imports.is_absent
    assert found.flash_attn_3_imports.is_absent
    assert found.flash_attn_4_imports.is_absent


@pytest.mark.parametrize(
    ("total", "runs", "error"), [(4096.0, True, None), (0.0, False, "wrong result: 0.0, not 4096.0")]
)
def test_one_kernel_is_run_and_its_result_checked(
    modules: Modules, total: float, runs: bool, error: str | None
) -> None:
    modules.write("torch", TORCH.format(available=True, total=total))
    found = modules.look()
    assert found.cuda_available.value is True
    assert found.cuda_error.is_absent
    assert (found.gpu_kernel_runs.value, found.gpu_kernel_error.value) == (runs, error)


def test_each_generation_is_imported_on_its_own(modules: Modules) -> None:
    modules.write("flash_attn", "print('noise')\ndef flash_attn_func(): pass\n")
    modules.write("flash_attn.cute", "raise AttributeError(\"module 'cutlass.cute.core' has no attribute 'ThrMma'\")")
    modules.write("flash_attn_interface", "import flash_attn_3_cuda")
    found = modules.look()
    assert found.flash_attn_imports.value is True
    assert found.flash_attn_3_imports.value is False
    assert found.flash_attn_3_error.value == "ModuleNotFoundError: No module named 'flash_attn_3_cuda'"
    assert "ThrMma" in (found.flash_attn_4_error.value or "")


def test_a_stub_without_the_function_does_not_pass(modules: Modules) -> None:
    modules.write("flash_attn", "")
    found = modules.look()
    assert found.flash_attn_imports.value is False
    assert "flash_attn_func" in (found.flash_attn_error.value or "")


def test_the_namespace_of_fa4_is_not_fa2(modules: Modules) -> None:
    modules.write("flash_attn.cute", "def flash_attn_func(): pass")
    found = modules.look()
    assert found.flash_attn_imports.is_absent
    assert found.flash_attn_4_imports.value is True


def test_a_crash_is_named_and_what_follows_is_still_done(modules: Modules) -> None:
    modules.write("flash_attn", f"import sys; sys.stderr.write('last words'); sys.stderr.flush()\n{DIE}")
    modules.write("flash_attn_interface", "def flash_attn_func(): pass")
    found = modules.look()
    assert found.flash_attn_imports.value is False
    assert found.flash_attn_error.value == "killed by SIGSEGV while importing flash_attn: last words"
    assert found.flash_attn_3_imports.value is True


def test_a_hang_is_named_and_what_follows_is_still_done(modules: Modules) -> None:
    modules.write("flash_attn", "import time; time.sleep(600)")
    modules.write("flash_attn_interface", "def flash_attn_func(): pass")
    found = modules.look(step=1.5)
    assert found.flash_attn_error.value == "no answer within 1.5 s while importing flash_attn"
    assert found.flash_attn_3_imports.value is True


def test_the_whole_ends_in_time_even_if_all_hang(modules: Modules) -> None:
    for name in ("flash_attn", "flash_attn_interface"):
        modules.write(name, "import time; time.sleep(600)")
    began = time.monotonic()
    found = modules.look(total=3, step=2)
    assert time.monotonic() - began < 25
    assert found.torch_imports.value is True
    assert found.flash_attn_imports.value is False
    assert found.flash_attn_4_imports.is_unknown or found.flash_attn_4_imports.value is False


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("raise ImportError('x' * 2000 + 'undefined symbol: _ZN3c10')", "undefined symbol: _ZN3c10"),
        (DIE, "killed by SIGSEGV while importing torch"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os._exit(0)", "exited with code 0 while importing torch"),
    ],
)
def test_a_torch_that_does_not_import(modules: Modules, source: str, error: str) -> None:
    modules.write("torch", source)
    modules.write("flash_attn", "def flash_attn_func(): pass")
    found = modules.look()
    assert found.torch_imports.value is False
    assert error in (found.torch_error.value or "")
    assert len(found.torch_error.value or "") < 600
    assert found.cuda_available.is_unknown
    assert found.flash_attn_imports.is_unknown
    assert found.flash_attn_imports.note == "torch itself does not import"


def test_our_own_torch_module_is_not_taken_for_torch(modules: Modules) -> None:
    (modules.root / "torch/__init__.py").unlink()
    (modules.root / "torch").rmdir()
    found = modules.look()
    assert (
        found.torch_error.value == "ModuleNotFoundError: No module named 'torch'" or found.torch_imports.value is True
    )


def test_an_interpreter_that_does_not_run_is_told(tmp_path: Path) -> None:
    found = deep.look(scenes.scene(RealHost(), executable=str(tmp_path / "python")))
    assert found.torch_imports.is_unknown
    assert "no such program" in found.torch_imports.note


def test_lines_of_others_are_not_believed(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    lines = [
        json.dumps({"nonce": "wrong", "step": "torch"}),
        '{"nonce": "right", "step": "to',
        "[]",
        "\0",
        '{"nonce": "right"}',
    ]
    journal.write_text("\n".join(lines))
    assert list(deep._lines(str(journal), "right")) == [{"nonce": "right"}]


def test_a_recording_gives_the_same_answer_without_running_anything(modules: Modules) -> None:
    recording = RecordingHost(RealHost())
    looked_at = deep.look(Scene(recording, scenes.scene(recording, executable=sys.executable).target))
    recorded = RecordedHost(json.loads(json.dumps(recording.capture(lambda name: False))))
    assert deep.look(scenes.scene(recorded, executable=sys.executable)) == looked_at


def test_a_signal_without_a_name_is_told_by_number() -> None:
    assert deep._how_it_ended(CommandResult(-99, "", "")) == "killed by signal 99"
    assert deep.look(scenes.scene(FakeHost())).torch_imports.is_unknown
