"""`kerneldoctor compare` from end to end on the CPU: one run over kernels that are good, wrong, dying and greedy."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.hub.server import serve
from tests.kernels.layout import attention, publish, repository, source, write
from tests.smoke.place import Place

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
REPO = "kernels-test/attention"
GOOD = f"{REPO}@v1"
BATCH = 3  # no check has as many sequences: what a kernel does then, it does only when it is measured
SCHEMA = Path(__file__).parents[2] / "kerneldoctor" / "report" / "comparison_schema.json"
WRAPPED = """
_right = flash_attn_func


def flash_attn_func(q, k, v, softmax_scale=None, causal=False):
    out = _right(q, k, v, softmax_scale=softmax_scale, causal=causal)
"""
WRONG = "    return out * 1.05\n"
#: Right where it is checked; measured, it dies at one length, is wrong at another and runs out of memory from 96 on.
ODD = f"""    if q.shape[0] == {BATCH}:
        if q.shape[1] == 32:
            os.abort()
        if q.shape[1] == 64:
            return out * 1.05
        if q.shape[1] >= 96:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 80.00 GiB")
    return out
"""


def kernel(folder: Path, ending: str) -> Path:
    text = attention()["__init__.py"].decode() + WRAPPED + ending
    return write(folder, repository(source(text)))


@dataclass
class Seen:
    code: int
    json: dict[str, Any]
    error: str
    page: str
    markdown: str

    def of(self, name: str) -> dict[str, Any]:
        return next(one for one in self.json["implementations"] if one["name"] == name)

    def outcomes(self, name: str, direction: str) -> list[str]:
        return [one["outcome"] for one in self.of(name)["results"] if one["direction"] == direction]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("compare")
    for name, ending in (("wrong", WRONG), ("odd", ODD)):
        kernel(folder / name, ending)
    write(folder / "half", repository(attention("gqa-dk-wrong")))
    with serve() as hub:
        place = Place.make(hub, folder, "cpu")
        asked = [part for name in ("wrong", "odd", "half") for part in ("--local", str(folder / name))]
        publish(hub, REPO, repository(attention()), "v1")
        code, out, error = place.run(
            "compare", GOOD, *asked, "--built-in", "eager", "--built-in", "sdpa", "--device", "cpu", "--repeats", "1",
            "--lengths", "32,64,96,128", "--batch", str(BATCH), "--heads", "4", "--kv-heads", "2", "--head-dim", "64",
            "--report", f"html={folder}/page.html", "--report", f"markdown={folder}/page.md", "--format", "json",
        )  # fmt: skip
    assert out, error
    page, markdown = (folder / name for name in ("page.html", "page.md"))
    return Seen(code, json.loads(out), error, page.read_text("utf-8"), markdown.read_text("utf-8"))


def test_what_is_right_gets_every_number(seen: Seen) -> None:
    for name in ("eager", "sdpa", GOOD):
        found = seen.of(name)
        assert (found["standing"], found["detail"]) == ("right", "")
        assert {one["outcome"] for one in found["results"]} == {"measured"}
        assert len(found["results"]) == 4 * 3
    one = next(r for r in seen.of(GOOD)["results"] if (r["length"], r["direction"]) == (128, "step"))
    assert one["ms"]["least"] <= one["ms"]["q1"] <= one["ms"]["median"] <= one["ms"]["q3"] <= one["ms"]["most"]
    operations = 4 * BATCH * 4 * 128**2 * 64 * 0.5 * 3.5
    assert one["tflops"] == pytest.approx(operations / one["ms"]["median"] / 1e9)
    assert one["tokens_per_second"] == pytest.approx(BATCH * 128 / one["ms"]["median"] * 1e3)
    # There is no peak of a CPU in our tables, and nothing counts its memory: then there is no number.
    assert one["share_of_peak"] is None
    assert one["peak_bytes"] is None
    assert one["first_call_seconds"] > 0


def test_a_wrong_kernel_gets_no_number_and_says_why(seen: Seen) -> None:
    found = seen.of("wrong")
    assert found["standing"] == "wrong"
    assert "out is off by 0.05" in found["detail"]
    assert found["results"] == []
    assert "wrong" not in {name for rank in seen.json["ranking"] for group in rank["groups"] for name in group}


def test_of_a_wrong_backward_only_the_forward_is_measured(seen: Seen) -> None:
    assert seen.of("half")["standing"] == "backward-failed"
    assert "dk is off" in seen.of("half")["detail"]
    assert seen.outcomes("half", "forward") == ["measured"] * 4
    assert seen.outcomes("half", "step") == seen.outcomes("half", "backward") == ["unsupported"] * 4


def test_death_costs_one_length_and_a_wrong_row_gets_no_number(seen: Seen) -> None:
    assert seen.of("odd")["standing"] == "right"
    assert seen.outcomes("odd", "forward")[:2] == ["failed", "failed"]
    details = [r["detail"] for r in seen.of("odd")["results"] if r["direction"] == "forward"]
    assert "SIGABRT in first-forward" in details[0]
    assert "out at row" in details[1]


def test_out_of_memory_is_a_result_and_larger_lengths_are_not_asked_for(seen: Seen) -> None:
    assert seen.outcomes("odd", "forward")[2:] == ["oom", "skipped"]
    assert "out of memory at 96 already" in seen.of("odd")["results"][-1]["detail"]


def test_the_code_is_that_of_the_kernels_that_were_named(seen: Seen) -> None:
    assert seen.code == seen.json["exit_code"] == 1
    assert seen.error == ""


def test_ready_times_and_the_backend_that_sdpa_took(seen: Seen) -> None:
    assert seen.of("sdpa")["sdpa_backend"] == {"forward": "flash for the CPU", "step": "flash for the CPU"}
    ready = seen.of(GOOD)["ready"]
    assert ready["seconds"] == pytest.approx(ready["fetch"] + ready["load"] + ready["first_forward"])
    assert seen.of("eager")["ready"]["fetch"] is None  # there is nothing to fetch
    assert 0 < ready["load"] < ready["import_torch"] + 60
    assert seen.json["build_from_source"]["source"].startswith("https://github.com/Dao-AILab/")


def test_the_json_is_what_its_schema_says(seen: Seen) -> None:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(seen.json, schema)


def test_page_and_markdown_hold_the_table_and_load_nothing(seen: Seen) -> None:
    assert "src=" not in seen.page
    assert "@import" not in seen.page
    assert "<link" not in seen.page
    assert "wrong" in seen.page
    assert f"| {GOOD} |" in seen.markdown.replace("`", "")
