"""What a model asks of attention, from real shapes of config.json; without network where the file is here."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.errors import UndeterminedError, UsageError
from kerneldoctor.smoke.model_config import workload_of_model

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
         "torch_dtype": "bfloat16", "sliding_window": None}  # fmt: skip
GEMMA = {"model_type": "gemma2", "hidden_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 8,
         "head_dim": 256, "sliding_window": 4096, "attn_logit_softcapping": 50.0, "torch_dtype": "float32"}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "workload"),
    [
        (LLAMA, {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "model_type": "llama"}),
        (
            GEMMA,
            {"heads": 16, "kv_heads": 8, "head_dim": 256, "dtype": "bfloat16", "window": 4096, "softcap": 50.0,
             "model_type": "gemma2"},
        ),
        ({"n_head": 12, "n_embd": 768, "dtype": "float16"},
         {"heads": 12, "kv_heads": 12, "head_dim": 64, "dtype": "float16"}),
        (
            {"model_type": "qwen2", "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896,
             "sliding_window": 32768, "use_sliding_window": False},
            {"heads": 14, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16", "model_type": "qwen2"},
        ),
        ({"model_type": "llava", "text_config": LLAMA, "dtype": "float16"},
         {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "model_type": "llama"}),
        ({"n_head": 71, "hidden_size": 4544, "multi_query": True},
         {"heads": 71, "kv_heads": 1, "head_dim": 64, "dtype": "bfloat16"}),
    ],
)  # fmt: skip
def test_a_local_config_is_read_without_transformers(
    tmp_path: Path, config: dict[str, Any], workload: dict[str, Any]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert workload_of_model(str(tmp_path), "/nowhere/python") == workload
    assert workload_of_model(str(tmp_path / "config.json"), "/nowhere/python") == workload


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"num_attention_heads": 4}', '{"num_attention_heads": "many"}', "\0"]
)
def test_a_config_without_attention_is_wrong_use(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match="--model"):
        workload_of_model(str(tmp_path), sys.executable)


def test_a_path_that_is_not_there_is_not_asked_of_the_hub() -> None:
    with pytest.raises(UsageError, match=r"there is no config\.json"):
        workload_of_model("./nothing/config.json", "/nowhere/python")


def test_an_interpreter_without_transformers_cannot_answer(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'transformers'\" >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(UndeterminedError, match="No module named 'transformers'"):
        workload_of_model("Qwen/Qwen3-8B", str(python))


@pytest.mark.torch
def test_a_name_is_looked_up_by_transformers_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--org--model" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps({**LLAMA, "num_key_value_heads": 2}))
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("0" * 40)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = workload_of_model("org/model", sys.executable)
    assert (found["heads"], found["kv_heads"], found["head_dim"], found["model_type"]) == (32, 2, 128, "llama")
