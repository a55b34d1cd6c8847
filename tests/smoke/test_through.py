"""`kerneldoctor try --through transformers` from end to end on the CPU: a loopback Hub, real transformers and kernels.

A child imports transformers, which takes seconds: runs are shared, and what several tests look at is run once.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub.server import Hub, serve
from tests.kernels.layout import GPU_VARIANT, attention, metadata, publish, repository, write

from .place import Place

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed"),
]
REPO = "kernels-test/attention"
THROUGH = ("--through", "transformers")


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Place:
    return Place.make(running, tmp_path, "cpu")


@pytest.fixture(scope="module")
def good(running: Hub, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A right kernel, every case."""
    place = Place.make(running, tmp_path_factory.mktemp("good"), "cpu")
    commit = publish(running, REPO, repository(attention()), "v1")
    return {**place.attempt(f"{REPO}@v1", *THROUGH), "published": commit}


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {case["id"]: case["outcome"] for case in found["cases"]}


def test_a_right_kernel_passes_in_every_layout(good: dict[str, Any]) -> None:
    assert set(outcomes(good).values()) == {"passed"}, good["cases"]
    assert set(outcomes(good)) == {
        "unpadded", "padded-right", "padded-left", "packed", "packed-kwargs", "checkpointing", "generate",
        "generate-padded",
    }  # fmt: skip
    release = good["device"]["packages"]["transformers"]
    assert good["verdict"]["text"] == f"passed through transformers {release} (8 of 8)"
    assert good["exit_code"] == 0
    assert good["device"]["processes"] == 1
    assert good["pin"]["attn_implementation"] == f'attn_implementation="{REPO}@{good["published"]}"'


def test_what_really_ran_is_read_from_the_module(good: dict[str, Any]) -> None:
    (load,) = good["load"]
    assert f"/snapshots/{good['published']}/build/torch-cpu/__init__.py" in load["file"]
    assert load["through"] | {"warnings": []} == {
        "library": "transformers", "version": good["device"]["packages"]["transformers"], "asked": f"{REPO}@v1",
        "runs": f"{REPO}@v1", "chosen_by": "you", "functions": ["flash_attn_func", "flash_attn_varlen_func"],
        "model": "Qwen3ForCausalLM", "layers": 2, "dtype": "bfloat16", "heads": 8, "kv_heads": 2, "head_dim": 64,
        "left_out": [], "warnings": [],
    }  # fmt: skip


def test_each_layout_takes_the_way_that_it_is_there_for(good: dict[str, Any]) -> None:
    called = {case["id"]: case["notes"][0] for case in good["cases"]}
    assert called["unpadded"] == "called flash_attn_func 2 times"
    assert {called[name] for name in ("padded-right", "padded-left", "packed", "packed-kwargs")} == {
        "called flash_attn_varlen_func 2 times"
    }
    assert called["generate"] == "called flash_attn_func 24 times"


def test_logits_loss_and_every_gradient_are_compared(good: dict[str, Any]) -> None:
    for case in good["cases"]:
        if case["params"]["does"] == "train":
            assert {"logits", "loss", "grad model.layers.1.self_attn.k_proj.weight"} <= case["errors"].keys()
            assert all(error["ratio"] < 0.9 for error in case["errors"].values()), case["errors"]


def test_sdpa_mixes_packed_sequences_where_the_cache_is_left_on(good: dict[str, Any]) -> None:
    # Why the reference runs each sequence alone: what transformers does for sdpa depends on more than the positions.
    (note,) = [note for case in good["cases"] if case["id"] == "packed" for note in case["notes"] if "sdpa" in note]
    own, packed, cached = (float(part.split()[0].rstrip(",;")) for part in note.split(" by ")[1:])
    assert own < 0.05
    assert packed < 0.05
    assert cached > 0.5


def test_a_kernel_that_is_wrong_with_packing_alone_is_caught(place: Place) -> None:
    publish(place.hub, REPO, repository(attention("packing-ignored")), "v1")
    found = place.attempt(f"{REPO}@v1", *THROUGH)
    wrong = {name for name, outcome in outcomes(found).items() if outcome == "wrong"}
    assert wrong == {"packed", "packed-kwargs"}
    assert {outcome for name, outcome in outcomes(found).items() if name not in wrong} == {"passed"}
    assert found["verdict"]["kind"] == "failed"
    assert found["pin"] is None
    again = next(step for step in found["next"] if f"try {REPO}@v1 --through transformers --" in step)
    assert "--device cpu --case packed --seed 0" in again


def test_a_wrong_gradient_of_the_keys_is_found_in_the_parameters(place: Place) -> None:
    path = write(place.folder / "kernel", repository(attention("gqa-dk-wrong")))
    found = place.attempt("--local", str(path), *THROUGH, "--case", "unpadded", "--case", "generate")
    (case, generated) = found["cases"]
    assert (case["outcome"], case["direction"], generated["outcome"]) == ("wrong", "backward", "passed")
    assert "parameter gradients are off: grad model.layers." in case["detail"]
    assert "self_attn.k_" in case["detail"].split(" is off by")[0]
    assert case["errors"]["logits"]["ratio"] < 1
    assert found["verdict"]["kind"] == "partial"


def test_flash_attention_2_is_a_name_and_what_became_of_it_is_shown(place: Place) -> None:
    publish(place.hub, "kernels-community/flash-attn2", repository(attention()), "v4")
    found = place.attempt("flash_attention_2", *THROUGH, "--case", "packed", "--inference")
    assert found["verdict"]["kind"] == "passed", found
    (load,) = found["load"]
    assert load["through"]["asked"] == "flash_attention_2"
    assert load["through"]["runs"] == "kernels-community/flash-attn2"
    assert load["through"]["chosen_by"] == "transformers"
    assert (
        "flash_attention_2 was asked for; transformers took kernels-community/flash-attn2 in its place"
        in found["notes"]
    )
    assert not any(name.startswith("grad") for name in found["cases"][0]["errors"])
    assert found["pin"]["inference_only"] is True


def test_without_a_build_the_true_cause_stands_before_what_transformers_says(place: Place) -> None:
    build = attention()
    cuda = repository(build, metadata(build, backend={"type": "cuda"}), GPU_VARIANT)
    place.hub.repos.pop("kernels-community/flash-attn2", None)
    publish(place.hub, "kernels-community/flash-attn2", cuda, "v4")
    found = place.attempt("flash_attention_2", *THROUGH)
    assert found["verdict"]["kind"] == "refused"
    assert found["refusals"][0]["code"] == "no-variant"
    (said,) = [note for note in found["notes"] if note.startswith("transformers ")]
    kernels, generic = said.split(". transformers itself says: ")
    assert "variant" in kernels
    assert "FlashAttention2 has been toggled on" in generic


def test_a_kernels_release_out_of_range_is_named(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    # Both transformers and kerneldoctor read the release from the metadata that is found first.
    described = place.folder / "lib" / "kernels-0.99.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 0.99.0\n")
    place.environ["PYTHONPATH"] = str(described.parent)
    found = place.attempt(f"{REPO}@v1", *THROUGH)
    assert found["verdict"]["kind"] == "refused"
    text = found["verdict"]["text"]
    assert "kernels-out-of-range" in text
    assert "0.99.0 is installed, so it acts as if there were none. transformers itself says: " in text
    assert any("pip install kernels==" in step for step in found["next"])


def test_a_config_on_disk_makes_the_model(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    config = {"model_type": "qwen2", "num_attention_heads": 6, "num_key_value_heads": 3, "hidden_size": 384,
              "intermediate_size": 9999, "num_hidden_layers": 24, "vocab_size": 151936, "dtype": "float16"}  # fmt: skip
    (place.folder / "config.json").write_text(json.dumps(config))
    model = ("--model", str(place.folder / "config.json"))
    found = place.attempt(f"{REPO}@v1", *THROUGH, *model, "--case", "packed", "--case", "checkpointing")
    assert found["verdict"]["kind"] == "passed", found["cases"]
    seen = found["load"][0]["through"]
    assert {name: seen[name] for name in ("model", "layers", "heads", "kv_heads", "head_dim", "dtype")} == {
        "model": "Qwen2ForCausalLM", "layers": 2, "heads": 6, "kv_heads": 3, "head_dim": 64, "dtype": "float16",
    }  # fmt: skip


def test_an_untrusted_publisher_is_refused_before_anything_is_loaded(place: Place) -> None:
    publish(place.hub, "stranger/attention", repository(attention()), "v1", trusted=False)
    found = place.attempt("stranger/attention@v1", *THROUGH)
    assert [refusal["code"] for refusal in found["refusals"]] == ["untrusted"]
    assert found["devices"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        ((f"{REPO}@v1", *THROUGH, "--case", "pakced"), 2, "packed"),
        ((f"{REPO}@v1", "--compile"), 2, "--through transformers"),
        ((f"{REPO}@v1", *THROUGH, "--compile", "--case", "packed"), 2, "--case compile"),
        ((f"{REPO}@v1", *THROUGH, "--heads", "2", "--head-dim", "7"), 2, "even"),
        (("--module", "flash_attn", *THROUGH), 2, "flash_attention_2"),
        ((f"{REPO}@v1", "--through", "trl", "--inference"), 2, "--through transformers"),
        ((f"{REPO}@v1", *THROUGH, "--cases", "full"), 2, "--cases"),
        ((f"{REPO}@v1", "--through", "trl"), 3, "pip install trl"),
    ],
)
def test_what_cannot_be_asked_is_one_line(place: Place, arguments: tuple[str, ...], code: int, word: str) -> None:
    if word == "pip install trl" and importlib.util.find_spec("trl") is not None:
        pytest.skip("trl is installed")
    publish(place.hub, REPO, repository(attention()), "v1")
    found, out, err = place.run("try", *arguments, "--device", "cpu")
    assert (found, out) == (code, "")
    assert len(err.splitlines()) == 1, err
    assert word in err


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
def test_two_steps_of_sft_find_a_wrong_gradient_in_every_way_to_lay_out_a_batch(place: Place) -> None:
    publish(place.hub, REPO, repository(attention("gqa-dk-wrong")), "v1")
    found = place.attempt(f"{REPO}@v1", "--through", "trl")
    assert {case["id"]: case["outcome"] for case in found["cases"]} == dict.fromkeys(
        ("sft-padded", "sft-padding-free", "sft-packing"), "wrong"
    )
    assert all("self_attn.k_" in case["detail"] for case in found["cases"])
    assert found["verdict"]["text"].startswith("partial through trl ")


def test_what_a_kernel_has_no_parameter_for_is_named(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    config = {"model_type": "gpt_oss", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
              "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4, "vocab_size": 999}  # fmt: skip
    (place.folder / "config.json").write_text(json.dumps(config))
    found = place.attempt(f"{REPO}@v1", *THROUGH, "--model", str(place.folder), "--case", "unpadded", "--inference")
    assert outcomes(found) == {"unpadded": "wrong"}
    assert any("no parameter for attention sinks" in note for note in found["notes"])


def test_a_model_that_mixes_packed_sequences_itself_is_not_held_against_the_kernel(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    config = {"model_type": "jamba", "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 64,
              "intermediate_size": 64, "num_hidden_layers": 4, "vocab_size": 99}  # fmt: skip
    (place.folder / "config.json").write_text(json.dumps(config))
    model = ("--model", str(place.folder), "--case", "unpadded", "--case", "packed", "--inference")
    found = place.attempt(f"{REPO}@v1", *THROUGH, *model)
    assert outcomes(found) == {"unpadded": "passed", "packed": "skipped"}, found["cases"]
    assert found["exit_code"] == 3


def test_a_model_without_attention_is_an_open_question(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    config = {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 99,
              "num_attention_heads": 2}  # fmt: skip
    (place.folder / "config.json").write_text(json.dumps(config))
    code, out, err = place.run("try", f"{REPO}@v1", *THROUGH, "--model", str(place.folder), "--device", "cpu")
    assert (code, out) == (3, "")
    assert "MambaForCausalLM has no attention" in err
