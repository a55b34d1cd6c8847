"""Many ranks as one list of checks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kerneldoctor.preflight.kernels import stopped_check
from kerneldoctor.preflight.ranks import Missing, Rank, from_json, merge, ranks_text, to_json
from kerneldoctor.report.checks import Check, code_of

SAME = {"torch": "2.13.0", "driver": "580", "gpu": "H100"}
FINE = Check("kernel:a/b/smoke", "kernel a/b", "a/b runs and is right", "passed", detail="passed (5 of 5)")


def rank(number: int, *checks: Check, node: str = "n1", own: str = "", **changed: str) -> Rank:
    return Rank(number, node, "cuda:0", own, {**SAME, **changed}, {"a/b": "c1 torch-cuda"}, checks or (FINE,), 1.0)


def by_id(*ranks: Rank, missing: tuple[Missing, ...] = ()) -> dict[str, Check]:
    return {check.id: check for check in merge(ranks, missing, len(ranks) + len(missing))}


def test_what_a_rank_says_arrives_as_it_was() -> None:
    check = replace(FINE, remedies=(("do", "this"),), seen=(("a", "b"),), seconds=2.5)
    said = rank(3, check)
    assert from_json(json.loads(json.dumps(to_json(said))), 3) == said


@pytest.mark.parametrize("raw", [None, [], {}, {"checks": [{}]}, {"checks": [], "fingerprint": 3}, "x"])
def test_what_makes_no_sense_is_no_rank(raw: object) -> None:
    assert from_json(raw, 1) is None


def test_ranks_that_agree_are_told_once() -> None:
    found = by_id(*(rank(n) for n in range(4)))
    assert set(found) == {"ranks:same", FINE.id}
    assert code_of(found.values()) == 0


def test_an_answer_of_one_rank_stands_beside_that_of_the_others() -> None:
    failed = replace(FINE, status="failed", detail="wrong result: dk")
    found = by_id(rank(0), rank(1), rank(2, failed), rank(3))
    assert {check.title for check in found.values() if check.id.startswith(FINE.id)} == {
        "a/b runs and is right (ranks 0-1 and 3)", "a/b runs and is right (rank 2)",
    }  # fmt: skip
    assert code_of(found.values()) == 1


def test_a_check_that_only_some_ranks_make_is_no_difference() -> None:
    """Only one rank of a machine asks the Hub."""
    resolves = Check("kernel:a/b/resolves", "kernel a/b", "a/b resolves", "passed")
    found = by_id(rank(0, FINE, resolves), rank(1), rank(2))
    assert found[resolves.id] == resolves


@pytest.mark.parametrize(("name", "severity"), [("torch", "error"), ("driver", "warning"), ("gpu", "warning")])
def test_a_difference_names_the_values_and_their_ranks(name: str, severity: str) -> None:
    check = by_id(rank(0), rank(1, **{name: "other"}), rank(2))[f"ranks:{name}"]
    assert check.status == "failed"
    assert check.severity == severity
    assert check.detail == f"{SAME[name]} on ranks 0 and 2; other on rank 1"


def test_ranks_that_load_different_builds_are_an_error() -> None:
    other = replace(rank(1), builds={"a/b": "c2 torch-cuda"})
    check = by_id(rank(0), other)["ranks:kernel:a/b"]
    assert (check.status, check.severity) == ("failed", "error")
    assert "c2 torch-cuda on rank 1" in check.detail


def test_two_ranks_on_one_gpu_are_named_but_not_across_machines() -> None:
    found = by_id(rank(0, own="GPU-1"), rank(1, own="GPU-1"), rank(2, own="GPU-1", node="n2"))
    assert found["ranks:gpu:0"].title == "ranks 0-1 have the same GPU"
    assert "ranks:gpu:2" not in found


@pytest.mark.parametrize(
    ("how", "code", "word"),
    [
        ("died", 1, "ended without a word; it was running a/b"),
        ("never came", 3, "nothing was heard"),
        ("not done", 3, "not done within 9 s; it was running a/b"),
        ("fell silent", 3, "no sign of life; it was running a/b"),
    ],
)
def test_a_missing_rank_is_named_with_what_it_was_at(how: str, code: int, word: str) -> None:
    found = by_id(rank(0), rank(1), missing=(Missing(2, how, "running a/b", 9.0),))  # type: ignore[arg-type]
    assert word in found["rank:2"].detail
    assert "rank 2" in found["rank:2"].title
    assert code_of(found.values()) == code


def test_what_was_left_off_because_a_rank_died_is_no_question_of_its_own() -> None:
    left = stopped_check("a/b", "this job was asked to end (SIGTERM)")
    assert code_of(by_id(rank(0, left), rank(1)).values()) == 3
    found = by_id(rank(0, left), rank(1), missing=(Missing(2, "died", "", 9.0),))
    (check,) = (check for check in found.values() if check.kind == left.kind)
    assert (check.status, check.detail) == ("skipped", "rank 2 died")
    assert code_of(found.values()) == 1


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "rank 3"), ([0, 1], "ranks 0-1"), ([0, 2], "ranks 0 and 2"), ([5, 0, 1, 2, 7], "ranks 0-2, 5 and 7")],
)
def test_ranks_in_words(numbers: list[int], text: str) -> None:
    assert ranks_text(numbers) == text
