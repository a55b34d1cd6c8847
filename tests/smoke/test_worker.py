"""The child as the parent meets it: a process, a job file, a journal and an exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kerneldoctor.smoke import worker
from kerneldoctor.smoke.cases import choose
from kerneldoctor.smoke.protocol import (
    EXIT_BAD_JOB,
    EXIT_DONE,
    EXIT_REFUSED,
    Case,
    Compared,
    Done,
    Event,
    Hello,
    Job,
    KernelRequest,
    Loaded,
    Planned,
    Refused,
    Result,
    Selection,
    Stage,
    Versions,
    read_journal,
)

WORKER = Path(worker.__file__)
EXPORTS = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
TWO = ("dense-gqa-causal-bf16-d128", "varlen-gqa-causal-empty-bf16-d128")
GOOD = "from tests.smoke.attention_kernels import kernel, tiled\nglobals().update(vars(kernel(tiled())))\n"

#: In the second case it says what the first one left imported: each of these takes a second or more.
TELLS = """
import functools, sys
_packed = flash_attn_varlen_func

@functools.wraps(_packed)
def flash_attn_varlen_func(*arguments, **options):
    print("heavy:", sorted({"sympy", "torch._dynamo", "torch._inductor"} & set(sys.modules)))
    return _packed(*arguments, **options)
"""

Run = Callable[[Job], tuple[int, list[Event], str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a job; (exit code, events, what was printed)."""

    def run_job(job: Job) -> tuple[int, list[Event], str]:
        (tmp_path / "job.json").write_text(job.to_json())
        environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{WORKER.parents[2]}", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, str(WORKER), str(tmp_path / "job.json")],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        journal = Path(job.journal)
        events = read_journal(journal, job.nonce)[0] if journal.exists() else []
        return done.returncode, events, done.stdout + done.stderr

    return run_job


@pytest.fixture
def job(tmp_path: Path) -> Callable[[str], Job]:
    """A job for an importable module with this text."""

    def for_module(text: str) -> Job:
        (tmp_path / "some_kernel.py").write_text(text)
        return Job("nonce", KernelRequest("module", module="some_kernel"), "cpu", str(tmp_path / "journal"))

    return for_module


def results(events: list[Event]) -> dict[str, Result]:
    return {event.id: event for event in events if isinstance(event, Result)}


def of(events: list[Event], kind: type[Event]) -> Event:
    (found,) = (event for event in events if isinstance(event, kind))
    return found


@pytest.mark.torch
def test_a_good_kernel_from_hello_to_done(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    code, events, printed = run(replace(job(GOOD + TELLS), selection=Selection("quick", only=TWO, seed=9)))
    assert code == EXIT_DONE
    assert "heavy: []" in printed
    kinds = [type(event) for event in events if not isinstance(event, Stage)]
    assert kinds == [Hello, Versions, Loaded, Planned, Compared, Result, Compared, Result, Done]
    loaded, planned, done = of(events, Loaded), of(events, Planned), of(events, Done)
    assert isinstance(loaded, Loaded)
    assert set(EXPORTS) <= set(loaded.exports)
    assert set(loaded.contracts) == {*EXPORTS, "flash_attn_dropout"}
    assert loaded.file is not None
    assert loaded.file.endswith("some_kernel.py")
    assert isinstance(planned, Planned)
    assert planned.cases == choose(EXPORTS, Selection("quick", only=TWO, seed=9), "cpu")
    assert {id_: result.outcome for id_, result in results(events).items()} == dict.fromkeys(TWO, "passed")
    assert isinstance(done, Done)
    assert done.peak_memory
    assert done.timings["import-torch"] > 0


@pytest.mark.torch
def test_each_risky_step_is_announced_before_it_kills(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    text = GOOD + "\nimport os, torch\ndef flash_attn_func(*a, **k):\n    os._exit(7)\n"
    code, events, _ = run(replace(job(text), selection=Selection("quick", only=TWO)))
    assert code == 7
    assert events[-1] == Stage("nonce", "forward", TWO[0])
    assert not results(events)


@pytest.mark.torch
def test_a_crash_on_import_is_placed_in_the_load(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    code, events, said = run(job("import ctypes; ctypes.string_at(0)"))
    assert code < 0
    assert events[-1] == Stage("nonce", "load-kernel")
    assert "some_kernel.py" in said, "the traceback of the crash is evidence"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("raise ImportError('libcudart.so.11.0: cannot open shared object file')", "import-error", "libcudart.so.11.0"),
        ("import no_such_module_anywhere", "missing-dependency", "no_such_module_anywhere"),
        ("import sys; sys.exit('no')", "import-error", "SystemExit: no"),
        ("def f(:", "import-error", "SyntaxError"),
    ],
)
def test_a_kernel_that_does_not_import_is_refused_with_its_words(
    run: Run, job: Callable[[str], Job], text: str, reason: str, message: str
) -> None:
    pytest.importorskip("torch")
    code, events, _ = run(job(text))
    refused = events[-1]
    assert code == EXIT_REFUSED
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.stage) == (reason, "load-kernel")
    assert message in refused.message


@pytest.mark.torch
def test_an_unknown_kernel_is_loaded_listed_and_not_judged(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    code, events, _ = run(replace(job("def rearrange(x): ..."), selection=Selection()))
    loaded, planned = of(events, Loaded), of(events, Planned)
    assert code == EXIT_DONE
    assert isinstance(loaded, Loaded)
    assert (loaded.exports, loaded.contracts) == (("rearrange",), ())
    assert isinstance(planned, Planned)
    assert planned.cases == ()


@pytest.mark.torch
def test_layers_are_listed_with_their_namespace(run: Run, job: Callable[[str], Job], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "their_layers.py").write_text(
        "from torch.nn import Module, Linear\nclass RMSNorm(Module): ...\ndef rope(q): ...\n_x = 1\n"
    )
    _, events, _ = run(job("import their_layers as layers\n__all__ = ['layers']\n"))
    loaded = of(events, Loaded)
    assert isinstance(loaded, Loaded)
    assert loaded.exports == ("layers", "layers.RMSNorm", "layers.rope")
    assert loaded.contracts == ("rms_norm",)


@pytest.mark.torch
def test_a_kernel_that_prints_and_forges_does_not_disturb_the_journal(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    text = GOOD + "\nimport os\nos.write(1, b'{\"event\": \"done\"}\\n' * 50)\nprint('rubbish' * 1000)\n"
    code, events, said = run(replace(job(text), selection=Selection("quick", only=TWO[:1])))
    assert code == EXIT_DONE
    assert "rubbish" in said
    assert sum(isinstance(event, Done) for event in events) == 1


@pytest.mark.torch
def test_the_files_beside_the_child_hide_no_module_of_the_kernel(
    run: Run, job: Callable[[str], Job], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "cases.py").write_text("MINE = True\n")
    text = "import cases, sys\nassert cases.MINE\nassert 'kerneldoctor' not in sys.modules\ndef f(): ...\n"
    assert run(job(text))[0] == EXIT_DONE


@pytest.mark.torch
def test_a_gpu_that_is_not_there_is_said_before_anything_is_loaded(run: Run, job: Callable[[str], Job]) -> None:
    torch = pytest.importorskip("torch")
    code, events, _ = run(replace(job("raise AssertionError"), device=f"cuda:{torch.cuda.device_count()}"))
    refused = events[-1]
    assert code == EXIT_REFUSED
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.stage) == ("no-device", "open-device")


@pytest.mark.torch
def test_memory_beyond_the_limit_is_an_outcome_and_the_next_case_goes_on(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    text = GOOD + "\nimport torch\ndef flash_attn_func(q, *a, **k):\n    return torch.ones(1 << 40)\n"
    limited = replace(job(text), selection=Selection("quick", only=TWO), memory_limit=16 << 30)
    code, events, _ = run(limited)
    assert code == EXIT_DONE
    assert {id_: result.outcome for id_, result in results(events).items()} == {TWO[0]: "oom", TWO[1]: "passed"}


@pytest.mark.torch
def test_given_cases_are_run_as_given(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    known = choose(EXPORTS, Selection("full", only=TWO, seed=4), "cpu")
    unknown = Case("x", "no such contract", {}, 1)
    code, events, _ = run(replace(job(GOOD), cases=(unknown, *known[1:])))
    assert code == EXIT_DONE
    assert {id_: result.outcome for id_, result in results(events).items()} == {"x": "skipped", known[1].id: "passed"}


@pytest.mark.torch
def test_a_folder_in_hub_layout_is_loaded_by_the_kernels_library(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    from tests.kernels import layout

    folder = layout.write(tmp_path / "repo", layout.repository(layout.attention()))
    selection = Selection("quick", only=TWO[:1])
    for path in (folder, folder / "build", folder / "build" / layout.VARIANT):
        request = KernelRequest("local", path=str(path))
        code, events, said = run(Job(str(path), request, "cpu", str(tmp_path / "journal"), selection=selection))
        loaded = of(events, Loaded)
        assert code == EXIT_DONE, said
        assert isinstance(loaded, Loaded)
        assert (loaded.variant, loaded.build_id, loaded.source) == (
            layout.VARIANT,
            "_test_attention_cpu_0123abc",
            "local",
        )
        assert results(events)[TWO[0]].outcome == "passed"


@pytest.mark.torch
def test_a_folder_without_a_fitting_build_says_so(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("kernels")
    from tests.kernels import layout

    files = layout.repository(layout.attention(), variant="torch29-cxx11-cu126-aarch64-linux")
    folder = layout.write(tmp_path / "repo", files)
    _, events, _ = run(Job("n", KernelRequest("local", path=str(folder)), "cpu", str(tmp_path / "journal")))
    refused = events[-1]
    assert isinstance(refused, Refused)
    assert refused.reason == "no-variant"


@pytest.mark.parametrize("text", ["", "{}", '{"protocol": 99}', None])
def test_an_unreadable_job_is_one_line_and_no_journal(tmp_path: Path, text: str | None) -> None:
    arguments = []
    if text is not None:
        (tmp_path / "job.json").write_text(text)
        arguments = [str(tmp_path / "job.json")]
    done = subprocess.run([sys.executable, str(WORKER), *arguments], capture_output=True, text=True)
    assert done.returncode == EXIT_BAD_JOB
    assert done.stderr.startswith("worker.py: ")
    assert done.stderr.count("\n") == 1


def test_without_torch_the_child_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    job = Job("n", KernelRequest("module", module="x"), "cpu", str(tmp_path / "journal"))
    (tmp_path / "job.json").write_text(job.to_json())
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, str(WORKER), str(tmp_path / "job.json")], env=environ, capture_output=True)
    events, _ = read_journal(tmp_path / "journal", "n")
    refused = events[-1]
    assert done.returncode == EXIT_REFUSED
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.stage) == ("no-torch", "import-torch")
    assert "no torch here" in refused.message


def test_the_child_is_known_by_versions_that_were_read_without_importing(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')\n")
    job = Job("n", KernelRequest("module", module="x"), "cpu", str(tmp_path / "journal"))
    (tmp_path / "job.json").write_text(job.to_json())
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, str(WORKER), str(tmp_path / "job.json")], env=environ, capture_output=True)
    first = json.loads((tmp_path / "journal").read_text().splitlines()[0])
    assert first["event"] == "hello"
    assert first["executable"] == sys.executable


@pytest.mark.torch
def test_a_kernel_that_replaces_what_judges_it_is_refused_or_wrong(run: Run, job: Callable[[str], Job]) -> None:
    pytest.importorskip("torch")
    lies = "\nimport json\n_d = json.dumps\njson.dumps = lambda *a, **k: _d(*a, **k).replace('wrong', 'passed')\n"
    code, events, _ = run(job(GOOD + lies))
    refused = of(events, Refused)
    assert isinstance(refused, Refused)
    assert (code, refused.reason) == (EXIT_REFUSED, "tampers")
    assert refused.message == "the kernel replaces json.dumps, with which it is judged"
    Path(job("").journal).unlink()
    late = """
import torch
_dense = flash_attn_func
def flash_attn_func(*arguments, **options):
    torch.linalg.vector_norm = lambda *a, **k: torch.zeros(())
    return _dense(*arguments, **options) * 2
"""
    _, events, _ = run(replace(job(GOOD + late), selection=Selection("quick", only=TWO[:1])))
    result = results(events)[TWO[0]]
    assert result.outcome == "wrong"
    assert result.detail.startswith("the kernel replaces torch.linalg.vector_norm")
