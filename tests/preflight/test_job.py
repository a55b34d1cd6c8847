"""Preflight as several ranks of a job: one report, one exit code, and an end in time whatever becomes of a rank."""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor import api_hub
from kerneldoctor.environment import absent
from kerneldoctor.lock import Locked, LockedVerdict, fingerprint, write_lock
from kerneldoctor.smoke.devices import facts_on
from kerneldoctor.smoke.digest import digests_of
from tests.hub.machines import machine
from tests.hub.server import Hub, serve
from tests.kernels.layout import VARIANT, attention, publish, repository
from tests.smoke.place import Place

from .job import Ended, Job

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
REPO, HANGS = "kernels-test/attention", "kernels-test/hangs"
FINE = machine("2.13.0+cpu", absent("test"))
BY_HAND = {"RANK": "{rank}", "WORLD_SIZE": "{size}", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}"}
# As srun sets them; it says nothing of an address, so that here one is given.
SRUN = {
    "SLURM_PROCID": "{rank}", "SLURM_STEP_NUM_TASKS": "{size}", "SLURM_LOCALID": "{rank}", "SLURM_NODEID": "0",
    "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "{port}",
}  # fmt: skip


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def job(running: Hub, tmp_path: Path) -> Job:
    made = Job(Place.make(running, tmp_path, "cpu"), tmp_path)
    for rank in range(made.size):
        made.facts(rank, FINE)
    return made


def report(ended: Ended) -> dict[str, Any]:
    """The one JSON report; nothing else may be on standard output."""
    found: dict[str, Any] = json.loads(ended.out)
    return found


def failing(document: dict[str, Any]) -> dict[str, str]:
    """What the exit code rests on, beside what passed."""
    return {check["id"]: check["detail"] for check in document["checks"]
            if check["decisive"] and check["status"] in ("failed", "undetermined")}  # fmt: skip


def test_under_torchrun_a_failing_rank_and_one_with_another_torch_are_named(job: Job) -> None:
    job.facts(1, machine("2.13.0+cpu", absent("test"), driver="500.1"))
    job.facts(3, machine("2.12.0+cpu", absent("test")))
    done, codes = job.torchrun("--minimum", "driver=550", "--format", "json")
    assert codes == dict.fromkeys(range(4), 1)
    document = report(done)
    assert document["launch"] == {"how": "torchrun", "size": 4, "machines": 1}
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2, 3]
    assert failing(document) == {
        "ranks:torch": "2.13.0+cpu on ranks 0-2; 2.12.0+cpu on rank 3", "minimum:driver#rank-1": "here is 500.1",
    }  # fmt: skip


def test_under_torchrun_a_killed_rank_is_named_although_torchrun_ends_the_others(job: Job) -> None:
    job.odd(2, "KILL")
    began = time.monotonic()
    done, codes = job.torchrun("--format", "json", "--timeout", "300")
    assert time.monotonic() - began < 90
    assert codes == {0: 1, 1: 1, 2: 137, 3: 1}
    document = report(done)
    assert document["missing"] == [{"rank": 2, "how": "died", "stage": "looking at the machine"}]
    assert set(failing(document)) == {"rank:2"}


def test_a_slow_rank_and_one_that_never_comes_are_named_at_the_time_limit(job: Job) -> None:
    job.odd(1, "STOP")
    began = time.monotonic()
    found = job.ranks((0, 1, 2), BY_HAND, "--format", "json", "--timeout", "20", stuck=(1,))
    assert time.monotonic() - began < 60
    assert {rank: ended.code for rank, ended in found.items()} == {0: 3, 1: None, 2: 3}
    assert found[2].out == ""
    missing = {item["rank"]: (item["how"], item["stage"]) for item in report(found[0])["missing"]}
    assert missing == {1: ("not done", "looking at the machine"), 3: ("never came", "")}
    assert set(failing(report(found[0]))) == {"rank:1", "rank:3"}


def test_without_rank_0_the_others_end_with_3_and_a_line(job: Job) -> None:
    job.size = 2
    job.odd(0, "KILL")
    found = job.ranks((0, 1), BY_HAND, "--timeout", "60", "--report", f"junit={job.folder / 'out.xml'}")
    assert (found[1].code, found[1].out) == (3, "")
    assert found[1].err == "kerneldoctor: rank 1: rank 0 ended without a word\n"
    assert not (job.folder / "out.xml").exists()


def test_where_torch_cannot_be_imported_no_rank_waits_and_each_says_why(job: Job) -> None:
    job.size = 2
    python = job.folder / "python-bare"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    for rank in range(2):
        (job.folder / f"options-{rank}").write_text(f"--python {python}")
    found = job.ranks((0, 1), BY_HAND, "--format", "json", "--timeout", "60", "--minimum", "torch=99")
    assert (found[1].code, found[1].out) == (3, "")
    assert "torch.distributed cannot be imported" in found[1].err
    assert found[0].code == 3  # although it knows of a failure: the others cannot hear of it
    assert "torch.distributed cannot be imported" in failing(report(found[0]))["ranks:meet"]
    assert "nothing is known of rank 1" in failing(report(found[0]))["ranks:meet"]
    assert [check["id"] for check in report(found[0])["checks"] if check["id"].startswith("rank:")] == []


def test_a_rank_that_cannot_reach_rank_0_says_where_it_was_looked_for(job: Job) -> None:
    """Nobody at the port, and somebody else who takes the connection and says nothing."""
    job.size = 2
    began = time.monotonic()
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(8)
        port = str(mute.getsockname()[1])
        found = job.ranks((1,), BY_HAND, "--timeout", "3", own={1: {"MASTER_PORT": port}})
    assert (found[1].code, found[1].out) == (3, "")
    assert f"rank 1: rank 0 cannot be reached at 127.0.0.1:{port}: " in found[1].err
    found = job.ranks((1,), BY_HAND, "--timeout", "3")
    assert (found[1].code, found[1].out) == (3, "")
    assert found[1].err.startswith("kerneldoctor: rank 1: rank 0 cannot be reached at 127.0.0.1:")
    assert time.monotonic() - began < 40


def test_a_dead_rank_ends_the_runs_of_the_others(job: Job) -> None:
    """Not only their waiting: nobody asks rank 0 to end, as torchrun would, and its kernel would run for a minute."""
    job.size = 2
    (job.folder / "options-0").unlink()
    publish(job.place.hub, HANGS, repository(attention("hang")), "v1")
    job.odd(1, "KILL")
    began = time.monotonic()
    found = job.ranks((0, 1), BY_HAND, "--kernel", f"{HANGS}@v1", "--timeout", "300", "--format", "json")
    assert time.monotonic() - began < 40
    assert found[0].code == 1
    document = report(found[0])
    assert set(failing(document)) == {"rank:1"}
    (smoke,) = (check for check in document["checks"] if check["id"].startswith(f"kernel:{HANGS}@v1/smoke"))
    assert (smoke["status"], smoke["detail"]) == ("skipped", "rank 1 died")


def test_one_rank_of_a_machine_fetches_and_every_rank_runs_the_kernel(job: Job) -> None:
    """And afterwards, alone: the lock that this gives, and files in the cache that are no longer those of the lock."""
    job.size = 2
    for rank in range(2):
        (job.folder / f"options-{rank}").unlink()
    hub = job.place.hub
    commit = publish(hub, REPO, repository(attention()), "v1")
    kernel = ("--kernel", f"{REPO}@v1", "--heads", "2", "--head-dim", "64", "--inference", "--format", "json")
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}  # whoever asked there would fail
    found = job.ranks((0, 1), SRUN, *kernel, own={1: nowhere})
    assert [(ended.code, ended.err) for ended in found.values()] == [(0, ""), (0, "")]
    document = report(found[0])
    smoke = next(check for check in document["checks"] if check["id"] == f"kernel:{REPO}@v1/smoke")
    assert smoke["status"] == "passed"
    assert document["ranks"][0]["kernels"] == {f"{REPO}@v1": f"{commit[:12]} {VARIANT}"}
    fetched = [
        path for method, path, _ in hub.requests if method == "GET" and REPO in path and path.endswith("/__init__.py")
    ]
    assert len(fetched) == 1

    (build,) = (Path(job.place.environ["HF_HOME"]) / "hub").glob(f"kernels--*/snapshots/{commit}/build/{VARIANT}")
    _lock(job, commit, build)
    assert _statuses(job)["digests"] == "passed"
    (build / "__init__.py").resolve().write_text("raise SystemExit\n")
    assert _statuses(job)["digests"] == "failed"


def _lock(job: Job, commit: str, build: Path) -> None:
    here = fingerprint(facts_on(("cpu",), api_hub.look()[0]))
    verdict = LockedVerdict("passed", "passed", 1)
    entry = Locked(
        f"{REPO}@v1", REPO, "v1", commit, VARIANT, "", digests_of(build), here, verdict, {}, "2026-12-01", ""
    )
    write_lock(str(job.folder / "kerneldoctor.lock"), [entry])


def _statuses(job: Job) -> dict[str, str]:
    arguments = ("--kernel", f"{REPO}@v1", "--lock", str(job.folder / "kerneldoctor.lock"), "--no-run")
    _, out, _ = job.place.run("preflight", *arguments, "--format", "json")
    return {check["id"].rpartition("/")[2]: check["status"] for check in json.loads(out)["checks"]}
