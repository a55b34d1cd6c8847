"""`kerneldoctor pins` as people start it: real processes, a saved machine, the bundled index or a loopback Hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kerneldoctor
from kerneldoctor.environment import Environment
from kerneldoctor.hub.index import index_listing
from tests.hub.machines import FLASH, machine
from tests.hub.server import serve
from tests.test_cli_hub import CU128, CU130, files

ROOT = Path(kerneldoctor.__file__).parent.parent
H100 = machine("2.13.0+cu128", "9.0", transformers="5.22.2")


class Place:
    """A code base and a saved machine."""

    def __init__(self, folder: Path) -> None:
        self.code, self.folder = folder / "code", folder
        self.code.mkdir()

    def write(self, *lines: str) -> None:
        (self.code / "train.py").write_text("\n".join(lines) + "\n", "utf-8")

    def run(
        self, *options: str, env: Environment | None = H100, path: str = "train.py", **more: str
    ) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_", "KERNELS_", "XDG_"))}
        variables = {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "HOME": str(self.folder),
                     "XDG_CACHE_HOME": str(self.folder / "cache"), "HF_HUB_OFFLINE": "1", **more}  # fmt: skip
        command = [sys.executable, "-m", "kerneldoctor", "pins", *filter(None, [path]), *options]
        if env is not None:
            saved = self.folder / "env.json"
            saved.write_text(json.dumps(env.to_json()), "utf-8")
            command += ["--env", str(saved)]
        return subprocess.run(
            command, capture_output=True, text=True, env=variables, cwd=self.code, check=False, timeout=60
        )

    def report(self, *options: str, **more: Any) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.run(*options, "--format", "json", **more).stdout)
        return loaded


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_fine_is_no_alarm(place: Place) -> None:
    place.write(
        'load(attn_implementation="sdpa")', f'load(attn_implementation="{FLASH}@v2")', "load(attn_implementation=a)"
    )
    result = place.run(env=machine("2.13.0+cu130"))
    assert result.returncode == 0
    assert result.stdout.startswith("nothing to mend: 3 places in 1 file; 2 fine, 0 not determined, 1 not read\n")


def test_a_pin_without_a_build_fails_with_place_and_reason(place: Place) -> None:
    place.write("x = 1", f'load(attn_implementation="{FLASH}@v2")')
    result = place.run(env=machine("2.9.0+cu128"))
    assert result.returncode == 1
    assert f"train.py:2: {FLASH}@v2  no build\n" in result.stdout
    assert "torch 2.9.0+cu128" in result.stdout


def test_a_known_fault_hangs_on_the_workload_until_that_is_said(place: Place) -> None:
    place.write(f'load(attn_implementation="{FLASH}@v3")')
    env = machine("2.11.0+cu128", "9.0", transformers="5.22.2")
    with serve() as hub:
        hub.repo(FLASH).commit(files(CU128, identity="48628c8"), "v3")
        usual: dict[str, Any] = {"env": env, **hub.environment(), "HF_HUB_OFFLINE": "0"}
        (open_,) = place.report(**usual)["pins"]
        assert (open_["state"], open_["rules"], open_["fails"]) == ("perhaps-bad", ["KD3101"], False)
        (inference,) = place.report("--inference", **usual)["pins"]
        assert (inference["state"], inference["rules"]) == ("fine", [])
        result = place.run("--training", "--heads", "14", "--kv-heads", "2", **usual)
        assert result.returncode == 1
        assert f"train.py:1: {FLASH}@v3  known bad [KD3101]\n" in result.stdout


def test_a_commit_can_be_demanded_and_is_offered(place: Place) -> None:
    listed = index_listing(FLASH)
    v3 = listing.commit if (listing := listed and listed.version("v3")) else ""
    place.write(f'load(attn_implementation="{FLASH}@v3")', f'load(attn_implementation="{FLASH}@{v3}")')
    result = place.run("--require-commit", env=machine("2.13.0+cu130"))
    assert result.returncode == 1
    assert f"train.py:1: {FLASH}@v3  moves\n" in result.stdout
    assert f"    instead: {FLASH}@{v3}\n" in result.stdout
    assert "train.py:2:" not in result.stdout


def test_without_torch_no_build_is_judged_and_the_page_says_so(place: Place) -> None:
    place.write(f'load(attn_implementation="{FLASH}@v9")')
    found = place.report(env=machine("", "9.0"))
    assert (found["exit_code"], found["pins"][0]["state"]) == (0, "not-judged")
    assert "no torch is installed here" in found["notes"][0]


def test_what_cannot_be_told_is_3_unless_it_may_stay_open(place: Place) -> None:
    place.write('load(attn_implementation="nobody/knows@v1")')
    assert place.run("--offline").returncode == 3
    assert place.run("--offline", "--lenient").returncode == 0


def test_the_hub_is_asked_once_a_reference_and_its_word_counts(place: Place) -> None:
    with serve() as hub:
        hub.repo(FLASH).commit(files(CU130), "v3")
        place.write(*[f'load(attn_implementation="{FLASH}@v3")'] * 3, 'k = get_kernel("me/none", version=1)')
        variables = {**hub.environment(), "HF_HUB_OFFLINE": "0"}
        found = place.report("--timeout", "120", env=machine("2.13.0+cu130"), **variables)
        assert [pin["state"] for pin in found["pins"]] == ["fine", "fine", "fine", "missing"]
        assert found["exit_code"] == 1
        assert sum(path.endswith(f"{FLASH}/refs") for _, path, _ in hub.requests) == 1


def test_the_formats_of_ci_name_file_and_line(place: Place) -> None:
    place.write("x = 1", f'load(attn_implementation="{FLASH}@v2")', f'load(attn_implementation="{FLASH}@v2")')
    result = place.run("--format", "github", "--report", "sarif=pins.sarif", env=machine("2.9.0+cu128"))
    assert result.returncode == 1
    assert "file=train.py,line=2::" in result.stdout
    run = json.loads((place.code / "pins.sarif").read_text())["runs"][0]
    places = [r["locations"][0]["physicalLocation"] for r in run["results"] if r["kind"] == "fail"]
    assert [(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in places] == [
        ("train.py", 2), ("train.py", 3),
    ]  # fmt: skip


LINES = (
    ('get_kernel("me/attention")', "raises", "demands one: ValueError"),
    ('get_kernel("me/attention", revision="v1", version=1)', "raises", "takes one of them"),
    ('get_kernel("me/attention", "v1")', "raises", "by name only: TypeError"),
    ('get_kernel("me/attention", version="1")', "raises", "takes numbers only"),
    ('get_kernel("me/attention", version=1)', "fine", ""),
    ('get_kernel("me/attention", version=9)', "missing", "has no revision 'v9' on the Hub: it has v1"),
    ('load(attn_implementation="me/main")', "missing", "the Hub has no such revision"),
    ('get_kernel("evil/attention", version=1)', "not-trusted", "would not load without trust_remote_code"),
    ('get_kernel("evil/attention", version=1, trust_remote_code=True)', "fine", ""),
    ('get_kernel("evil/attention", version=1, trust_remote_code=flag)', "undetermined", "does not stand here"),
    ('M.from_pretrained(x, attn_implementation="evil/attention@v1")', "not-trusted", "trust"),
    ('M.from_pretrained(x, attn_implementation="evil/attention@v1", allow_all_kernels=True)', "fine", ""),
    ('load(x, use_flash_attention_2=True)', "raises", "nor of any since 4.53"),
    ('load(attn_implementation="flash_atention_2")', "wrong", "did you mean flash_attention_2?"),
    ('load(attn_implementation="ours_alone")', "not-judged", "no name that transformers knows"),
)  # fmt: skip


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    place = Place(tmp_path_factory.mktemp("calls"))
    place.write(*(line for line, _, _ in LINES))
    with serve() as hub:
        hub.repo("me/attention").commit(files(CU130), "v1")
        hub.repo("me/main").commit(files(CU130), "main")
        hub.repo("evil/attention", trusted=False).commit(files(CU130), "v1")
        variables = {**hub.environment(), "HF_HUB_OFFLINE": "0"}
        env = machine("2.13.0+cu130", "9.0", transformers="5.22.2")
        return place.report(env=env, **variables), place.run(env=env, **variables).stdout


class TestCalls:
    """What kernels and transformers would refuse of a call, whatever builds there are: one run on many lines."""

    @pytest.mark.parametrize("at", range(len(LINES)), ids=[line for line, _, _ in LINES])
    def test_what_comes_of_a_line(self, calls: tuple[dict[str, Any], str], at: int) -> None:
        _, state, words = LINES[at]
        pin = calls[0]["pins"][at]
        assert (pin["line"], pin["state"]) == (at + 1, state)
        assert words in pin["outlook"]
        assert pin["fails"] == (state not in ("fine", "undetermined", "not-judged"))

    def test_what_would_be_taken_stands_beside_what_would_not(self, calls: tuple[dict[str, Any], str]) -> None:
        report, page = calls
        assert report["pins"][0]["instead"].startswith('get_kernel("me/attention", revision="')
        assert 'trust_remote_code=["evil/attention"]' in report["pins"][7]["instead"]
        assert "allow_all_kernels=True" in report["pins"][10]["instead"]
        assert "train.py:12:" not in page
        assert "train.py:14: flash_atention_2  not a reference\n" in page
        assert "train.py:15: ours_alone  not judged\n" in page

    def test_another_release_takes_what_this_one_refuses(self, place: Place) -> None:
        place.write(
            'get_kernel("me/attention", "v1")', 'get_kernel("me/attention")', "load(use_flash_attention_2=True)"
        )
        older = machine("2.9.0+cu128", kernels="0.14.1", transformers="4.52.4", flash_attn="2.8.3")
        states = [pin["state"] for pin in place.report("--offline", env=older)["pins"]]
        assert "raises" not in states[:2]
        assert "argument" not in place.report("--offline", env=older)["pins"][2]["outlook"]


def test_what_transformers_refuses_is_no_matter_of_builds(place: Place) -> None:
    place.write(f'load(attn_implementation="{FLASH}@v3")', f'get_kernel("{FLASH}", version=3)')
    found = place.report(env=machine("2.13.0+cu130", "9.0", transformers="5.24.0"))
    assert [pin["state"] for pin in found["pins"]] == ["raises", "fine"]
    assert "does not accept kernels 0.17.2 [KD5001]; pip install" in found["pins"][0]["outlook"]


def test_what_could_not_be_read_is_not_determined(place: Place) -> None:
    place.write("load(attn_implementation=")
    result = place.run()
    assert result.returncode == 3
    assert result.stdout.startswith("no kernel is asked for in 1 file; 1 file could not be read\n")
    assert place.run("--lenient").returncode == 0


def test_a_lock_that_is_cut_off_is_a_finding_with_its_line(place: Place) -> None:
    (place.code / "kerneldoctor.lock").write_text('{"schema": "kerneldoctor.lock/1", "entr')
    result = place.run("--format", "github", path="")
    assert result.returncode == 1
    assert "file=kerneldoctor.lock,line=1::" in result.stdout


def test_without_a_path_the_folder_is_searched_and_a_line_break_stays_in_its_name(place: Place) -> None:
    place.write("x = 1")
    (place.code / "two\nlines.py").write_text(f'load(attn_implementation="{FLASH}@v2")\n')
    result = place.run(env=machine("2.9.0+cu128"), path="")
    assert result.returncode == 1
    assert f"two\\nlines.py:1: {FLASH}@v2  no build\n" in result.stdout


def test_wrong_use_is_one_line(place: Place) -> None:
    place.write("x = 1")
    result = place.run("nothing-there")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "kerneldoctor: nothing-there: no such file or folder\n"
