"""What is asked of `try` in a wrong or a short form gets an answer that says what was meant, or what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kerneldoctor.api_try import Cases, _nearest, asked_workload
from kerneldoctor.cli import cli
from kerneldoctor.environment import Environment
from kerneldoctor.errors import UsageError
from kerneldoctor.smoke.fetch import take_local
from tests.kernels.layout import attention, repository, write

MACHINE = Path(__file__).parents[1] / "cases" / "environments" / "h200-torch211-cu130-transformers517-kernels0172.json"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"heads": 4, "kv_heads": 3}, "4 query heads cannot be shared out evenly among 3 KV heads"),
        ({"heads": 4, "head_dim": 1_000_000}, "a head dimension of 1000000; it goes from 1 to 1024"),
        ({"heads": 10**9}, "1000000000 query and 1000000000 KV heads; both go from 1 to 1024"),
        ({"heads": 4, "dtype": "float32"}, "in float32; kernels of attention take bfloat16 or float16"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused_with_the_cause(asked: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked_workload(Cases(workload=asked), "python")
    assert str(caught.value) == f"the workload is none of attention: {words}"


def test_of_cases_those_that_begin_as_what_was_asked_are_the_nearest() -> None:
    names = ["varlen-mha", "dense-gqa", "dense-mha-bf16-d64", "dense-mha-fp16-d64"]
    assert _nearest("dense-mha", names) == ["dense-mha-bf16-d64", "dense-mha-fp16-d64"]
    assert _nearest("varlen-mhx", names)[0] == "varlen-mha"


def test_one_contract_is_shown_with_its_cases_by_its_name_or_by_what_it_asks_for() -> None:
    shown = json.loads(CliRunner().invoke(cli, ["contracts", "flash_attn_func", "--format", "json"]).output)
    assert [one["name"] for one in shown] == ["flash_attn_func"]
    assert shown[0]["gradients"] == ["dq", "dk", "dv"]
    assert len(shown[0]["plan"]) == shown[0]["cases"]
    text = CliRunner().invoke(cli, ["contracts", "flash_attn_func"]).output
    assert "dense-mha-bf16-d64" in text
    assert "plan" not in json.loads(CliRunner().invoke(cli, ["contracts", "--format", "json"]).output)[0]
    result = CliRunner().invoke(cli, ["contracts", "flash"])
    assert isinstance(result.exception, UsageError)
    assert "the nearest are flash_attn" in str(result.exception)


def test_who_names_the_module_of_a_build_means_the_build(tmp_path: Path) -> None:
    build = write(tmp_path, repository(attention())) / "build" / "torch-cpu"
    environment = Environment.from_json(json.loads(MACHINE.read_text("utf-8")))
    found = take_local(str(build / "__init__.py"), "x", environment, "0.17.2")
    assert found.folder == build.resolve()
