"""The commands about Hub kernels as people meet them: real processes against a loopback Hub, or without any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kerneldoctor
from kerneldoctor.environment import CachedKernel, Environment
from tests.hub.machines import FLASH, STABLE, gpu, machine, seen
from tests.hub.server import Fault, Hub, serve

ROOT = Path(kerneldoctor.__file__).parent.parent
CU130 = STABLE.format(130)
CU128 = STABLE.format(128)
CU126 = STABLE.format(126)
Result = subprocess.CompletedProcess[str]
Run = Callable[..., Result]


def metadata(identity: str = "4eec01c", **changes: Any) -> bytes:
    said = {"name": "flash-attn2", "id": f"_flash_attn2_cuda_{identity}", "version": 3, "license": "BSD-3-Clause",
            "python-depends": [], "backend": {"type": "cuda", "archs": ["8.0", "9.0", "10.0", "12.0"]}}  # fmt: skip
    said |= {name.replace("_", "-"): value for name, value in changes.items()}
    return json.dumps({name: value for name, value in said.items() if value is not None}).encode()


def files(*variants: str, identity: str = "4eec01c", **changes: Any) -> dict[str, bytes]:
    found = {"README.md": b"x"}
    for variant in variants:
        found[f"build/{variant}/metadata.json"] = metadata(identity, **changes)
        found[f"build/{variant}/_flash_attn2_cuda_{identity}.abi3.so"] = b"ELF"
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command for a saved machine; nothing of this machine's Hub settings gets in."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_", "KERNELS_", "XDG_"))}
    usual = {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path),
             "HF_HOME": str(tmp_path / "hf"), "XDG_CACHE_HOME": str(tmp_path / "cache")}  # fmt: skip

    def call(*arguments: str, env: Environment | None = None, hub: Hub | None = None, **more: str) -> Result:
        command = [sys.executable, "-m", "kerneldoctor", *arguments]
        if arguments[0] in ("variants", "resolve", "scan"):
            saved = tmp_path / "env.json"
            saved.write_text(json.dumps((env or machine()).to_json()), "utf-8")
            command += ["--env", str(saved)]
        variables = {**usual, **more}
        if hub is not None:
            variables = {**variables, **hub.environment()} | {"HF_HUB_OFFLINE": more.get("HF_HUB_OFFLINE", "0")}
        return subprocess.run(command, capture_output=True, text=True, env=variables, check=False, timeout=60)

    return call


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serve() as running:
        repo = running.repo(FLASH)
        repo.commit(files("torch213-cxx11-cu126-x86_64-linux", identity="8a730d9"), "v2")
        repo.commit(files(CU126, CU128, CU130), "v3")
        yield running


def document(result: Result) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def one_line(result: Result, code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert not result.stdout
    for word in words:
        assert word in result.stderr


class TestVariantsFromTheIndex:
    """No network at all, the ordinary state of many clusters."""

    def test_the_answer_the_pin_the_date_and_that_nobody_was_asked(self, run: Run) -> None:
        result = run("variants", f"{FLASH}@v3")
        assert result.returncode == 0
        assert result.stdout.startswith(f"{FLASH}@v3 would load {CU130}")
        assert f'attn_implementation="{FLASH}@81fb77c12b2ad5d69380669b46739d5868614502"  # v3' in result.stdout
        assert "the bundled index of 2026-" in result.stdout
        assert "the Hub was not asked: HF_HUB_OFFLINE is set" in result.stdout
        # `kernels versions` says here that the repository does not support kernel versions, and exits 0.
        assert "v2      would load torch213-cxx11-cu130-x86_64-linux" in result.stdout

    def test_the_published_json(self, run: Run) -> None:
        found = document(run("variants", f"{FLASH}@v2", "--format", "json", env=machine("2.13.0+cu128", "12.0")))
        assert {"reference", "source", "as_of", "versions"} <= found.keys()
        assert (found["reference"], found["source"], found["usable"]) == (f"{FLASH}@v2", "index", False)
        (v2,) = (v for v in found["versions"] if v["version"] == "v2")
        assert len(v2["revision"]) == 40
        by_name = {variant["name"]: variant for variant in v2["variants"]}
        taken = by_name["torch213-cxx11-cu126-x86_64-linux"]
        assert {"name", "accepted", "preferred", "reason", "build_id", "known_issues"} <= taken.keys()
        assert (taken["accepted"], taken["preferred"], taken["usable"]) == (True, True, False)
        assert [v["code"] for v in taken["verdicts"]] == ["no_gpu_code"]
        refused = by_name["torch213-cxx11-cu130-x86_64-linux"]
        assert (refused["accepted"], refused["reason_code"]) == (False, "cuda_major")
        assert refused["reason"] == "for CUDA 13.0; torch is built for 12.8"

    def test_the_stale_build_is_named_with_its_rule_and_another_version_is_pinned(self, run: Run) -> None:
        found = document(run("variants", FLASH, "--format", "json", env=machine("2.11.0+cu128", "9.0")))
        v3 = next(v for v in found["versions"] if v["version"] == "v3")
        taken = next(variant for variant in v3["variants"] if variant["preferred"])
        assert (taken["name"], taken["build_id"]) == (CU128, "48628c8")
        assert "KD3101" in taken["known_issues"]
        assert found["pin"]["version"] == "v2"

    @pytest.mark.parametrize(
        ("reference", "torch", "gpus", "code"),
        [
            (f"{FLASH}@v3", "2.13.0+cu130", "9.0", 0),
            (f"{FLASH}@v1", "2.13.0+cu130", "9.0", 1),  # no build for this torch
            (f"{FLASH}@v2", "2.13.0+cu128", "12.0", 1),  # a build without code for the GPU
            (f"{FLASH}@v4", "2.13.0+cu130", "9.0", 3),  # known in parts
            (f"{FLASH}@v77", "2.13.0+cu130", "9.0", 3),  # not in the index: the Hub may have it
            (FLASH, "2.13.0+cu130", "9.0", 0),
        ],
    )
    def test_exit_codes(self, run: Run, reference: str, torch: str, gpus: str, code: int) -> None:
        assert run("variants", reference, env=machine(torch, gpus)).returncode == code

    def test_an_unknown_repository_is_undetermined_and_the_nearest_one_offered(self, run: Run) -> None:
        one_line(run("variants", "kernels-community/flash-atn2"), 3, "did you mean kernels-community/flash-attn2?")

    def test_what_if(self, run: Run) -> None:
        result = run("variants", f"{FLASH}@v3", "--torch", "2.13", "--cuda", "12.8", "--gpu", "RTX 5090")
        assert f"would load {CU128} (untested), but: This flash-attn2 build fails in backward" in result.stdout.replace(
            "\n", " "
        )
        assert "no wheel of torch 2.13 was published for CUDA 12.8" in result.stdout.replace("\n          ", " ")

    def test_find_env_gives_commands(self, run: Run) -> None:
        result = run("variants", f"{FLASH}@v2", "--find-env", env=machine("2.13.0+cu128", "12.0"))
        assert 'pip install "torch==2.11.0+cu128" --index-url https://download.pytorch.org/whl/cu128' in result.stdout

    def test_builds_for_other_platforms_are_counted_and_shown_on_demand(self, run: Run) -> None:
        short, whole = run("variants", f"{FLASH}@v3"), run("variants", f"{FLASH}@v3", "--all")
        assert "builds for other platforms (--all)" in short.stdout
        assert "aarch64-linux" not in short.stdout
        assert "aarch64-linux" in whole.stdout
        assert "--all" not in whole.stdout

    def test_flash_attention_2_is_followed_to_its_kernel(self, run: Run) -> None:
        found = document(run("variants", "flash_attention_2", "--format", "json", "--transformers", "5.21"))
        assert (found["repo"], found["asked"], found["by_default"]) == (FLASH, "v3", True)

    def test_a_page_of_the_hub_is_read_with_a_note(self, run: Run) -> None:
        result = run("variants", f"https://huggingface.co/kernels/{FLASH}/tree/v3")
        assert result.returncode == 0
        assert "is read as" in result.stdout

    def test_kernels_before_0_14_reads_repositories_that_are_gone(self, run: Run, hub: Hub) -> None:
        result = run("variants", f"{FLASH}@main", env=machine("2.9.1+cu128", kernels="0.12.3"), hub=hub)
        assert "reads repositories of type model" in result.stdout.replace("\n          ", " ")
        assert not hub.requests

    def test_a_kernel_on_disk_is_said_to_be_there(self, run: Run) -> None:
        commit = "81fb77c12b2ad5d69380669b46739d5868614502"
        held = CachedKernel(FLASH, commit, ("v3",), (CU130,), ("4eec01c",), False)
        result = run("variants", f"{FLASH}@v3", env=machine(cached=(held,)))
        assert "on disk, would not load offline" in result.stdout
        cache = run("variants", f"{FLASH}@v3", "--source", "cache", env=machine(cached=(held,)))
        assert "the local cache, which holds only what was downloaded" in cache.stdout

    def test_the_default_of_transformers_is_about_attention_alone(self, run: Run) -> None:
        here = machine(transformers="5.21.1")
        assert "asked for by transformers" in run("variants", FLASH, env=here).stdout
        assert "asked for by transformers" not in run("variants", "kernels-community/relu", env=here).stdout

    def test_nothing_heavy_is_imported(self, run: Run) -> None:
        code = (
            "import sys; from kerneldoctor.cli import _run\n"
            f"_run(['variants', '{FLASH}@v3', '-o', '/dev/null'])\n"
            "print([m for m in ('huggingface_hub', 'torch', 'kernels', 'rich', 'httpx') if m in sys.modules])"
        )
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert result.stdout == "[]\n"


class TestWhatKeepsAFittingBuildFromBeingLoaded:
    """Offline mode and transformers have a say, whatever the builds are."""

    COMMIT = "81fb77c12b2ad5d69380669b46739d5868614502"

    def offline(self, *held: CachedKernel, **versions: str) -> Environment:
        found = machine(cached=held, **versions)
        return replace(found, huggingface=replace(found.huggingface, offline=seen(True)))

    @pytest.mark.parametrize(
        ("reference", "whole", "code", "says"),
        [
            (f"{FLASH}@v3", True, 0, f"@v3 would load {CU130}"),
            (f"{FLASH}@{COMMIT}", True, 0, f"would load {CU130}"),
            (f"{FLASH}@v3", False, 1, "since 1.22 refuses what is not there whole"),
            (f"{FLASH}@v3", None, 3, "what the cache holds of it is not known"),
            (f"{FLASH}@v2", True, 1, "would not load: offline mode is on, and it is not in the cache"),
            (FLASH, True, 0, "v3 would load here"),
            (FLASH, False, 1, "v3 and v2 would not load: offline mode is on"),
            ("kernels-community/relu", True, 1, "would not load: offline mode is on"),
        ],
    )
    def test_offline_only_what_is_in_the_cache_loads(
        self, run: Run, reference: str, whole: bool | None, code: int, says: str
    ) -> None:
        held = CachedKernel(FLASH, self.COMMIT, ("v3",), (CU130,), ("4eec01c",), whole)
        result = run("variants", reference, env=self.offline(held))
        assert says in " ".join(result.stdout.split())
        assert result.returncode == code
        assert run("scan", "--kernel", reference, "--quiet", env=self.offline(held)).returncode == code

    def test_a_folder_in_local_kernels_needs_no_cache(self, run: Run) -> None:
        found = self.offline()
        local = replace(found, huggingface=replace(found.huggingface, local_kernels=seen((f"{FLASH}=/k",))))
        assert run("variants", f"{FLASH}@v3", env=local).returncode == 0

    def test_a_transformers_that_refuses_is_in_the_headline_and_its_line_is_not_the_pin(self, run: Run) -> None:
        here = machine(transformers="5.24.0", huggingface_hub="2.4.0")
        found = document(run("variants", f"{FLASH}@v3", "--format", "json", env=here))
        assert (found["usable"], found["through_transformers"]) == (True, False)  # by get_kernel it loads
        assert "by get_kernel alone: transformers 5.24.0 does not accept kernels 0.17.2 [KD5001]" in found["headline"]
        assert [line.partition("(")[0] for line in found["pin"]["type"]] == ["get_kernel"]
        (other,) = found["pin"]["not_here"]
        assert other["text"].startswith("attn_implementation=")
        assert "transformers==5.22.2" in other["mend"]

    def test_through_a_name_of_transformers_it_does_not_load(self, run: Run) -> None:
        here = machine(transformers="5.24.0", huggingface_hub="2.4.0")
        result = run("variants", "flash_attention_2", "--torch", "2.9", "--format", "json", env=here)
        assert (result.returncode, document(result)["usable"]) == (1, False)
        assert document(result)["headline"].startswith("flash_attention_2 would not be loaded: transformers 5.24.0")

    def test_a_model_repository_is_called_one(self, run: Run) -> None:
        one_line(run("variants", "kernels-community/flash-attn"), 3, "of type model only", "from 0.14 on reads")
        old = machine("2.8.0+cu128", kernels="0.12.3")
        one_line(
            run("variants", "someone/k@v1", "--source", "live", env=old), 3, "the Hub was not asked: kernels 0.12.3"
        )

    def test_a_kept_entry_that_cannot_be_read_is_named(self, run: Run, tmp_path: Path) -> None:
        kept = tmp_path / "cache" / "kerneldoctor" / "index" / "someone--thing.json"
        kept.parent.mkdir(parents=True)
        for text in ("{", '{"schema": "kerneldoctor.index/1", "entries": [{"repo": "someone/thing"}]}'):
            kept.write_text(text, "utf-8")
            one_line(run("variants", "someone/thing"), 3, "someone--thing.json", "index refresh someone/thing")

    def test_a_far_fetched_repository_is_not_offered(self, run: Run) -> None:
        assert "did you mean" not in run("variants", "kernels-community/nosuch").stderr


class TestVariantsFromTheHub:
    def test_a_live_listing_is_called_live(self, run: Run, hub: Hub) -> None:
        found = document(run("variants", f"{FLASH}@v3", "--format", "json", hub=hub))
        assert (found["source"], found["notes"], found["usable"]) == ("live", [], True)
        assert found["pin"]["revision"] == hub.repos[FLASH].branches["v3"]

    def test_a_version_whose_name_fits_may_hold_a_broken_build(self, run: Run, hub: Hub) -> None:
        hub.repos[FLASH].commit(files(CU130, identity="48628c8"), "v9")
        found = document(run("variants", f"{FLASH}@v9", "--format", "json", hub=hub))
        (issue,) = (i for v in found["versions"][0]["variants"] for i in v["issues"] if i["rule"] == "KD3101")
        assert issue["missing"] == ["workload.backward", "workload.q_heads", "workload.kv_heads"]

    def test_asking_works_where_telemetry_is_off(self, run: Run, hub: Hub) -> None:
        result = run("variants", FLASH, hub=hub, HF_HUB_DISABLE_TELEMETRY="1", DO_NOT_TRACK="1")
        assert "the live Hub" in result.stdout

    def test_a_version_without_build_folder(self, run: Run, hub: Hub) -> None:
        hub.repos[FLASH].commit({"README.md": b"x"}, "v5")
        result = run("variants", f"{FLASH}@v5", hub=hub)
        assert result.returncode == 1
        assert "has no build at all: this revision has no build folder" in result.stdout

    def test_a_repository_that_is_not_there(self, run: Run, hub: Hub) -> None:
        one_line(run("variants", "someone/nothing", hub=hub), 2, "no kernel repository someone/nothing", "HF_TOKEN")

    def test_a_repository_without_branches_has_nothing_to_load(self, run: Run, hub: Hub) -> None:
        hub.repo("someone/empty")
        result = run("variants", "someone/empty", hub=hub)
        assert (result.returncode, result.stdout.splitlines()[0]) == (1, "someone/empty has no versions")
        one_line(run("index", "refresh", "someone/empty", hub=hub), 2, "no branches")

    def test_a_commit_is_shown_with_its_branch(self, run: Run, hub: Hub) -> None:
        commit = hub.repos[FLASH].branches["v3"]
        result = run("variants", f"{FLASH}@{commit}", hub=hub)
        assert result.stdout.startswith(f"{FLASH}@{commit[:10]} (v3) would load {CU130}")

    def test_a_revision_that_is_not_there(self, run: Run, hub: Hub) -> None:
        one_line(run("variants", f"{FLASH}@nightly", hub=hub), 2, "has no revision 'nightly'")

    @pytest.mark.parametrize(
        ("fault", "word"),
        [
            (Fault("/refs", status=500), "answered 500"),
            (Fault("/refs", status=429, headers={"Retry-After": "120"}), "answered 429"),
            (Fault("/refs", status=200, body=b"<html>"), "no listing of a Hub"),
            (Fault("/refs", delay=30), "no answer"),
        ],
    )
    def test_a_hub_in_trouble_is_announced_and_the_index_answers(
        self, run: Run, hub: Hub, fault: Fault, word: str
    ) -> None:
        hub.faults.append(fault)
        result = run("variants", f"{FLASH}@v3", "--timeout", "3", hub=hub)
        text = " ".join(result.stdout.split())
        assert word in text
        assert "Listing: the bundled index" in text
        assert result.returncode == 0

    @pytest.mark.parametrize("status", [401, 403])
    def test_a_hub_that_refuses_would_refuse_the_download_too(self, run: Run, hub: Hub, status: int) -> None:
        hub.faults.append(Fault("/refs", status=status, headers={"X-Error-Message": "Invalid credentials"}))
        result = run("variants", f"{FLASH}@v3", hub=hub)
        assert "may load or not: the Hub refuses to show the repository" in " ".join(result.stdout.split())
        assert result.returncode == 3

    def test_a_version_that_the_hub_does_not_list_is_wrong_use_like_any_other_revision(
        self, run: Run, hub: Hub
    ) -> None:
        one_line(run("variants", f"{FLASH}@v77", hub=hub), 2, "no revision 'v77' on the Hub: it has v3, v2")

    def test_of_many_versions_on_a_slow_hub_the_one_asked_for_is_answered(self, run: Run, hub: Hub) -> None:
        big = hub.repo("kernels-community/big")
        for number in range(1, 31):
            big.commit(files(CU130, identity=f"{number:07x}"), f"v{number}")
        hub.faults.append(Fault("/tree/", delay=0.6))
        result = run("variants", "kernels-community/big@v5", "--timeout", "4", hub=hub)
        text = " ".join(result.stdout.split())
        assert text.startswith(f"kernels-community/big@v5 would load {CU130}"), text
        assert "cannot be judged: not read in time" in text
        assert result.returncode == 0

    def test_source_live_takes_nothing_else(self, run: Run, hub: Hub) -> None:
        hub.faults.append(Fault("/refs", status=500))
        one_line(run("variants", FLASH, "--source", "live", "--timeout", "3", hub=hub), 3, "answered 500")

    def test_source_index_asks_nobody(self, run: Run, hub: Hub) -> None:
        result = run("variants", FLASH, "--source", "index", hub=hub)
        assert result.returncode == 0
        assert not hub.requests

    def test_ten_thousand_variants_stay_readable(self, run: Run, hub: Hub) -> None:
        many = {f"build/torch-stable-abi2{n}-cu130-x86_64-linux/x.so": b"" for n in range(10_000)}
        hub.repo("someone/many").commit(many, "v1")
        result = run("variants", "someone/many@v1", hub=hub)
        assert result.stdout.count("\n") < 20
        assert ",+9980}-cu130: needs torch 2.14 or newer; here is 2.13" in " ".join(result.stdout.split())
        whole = run("variants", "someone/many@v1", "--all", hub=hub)
        assert whole.stdout.count("torch-stable-abi") > 10_000


class TestWhatABuildSaysOfItself:
    """metadata.json of the builds that would be loaded, from the Hub."""

    THIRD = "someone/thing"

    def test_a_third_party_kernel_gets_a_verdict_and_not_a_shrug(self, run: Run, hub: Hub) -> None:
        repo = hub.repo(self.THIRD, trusted=False)
        repo.commit(files(CU130, identity="0a1b2c3", backend={"type": "cuda", "archs": ["9.0a"]}), "v2")
        repo.commit(files(CU130, identity="0a1b2c3", backend={"type": "cuda", "archs": ["12.0"]}), "v1")
        good, bad = (run("variants", f"{self.THIRD}@{v}", "--format", "json", hub=hub) for v in ("v2", "v1"))
        assert (good.returncode, bad.returncode) == (1, 1)  # a plain get_kernel raises
        assert "would not load without trust_remote_code" in document(good)["headline"]
        told = next(v for v in document(good)["versions"] if v["version"] == "v2")["variants"][0]
        assert (told["metadata"]["state"], told["metadata"]["archs"]) == ("known", ["9.0a"])
        assert "KD3109" in told["known_issues"]  # kernels refuses publishers that the Hub does not trust
        attention, call = document(good)["pin"]["type"]
        assert f'trust_remote_code=["{self.THIRD}"]' in call
        assert "allow_all_kernels=True" in attention

    def test_a_transformers_that_cannot_be_told_to_trust_gets_no_line_that_would_fail(self, run: Run, hub: Hub) -> None:
        repo = hub.repo(self.THIRD, trusted=False)
        repo.commit(files("torch213-cxx11-cu130-x86_64-linux", backend={"type": "cuda", "archs": ["9.0a"]}), "v2")
        here = machine(transformers="5.12.1", kernels="0.14.1")
        pin = document(run("variants", f"{self.THIRD}@v2", "--format", "json", hub=hub, env=here))["pin"]
        assert [line.partition("(")[0] for line in pin["type"]] == ["get_kernel"]
        assert "5.13 and newer" in pin["not_here"][0]["why"]

    def test_what_a_build_asks_for_and_nobody_judged_is_said(self, run: Run, hub: Hub) -> None:
        needs = {"python_depends": ["numba-cuda"], "kernel_depends": [{"repo-id": "someone/other", "version": 2}]}
        hub.repo(self.THIRD).commit(files(CU130, **needs), "v1")
        text = " ".join(run("variants", f"{self.THIRD}@v1", hub=hub).stdout.split())
        assert "it loads someone/other@v2 in turn: whether those load here was not judged" in text
        assert "knows no dependency numba-cuda" in text

    @pytest.mark.parametrize(
        ("changes", "code", "says"),
        [
            ({"name": None, "id": None}, 1, "has no usable name and id, which kernels 0.17.2 demands"),
            ({"python_depends": ["einops"]}, 1, "pip install einops"),
            ({"kernels_minver": "0.99.0"}, 1, "needs kernels 0.99.0 or newer"),
            ({"backend": {"type": "cuda"}}, 3, "names no GPU architectures"),
        ],
    )
    def test_what_speaks_against_it(self, run: Run, hub: Hub, changes: dict[str, Any], code: int, says: str) -> None:
        hub.repo(self.THIRD).commit(files(CU130, **changes), "v1")
        result = run("variants", f"{self.THIRD}@v1", hub=hub)
        assert says in " ".join(result.stdout.split())
        assert result.returncode == code

    @pytest.mark.parametrize(
        ("fault", "says"),
        [
            ({"status": 403}, "403"),
            ({"status": 500}, "did not give metadata.json"),
            ({"cut": True}, "did not give metadata.json"),
            ({"delay": 30}, "within"),
        ],
    )
    def test_where_it_cannot_be_read_that_is_said_with_the_reason_and_in_time(
        self, run: Run, hub: Hub, fault: dict[str, Any], says: str
    ) -> None:
        hub.repo(self.THIRD).commit(files(CU130), "v1")
        hub.faults.append(Fault("/resolve/", **fault))
        began = time.monotonic()
        result = run("variants", f"{self.THIRD}@v1", "--timeout", "4", hub=hub)
        assert time.monotonic() - began < 12
        text = " ".join(result.stdout.split())
        assert result.returncode == 3
        assert "metadata.json of v1: " in text
        assert says in text
        assert not result.stderr

    def test_what_was_read_once_is_known_offline(self, run: Run, hub: Hub) -> None:
        hub.repo(self.THIRD).commit(files(CU130), "v1")
        assert run("variants", f"{self.THIRD}@v1", hub=hub).returncode == 0
        assert run("index", "refresh", self.THIRD, hub=hub).returncode == 0
        offline = document(run("variants", f"{self.THIRD}@v1", "--format", "json"))
        assert (offline["source"], offline["usable"]) == ("index", True)

    def test_other_versions_do_not_cost_the_answer_its_time(self, run: Run, hub: Hub) -> None:
        hub.faults.append(Fault("/resolve/", delay=30))
        began = time.monotonic()
        result = run("variants", FLASH, "--timeout", "3", hub=hub)
        assert time.monotonic() - began < 20
        assert "did not give metadata.json" in " ".join(result.stdout.split())
        assert result.returncode == 0  # of this kernel enough is known without


class TestWhatItIsFor:
    """A fault that hangs on the workload is named until the workload is given, and decided then."""

    def run_v9(self, run: Run, hub: Hub, *options: str) -> Result:
        hub.repos[FLASH].commit(files(CU130, identity="48628c8"), "v9")
        return run("variants", f"{FLASH}@v9", *options, hub=hub)

    @pytest.mark.parametrize(
        ("options", "code", "says"),
        [
            ((), 0, "[KD3101; depends on the workload]"),
            (("--training",), 0, "say what it is for: --heads and --kv-heads"),
            (("--training", "--heads", "14", "--kv-heads", "2"), 1, "which is of no use here: This flash-attn2 build"),
            (("--training", "--heads", "14"), 0, "(untested)"),
            (("--inference",), 0, "(untested)"),
            (("--inference", "--heads", "14", "--kv-heads", "2", "--head-dim", "64", "--dtype", "float16"), 0, ""),
        ],
    )
    def test_each(self, run: Run, hub: Hub, options: tuple[str, ...], code: int, says: str) -> None:
        result = self.run_v9(run, hub, *options)
        assert says in " ".join(result.stdout.split())
        assert result.returncode == code
        assert ("KD3101" in result.stdout) is (("14" not in options and "--inference" not in options) or code == 1)

    def test_a_version_with_a_fault_is_not_among_the_good_ones_of_the_headline(self, run: Run) -> None:
        result = run("variants", FLASH, env=machine("2.13.0+cu128", "9.0"))
        headline = " ".join(result.stdout.split("  here ")[0].split())
        assert headline == (
            f"{FLASH}: v2 would load here (untested); v3 would load too, but with a known fault [KD3101]"
        )


def test_the_page_of_the_best_known_kernel_fits_a_screen(run: Run) -> None:
    for torch, gpus in (("2.13.0+cu130", "9.0"), ("2.13.0+cu128", "12.0"), ("2.11.0+cu128", "9.0"), ("2.9.1", "9.0")):
        result = run("variants", FLASH, env=machine(torch, gpus), COLUMNS="80")
        assert result.stdout.count("\n") <= 44
        assert "works" not in result.stdout
    whole = run("variants", FLASH, "--verbose")
    assert whole.stdout.count("torch21") > 40


class TestResolve:
    def test_the_chain_and_the_eras(self, run: Run) -> None:
        result = run("resolve", "flash_attention_2", "--transformers", "5.16", "--kernels", "0.16.2")
        assert result.returncode == 0
        assert result.stdout.startswith(f"flash_attention_2 would load {FLASH}@v3 from the Hub")
        assert "* 5.16.0 to 5.17.0" in result.stdout

    def test_what_would_raise_fails(self, run: Run) -> None:
        result = run("resolve", "flash_attention_2", "--transformers", "5.16", "--kernels", "0.17.2")
        assert result.returncode == 1
        assert "pip install kernels==0.16.2" in result.stdout

    def test_json(self, run: Run) -> None:
        found = document(run("resolve", FLASH, "--transformers", "5.22", "--format", "json"))
        assert (found["repo"], found["revision"], found["source"], found["works"]) == (FLASH, "v4", "named", True)
        assert {step["code"] for step in found["steps"]} >= {"transformers", "version_default"}
        assert found["eras"][-1].keys() == {"first", "last", "repo", "version", "rocm", "kernels"}

    def test_without_transformers_nobody_knows(self, run: Run) -> None:
        assert run("resolve", "flash_attention_2").returncode == 3


class TestIndex:
    def test_refresh_replaces_an_entry_from_the_live_hub(self, run: Run, hub: Hub) -> None:
        assert run("index", "refresh", FLASH, hub=hub).stdout.startswith(f"{FLASH}: 2 versions, 4 builds -> ")
        found = document(run("variants", f"{FLASH}@v3", "--format", "json"))
        assert found["source"] == "index"
        assert "Listing: the index as refreshed from the Hub of 2" in run("variants", FLASH).stdout
        assert found["versions"][0]["revision"] == hub.repos[FLASH].branches["v3"]
        assert found["versions"][0]["how"] == "observed"
        assert [v["version"] for v in found["versions"]] == ["v3", "v2"]
        other, this = run("index", "show", "kernels-community/relu"), run("index", "show", FLASH)
        assert "derived" in other.stdout
        assert f"{FLASH}, refreshed" in this.stdout
        assert f"commit {hub.repos[FLASH].branches['v3'][:10]}" in this.stdout

    def test_what_fails_is_named_and_the_rest_is_done(self, run: Run, hub: Hub) -> None:
        result = run("index", "refresh", "someone/nothing", FLASH, hub=hub)
        assert result.returncode == 2
        assert "no kernel repository someone/nothing" in result.stderr
        assert result.stdout.startswith(f"{FLASH}: ")

    def test_offline_it_says_so(self, run: Run) -> None:
        one_line(run("index", "refresh", FLASH), 3, "HF_HUB_OFFLINE is set")

    @pytest.mark.parametrize("fault", [{"status": 500}, {"cut": True}, {"status": 200, "body": b"[{]"}, {"delay": 30}])
    def test_a_hub_that_fails_half_way_through_a_repository_leaves_its_entry_as_it_was(
        self, run: Run, hub: Hub, fault: dict[str, Any], tmp_path: Path
    ) -> None:
        hub.repo("someone/thing").commit(files("torch-cuda"), "v1")
        before = run("index", "show", FLASH, "--format", "json").stdout
        hub.faults.append(Fault(f"/tree/{hub.repos[FLASH].branches['v3']}", **fault))  # v2 is listed before
        result = run("index", "refresh", FLASH, "someone/thing", "--timeout", "3", hub=hub)
        assert result.returncode == 3
        assert result.stderr.count("\n") == 1
        assert result.stdout.startswith("someone/thing: 1 version, 1 build -> ")
        assert run("index", "show", FLASH, "--format", "json").stdout == before
        kept = [path.name for path in (tmp_path / "cache" / "kerneldoctor" / "index").iterdir()]
        assert kept == ["someone--thing.json"]

    def test_a_folder_that_cannot_be_written_is_one_line(self, run: Run, hub: Hub, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        one_line(run("index", "refresh", FLASH, hub=hub, XDG_CACHE_HOME=str(tmp_path / "file")), 2, "cannot write")

    def test_show(self, run: Run) -> None:
        everything = run("index", "show")
        assert everything.stdout.count("\n") < 150
        assert any(line.startswith(f"{FLASH} ") for line in everything.stdout.splitlines())
        found = document(run("index", "show", FLASH, "--format", "json"))
        (repository,) = found["repositories"]
        v4 = next(v for v in repository["versions"] if v["version"] == "v4")
        assert (v4["how"], v4["complete"]) == ("partial", False)
        one_line(run("index", "show", "someone/nothing"), 3, "does not know")
        one_line(run("index", "show", "kernels-community/flash-atn2"), 3, f"did you mean {FLASH}?")
        one_line(run("index", "show", "flash_attention_2"), 2, "is no repository")


class TestScan:
    def test_a_kernel_is_answered_from_the_index_without_asking(self, run: Run, hub: Hub) -> None:
        result = run("scan", "--kernel", f"{FLASH}@v3", "--quiet", hub=hub)
        assert f"{FLASH}@v3 would load {CU130}" in result.stdout
        assert not hub.requests

    def test_flash_attention_2_by_default_where_transformers_would_ask(self, run: Run) -> None:
        asks = document(run("scan", "--format", "json", env=machine(transformers="5.21.1")))
        assert [kernel["reference"] for kernel in asks["kernels"]] == ["flash_attention_2"]
        assert document(run("scan", "--format", "json", env=machine()))["kernels"] == []

    @pytest.mark.parametrize(
        ("reference", "code", "says"),
        [
            (f"{FLASH}@v3", 0, "not determined"),
            (f"{FLASH}@v1", 1, "1 named kernel would not load"),
            (f"{FLASH}@v4", 3, "whether 1 named kernel would load cannot be told"),
            ("kernels-community/nosuch", 3, "whether 1 named kernel would load cannot be told"),
            ("sdpa", 0, "not determined"),
        ],
    )
    def test_a_kernel_that_was_named_counts(self, run: Run, reference: str, code: int, says: str) -> None:
        result = run("scan", "--kernel", reference, "--quiet")
        assert says in " ".join(result.stdout.split())
        assert result.returncode == code
        found = run("scan", "--kernel", reference, "--format", "json")
        summary = document(found)["summary"]
        assert found.returncode == code
        counts = (summary["kernels_named"], summary["kernels_failing"], summary["kernels_undetermined"])
        assert counts == (1, int(code == 1), int(code == 3))
        assert run("scan", "--kernel", reference, "--quiet", "--fail-on", "never").returncode == 0

    def test_a_kernel_that_would_not_load_is_a_failed_check_for_ci(self, run: Run) -> None:
        text = run("scan", "--kernel", f"{FLASH}@v1", "--format", "junit").stdout
        assert f"kernel:{FLASH}@v1/loads" in text
        assert "has no build for this machine" in text

    def test_named_kernels_take_the_place_of_the_usual_one_which_counts_for_nothing(self, run: Run) -> None:
        here = machine(transformers="5.24.0", huggingface_hub="2.4.0")
        alone = document(run("scan", "--format", "json", env=here))
        assert alone["summary"]["kernels_named"] == 0
        text = run("scan", "--kernel", "kernels-community/relu", env=here).stdout
        assert "flash_attention_2 " not in text.rpartition("not determined")[2]
        assert "instead" not in text  # any version was meant, and one loads

    def test_an_unknown_kernel_does_not_stop_the_scan(self, run: Run) -> None:
        (kernel,) = document(run("scan", "--format", "json", "--kernel", "someone/nothing"))["kernels"]
        assert "nor the local cache knows it" in kernel["error"]

    def test_a_name_that_is_none_is_wrong_use(self, run: Run) -> None:
        one_line(run("scan", "--kernel", "nonsense"), 2, "is no kernel reference")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["variants", "nonsense"], "is no kernel reference"),
        (["variants", "a/b/c"], "is no kernel reference"),
        (["variants", "/tmp/kernel"], "folder on disk"),
        (["variants", "sdpa"], "it has no builds"),
        (["variants", ""], "no kernel was named"),
        (["variants", "x" * 2000], "at most"),
        (["variants", FLASH, "--torch", "newest"], "--torch"),
        (["variants", FLASH, "--gpu", "Voodoo 2"], "--gpu"),
        (["variants", FLASH, "--timeout", "0"], "timeout"),
        (["variants", FLASH, "--heads", "8", "--kv-heads", "3"], "evenly"),
        (["variants", FLASH, "--heads", "0"], "--heads"),
        (["variants", FLASH, "--dtype", "float8"], "--dtype"),
        (["variants", FLASH, "--rules", "/nowhere"], "no such folder"),
        (["resolve", "nonsense"], "is no kernel reference"),
        (["index", "refresh", f"{FLASH}@v3"], "takes repositories"),
        (["index", "refresh", "nonsense"], "is no kernel reference"),
    ],
)
def test_wrong_use_is_one_line(run: Run, arguments: list[str], word: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2, result.stderr
    assert not result.stdout
    assert word in result.stderr
    assert "Traceback" not in result.stderr


def test_names_and_homes_stay_here(run: Run) -> None:
    named = machine(gpus=seen((gpu("9.0", 0, "/home/zaphod/H100"),)))
    for form in ("console", "json"):
        assert "zaphod" not in run("variants", f"{FLASH}@v3", "--format", form, env=named).stdout
        assert "zaphod" in run("variants", f"{FLASH}@v3", "--format", form, "--no-redact", env=named).stdout
