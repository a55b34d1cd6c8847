"""What was measured outranks what a rule says, and a contradiction is said in so many words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.engine.case import Kernel
from kerneldoctor.engine.loading import all_rules, shipped_tables
from kerneldoctor.environment import Environment, known
from kerneldoctor.smoke.advice import next_steps, options_of
from kerneldoctor.smoke.build_facts import kernel_of
from kerneldoctor.smoke.protocol import Case
from kerneldoctor.smoke.trial import CaseReport, LoadProblem, Note, Run, Subject
from kerneldoctor.smoke.weigh import Knowledge, weigh
from kerneldoctor.smoke.wish import Cases

H200 = Path(__file__).parents[1] / "cases" / "environments" / "h200-torch211-cu130-transformers517-kernels0172.json"
SUBJECT = Subject(
    "kernels-community/flash-attn2@v3", "kernels-community/flash-attn2", "v3", "0" * 40,
    "torch-stable-abi210-cu130-x86_64-linux", "48628c8",
)  # fmt: skip
SUM = (
    'RuntimeError: torch_call_dispatcher( "aten::sum", "IntList_out", stack.data(), TORCH_ABI_VERSION) API call failed'
)


@pytest.fixture(scope="module")
def environment() -> Environment:
    return Environment.from_json(json.loads(H200.read_text("utf-8")))


def knowledge(environment: Environment, build_id: str = "48628c8") -> Knowledge:
    kernel: Kernel = kernel_of(replace(SUBJECT, build_id=build_id), None, known(True, "t"))
    return Knowledge(all_rules(), shipped_tables(), environment, kernel)


def run(gqa: str = "passed", said: str = "", kv_heads: int = 2) -> Run:
    def report(identity: str, heads: int, outcome: Any, text: str) -> CaseReport:
        params = {"heads": 8, "kv_heads": heads, "head_dim": 64, "dtype": "bfloat16", "backward": True}
        direction: Any = "backward" if outcome != "passed" else None
        return CaseReport(Case(identity, "flash_attn_func", params, 3), outcome, text, direction=direction, said=text)

    return Run("cuda:0", (report("mha", 8, "passed", ""), report("gqa", kv_heads, gqa, said)))


def about_build(notes: tuple[Note, ...]) -> dict[str, str]:
    return {note.rule: note.standing for note in notes if note.basis == "build"}


def test_a_rule_that_foretold_the_failure_agrees_and_names_the_case(environment: Environment) -> None:
    notes = weigh(knowledge(environment), None, (run("raised", SUM),))
    assert about_build(notes)["KD3101"] == "agrees"
    (note,) = [note for note in notes if note.rule == "KD3101"]
    assert "1 of 1 such cases failed (gqa)" in note.text


def test_a_rule_that_the_measurement_contradicts_is_said_to_be(environment: Environment) -> None:
    (note,) = [n for n in weigh(knowledge(environment), None, (run(),)) if n.rule == "KD3101"]
    assert note.standing == "disagrees"
    assert "the measurement counts" in note.text


def test_a_rule_about_cases_that_did_not_run_stays_open(environment: Environment) -> None:
    assert about_build(weigh(knowledge(environment), None, (run(kv_heads=8),)))["KD3101"] == "open"


def test_a_build_that_the_rule_does_not_speak_of_is_known_by_its_error_alone(environment: Environment) -> None:
    rebuilt = knowledge(environment, "4eec01c")
    assert "KD3101" not in about_build(weigh(rebuilt, None, (run(),)))
    (note,) = [note for note in weigh(rebuilt, None, (run("raised", SUM),)) if note.rule == "KD3101"]
    assert (note.basis, note.standing) == ("symptom", "open")
    assert "is not what is here" in note.text


def test_the_text_of_a_failed_load_is_looked_up_too(environment: Environment) -> None:
    text = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
    loads = Run("cuda:0", problem=LoadProblem("refused", "import-error", text, "load-kernel"))
    notes = weigh(knowledge(environment, "4eec01c"), None, (loads,))
    assert any(note.basis == "symptom" for note in notes)
    assert set(about_build(notes).values()) <= {"open"}


def test_a_sentence_of_our_own_is_no_symptom(environment: Environment) -> None:
    own = run("wrong")
    wrong = replace(
        own.cases[1], detail="3 of 25 parameter gradients are off: grad model.layers.0.q_proj.weight is nan"
    )
    notes = weigh(knowledge(environment, "4eec01c"), None, (replace(own, cases=(wrong,)),))
    assert [note.rule for note in notes if note.basis == "symptom"] == []
    said = replace(wrong, said="gradients are off")
    assert "KD3110" in {note.rule for note in weigh(knowledge(environment), None, (replace(own, cases=(said,)),))}


def test_next_steps_reproduce_follow_the_rules_and_end_at_sdpa(environment: Environment) -> None:
    failed = run("raised", SUM)
    steps = next_steps(SUBJECT, (failed,), weigh(knowledge(environment), None, (failed,)), False)
    assert steps[0] == "see it again: kerneldoctor try kernels-community/flash-attn2@v3 --case gqa --seed 3"
    asked = options_of("/opt/a b/python", "cuda:1", Cases(backward=False, model="m/config.json"), ("a/b",))
    assert next_steps(SUBJECT, (failed,), (), False, asked)[0].split("@v3 ")[1] == (
        "--python '/opt/a b/python' --device cuda:1 --model m/config.json --trust-remote-code a/b --inference "
        "--case gqa --seed 3"
    )
    assert any("0510be1e482269a46fadf30069aca3ede496ff9b" in step for step in steps)
    assert steps[-1].endswith('attn_implementation="sdpa"')
    assert next_steps(SUBJECT, (run(),), (), False) == ()
