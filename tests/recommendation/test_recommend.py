"""The right pin for each environment and workload, with nothing called right that was not run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor import api_recommend
from kerneldoctor.api_recommend import Doing, Recommendation
from kerneldoctor.environment import CachedKernel, Environment, FlashAttention, Torch, absent
from kerneldoctor.errors import UsageError
from kerneldoctor.hub import index
from kerneldoctor.hub.listing import Build, Listing, Version
from kerneldoctor.hub.whatif import Changes
from kerneldoctor.lock import read_lock
from kerneldoctor.recommendation.model import Candidate
from kerneldoctor.report.checks import code_of
from kerneldoctor.report.layout import Page
from kerneldoctor.report.recommendation import lock_text, next_steps, render, to_json
from kerneldoctor.report.recommendation_checks import of_recommendation
from kerneldoctor.smoke.trial import Pin, Refusal, Subject, Trial, Verdict
from kerneldoctor.smoke.wish import Cases
from tests.hub.machines import FLASH, machine, seen

from .stage import COMMITS, DAY, FA3, FAILED, GOOD, PARTIAL, PASSED, Stage, each, flash_attn_3, keep, real_matrix

CU130, CU128, OLD = machine("2.13.0+cu130"), machine("2.13.0+cu128"), machine("2.11.0+cu128")
GROUPED = Cases(workload={"heads": 14, "kv_heads": 2, "head_dim": 64})
ALIKE = Cases(workload={"heads": 8, "kv_heads": 8, "head_dim": 64})
USUAL = Cases()


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    keep(real_matrix(), flash_attn_3())
    yield
    index.load_index.cache_clear()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(api_recommend, "try_kernel", made)
    return made


def ask(environment: Environment, cases: Cases = USUAL, reference: str = FLASH, **more: Any) -> Recommendation:
    return api_recommend.recommend(reference, environment=environment, cases=cases, **more)


def basis(found: Recommendation) -> dict[str, str]:
    return {candidate.version or candidate.name: candidate.basis for candidate in found.candidates}


def page(found: Recommendation) -> str:
    return " ".join(render(found, Page(100)).split())


NO_FA3 = Doing(alternatives=False)


@pytest.mark.parametrize(
    ("environment", "cases", "chosen", "run", "code"),
    [
        pytest.param(CU130, USUAL, "v4", ["v4"], 0, id="the newest passes"),
        pytest.param(OLD, USUAL, "v2", ["v3", "v2"], 0, id="CUDA 12.8: v3 raises in some backward"),
        pytest.param(OLD, GROUPED, "v2", ["v2"], 0, id="grouped training: the rule spares a run of v3"),
        pytest.param(OLD, ALIKE, "v3", ["v3"], 0, id="equal heads: v3 is right"),
        pytest.param(OLD, replace(GROUPED, backward=False), "v3", ["v3"], 0, id="inference: v3 is right"),
        pytest.param(CU128, GROUPED, "sdpa", [], 1, id="v3 ruled out, v4, v2 and v1 without a build"),
        pytest.param(CU128, USUAL, "sdpa", ["v3"], 1, id="unknown workload: v3 is run and is partial"),
        pytest.param(CU128, ALIKE, "v3", ["v3"], 0, id="equal heads where only v3 has a build"),
        pytest.param(machine("2.10.0+cu128"), GROUPED, "v1", ["v1"], 0, id="torch 2.10: v1 alone"),
        pytest.param(machine("2.12.1+cu130"), GROUPED, "v4", ["v4"], 0, id="torch 2.12"),
        pytest.param(machine("2.10.0+cu130"), GROUPED, "v3", ["v3"], 0, id="v3 by its mended build id"),
        pytest.param(machine("2.9.1+cu128"), USUAL, "sdpa", [], 1, id="no build for this torch"),
        pytest.param(machine("2.13.0+cu130", "7.5"), USUAL, "sdpa", ["v4"], 1, id="a Turing GPU"),
    ],
)  # fmt: skip
def test_the_right_pin(
    stage: Stage, environment: Environment, cases: Cases, chosen: str, run: list[str], code: int
) -> None:
    turing = environment.gpus.value is not None and environment.gpus.value[0].compute_capability.value == "7.5"
    stage.verdicts = each({}) if turing else stage.verdicts
    found = ask(environment, cases, doing=NO_FA3)
    assert (found.chosen.version or found.chosen.name, stage.versions, found.exit_code) == (chosen, run, code)
    assert found.candidates[-1].kind == "floor"
    assert found.pin.tested is (code == 0)
    if chosen in COMMITS:
        assert found.pin.forms["attn_implementation"] == f'attn_implementation="{FLASH}@{COMMITS[chosen]}"'
        assert found.pin.forms["trl"] == f"--attn_implementation {FLASH}@{COMMITS[chosen]}"
        assert found.pin.comment == (chosen if cases.backward else f"{chosen}, for inference only")
    else:
        assert found.pin.forms["attn_implementation"] == 'attn_implementation="sdpa"'


def test_each_candidate_says_how_it_is_known_and_by_what(stage: Stage) -> None:
    found = ask(OLD, GROUPED)
    assert basis(found) == {"v4": "ruled out", "v3": "ruled out", "v2": "measured", "v1": "ruled out",
                            "sdpa": "always there"}  # fmt: skip
    text = page(found)
    assert "fails in backward for grouped-query models [KD3101]" in text
    assert "needs torch" in text or "for CUDA 13.0" in text
    assert "* v2 measured torch-x: passed (16 of 16)" in text
    assert f"kerneldoctor recommend {FLASH} --heads 14 --kv-heads 2 --head-dim 64 --dtype bfloat16 --try-all" in text


def test_those_after_a_pass_are_not_run_and_not_called_right(stage: Stage) -> None:
    found = ask(CU130)
    assert basis(found)["v3"] == "predicted"
    assert "not run, because v4 passed" in page(found)


def test_a_partial_one_is_offered_for_inference(stage: Stage) -> None:
    found = ask(CU128, doing=NO_FA3)
    assert basis(found)["v3"] == "measured"
    assert ("v3 is right for inference", f"kerneldoctor recommend {FLASH} --inference") in list(next_steps(found))
    assert ask(CU128, replace(USUAL, backward=False)).chosen.version == "v3"


def test_a_partial_one_passes_where_inference_is_asked(stage: Stage) -> None:
    stage.verdicts = each({"v3": PARTIAL})
    found = ask(CU128, replace(USUAL, backward=False), doing=NO_FA3)
    assert (found.chosen.version, found.exit_code) == ("v3", 0)


def test_a_pass_of_forward_cases_alone_is_none_for_training() -> None:
    pin = Pin(FLASH, COMMITS["v4"], "v4", True, inference_only=True, trust=False)
    trial = Trial(Subject(FLASH), (), (), Verdict("passed", "passed (2 of 2), forward only"), pin, ())
    candidate = Candidate("kernel", FLASH, "v4", COMMITS["v4"], trial=trial)
    assert (candidate.passes(False), candidate.passes(True), candidate.infers) == (False, True, True)


class TestMeasuredOutranksPredicted:
    def test_what_a_rule_rules_out_is_run_when_all_are_tried_and_may_win(self, stage: Stage) -> None:
        stage.verdicts = each({}, PASSED)
        found = ask(OLD, GROUPED, doing=Doing(try_all=True))
        assert stage.versions == ["v3", "v2"]
        assert (found.chosen.version, found.exit_code) == ("v3", 0)

    def test_a_prediction_that_a_run_refutes_does_not_count(self, stage: Stage) -> None:
        stage.verdicts = each({"v3": PASSED})
        found = ask(CU130)
        assert (stage.versions, found.chosen.version) == (["v4", "v3"], "v3")
        assert "v4 measured torch-x: failed" in page(found)

    def test_one_that_could_not_be_run_does_not_stop_the_others(self, stage: Stage) -> None:
        stage.verdicts = each({"v4": "the Hub did not give it within 5 s", "v3": PASSED})
        found = ask(CU130)
        assert (found.chosen.version, found.exit_code) == ("v3", 0)
        assert "a run said nothing: the Hub did not give it within 5 s" in page(found)


def test_everything_is_broken(stage: Stage) -> None:
    stage.verdicts = each({})
    found = ask(CU130, doing=NO_FA3)
    assert (stage.versions, found.chosen.name, found.exit_code) == (["v4", "v3"], "sdpa", 1)
    assert page(found).startswith(f"{FLASH}: nothing that fits here is right; what remains is sdpa")
    assert not [option for option in found.options if option.version in ("v4", "v3") and "cu130" in option.build]
    written = api_recommend.write(found, "/nonexistent/kerneldoctor.lock")
    assert written.entry is None
    assert "nothing was written to /nonexistent/kerneldoctor.lock" in lock_text(written)
    assert (found.pin.is_commit, to_json(found, written)["lock"]) == (False, None)


class TestWithoutTorch:
    MACHINE = replace(machine(gpus=absent("NVML")), torch=Torch(version=absent("not installed")))

    @pytest.mark.parametrize("run", [True, False])
    def test_nothing_is_chosen_and_sdpa_is_not_offered(self, stage: Stage, run: bool) -> None:
        found = ask(self.MACHINE, doing=Doing(run=run))
        assert (found.exit_code, found.pin.forms, to_json(found)["ran"]) == (3, {}, False)
        text = page(found)
        assert text.startswith(f"{FLASH}: nothing can be chosen here: no torch is installed")
        assert "always there" not in text
        assert 'attn_implementation="sdpa"' not in text

    def test_a_torch_is_offered_once_a_version(self, stage: Stage) -> None:
        builds = (Build("torch-stable-abi210-cpu-x86_64-linux", GOOD),)  # every torch from 2.10 on would do
        keep(Listing(FLASH, "live", DAY, (Version("v3", COMMITS["v3"], builds, "live", DAY, True),)))
        assert [option.version for option in ask(self.MACHINE).options] == ["v3"]


def test_a_torch_that_leaves_the_gpu_alone_is_named_in_the_headline(stage: Stage) -> None:
    cpu = Build("torch-stable-abi210-cpu-x86_64-linux", "4eec01c")
    keep(Listing(FLASH, "live", "2026-12-01", (Version("v3", COMMITS["v3"], (cpu,), "live", "2026-12-01", True),)))
    stage.verdicts = each({}, PASSED)
    for run, said in ((False, "should load"), (True, "is right")):
        found = ask(machine("2.13.0+cpu"), doing=Doing(run=run))
        assert page(found).startswith(f"{FLASH}: v3 {said} here, on the CPU: torch 2.13.0+cpu is a CPU build")
    assert "is a CPU build" not in page(ask(machine("2.13.0+cpu", absent("NVML"))))


class TestNotMeasured:
    def test_where_nothing_can_be_run_the_pin_says_untested_and_the_code_is_3(self, stage: Stage) -> None:
        stage.verdicts = each({}, "kernels is not installed for python: pip install kernels==0.17.2")
        found = ask(machine("2.13.0+cu130", kernels=""))
        assert (found.chosen.version, found.exit_code, found.pin.tested) == ("v3", 3, False)
        assert found.pin.comment == "v3, untested"
        assert page(found).count("pip install kernels==0.17.2") == 1
        assert not [c for c in found.candidates if c.alternative]

    def test_no_run_runs_nothing(self, stage: Stage) -> None:
        found = ask(CU130, doing=Doing(run=False))
        assert (stage.asked, found.chosen.version, found.exit_code) == ([], "v3", 0)
        assert f'attn_implementation="{FLASH}@{COMMITS["v3"]}" # v3, untested' in page(found)
        assert basis(found)["v4"] == "not determined"  # nobody has read the metadata of its build

    @pytest.mark.parametrize(
        ("changes", "cases", "chosen"),
        [
            (Changes(torch="2.13", cuda="13.0", gpu=("H100",)), USUAL, "v3"),
            (Changes(torch="2.11", cuda="12.8", gpu=("H100",)), USUAL, "v2"),
            (Changes(torch="2.11", cuda="12.8", gpu=("RTX 5090",)), ALIKE, "v3"),
            (Changes(torch="2.9", cuda="12.8", gpu=("RTX 5090",)), USUAL, "sdpa"),
        ],
    )
    def test_another_machine_is_predicted_and_never_run(
        self, stage: Stage, changes: Changes, cases: Cases, chosen: str
    ) -> None:
        found = ask(CU130, cases, changes=changes)
        assert stage.asked == []
        assert found.chosen.version or found.chosen.name == chosen
        assert (found.chosen.version or found.chosen.name) == chosen

    def test_without_network_what_is_on_disk_is_run_although_the_index_lists_another_commit(self, stage: Stage) -> None:
        held = CachedKernel(FLASH, "d" * 40, ("v3",), ("torch-stable-abi210-cu130-x86_64-linux",), ("4eec01c",), True)
        stage.verdicts = each({f"{FLASH}@{'d' * 40}": PASSED}, "it is not in the cache and cannot be fetched")
        found = ask(machine("2.13.0+cu130", cached=(held,)))
        assert (found.chosen.commit, found.exit_code) == ("d" * 40, 0)
        assert found.pin.comment == "v3"

    def test_what_is_on_disk_and_in_the_index_is_one_candidate(self, stage: Stage) -> None:
        held = CachedKernel(FLASH, COMMITS["v4"], (), ("torch-stable-abi211-cu130-x86_64-linux",), (), True)
        found = ask(machine("2.13.0+cu130", cached=(held,)))
        assert [c.version for c in found.candidates if c.commit == COMMITS["v4"]] == ["v4"]

    def test_a_repository_that_nobody_knows_leaves_the_floor_and_says_why(self, stage: Stage) -> None:
        found = ask(CU130, reference="someone/unknown", doing=NO_FA3)
        assert (found.chosen.name, found.exit_code, stage.asked) == ("sdpa", 3, [])
        assert "HF_HUB_OFFLINE is set" in page(found)

    def test_a_revision_that_is_not_listed_is_not_passed_over_in_silence(self, stage: Stage) -> None:
        found = ask(CU130, reference=f"{FLASH}@v9")
        assert (found.candidates[0].name, found.candidates[0].basis) == (f"{FLASH}@v9", "not determined")
        assert found.chosen.version == "v4"


def test_the_version_that_was_named_goes_first(stage: Stage) -> None:
    found = ask(CU130, reference=f"{FLASH}@v3")
    assert (stage.versions, found.chosen.version) == (["v3"], "v3")


def test_a_publisher_that_is_refused_is_refused_once_and_can_be_trusted_by_name(stage: Stage) -> None:
    remedy = f"if you trust it, say so by name: --trust-remote-code {FLASH}"
    stage.verdicts = each({}, Refusal("untrusted", "no trusted publisher", remedy))
    found = ask(CU130, doing=NO_FA3)
    assert (stage.versions, found.chosen.name, found.exit_code) == (["v4"], "sdpa", 1)
    assert {"v4": "ruled out", "v3": "ruled out"}.items() <= basis(found).items()
    assert f"kerneldoctor recommend {FLASH} --trust-remote-code {FLASH}" in page(found)
    stage.verdicts = each({}, PASSED)
    pin = ask(CU130, trust_remote_code=(FLASH,)).pin
    assert f'trust_remote_code=["{FLASH}"]' in pin.forms["get_kernel"]


class TestAlternatives:
    def test_another_kernel_for_this_gpu_where_nothing_that_was_asked_for_passes(self, stage: Stage) -> None:
        stage.verdicts = each({f"{FA3}@{'a' * 40}": PASSED})
        found = ask(CU128, GROUPED)
        assert (found.chosen.repo, found.chosen.alternative, found.exit_code) == (FA3, True, 0)
        assert "flash-attn3@v1 is right here" in page(found)
        assert ask(CU128, GROUPED, doing=NO_FA3).chosen.name == "sdpa"

    @pytest.mark.parametrize("capability", ["8.0", "12.0"])
    def test_none_for_a_gpu_that_it_is_not_made_for(self, stage: Stage, capability: str) -> None:
        found = ask(machine("2.13.0+cu128", capability), GROUPED)
        assert not [c for c in found.candidates if c.repo == FA3]

    def test_none_where_something_passes(self, stage: Stage) -> None:
        assert not [c for c in ask(CU130).candidates if c.alternative]

    def test_none_beside_a_kernel_that_is_no_attention(self, stage: Stage) -> None:
        stage.verdicts = each({})
        builds = (Build("torch-stable-abi210-cu130-x86_64-linux"),)
        versions = (Version("v1", "b" * 40, builds, "live", "2026-12-01", True),)
        keep(Listing("kernels-community/activation", "live", "2026-12-01", versions))
        found = ask(CU130, reference="kernels-community/activation")
        assert [c.kind for c in found.candidates] == ["kernel", "floor"]
        assert (found.pin.forms, found.wheel) == ({}, None)
        assert "sdpa" not in page(found)


class TestInsteadOfABuild:
    def test_the_wheel_that_was_published_for_this_machine_by_its_file_name(self, stage: Stage) -> None:
        environment = machine("2.8.0+cu128", "8.0")
        environment = replace(environment, python=replace(environment.python, abi_tag=seen("cp312")))
        found = ask(environment)
        assert found.wheel is not None
        assert found.wheel.file == "flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
        assert found.wheel.command == (
            f'pip install "https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/{found.wheel.file}"'
        )
        assert found.wheel.command in page(found)

    def test_no_wheel_where_none_was_published(self, stage: Stage) -> None:
        assert ask(machine("2.13.0+cu128", "8.0"), GROUPED).wheel is None

    def test_no_wheel_where_it_is_installed_already(self, stage: Stage) -> None:
        environment = machine("2.8.0+cu128", "8.0")
        environment = replace(
            environment,
            python=replace(environment.python, abi_tag=seen("cp312")),
            flash_attn=FlashAttention(version=seen("2.8.3+cu12torch2.8cxx11abiTRUE")),
        )
        assert ask(environment).wheel is None

    def test_the_smallest_change_that_gives_a_build(self, stage: Stage) -> None:
        found = ask(machine("2.9.1+cu128", "8.0"), GROUPED)
        assert found.chosen.name == "sdpa"
        assert 'pip install "torch==2.10.0"' in [command for option in found.options for command in option.commands]


class TestTheInstalledPackage:
    MACHINE = replace(
        machine("2.13.0+cu130", transformers="5.22.2"),
        flash_attn=FlashAttention(
            version=seen("2.8.3"), distribution=seen("flash-attn"), kind=seen("complete"), location=seen("/x")
        ),
    )

    def test_it_is_what_the_name_means_and_is_run_first(self, stage: Stage) -> None:
        stage.verdicts = each({}, PASSED)
        found = ask(self.MACHINE, reference="flash_attention_2")
        assert stage.asked == ["flash_attn"]
        assert (found.chosen.kind, found.exit_code) == ("package", 0)
        assert found.pin.forms["attn_implementation"] == 'attn_implementation="flash_attention_2"'
        assert basis(found)["v4"] == "not determined"

    def test_where_it_is_broken_the_kernels_are_next(self, stage: Stage) -> None:
        stage.verdicts = each({"flash_attn": FAILED}, PASSED)
        found = ask(self.MACHINE, reference="flash_attention_2")
        assert (stage.versions, found.chosen.version) == (["flash_attn", "v4"], "v4")

    def test_a_repository_is_asked_for_without_it(self, stage: Stage) -> None:
        assert not [c for c in ask(self.MACHINE).candidates if c.kind == "package"]

    def test_what_the_name_means_and_is_not_there_is_said(self, stage: Stage) -> None:
        environment = machine("2.13.0+cu130", transformers="5.22.2")  # to which it is v4
        keep(Listing(FLASH, "live", "2026-12-01", real_matrix().versions[1:]))
        found = ask(environment, reference="flash_attention_2")
        assert found.chosen.version == "v3"
        (missing,) = (candidate for candidate in found.candidates if candidate.version == "v4")
        assert missing.why.startswith("what flash_attention_2 means for transformers 5.22.2; ")
        assert not [c for c in ask(environment).candidates if c.version == "v4"]

    def test_no_name_at_all_means_flash_attention_2(self, stage: Stage) -> None:
        found = api_recommend.recommend(environment=machine("2.13.0+cu130", transformers="5.22.2"))
        assert (found.reference, found.chosen.version) == ("flash_attention_2", "v4")


def test_a_transformers_that_refuses_the_installed_kernels_is_named(stage: Stage) -> None:
    found = ask(machine("2.13.0+cu130", transformers="5.17.0", kernels="0.17.2"))
    assert "kernels 0.17.2 is not one that it accepts" in page(found)


def test_what_cannot_be_chosen_is_wrong_use() -> None:
    for wrong in ("sdpa", "not a name", f"{FLASH}:v3:x"):
        with pytest.raises(UsageError):
            ask(CU130, reference=wrong)
    with pytest.raises(UsageError, match="evenly among 3 KV heads"):
        ask(CU130, Cases(workload={"heads": 8, "kv_heads": 3}), doing=Doing(run=False))


class TestWhatIsKept:
    def test_the_entry_of_a_measured_pin(self, stage: Stage, tmp_path: Path) -> None:
        path = str(tmp_path / "kerneldoctor.lock")
        entry = api_recommend.write(ask(OLD, GROUPED), path).entry
        assert entry is not None
        assert read_lock(path) == (entry,)
        assert (entry.reference, entry.pin, entry.revision) == (FLASH, f"{FLASH}@{COMMITS['v2']}", "v2")
        assert (entry.verdict.kind, entry.environment["backend"]) == ("passed", "cuda 12.8")
        assert entry.workload == {"heads": 14, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16", "backward": True}

    def test_one_that_was_not_run_is_kept_as_untested(self, stage: Stage, tmp_path: Path) -> None:
        found = ask(CU130, doing=Doing(run=False))
        written = api_recommend.write(found, str(tmp_path / "lock"))
        assert written.entry is not None
        assert written.entry.verdict.kind == "untested"

    def test_what_was_not_run_does_not_take_the_place_of_what_was(self, stage: Stage, tmp_path: Path) -> None:
        path = str(tmp_path / "lock")
        measured = api_recommend.write(ask(CU130), path).entry
        found = ask(CU130, doing=Doing(run=False))
        written = api_recommend.write(found, path)
        assert (written.kept, written.entry, read_lock(path)) == (True, measured, (measured,))
        assert "was left as it is: it has v4" in " ".join(render(found, Page(300), written).split())
        assert to_json(found, written)["lock"] is None
        stage.verdicts = each({"v3": PASSED})
        again = api_recommend.write(ask(CU130), path)
        assert (again.kept, again.entry and again.entry.revision) == (False, "v3")

    def test_lines_for_kernels_lock(self, stage: Stage) -> None:
        assert ask(CU130).pin.kernels_lock == ("[tool.kernels.dependencies]", f'"{FLASH}" = 4')


def test_the_published_json(stage: Stage) -> None:
    found = to_json(ask(OLD, GROUPED))
    assert found.keys() == {
        "schema", "reference", "text", "exit_code", "chosen", "pin", "ran", "inference", "workload", "environment",
        "candidates", "wheel", "options", "notes", "next", "sources", "lock",
    }  # fmt: skip
    assert found["schema"] == "kerneldoctor.recommendation/1"
    assert found["chosen"] == {
        "kind": "kernel", "name": f"{FLASH}@v2", "reference": f"{FLASH}@{COMMITS['v2']}", "basis": "measured",
    }  # fmt: skip
    (v3,) = (c for c in found["candidates"] if c["version"] == "v3")
    assert (v3["basis"], v3["rules"], v3["trial"], v3["build_id"]) == ("ruled out", ["KD3101"], None, "48628c8")
    (v2,) = (c for c in found["candidates"] if c["version"] == "v2")
    assert v2["trial"]["verdict"]["kind"] == "passed"


def test_a_gpu_that_is_not_known_offers_no_alternatives(stage: Stage) -> None:
    found = ask(machine("2.13.0+cu128", absent("NVML")), GROUPED)
    assert not [c for c in found.candidates if c.alternative]


class TestForCi:
    def test_the_answer_alone_decides(self, stage: Stage) -> None:
        stage.verdicts = each({"v3": PASSED})
        checks = of_recommendation(ask(CU130), "0.1.0", "2026-12-01")
        by_name = {check.id.rpartition("@")[2]: check for check in checks.checks}
        assert (checks.exit_code, code_of(checks.checks)) == (0, 0)
        assert (by_name["v4"].status, by_name["v4"].decisive) == ("failed", False)
        assert (by_name["v3"].status, by_name["v2"].status) == ("passed", "skipped")
        assert any(section.code.endswith("# v3") for section in checks.sections)

    @pytest.mark.parametrize(("said", "code"), [({}, 1), ({"v4": "no GPU", "v3": "no GPU"}, 3)])
    def test_the_codes_are_those_of_the_page(self, stage: Stage, said: dict[str, str], code: int) -> None:
        stage.verdicts = each(said)
        found = ask(CU130, doing=NO_FA3)
        checks = of_recommendation(found, "0.1.0", "2026-12-01")
        assert (found.exit_code, checks.exit_code, code_of(checks.checks)) == (code, code, code)
        assert checks.checks[0].remedies
