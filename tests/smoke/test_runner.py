"""Whatever one case does to its process, it is named for what it is, and every other case is judged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldoctor
from kerneldoctor.errors import UndeterminedError
from kerneldoctor.smoke import protocol
from kerneldoctor.smoke.runner import Limits, Progress, run_cases
from kerneldoctor.smoke.trial import Run

from .place import left_processes
from .scripted import environment, plan_order

LIMITS = Limits(case=1.0, load=3.0, total=60.0)


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    assert left_processes(tmp_path) == []
    assert list(tmp_path.glob("kerneldoctor-*")) == []


def run(plan: dict[str, str], limits: Limits = LIMITS, **changes: object) -> Run:
    return run_cases(replace(plan_order(plan), **changes), limits)


def outcomes(result: Run) -> dict[str, str]:
    return {report.case.id: report.outcome for report in result.cases}


def test_every_other_case_is_judged_whatever_one_does(tmp_path: Path) -> None:
    plan = {
        "a": "pass", "b": "segfault", "c": "abort", "d": "wrong", "e": "exit0", "f": "exit7", "g": "poison",
        "h": "hang", "i": "raised", "j": "before", "k": "after", "l": "unsupported", "m": "pass",
    }  # fmt: skip
    result = run(plan)
    assert outcomes(result) == {
        "a": "passed", "b": "crashed", "c": "crashed", "d": "wrong", "e": "crashed", "f": "crashed", "g": "raised",
        "h": "hung", "i": "raised", "j": "crashed", "k": "passed", "l": "unsupported", "m": "passed",
    }  # fmt: skip
    by_id = {report.case.id: report for report in result.cases}
    assert by_id["b"].signal == "SIGSEGV"
    assert by_id["b"].stage == "forward"
    assert by_id["c"].signal == "SIGABRT"
    assert "CUDA error" in by_id["c"].detail
    assert "exit code 7" in by_id["f"].detail
    assert by_id["h"].seconds == pytest.approx(LIMITS.case, abs=0.5)
    assert result.problem is None


def test_what_was_found_of_the_forward_outlives_a_crash_in_the_backward() -> None:
    right, wrong = run({"a": "backward-dies", "b": "backward-dies-wrong"}).cases
    assert (right.outcome, right.direction, right.forward) == ("crashed", "backward", True)
    assert set(right.errors) == {"out"}
    assert (wrong.outcome, wrong.direction, wrong.forward) == ("crashed", "forward", False)
    assert wrong.detail.endswith("before that its forward was wrong: out is off")


def test_a_hang_in_native_code_that_is_deaf_to_sigterm_ends_soon_after_its_limit() -> None:
    began = time.monotonic()
    result = run({"a": "hang"})
    assert outcomes(result) == {"a": "hung"}
    assert time.monotonic() - began < 20


def test_what_a_kernel_prints_is_capped_and_believed_by_nobody() -> None:
    result = run({"a": "shout", "b": "pass"}, replace(LIMITS, case=20.0))
    assert outcomes(result) == {"a": "passed", "b": "passed"}
    assert result.children == 1


def test_a_daemon_that_left_the_group_does_not_outlive_the_run() -> None:
    assert outcomes(run({"a": "daemon", "b": "pass"})) == {"a": "passed", "b": "passed"}


def test_a_memory_hog_is_ended_before_the_machine_suffers() -> None:
    result = run({"a": "hog", "b": "pass"}, replace(LIMITS, case=30.0, memory=512 << 20))
    assert outcomes(result) == {"a": "oom", "b": "passed"}


@pytest.mark.parametrize(
    ("counts", "outcome", "words"),
    [
        ((3, 3), "crashed", "the kernel or somebody else sent it"), ((3, 4), "oom", "for want of memory"),
        ((None, None), "crashed", "cannot be seen here"),
    ],
)  # fmt: skip
def test_sigkill_is_for_want_of_memory_only_where_the_system_says_so(
    counts: tuple[int | None, int | None], outcome: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([*counts, 4, 4])
    monkeypatch.setattr("kerneldoctor.smoke.runner.kills", lambda: next(answers))
    result = run({"a": "kill9", "b": "pass"})
    assert outcomes(result) == {"a": outcome, "b": "passed"}
    assert result.cases[0].signal == "SIGKILL"
    assert words in result.cases[0].detail


def test_a_kernel_that_kills_its_parent_or_its_group_takes_neither_us_nor_the_other_cases_along() -> None:
    result = run({"a": "kill-parent", "b": "kill-group", "c": "pass"})
    assert outcomes(result) == {"a": "crashed", "b": "crashed", "c": "passed"}
    assert result.cases[0].detail == "killed the process that had started it in forward"


@pytest.mark.parametrize(
    ("deed", "kind", "reason"),
    [
        ("segfault", "crashed", "SIGSEGV"), ("hang", "hung", ""), ("exit0", "crashed", ""),
        ("refuse", "refused", "import-error"),
    ],
)  # fmt: skip
def test_a_load_that_fails_says_how_and_in_which_stage(deed: str, kind: str, reason: str) -> None:
    result = run({"@load": deed, "a": "pass"}, replace(LIMITS, load=1.0))
    assert result.problem is not None
    assert (result.problem.kind, result.problem.reason, result.problem.stage) == (kind, reason, "load-kernel")
    assert result.cases == ()
    assert result.children == 1


def test_an_import_of_torch_that_hangs_is_told_from_a_kernel_that_does() -> None:
    result = run({"@import": "sleep", "a": "pass"}, replace(LIMITS, load=1.0))
    assert result.problem is not None
    assert result.problem.stage == "import-torch"


def test_a_kernel_that_loads_once_only_is_tried_twice_more_and_then_left(tmp_path: Path) -> None:
    environ = {**plan_order({}).environ, "KERNELDOCTOR_TEST_STATE": str(tmp_path / "state")}
    plan = {"@load-again": "segfault", "a": "pass", "b": "segfault", "c": "pass"}
    order = replace(plan_order(plan), environ={**environ, **environment(plan)})
    result = run_cases(order, LIMITS)
    assert outcomes(result) == {"a": "passed", "b": "crashed", "c": "skipped"}
    assert "not again" in result.cases[2].detail
    assert result.children == 3


def test_the_total_limit_leaves_the_rest_unjudged_and_says_so() -> None:
    result = run({"a": "pass", "b": "sleep", "c": "pass"}, Limits(case=30.0, load=30.0, total=2.0))
    assert outcomes(result) == {"a": "passed", "b": "skipped", "c": "skipped"}
    assert result.cases[1].detail.startswith("b had been running for ")
    assert "total time limit of 2 s" in result.cases[1].detail
    assert result.cases[2].detail == "not reached within the total time limit of 2 s"


def test_a_crash_at_exit_is_noted_but_lies_at_no_cases_door() -> None:
    result = run({"@exit": "segfault", "a": "pass"})
    assert outcomes(result) == {"a": "passed"}
    assert any("SIGSEGV at its exit" in note for note in result.notes)


def test_progress_names_the_case_and_its_number() -> None:
    seen: list[Progress] = []
    run_cases(plan_order({"a": "pass", "b": "hang"}), LIMITS, seen.append)
    last = seen[-1]
    assert (last.number, last.of, last.case, last.stage) == (2, 2, "b", "forward")
    assert last.seconds > 0.5


def test_an_interpreter_that_does_not_start_the_worker_is_undetermined(tmp_path: Path) -> None:
    with pytest.raises(UndeterminedError, match="cannot be started"):
        run({"a": "pass"}, python=str(tmp_path / "nothing"))
    with pytest.raises(UndeterminedError, match="did not start the worker"):
        run({"a": "pass"}, python="/bin/false")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("plan", ['{"a": "hang"}', '{"@import": "hang", "a": "pass"}'])
def test_a_signal_to_us_ends_the_children_and_then_us(number: int, plan: str, tmp_path: Path) -> None:
    script = (
        "import sys; from tests.smoke.scripted import plan_order; import json\n"
        "from kerneldoctor.smoke.runner import Limits, run_cases\n"
        "def seen(p): print(p.stage, flush=True)\n"
        f"run_cases(plan_order(json.loads({plan!r})), Limits(case=100, load=100), seen)\n"
    )
    root = Path(kerneldoctor.__file__).parents[1]
    us = subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert us.stdout is not None
    wanted = "forward" if plan.startswith('{"a') else "import-torch"
    while us.stdout.readline().strip() != wanted:
        assert us.poll() is None
    us.send_signal(number)
    us.communicate(timeout=10)
    assert us.returncode == -number
    assert left_processes(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process can ask to die with its parent")
def test_a_worker_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """The real worker, while it hangs in native code in somebody's torch: a context of its own would stay with it."""
    torch = tmp_path / "site" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("import ctypes\nprint('hanging', flush=True)\nctypes.PyDLL(None).sleep(1000)\n")
    script = (
        "import os; from dataclasses import replace; from tests.smoke.scripted import plan_order\n"
        "from kerneldoctor.smoke.runner import WORKER, Limits, run_cases\n"
        f"order = replace(plan_order({{}}), worker=WORKER, environ={{'PYTHONPATH': {str(torch.parent)!r}}})\n"
        "def seen(p): print(p.stage, flush=True)\n"
        "run_cases(order, Limits(case=100, load=100), seen)\n"
    )
    us = subprocess.Popen(
        [sys.executable, "-c", script], cwd=Path(kerneldoctor.__file__).parents[1], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert us.stdout is not None
    while us.stdout.readline().strip() != "import-torch":
        assert us.poll() is None
    assert len(left_processes(tmp_path)) == 2, "the worker and its keeper"
    us.kill()
    us.communicate(timeout=10)
    end = time.monotonic() + 5
    while left_processes(tmp_path) and time.monotonic() < end:
        time.sleep(0.05)
    assert left_processes(tmp_path) == []
    for folder in tmp_path.glob("kerneldoctor-*"):  # nobody was left to remove it
        shutil.rmtree(folder)


def test_the_exit_codes_of_the_protocol_are_told_apart() -> None:
    assert len({protocol.EXIT_DONE, protocol.EXIT_REFUSED, protocol.EXIT_BAD_JOB, protocol.EXIT_POISONED}) == 4
