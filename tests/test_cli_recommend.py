"""`kerneldoctor recommend` from end to end on the CPU: a loopback Hub, the real kernels library, good and bad kernels.

Each run is a process of its own; the walk over many environments is tested in tests/recommendation without children.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.lock import read_lock
from tests.hub.machines import FLASH, machine
from tests.hub.server import Files, Hub, serve
from tests.kernels.layout import attention, metadata, publish, repository
from tests.smoke.place import ROOT, Place

REPO, BROKEN, STRANGER = "kernels-test/attention", "kernels-test/broken", "stranger/attention"
STABLE, GONE = "torch-stable-abi210-cpu-x86_64-linux", "torch29-cxx11-cpu-x86_64-linux"
SMALL = ("--heads", "4", "--kv-heads", "2", "--head-dim", "32")
ALIKE = ("--heads", "2", "--kv-heads", "2", "--head-dim", "32")
torch = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


def build(files: Mapping[str, bytes], identity: str, variant: str) -> Files:
    """A build with a compiled file, which carries the build id in its name and is never loaded."""
    named = {**files, f"_attention_cpu_{identity}.abi3.so": b"\x7fELF"}
    return repository(named, metadata(named, id=f"_attention_cpu_{identity}"), variant)


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    """v1 right, v2 without a build for this torch, v3 with the fault of grouped backward; of one also a v4."""
    grouped = attention("gqa-backward-raises")
    with serve() as hub:
        for repo in (REPO, FLASH):
            publish(hub, repo, build(attention(), "f12afc9", STABLE), "v1")
            publish(hub, repo, build(attention(), "8a730d9", GONE), "v2")
            publish(hub, repo, build(grouped, "4eec01c", STABLE), "v3")
        publish(hub, FLASH, build(attention(), "9f3a1c2", STABLE), "v4")
        publish(hub, BROKEN, build(attention("causal-ignored"), "1111111", STABLE), "v1")
        publish(hub, BROKEN, build(attention("import-error"), "2222222", STABLE), "v2")
        publish(hub, STRANGER, build(attention(), "3333333", STABLE), "v1", trusted=False)
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Place:
    return Place.make(running, tmp_path, "cpu")


def answer(place: Place, *arguments: str) -> dict[str, Any]:
    code, out, err = place.run("recommend", *arguments, "--device", "cpu", "--format", "json")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    assert found["exit_code"] == code
    return found


def standing(found: Mapping[str, Any]) -> dict[str, str]:
    return {c["version"] or c["name"]: c["trial"]["verdict"]["kind"] if c["trial"] else c["basis"]
            for c in found["candidates"]}  # fmt: skip


class TestRun:
    pytestmark = torch

    def test_the_newest_that_passes_is_pinned(self, place: Place) -> None:
        code, out, err = place.run("recommend", FLASH, "--device", "cpu", *SMALL)
        commit = place.hub.repos[FLASH].branches["v4"]
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0].startswith(f"{FLASH}: v4 is right here: passed (")
        assert lines[1] == f'  pin     attn_implementation="{FLASH}@{commit}"  # v4'
        assert "* v4    measured" in out
        assert "not run, because v4 passed" in " ".join(out.split())

    def test_a_version_that_trains_wrongly_is_passed_over_and_the_answer_is_kept(self, place: Place) -> None:
        path = place.folder / "kerneldoctor.lock"
        found = answer(place, REPO, *SMALL, f"--write={path}")
        assert standing(found) == {"v3": "partial", "v2": "ruled out", "v1": "passed", "sdpa": "always there"}
        (entry,) = read_lock(str(path))
        commit = place.hub.repos[REPO].branches["v1"]
        assert (entry.commit, entry.revision, entry.variant, entry.build_id) == (commit, "v1", STABLE, "f12afc9")
        files = {name.removeprefix(f"build/{STABLE}/"): data for name, data in
                 place.hub.repos[REPO].commits[commit].items()}  # fmt: skip
        assert entry.digests == {n: f"sha256:{hashlib.sha256(data).hexdigest()}" for n, data in files.items()}
        assert (entry.verdict.kind, entry.environment["backend"], entry.environment["gpu"]) == ("passed", "cpu", "none")
        assert found["lock"] == str(path)
        assert not [step for step in found["next"] if "--write" in step]

    @pytest.mark.parametrize(
        ("workload", "comment"), [((*SMALL, "--inference"), "v3, for inference only"), (ALIKE, "v3")]
    )
    def test_where_no_grouped_backward_is_wanted_it_is_right(
        self, place: Place, workload: tuple[str, ...], comment: str
    ) -> None:
        found = answer(place, REPO, *workload)
        assert standing(found) == {"v3": "passed", "v2": "ruled out", "v1": "predicted", "sdpa": "always there"}
        assert found["pin"]["comment"] == comment

    def test_where_all_are_broken_sdpa_remains(self, place: Place) -> None:
        code, out, _ = place.run("recommend", BROKEN, "--device", "cpu", *SMALL)
        assert code == 1
        assert out.startswith(f"{BROKEN}: nothing that fits here is right; what remains is sdpa")
        assert 'attn_implementation="sdpa"' in out

    def test_without_network_what_was_fetched_before_is_run_and_else_nothing_is_claimed(self, place: Place) -> None:
        before = answer(place, FLASH, *ALIKE)
        place.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
        found = answer(place, FLASH, *ALIKE)  # the index lists other commits of it
        assert (found["exit_code"], found["pin"]["tested"]) == (0, True)
        assert found["pin"]["forms"] == before["pin"]["forms"]
        place.environ["HF_HOME"] = str(place.folder / "empty")
        found = answer(place, FLASH, *ALIKE)
        assert (found["exit_code"], found["pin"]["tested"]) == (3, False)
        assert found["pin"]["comment"].endswith(", untested")
        found = answer(place, REPO, *ALIKE)  # not in the index
        assert (found["exit_code"], found["chosen"]["name"]) == (3, "sdpa")
        assert "127.0.0.1:9" in found["candidates"][0]["why"]

    def test_a_stranger_is_refused_and_then_trusted_by_name(self, place: Place) -> None:
        found = answer(place, STRANGER, *ALIKE)
        assert standing(found) == {"v1": "refused", "sdpa": "always there"}
        (step,) = (s for s in found["next"] if "--trust-remote-code" in s)
        command = step[step.index("kerneldoctor recommend") :].split()[2:]
        found = answer(place, *(part for part in command if part not in ("--device", "cpu")))
        assert f'trust_remote_code=["{STRANGER}"]' in found["pin"]["forms"]["get_kernel"]
        assert found["pin"]["tested"]


# --- without running anything ---------------------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """Variables of a process without a network, with a saved machine in env.json."""
    (tmp_path / "env.json").write_text(json.dumps(machine().to_json()), "utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_", "KERNELS_", "XDG_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "COLUMNS": "100",
            "XDG_CACHE_HOME": str(tmp_path / "cache"), "NO_COLOR": "1"}  # fmt: skip


def call(alone: dict[str, str], *arguments: str, env: bool = True) -> subprocess.CompletedProcess[str]:
    saved = ("--env", str(Path(alone["HOME"], "env.json"))) if env else ()
    command = [sys.executable, "-m", "kerneldoctor", "recommend", *arguments, *saved]
    return subprocess.run(
        command, capture_output=True, text=True, env=alone, cwd=alone["HOME"], check=False, timeout=60
    )


class TestPredict:
    def test_a_saved_machine_is_predicted_and_the_pin_says_untested_in_its_line(self, alone: dict[str, str]) -> None:
        result = call(alone, FLASH, "--gpu", "H100")
        assert (result.returncode, result.stderr) == (0, "")
        (pin,) = (line for line in result.stdout.splitlines() if "attn_implementation=" in line)
        assert pin.endswith("# v3, untested")
        assert not Path(alone["HOME"], "kerneldoctor.lock").exists()

    def test_what_does_not_fit_an_rtx_5090_leaves_sdpa(self, alone: dict[str, str]) -> None:
        result = call(alone, f"{FLASH}@v2", "--torch", "2.9.1+cu128", "--gpu", "RTX 5090", "--no-alternatives")
        assert 'attn_implementation="sdpa"' in result.stdout

    def test_write_without_a_file_means_the_usual_one(self, alone: dict[str, str]) -> None:
        assert call(alone, FLASH, "--write").returncode == 0
        (entry,) = read_lock(str(Path(alone["HOME"], "kerneldoctor.lock")))
        assert (entry.verdict.kind, entry.digests) == ("untested", {})

    def test_a_broken_lock_is_told_before_anything_is_looked_at(self, alone: dict[str, str]) -> None:
        path = Path(alone["HOME"], "kerneldoctor.lock")
        path.write_text('{"schema": "kerneldoctor.lock/1", "ent')
        result = call(alone, FLASH, "--write", "--env", "/nonexistent/facts.json", env=False)
        assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert "kerneldoctor.lock" in result.stderr
        assert path.read_text().endswith('"ent')

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            (("--write", FLASH), "--write=FILE"),
            (("sdpa",), "nothing to choose"),
            ((FLASH, "--kv-heads", "2"), "--heads"),
            ((FLASH, "--gpu", "GTX 9999"), "--gpu"),
            ((FLASH, "--write=/nonexistent/x.lock"), "cannot write"),
        ],
    )
    def test_wrong_use_is_one_line(self, alone: dict[str, str], arguments: tuple[str, ...], word: str) -> None:
        result = call(alone, *arguments)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1, result.stderr
        assert word in result.stderr
        assert not result.stdout

    def test_every_format_can_be_had_at_once_with_the_same_code(self, alone: dict[str, str]) -> None:
        forms = ("json", "markdown", "html", "github", "sarif", "junit")
        result = call(alone, FLASH, "--gpu", "H100", *(f"--report={form}=found.{form}" for form in forms))
        assert result.returncode == 0, result.stderr
        for form in forms:
            text = Path(alone["HOME"], f"found.{form}").read_text("utf-8")
            assert FLASH in text
            assert alone["HOME"] not in text

    def test_nothing_heavy_is_imported_by_a_prediction(self, alone: dict[str, str]) -> None:
        code = (
            "import sys; from kerneldoctor.cli import _run\n"
            f"_run(['recommend', '{FLASH}', '--env', 'env.json', '-o', '/dev/null'])\n"
            "print([m for m in ('huggingface_hub', 'torch', 'kernels', 'rich', 'httpx') if m in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=alone, cwd=alone["HOME"], check=True
        )
        assert done.stdout == "[]\n"
