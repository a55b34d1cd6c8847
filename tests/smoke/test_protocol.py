"""The two sides understand each other, and nothing else that lands in the journal is taken for an event."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldoctor.smoke import protocol
from kerneldoctor.smoke.protocol import (
    Case,
    Compared,
    Done,
    Event,
    Job,
    KernelRequest,
    Planned,
    Result,
    Selection,
    TensorError,
)

CASE = Case(id="dense-mha", contract="flash_attn_func", params={"dtype": "bfloat16", "window": [64, 0]}, seed=7)
RESULT = Result(
    nonce="n",
    id="dense-mha",
    outcome="wrong",
    detail="dk is off",
    stage="compare",
    seconds=0.5,
    direction="backward",
    errors={"dk": TensorError(relative=0.4, baseline=0.002, worst=3.1, at=(0, 5, 1, 2), ratio=80.0)},
    notes=("guards: 3 inputs",),
    forward=True,
)
COMPARED = Compared("n", "dense-mha", "out is off", {"out": TensorError(0.4, 0.002, 3.1, (0, 5), 80.0)})


@pytest.mark.parametrize(
    "job",
    [
        Job(nonce="n", kernel=KernelRequest("module", module="flash_attn"), device="cpu", journal="/j", cases=(CASE,)),
        Job(
            nonce="n",
            kernel=KernelRequest("hub", repo="o/n", revision="v1"),
            device="cuda:0",
            journal="/j",
            selection=Selection("workload", only=("a",), workload={"heads": 8}),
            memory_limit=1 << 30,
        ),
    ],
)
def test_a_job_comes_back_as_it_was(job: Job) -> None:
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"protocol": 1}', '{"protocol": 99}', '{"protocol": 1, "kernel": 3}']
)
def test_what_is_no_job_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(protocol.ProtocolError):
        Job.from_json(text)


@pytest.mark.parametrize("event", [RESULT, COMPARED, Planned("n", (CASE,)), Done("n", None, {"import-torch": 4.4})])
def test_an_event_comes_back_as_it_was(event: Event) -> None:
    line = protocol.event_line(event)
    assert line.count("\n") == 1
    assert protocol.parse_event(line, "n") == event


@pytest.mark.parametrize(
    "line",
    [
        protocol.event_line(RESULT).replace('"nonce": "n"', '"nonce": "other"'),
        protocol.event_line(RESULT)[:-40],
        '{"event": "result", "nonce": "n", "id": "x"}',
        '{"event": "surprise", "nonce": "n"}',
        "CUDA error in file x.cu\n",
        "[" * 100_000,
        "",
    ],
)
def test_rubbish_in_the_journal_is_no_event(line: str) -> None:
    assert protocol.parse_event(line, "n") is None


def test_a_newer_childs_extra_field_is_dropped() -> None:
    raw = json.loads(protocol.event_line(RESULT))
    assert protocol.parse_event(json.dumps({**raw, "colour": "red"}), "n") == RESULT


def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    first, second = protocol.event_line(RESULT).encode(), protocol.event_line(Done("n", 5)).encode()
    journal.write_bytes(first + second[:10])
    events, end = protocol.read_journal(journal, "n")
    assert events == [RESULT]
    journal.write_bytes(first + second)
    assert protocol.read_journal(journal, "n", end) == ([Done("n", 5)], len(first + second))
