"""`kerneldoctor preflight` as CI calls it, on saved facts: no torch, a loopback Hub, a lock, a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import kerneldoctor
from kerneldoctor.environment import CachedKernel, Environment, absent
from kerneldoctor.lock import Locked, LockedVerdict, fingerprint, write_lock
from kerneldoctor.preflight.policy import Around
from tests.hub.machines import machine
from tests.hub.server import Hub, serve
from tests.kernels.layout import VARIANT, attention, publish, repository, source
from tests.smoke.place import Place

REPO = "kernels-test/attention"
OLD = repository(attention())
NEW = repository(source("x = 1\n"))
NO_GPU = absent("test")
HERE = machine("2.13.0+cpu", NO_GPU)


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


class Job:
    """A repository with a policy, its Hub, and the machine that it runs on."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.folder = place, folder
        self.commit = publish(place.hub, REPO, OLD, "v1")
        self.machine(HERE)
        self.policy(f'kernels = ["{REPO}@v1"]\nrun = "variants"\n')

    def machine(self, environment: Environment) -> None:
        (self.folder / "facts.json").write_text(json.dumps(environment.to_json()), "utf-8")

    def policy(self, text: str) -> None:
        (self.folder / "kerneldoctor.toml").write_text(text, "utf-8")

    def lock(self, variant: str = VARIANT, where: Environment = HERE, workload: Mapping[str, Any] = {}) -> None:
        entry = Locked(
            f"{REPO}@v1", REPO, "v1", self.commit, variant, "", {}, fingerprint(where),
            LockedVerdict("passed", "passed (5 of 5)", 5), workload, "2026-11-30", "0.1.0",
        )  # fmt: skip
        write_lock(str(self.folder / "kerneldoctor.lock"), [entry])

    def run(self, *arguments: str) -> tuple[int, str, str]:
        config = ("--config", str(self.folder / "kerneldoctor.toml"), "--env", str(self.folder / "facts.json"))
        return self.place.run("preflight", *config, *arguments)

    def checks(self, *arguments: str, code: int) -> dict[str, dict[str, Any]]:
        """The checks about kernels and policy by the end of their id."""
        found, out, err = self.run(*arguments, "--format", "json")
        document = json.loads(out or "{}")
        assert (found, err) == (code, ""), document.get("text")
        assert document["schema"] == "kerneldoctor.preflight/1"
        assert document["exit_code"] == code
        return {check["id"].rpartition("/")[2]: check for check in document["checks"] if check["group"] != "scan"}


@pytest.fixture
def job(running: Hub, tmp_path: Path) -> Job:
    running.repos.clear()
    running.faults.clear()
    return Job(Place.make(running, tmp_path, "cpu"), tmp_path)


def test_green(job: Job) -> None:
    job.lock()
    found = job.checks(code=0)
    assert {name: check["status"] for name, check in found.items()} == {
        "resolves": "passed", "lock": "passed", "drift": "passed", "variant": "passed",
    }  # fmt: skip
    assert job.commit[:12] in found["drift"]["detail"]


def test_the_page_says_ready_and_which_policy_was_read(job: Job) -> None:
    job.lock()
    code, out, err = job.run()
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("ready: ")
    assert lines[2].split()[:2] == ["policy", str(job.folder / "kerneldoctor.toml").split()[0] + ";"]
    assert "  ok       is the build of the lock: torch-cpu would load; locked is torch-cpu" in lines


def test_a_branch_that_has_moved_is_a_warning_with_the_new_commit_and_the_old_pin(job: Job) -> None:
    job.lock()
    moved = publish(job.place.hub, REPO, NEW, "v1")
    drift = job.checks(code=0)["drift"]
    assert (drift["status"], drift["severity"]) == ("failed", "warning")
    assert moved in drift["detail"]
    assert job.commit in drift["detail"]
    assert drift["remedies"][0]["command"] == f"{REPO}@{job.commit}"
    assert job.checks("--fail-on", "warning", code=1)["drift"]["decisive"] is True


def test_after_a_move_the_locked_commit_is_what_is_judged(job: Job) -> None:
    job.lock()
    gone = {path.replace(VARIANT, "torch29-cxx11-cpu-x86_64-linux"): data for path, data in NEW.items()}
    publish(job.place.hub, REPO, gone, "v1")
    assert job.checks(code=0)["resolves"]["status"] == "passed"


def test_another_build_than_the_locked_one_fails(job: Job) -> None:
    job.lock(variant="torch-cuda")
    found = job.checks(code=1)
    assert found["variant"]["status"] == "failed"
    assert found["variant"]["detail"] == "torch-cpu would load; locked is torch-cuda"


def test_a_lock_for_another_workload_is_a_warning(job: Job) -> None:
    job.lock(workload={"heads": 8, "head_dim": 64, "backward": False})
    assert job.checks("--heads", "8", "--head-dim", "64", "--inference", code=0)["workload"]["status"] == "passed"
    found = job.checks("--heads", "8", "--head-dim", "128", "--training", code=0)["workload"]
    assert (found["status"], found["severity"]) == ("failed", "warning")
    assert found["detail"] == "head_dim 64, here 128 and backward False, here True"


def test_a_lock_of_another_environment_says_in_what_that_differs(job: Job) -> None:
    job.lock(where=machine("2.12.0+cpu", NO_GPU))
    lock = job.checks(code=0)["lock"]
    assert (lock["status"], lock["severity"]) == ("failed", "warning")
    assert "torch 2.12.0+cpu, here 2.13.0+cpu" in lock["detail"]


def test_a_kernel_that_the_lock_does_not_know_fails(job: Job) -> None:
    job.lock()
    publish(job.place.hub, "kernels-test/other", OLD, "v1")
    code, out, _ = job.run("--kernel", "kernels-test/other@v1", "--lock", str(job.folder / "kerneldoctor.lock"))
    assert code == 1
    assert "the lock does not know it" in out
    assert "kerneldoctor recommend kernels-test/other@v1 --write" in out


def test_without_a_lock_the_pin_is_offered(job: Job) -> None:
    pinned = job.checks(code=0)["pinned"]
    assert (pinned["status"], pinned["severity"], pinned["decisive"]) == ("failed", "info", False)
    assert pinned["remedies"][0]["command"] == f"{REPO}@{job.commit}"


def test_a_name_of_transformers_without_a_commit_offers_to_measure_and_no_pin(job: Job) -> None:
    publish(job.place.hub, "kernels-community/flash-attn2", OLD, "v1")
    job.machine(machine("2.13.0+cpu", NO_GPU, transformers="5.22.2"))  # which asks for v4
    job.policy('kernels = ["flash_attention_2"]\nrun = "variants"\n')
    code, out, _ = job.run("--format", "json")
    (pinned,) = (check for check in json.loads(out)["checks"] if check["id"] == "kernel:flash_attention_2/pinned")
    assert [remedy["command"] for remedy in pinned["remedies"]] == ["kerneldoctor recommend flash_attention_2 --write"]
    assert "what the installed transformers makes of it" in pinned["detail"]
    assert code == 1


def test_a_locked_commit_that_is_not_on_the_hub_fails_and_no_other_takes_its_place(job: Job) -> None:
    there = job.commit
    job.commit = "f" * 40
    job.lock()
    found = job.checks(code=1)
    assert "f" * 40 in found["resolves"]["detail"]
    assert "cannot be had at the commit of the lock" in found["resolves"]["title"]
    assert there in found["drift"]["detail"]
    commands = [remedy["command"] for check in found.values() for remedy in check["remedies"]]
    assert not [command for command in commands if "f" * 40 in command]
    assert not {"variant", "digests"} & found.keys()


def test_a_publisher_that_is_not_trusted_fails_unless_it_is_named(job: Job) -> None:
    publish(job.place.hub, "stranger/attention", OLD, "v1", trusted=False)
    job.policy('run = "variants"\n')
    found = job.checks("stranger/attention@v1", code=1)["trusted"]
    assert "without trust_remote_code" in found["detail"]
    assert found["remedies"][0]["command"] == "--trust-remote-code stranger/attention"
    job.policy(f'run = "variants"\n{found["remedies"][1]["command"]}\n')
    assert job.checks(code=0)["trusted"]["status"] == "passed"


def test_no_build_fails_with_the_way_on(job: Job) -> None:
    publish(job.place.hub, REPO, repository(attention(), variant="torch29-cxx11-cpu-x86_64-linux"), "v1")
    resolves = job.checks(code=1)["resolves"]
    assert "torch 2.9" in resolves["detail"]
    assert resolves["remedies"][0]["command"].startswith("kerneldoctor variants ")


def test_a_repository_that_is_not_there_fails_and_a_hub_that_is_not_there_is_not_determined(job: Job) -> None:
    del job.place.hub.repos[REPO]
    assert job.checks(code=1)["resolves"]["status"] == "failed"
    job.place.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
    assert job.checks(code=3)["resolves"]["status"] == "undetermined"


def test_offline_what_is_in_the_cache_counts_and_nobody_is_asked(job: Job) -> None:
    job.lock()
    assert job.checks(code=0)["resolves"]["status"] == "passed"  # with it, what the build says of itself is cached
    before = len(job.place.hub.requests)
    job.place.environ["HF_HUB_OFFLINE"] = "1"
    cached = CachedKernel(REPO, job.commit, ("v1",), (VARIANT,), (), True)
    facts = machine("2.13.0+cpu", NO_GPU, cached=(cached,)).to_json()
    facts["huggingface"]["offline"] = {"value": True, "source": "HF_HUB_OFFLINE"}
    job.machine(Environment.from_json(facts))
    assert job.checks(code=0)["offline"]["status"] == "passed"
    by_commit = (f"{REPO}@{job.commit}", "--lock", str(job.folder / "kerneldoctor.lock"))
    _, out, _ = job.run("--kernel", *by_commit)
    assert "loads without the Hub: its build is in the cache" in " ".join(out.split())
    facts["huggingface"]["cached_kernels"]["value"] = []
    job.machine(Environment.from_json(facts))
    assert job.checks(code=3)["resolves"]["status"] == "undetermined"
    assert len(job.place.hub.requests) == before


def test_publishers_minimum_and_gpu_are_held(job: Job) -> None:
    job.policy(
        f'kernels = ["{REPO}@v1"]\nrun = "variants"\nallowed-publishers = ["kernels-community"]\n'
        'minimum = {torch = "2.14"}\nrequired-gpu = {name = "H200"}\n'
    )
    job.machine(machine("2.13.0+cpu"))
    code, out, _ = job.run("--format", "json", "--ignore", "KD4007=it is what is tested")
    assert code == 1
    failed = {check["id"] for check in json.loads(out)["checks"] if check["status"] == "failed" and check["decisive"]}
    assert failed == {f"kernel:{REPO}@v1/publisher", "minimum:torch", "gpu:name"}


def test_a_model_that_cannot_be_read_costs_the_kernels_and_not_the_report(job: Job) -> None:
    code, out, _ = job.place.run("preflight", "--kernel", f"{REPO}@v1", "--no-run", "--model", str(job.folder / "gone"))
    assert code in (1, 3)
    assert "the kernels were not looked at to the end" in out
    assert "  system  " in out


def test_an_expired_ignore_is_a_finding_and_hides_nothing(job: Job) -> None:
    job.machine(machine("2.13.0+cpu"))  # a torch for the CPU on a machine with a GPU
    entry = '{rule = "KD4007", reason = "we know", until = '
    job.policy(f'run = "scan"\nignore = [{entry}"2999-01-01"}}]\n')
    assert job.run()[0] == 0
    job.policy(f'run = "scan"\nignore = [{entry}"2025-01-01"}}]\n')
    found = job.checks(code=1)["ignore:KD4007"]
    assert (found["status"], found["severity"]) == ("failed", "warning")
    assert "held until 2025-01-01 (we know)" in found["detail"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('timeuot = 3\nlock = "gone.lock"\n', ["'timeuot'; the nearest is 'timeout'", "there is no file"]),
        ('run = "scan"\nignore = [{rule = "KD5", reason = "x"}]\n', ["no rule is called 'KD5'"]),
    ],
)
def test_mistakes_in_the_policy_end_with_2_and_a_line_each(job: Job, text: str, said: list[str]) -> None:
    job.policy(text)
    code, out, err = job.run()
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == len(said)
    for line, words in zip(err.splitlines(), said, strict=True):
        assert words in line
        assert "kerneldoctor.toml" in line


def test_a_broken_lock_is_wrong_use(job: Job) -> None:
    (job.folder / "kerneldoctor.lock").write_text('{"schema": "kerneldoctor.lock/1", "entries": [{}]}')
    code, out, err = job.run()
    assert (code, out) == (2, "")
    assert "entries[0]" in err


def test_every_format_has_the_same_exit_code_and_the_files_are_written(job: Job) -> None:
    job.policy(f'kernels = ["{REPO}@v1"]\nrun = "variants"\nminimum = {{torch = "2.14"}}\n')
    files = {form: job.folder / f"out.{form}" for form in ("junit", "sarif", "json", "markdown", "html")}
    reports = [part for form, path in files.items() for part in ("--report", f"{form}={path}")]
    code, out, _ = job.run(*reports, "--format", "github")
    assert code == 1
    assert "::error " in out
    assert 'failures="1"' in files["junit"].read_text()
    assert json.loads(files["sarif"].read_text())["runs"][0]["invocations"][0]["exitCode"] == 1
    for path in files.values():
        assert "torch is not 2.14 or newer" in path.read_text("utf-8"), path


def test_no_policy_makes_the_scan_and_says_so(job: Job) -> None:
    facts = str(job.folder / "facts.json")
    code, out, _ = job.place.run("preflight", "--config", _empty(job.folder), "--env", facts)
    assert code == 0
    assert out.startswith("nothing against it, but no kernel was named: ")
    assert "the scan alone; name a kernel with --kernel" in " ".join(out.split())
    job.policy(f'kernels = ["{REPO}@v1"]\nrun = "scan"\n')
    assert job.run()[1].startswith("nothing against it, but no kernel was looked at: ")


def test_from_python_a_policy_gives_its_checks_and_the_code(job: Job) -> None:
    job.policy('run = "scan"\nminimum = {torch = "2.14"}\n')
    found: list[kerneldoctor.Preflight] = []
    policy = kerneldoctor.read_policy(str(job.folder / "kerneldoctor.toml"))
    assert kerneldoctor.run_preflight(policy, Around(env=str(job.folder / "facts.json")), found.append) == 1
    assert [check.id for check in found[0].checks.checks if check.decisive and check.status == "failed"] == [
        "minimum:torch"
    ]


def test_a_kernel_can_be_named_without_an_option(job: Job) -> None:
    job.policy('run = "variants"\n')
    assert set(job.checks(f"{REPO}@v1", "--kernel", f"{REPO}@v1", code=0)) == {"resolves", "pinned"}


@pytest.mark.parametrize(("said", "code"), [("torch>=2.13", 0), ("torch = 2.14", 1), ("torch>=2.14", 1)])
def test_a_minimum_may_be_written_as_in_requirements(job: Job, said: str, code: int) -> None:
    job.policy('run = "scan"\n')
    found = job.checks("--minimum", said, code=code)["minimum:torch"]
    assert found["remedies"] == ([{"title": "Bring torch to 2.14 or newer", "command": 'pip install "torch>=2.14"'}]
                                 if code else [])  # fmt: skip


@pytest.mark.parametrize("said", ["torch", "torch==2.13", "torch>2.13", "torch~=2.13", "torch>=2,<3", "torch=2.13+cpu"])
def test_what_is_no_minimum_is_wrong_use(job: Job, said: str) -> None:
    code, out, err = job.run("--minimum", said)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "torch" in err


def _empty(folder: Path) -> str:
    (folder / "empty.toml").write_text("")
    return str(folder / "empty.toml")
