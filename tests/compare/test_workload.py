"""Shapes, lengths and operations."""

from __future__ import annotations

import pytest

from kerneldoctor.compare.peaks import build_cost, peak_of
from kerneldoctor.compare.workload import length_text, make_workload, parse_lengths
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.errors import UsageError


def test_the_default_of_a_gpu_is_the_attention_of_qwen3_8b() -> None:
    found = make_workload("cuda:0", {}, {})
    assert (found.batch, found.heads, found.kv_heads, found.head_dim, found.dtype) == (8, 32, 8, 128, "bfloat16")
    assert found.lengths == (1024, 2048, 4096, 8192, 16384)
    assert found.causal
    assert found.backward


def test_options_go_before_the_model_and_the_model_before_the_default() -> None:
    model = {"heads": 14, "kv_heads": 2, "head_dim": 64, "dtype": "float16", "model_type": "qwen2"}
    found = make_workload("cuda:0", {"dtype": "bfloat16", "batch": None}, model, "Qwen2")
    assert (found.heads, found.kv_heads, found.head_dim, found.dtype, found.batch) == (14, 2, 64, "bfloat16", 8)
    assert found.origin == "the shapes of Qwen2"


def test_heads_alone_mean_as_many_keys() -> None:
    assert make_workload("cuda:0", {"heads": 24}, {}).kv_heads == 24


def test_heads_that_cannot_be_shared_are_refused() -> None:
    with pytest.raises(UsageError, match="14 query heads cannot share 4"):
        make_workload("cpu", {"heads": 14, "kv_heads": 4}, {})


def test_operations_are_those_of_the_formula() -> None:
    found = make_workload("cuda:0", {}, {})
    assert found.operations(1024, "forward") == 4 * 8 * 32 * 1024**2 * 128 / 2
    assert found.operations(1024, "backward") == 2.5 * found.operations(1024, "forward")
    assert found.operations(1024, "step") == 3.5 * found.operations(1024, "forward")
    full = make_workload("cuda:0", {"causal": False}, {})
    assert full.operations(2048, "forward") == 8 * found.operations(1024, "forward")


def test_lengths_are_read_as_people_write_them() -> None:
    assert parse_lengths("8k, 1K,512,512") == (512, 1024, 8192)
    assert [length_text(n) for n in (1024, 1536, 100)] == ["1k", "1536", "100"]


@pytest.mark.parametrize(
    "text", ["", "k", "1.5k", "-4", "0", "2m", "99999999", "\u0664", ",".join(map(str, range(1, 20)))]
)
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_lengths(text)


def test_a_gpu_without_a_row_has_no_peak() -> None:
    tables = shipped_tables()
    assert peak_of("NVIDIA H200", tables).tflops == 989
    for name in ("NVIDIA H200 NVL", "NVIDIA GeForce RTX 9999", ""):
        assert peak_of(name, tables).tflops is None
        assert peak_of(name, tables).source
    assert build_cost(tables).least < build_cost(tables).most
