"""`kerneldoctor prefetch`: real processes, a loopback Hub, real caches; at the end the kernels library, offline."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kerneldoctor
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.environment import Environment
from kerneldoctor.hub.candidates import release_row
from kerneldoctor.lock import Locked, LockedVerdict, fingerprint, write_lock
from kerneldoctor.prefetch import bring as bringing
from kerneldoctor.prefetch.model import Cargo, Item, Patience, State
from kerneldoctor.smoke.digest import digests_of
from tests.hub.machines import machine
from tests.hub.server import Fault, Hub, serve
from tests.kernels.layout import VARIANT, attention, metadata, publish, repository, source

ROOT = Path(kerneldoctor.__file__).parent.parent
REPO = "kernels-test/attention"
OTHER = "torch-cuda"  # a second build, which is only fetched with the whole snapshot
CPU = machine("2.13.0+cpu", "9.0", transformers="5.22.2")
OLD_HUB = machine("2.13.0+cpu", "9.0", huggingface_hub="1.21.0")


class Place:
    """A Hub, a machine without caches, and a folder to fill."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub, self.folder, self.to = hub, folder, folder / "carried"

    def variables(self, **more: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "KERNELS_", "LOCAL_KERNELS", "XDG_"))}
        return {**kept, **self.hub.environment(), "PYTHONPATH": str(ROOT), "COLUMNS": "120", "HOME": str(self.folder),
                "HF_HOME": str(self.folder / "hf"), **more}  # fmt: skip

    def run(self, *arguments: str, env: Environment = CPU, **more: str) -> subprocess.CompletedProcess[str]:
        saved = self.folder / "env.json"
        saved.write_text(json.dumps(env.to_json()), "utf-8")
        command = [sys.executable, "-m", "kerneldoctor", "prefetch", *arguments, "--env", str(saved), "--no-redact"]
        command += [] if "--to" in arguments else ["--to", str(self.to)]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.variables(**more), check=False, timeout=120
        )

    def bring(self, *arguments: str, **more: Any) -> dict[str, Any]:
        result = self.run(*arguments, "--format", "json", **more)
        assert result.stdout, result.stderr
        assert not result.stderr
        loaded: dict[str, Any] = json.loads(result.stdout)
        assert loaded["exit_code"] == result.returncode
        return loaded

    def held(self, repo: str = REPO) -> list[str]:
        """The files of all snapshots in the folder."""
        root = self.to / f"kernels--{repo.replace('/', '--')}" / "snapshots"
        return sorted(p.relative_to(root).as_posix().partition("/")[2] for p in root.rglob("*") if p.is_file())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with serve() as hub:
        yield Place(hub, tmp_path)


def two_builds(**changes: Any) -> dict[str, bytes]:
    build = attention()
    described = metadata(build, **changes)
    return {"README.md": b"x", **repository(build, described), **repository(source("y = 1\n"), variant=OTHER)}


def test_the_whole_snapshot_under_its_name_where_a_partial_one_is_refused(place: Place) -> None:
    commit = publish(place.hub, REPO, two_builds())
    found = place.bring(f"{REPO}@v1")
    (item,) = found["kernels"]
    assert (item["state"], item["commit"], item["build"], item["whole"]) == ("loads", commit, VARIANT, True)
    assert {"README.md", f"build/{OTHER}/__init__.py", f"build/{VARIANT}/metadata.json"} <= set(place.held())
    assert (place.to / "kernels--kernels-test--attention/refs/v1").read_text() == commit
    assert found["environment"] == {"HF_HUB_OFFLINE": "1", "KERNELS_CACHE": str(place.to)}
    assert item["fetched"] == item["size"] > 0
    assert "2 files, against metadata.json" in item["checks"]
    again = place.bring(f"{REPO}@v1")
    assert (again["kernels"][0]["state"], again["kernels"][0]["fetched"]) == ("loads", 0)


def test_only_the_build_where_a_partial_snapshot_is_taken(place: Place) -> None:
    publish(place.hub, REPO, two_builds())
    (item,) = place.bring(f"{REPO}@v1", env=OLD_HUB)["kernels"]
    assert (item["state"], item["whole"]) == ("loads", False)
    assert place.held() == [f"build/{VARIANT}/__init__.py", f"build/{VARIANT}/metadata.json"]


def test_build_only_is_found_through_local_kernels(place: Place) -> None:
    commit = publish(place.hub, REPO, two_builds())
    found = place.bring(f"{REPO}@v1", "--build-only")
    snapshot = place.to / "kernels--kernels-test--attention" / "snapshots" / commit
    assert found["environment"]["LOCAL_KERNELS"] == f"{REPO}={snapshot}"
    assert place.held() == [f"build/{VARIANT}/__init__.py", f"build/{VARIANT}/metadata.json"]


def test_a_commit_is_brought_by_its_commit_and_by_no_branch(place: Place) -> None:
    commit = publish(place.hub, REPO, two_builds())
    result = place.run(f"{REPO}@{commit}")
    assert result.returncode == 0
    assert result.stdout.startswith("1 kernel loads offline, ")
    assert f"  name    {REPO}@{commit}, and by no branch\n" in result.stdout
    assert f"  export KERNELS_CACHE={place.to}\n" in result.stdout
    assert not (place.to / "kernels--kernels-test--attention/refs").exists()


def test_where_huggingface_hub_is_not_known_nothing_is_said_to_load(place: Place) -> None:
    publish(place.hub, REPO, two_builds())
    result = place.run(f"{REPO}@v1", env=machine("2.13.0+cpu", "9.0", huggingface_hub=""))
    assert result.returncode == 3
    assert result.stdout.startswith("0 of 1 kernel load offline, ")
    assert "not settled whether it loads offline" in result.stdout
    assert "README.md" in place.held()  # whole: that is right for every release


def test_a_kernel_that_is_loaded_in_turn_comes_along(place: Place) -> None:
    publish(place.hub, REPO, two_builds(kernel_depends=[{"repo-id": "kernels-test/helper", "version": 1}]))
    publish(place.hub, "kernels-test/helper", repository(source("x = 1\n")))
    _, second = place.bring(f"{REPO}@v1")["kernels"]
    assert (second["repo"], second["state"], second["needed_by"]) == ("kernels-test/helper", "loads", f"{REPO}@v1")
    assert place.held("kernels-test/helper")


def test_bytes_that_are_not_those_that_were_built_are_named(place: Place) -> None:
    build = attention()
    files = {**repository({**build, "__init__.py": b"evil = 1\n"}, metadata(build))}
    publish(place.hub, REPO, files)
    found = place.bring(f"{REPO}@v1")
    assert (found["exit_code"], found["kernels"][0]["state"], found["environment"]) == (1, "damaged", {})
    assert "__init__.py is not what was built" in found["kernels"][0]["text"]


@pytest.mark.parametrize(
    ("reference", "fault", "code", "state", "words"),
    [
        ("kernels-test/none@v1", None, 2, "missing", "no kernel repository kernels-test/none"),
        (f"{REPO}@v7", None, 2, "missing", "no revision 'v7'"),
        (f"{REPO}@v2", None, 1, "no-build", "has no build for this machine"),
        (f"{REPO}@v1", Fault("/refs", status=403), 3, "unreachable", "ask its owner for access"),
        (f"{REPO}@v1", Fault("/refs", status=429, headers={"Retry-After": "99"}), 3, "unreachable", "rate limit"),
        (f"{REPO}@v1", Fault("/resolve/.*/__init__.py", status=403), 3, "unreachable", "refuses"),
    ],
)
def test_what_cannot_be_brought_says_why(
    place: Place, reference: str, fault: Fault | None, code: int, state: State, words: str
) -> None:
    publish(place.hub, REPO, two_builds())
    publish(place.hub, REPO, repository(attention(), variant="torch-cuda"), "v2")
    place.hub.faults += [fault] if fault is not None else []
    found = place.bring(reference, "--timeout", "8")
    (item,) = found["kernels"]
    assert (found["exit_code"], item["state"]) == (code, state), item["text"]
    assert words in item["text"]


def test_a_switch_that_forbids_asking_is_named(place: Place) -> None:
    (item,) = place.bring(f"{REPO}@v1", HF_HUB_OFFLINE="1")["kernels"]
    assert item["state"] == "unreachable"
    assert "HF_HUB_OFFLINE is set" in item["text"]


def test_time_is_limited_and_the_next_run_goes_on(place: Place) -> None:
    publish(place.hub, REPO, two_builds())
    place.hub.faults.append(Fault(f"/resolve/.*/build/{OTHER}/", delay=30, times=1))
    start = time.monotonic()
    found = place.bring(f"{REPO}@v1", "--fetch-timeout", "2")
    assert time.monotonic() - start < 20  # of the 30 that the Hub takes
    assert (found["exit_code"], found["kernels"][0]["state"]) == (3, "unreachable")
    assert "within 2 s; what has arrived is kept" in found["kernels"][0]["text"]
    place.hub.faults.clear()
    (item,) = place.bring(f"{REPO}@v1")["kernels"]
    assert item["state"] == "loads"
    assert 0 < item["fetched"] < item["size"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing to fetch: name a kernel"),
        (("sdpa",), "nothing to fetch"),
        (("a/b/c",), "is no kernel reference"),
        ((f"{REPO}@v1", "--lock", "nothing.lock"), "cannot read nothing.lock"),
        ((f"{REPO}@v1", "--to", "/dev/null"), "no folder"),
        ((f"{REPO}@v1", "--build-only", "--to", "a:b"), "colon"),
    ],
)
def test_wrong_use_is_one_line_and_asks_nobody(place: Place, arguments: tuple[str, ...], words: str) -> None:
    result = place.run(*arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert words in result.stderr
    assert place.hub.requests == []


class TestLock:
    def lock(self, place: Place, commit: str, digests: dict[str, str], env: Environment = CPU) -> str:
        entry = Locked(
            f"{REPO}@v1", REPO, "v1", commit, VARIANT, "0123abc", digests, fingerprint(env),
            LockedVerdict("passed", "passed (1 of 1)", 1), {}, "2026-12-01", "0.1.0",
        )  # fmt: skip
        path = str(place.folder / "kerneldoctor.lock")
        write_lock(path, [entry])
        return path

    def test_what_is_locked_is_brought_at_its_commit_and_held_to_its_digests(self, place: Place) -> None:
        commit = publish(place.hub, REPO, two_builds())
        publish(place.hub, REPO, repository(source("moved = 1\n")), "v1")
        built = place.folder / "built"
        for name, data in repository(attention(), metadata(attention())).items():
            path = built / Path(name).name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        (item,) = place.bring("--lock", self.lock(place, commit, digests_of(built)))["kernels"]
        assert (item["state"], item["commit"]) == ("loads", commit)
        assert "the lock's digests" in item["checks"]
        other = {**digests_of(built), "__init__.py": "sha256:" + "0" * 64}
        (item,) = place.bring("--lock", self.lock(place, commit, other))["kernels"]
        assert (item["state"], item["text"]) == ("damaged", "__init__.py differ from what the lock recorded")

    def test_a_lock_for_another_environment_is_no_lock(self, place: Place) -> None:
        path = self.lock(place, "a" * 40, {}, machine("2.9.0+cu128", "9.0"))
        result = place.run("--lock", path)
        assert result.returncode == 2
        assert "none of its 1 entries is for this environment" in result.stderr


def test_a_disk_without_room_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bringing, "file_sizes", lambda *_: {"build/torch-cpu/x.so": 2**30})
    monkeypatch.setattr(bringing, "fetch_snapshot", lambda *_: pytest.fail("fetched nevertheless"))
    monkeypatch.setattr(bringing.shutil, "disk_usage", lambda _: SimpleNamespace(free=2**30))
    release = release_row(shipped_tables(), "0.17.2")
    item = Item(REPO, "unreachable", repo=REPO, revision="v1", commit="a" * 40, build=VARIANT, whole=True)
    got, needs = bringing.bring(bringing.Order(item, str(tmp_path / "new"), release, {}), Patience())
    assert (got.state, needs) == ("no-room", ())
    assert got.text.startswith("1.0 GiB are to be fetched, 1.0 GiB are free in ")


def test_the_worst_item_decides_the_exit_code() -> None:
    def code(*states: State) -> int:
        return Cargo(tuple(Item("a/b", state) for state in states), "", "", "", "").exit_code

    assert [code("loads"), code("loads", "unsettled"), code("unsettled", "refused"), code("no-room", "missing")] == [
        0, 3, 1, 2,
    ]  # fmt: skip


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("option", ["", "--build-only"])
def test_the_real_library_loads_it_offline_with_the_variables_that_were_printed(place: Place, option: str) -> None:
    commit = publish(place.hub, REPO, two_builds())
    command = [sys.executable, "-m", "kerneldoctor", "prefetch", f"{REPO}@v1", "--to", str(place.to), "--no-redact",
               "--format", "json", *filter(None, [option])]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, env=place.variables(), check=False, timeout=300)
    found = json.loads(result.stdout)
    assert found["exit_code"] == result.returncode == 0, found
    assert "kernels 0.17.2, asked offline" in found["kernels"][0]["checks"]
    asked = len(place.hub.requests)
    script = (
        "from kernels import get_kernel\n"
        f"for how in (dict(version=1), dict(revision={commit!r})):\n"
        f"    print(get_kernel({REPO!r}, **how).flash_attn_func.__name__)\n"
    )
    variables = {**place.variables(), **found["environment"]}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=variables, check=False, timeout=300
    )
    assert done.stdout == "flash_attn_func\nflash_attn_func\n", done.stderr
    assert len(place.hub.requests) == asked
