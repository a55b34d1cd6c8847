"""Symptoms in pasted text: found on which lines, whatever broke the lines, and what they tell."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kerneldoctor.engine.case import Case, Kernel
from kerneldoctor.engine.lint_symptoms import lint_symptoms
from kerneldoctor.engine.loading import rule_from_json, shipped_tables
from kerneldoctor.engine.model import Rule
from kerneldoctor.engine.symptoms import HEAD, Hit, Symptoms
from kerneldoctor.engine.testimony import add_told, add_told_of, infer, told
from kerneldoctor.environment import Environment, Gpu, Package, Packages, known

OLD = "The NVIDIA driver on your system is too old (found version 11040)"


def rule(*symptoms: dict[str, Any], examples: tuple[str, ...] = ()) -> Rule:
    return rule_from_json(
        {
            "id": "TST0001", "name": "test", "title": "t", "severity": "error", "confidence": "reported",
            "file": "TST0001-test.md", "symptom": list(symptoms),
            "example": [{"name": text, "expect": "symptom", "text": text} for text in examples],
        }
    )  # fmt: skip


def search(text: str, **symptom: Any) -> tuple[Hit, ...]:
    return Symptoms([rule({"match": r"driver on your system is too old \(found version", **symptom})]).search(
        text.split("\n")
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (OLD, (1, 1)),
        (f"before\n\n{OLD}\nafter", (3, 3)),
        ("The NVIDIA driver on your\n    system is too old (found version 11040)", (1, 2)),
        ("| The NVIDIA driver on |\n| your system is too old (found version 11040) |", (1, 2)),
        ("The NVIDIA driver on your sys\ntem is too old (fou\nnd version 11040)", (1, 3)),
    ],
    ids=["one line", "among others", "wrapped between words", "in a box", "cut anywhere"],
)
def test_a_message_is_found_on_its_lines(text: str, lines: tuple[int, int]) -> None:
    (hit,) = search(text)
    assert (hit.first_line, hit.last_line) == lines
    assert all(part in text for part in hit.lines)


def test_words_that_stand_far_apart_are_no_wrapped_message() -> None:
    assert not search("The NVIDIA driver on your\n" + "\n" * 40 + "system is too old (found version 1")


def test_the_same_text_by_another_hand_is_not_taken() -> None:
    assert not search(f"xformers\n{OLD}", unless="xformers")
    assert search(OLD, unless="xformers")


@pytest.mark.parametrize(("own", "elsewhere"), [("decisive", "telling"), ("telling", "hint")])
def test_words_that_others_write_too_weigh_less_where_the_component_is_not_near(own: str, elsewhere: str) -> None:
    def weight(text: str) -> str:
        (hit,) = search(text, near=r"torch[/\\.]cuda", strength=own)
        return hit.strength

    assert weight(f'File "/env/torch/cuda/__init__.py", line 5\n{OLD}') == own
    assert weight(f"cupy\n{OLD}") == elsewhere
    assert weight(f"import torch.cuda\n{'x' * 5000}\n{OLD}") == elsewhere


def test_the_trace_of_a_component_is_tried_on_an_example() -> None:
    asked = {"match": "driver on your system is too old", "near": "torch/cuda"}
    assert any("`near` around it" in text for text in lint_symptoms(rule(asked, examples=(OLD,))))
    assert not list(lint_symptoms(rule(asked, examples=(f"torch/cuda: {OLD}",))))


def test_a_fault_deep_in_a_long_log_is_found_with_its_line() -> None:
    filler = [f"step {n} loss 0.{n} everything as usual here" for n in range(60_000)]
    lines = [*filler[:50_000], "The NVIDIA driver on your system", "is too old (found version 11040)", *filler[50_000:]]
    symptoms = Symptoms([rule({"match": r"driver on your system is too old \(found version"})])
    start = time.process_time()
    (hit,) = symptoms.search(lines)
    assert hit.first_line == 50_001
    assert time.process_time() - start < 4


def test_the_words_of_a_person_are_looked_for_at_the_beginning_only() -> None:
    far = "x\n" * HEAD + "it gives garbage"
    hint = Symptoms([rule({"match": "gives garbage", "strength": "hint"})])
    assert hint.search(["it gives garbage"])
    assert not hint.search(far.split("\n"))


def facts(text: str, *symptoms: dict[str, Any], environment: Environment | None = None) -> Environment:
    hits = Symptoms([rule(*symptoms)]).search(text.split("\n"))
    return add_told(environment or Environment(), told(hits))


MISMATCH = {
    "match": r"CUDA version \((?P<toolkit__nvcc_version>\d+\.\d)\) mismatches"
    r"[\s\S]{0,80}PyTorch \((?P<torch__cuda>\d+\.\d)\)"
}


def test_groups_of_a_pattern_are_facts_with_their_line() -> None:
    found = facts("x\nThe detected CUDA version (12.9) mismatches what compiled\nPyTorch (11.8).", MISMATCH)
    assert found.torch.cuda.value == "11.8"
    assert found.toolkit.nvcc_version.value == "12.9"
    assert found.torch.cuda.note.startswith("line 2: ")


def test_what_a_report_of_the_machine_shows_outweighs_a_message() -> None:
    shown = Environment.from_json(Environment().to_json())
    shown = add_told(shown, {"torch.cuda": known("12.4", "line 1: torch.version.cuda: 12.4")})
    text = "The detected CUDA version (12.9) mismatches what compiled PyTorch (11.8)"
    assert facts(text, MISMATCH, environment=shown).torch.cuda.value == "12.4"


def test_words_tell_facts_and_packages_and_gpus() -> None:
    found = facts(
        "driver/library mismatch, found huggingface-hub==1.24.0, CUDA capability 12.0 here",
        {"match": "driver/library mismatch", "says": {"driver.nvml_error": "driver_library_mismatch"}},
        {"match": r"huggingface-hub==(?P<packages__huggingface_hub__version>[\d.]{3,9})"},
        {"match": r"CUDA capability (?P<gpu__compute_capability>\d+\.\d)"},
    )
    assert found.driver.nvml_error.value == "driver_library_mismatch"
    assert found.packages.get("huggingface-hub").version.value == "1.24.0"
    assert [gpu.compute_capability.value for gpu in found.gpus.value or ()] == ["12.0"]


def test_a_message_about_the_gpu_is_not_put_on_two_different_ones() -> None:
    two = (Gpu(name=known("A", "x")), Gpu(name=known("B", "x")))
    environment = add_told(Environment(gpus=known(two, "x")), {"gpu.compute_capability": known("9.0", "line 1: ")})
    assert all(gpu.compute_capability.is_unknown for gpu in environment.gpus.value or ())


def test_a_kernel_is_told_by_the_name_of_its_file() -> None:
    hits = Symptoms([rule({"match": r"_flash_attn2_cuda_(?P<kernel__build_id>[0-9a-f]{7})"})]).search(
        ["x/_flash_attn2_cuda_48628c8.abi3.so"]
    )
    assert add_told_of(Kernel(), "kernel", told(hits)).build_id.value == "48628c8"


def test_a_product_has_its_capability_and_a_listed_package_is_all_there() -> None:
    pasted = Environment(
        gpus=known((Gpu(name=known("NVIDIA GeForce RTX 5090", "line 1: ")),), "x"),
        packages=Packages({"flashattn-hopper": Package(version=known("3.0.0b1", "line 2: "))}),
    )
    inferred = infer(pasted, shipped_tables())
    assert Case(inferred).fact("gpus").value[0].compute_capability.value == "12.0"
    assert inferred.flash_attn_3.distribution.value == "flashattn-hopper"
    assert inferred.flash_attn.kind.is_unknown


@pytest.mark.parametrize(
    ("symptom", "example", "words"),
    [
        ({"match": "never tried"}, "something else", "no example"),
        ({"match": r"torch (?P<torch__colour>[a-z]{3,9})"}, "torch blue", "no fact"),
        ({"match": "some words", "says": {"torch.cuda": 12}}, "some words", "tells torch.cuda as int"),
        ({"match": "some words", "unless": r".*"}, "some words", "letters in a row"),
    ],
)
def test_the_linter_names_what_is_wrong_with_a_symptom(symptom: dict[str, Any], example: str, words: str) -> None:
    assert any(words in text for text in lint_symptoms(rule(symptom, examples=(example,))))
