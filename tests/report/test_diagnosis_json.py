"""A diagnosis as JSON keeps to the schema that is shipped with it."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from kerneldoctor.diagnosis.answer import diagnose_text
from kerneldoctor.report.diagnosis_json import failed, to_json
from tests.diagnosis.reports import load

SCHEMA = json.loads(files("kerneldoctor.report").joinpath("diagnosis_schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CONTRADICTION = "PyTorch version: 2.9.1+cu128\nIs debug build: False\n\ntorch==2.8.0\nflash-attn==2.8.3\n"
NEAR = [report.text for report in load() if report.kind in ("near-miss", "case")][::12]


@pytest.mark.parametrize("text", ["", "hello", CONTRADICTION, *NEAR])
def test_json_keeps_to_the_published_schema(text: str) -> None:
    VALIDATOR.validate(json.loads(json.dumps(to_json(diagnose_text(text, "report.md")))))


def test_a_batch_with_an_unreadable_file_keeps_to_it_too() -> None:
    documents = [to_json(diagnose_text("torch 2.9", "a.md")), failed("b.md", "b.md is a folder")]
    VALIDATOR.validate(json.loads(json.dumps(documents)))


@pytest.mark.parametrize("change", [{"verdict": "sure"}, {"answers": [{}]}, {"more": 1}, {"error": "no"}])
def test_the_schema_refuses_what_is_not_in_it(change: dict[str, object]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(json.dumps(to_json(diagnose_text("torch 2.9", "a.md"))))
    assert VALIDATOR.is_valid(document)
    assert not VALIDATOR.is_valid(document | change)
