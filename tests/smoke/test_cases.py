"""Which cases are chosen for which exports; without torch, as the parent asks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kerneldoctor.smoke import contracts
from kerneldoctor.smoke.cases import QUICK_LIMIT, choose
from kerneldoctor.smoke.protocol import Case, Job, KernelRequest, ProtocolError, Selection

FLASH = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
LLAMA = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16"}

# Exports as kernels-community publishes them; source: the __init__.py of each kernel.
KNOWN = {
    "flash-attn2": (
        (*FLASH, "flash_attn_qkvpacked_func", "fwd", "bwd"),
        {"flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache", "flash_attn_dropout"},
    ),
    "flash-attn4": (FLASH[:2], {"flash_attn_func", "flash_attn_varlen_func", "flash_attn_dropout"}),
    "activation": (("silu_and_mul", "gelu", "layers", "layers.SiluAndMul"), {"activation", "activation_layer"}),
    "rmsnorm": (("layers", "layers.RMSNorm", "apply_rms_norm_forward"), {"rms_norm"}),
    "rotary": (("apply_rotary", "apply_rotary_transformers"), {"apply_rotary", "apply_rotary_transformers"}),
    "liger-kernels": (
        ("LigerForCausalLMLoss", "liger_rotary_pos_emb", "layers.LigerRMSNorm", "layers.LigerSwiGLUMLP"),
        {"fused_linear_cross_entropy", "liger_rotary_pos_emb", "rms_norm", "gated_mlp"},
    ),
    "einops": (("rearrange", "reduce", "repeat", "einsum"), set()),
}


@pytest.mark.parametrize("kernel", KNOWN)
def test_a_kernel_is_held_to_the_contracts_that_its_exports_fit(kernel: str) -> None:
    exports, expected = KNOWN[kernel]
    assert {one.name for one in contracts.matching(exports)} == expected


def test_without_a_contract_there_is_no_case_rather_than_a_pass() -> None:
    assert choose(KNOWN["einops"][0], Selection(), "cpu") == ()


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_the_quick_set_has_every_grouping_dense_and_packed_with_backward(device: str) -> None:
    cases = choose(FLASH, Selection("quick"), device)
    assert len(cases) == QUICK_LIMIT
    trained = {(case.contract, _grouping(case)) for case in cases if case.params["backward"]}
    wanted = {(name, grouping) for name in FLASH[:2] for grouping in ("mha", "gqa", "mqa")}
    assert wanted <= trained


def test_the_quick_set_touches_what_is_known_to_break() -> None:
    cases = choose(FLASH, Selection("quick"), "cuda:0")
    params = [case.params for case in cases]
    assert {case.contract for case in cases} == {*FLASH, "flash_attn_dropout"}
    assert {p["dtype"] for p in params} == {"bfloat16", "float16"}
    assert {p["head_dim"] for p in params} >= {64, 80, 96, 128, 256}
    assert any(0 in p.get("lengths_q", ()) for p in params), "no empty sequence"
    for feature in ("causal", "window", "softcap", "scale", "lse", "deterministic", "dropout"):
        assert any(p.get(feature) for p in params), feature
    assert {p["layout"] for p in params} == {"contiguous", "transposed", "spaced"}
    assert any(p.get("seqlen_q", 0) > p.get("seqlen_k", 0) and p["causal"] for p in params), "no query without a key"
    assert any(p["magnitude"] > 4 for p in params)


def test_a_kernel_without_packed_attention_gets_dense_cases_in_its_place() -> None:
    cases = choose(FLASH[:1], Selection("quick"), "cpu")
    assert {case.contract for case in cases} == {"flash_attn_func", "flash_attn_dropout"}
    assert len(cases) > 10


def test_the_quick_set_has_one_case_of_each_function_before_a_second_one() -> None:
    layers = ("LigerRMSNorm", "LigerLayerNorm", "LigerSwiGLUMLP", "LigerGEGLUMLP", "LigerCrossEntropyLoss")
    more = ("RMSNorm", "LlamaRMSNorm", "liger_rotary_pos_emb", "apply_rotary", "LigerForCausalLMLoss", "Silu", "ReLU")
    chosen = choose((*layers, *more), Selection("quick"), "cpu")
    assert len(chosen) <= 16
    kinds = {case.params.get("function", case.contract) for case in chosen}
    assert kinds == {*layers, *more} - {"LigerForCausalLMLoss"} | {"fused_linear_cross_entropy"}


def test_sizes_follow_the_device_and_ids_do_not() -> None:
    cpu, gpu = (choose(FLASH, Selection("quick"), device) for device in ("cpu", "cuda:1"))
    assert [case.id for case in cpu] == [case.id for case in gpu]
    assert sum(_work(case) for case in gpu) > 2 * sum(_work(case) for case in cpu)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_ids_are_unique_and_cases_survive_the_way_to_the_child(device: str) -> None:
    exports = {name for one in contracts.contracts() for name in one.exports}
    cases = choose(exports, Selection("full", seed=7), device)
    ids = [case.id for case in cases]
    assert len(set(ids)) == len(ids)
    job = Job("n", KernelRequest("module", module="m"), device, "/j", cases)
    assert Job.from_json(job.to_json()).cases == cases


def test_every_head_dimension_is_in_the_full_set_with_every_grouping() -> None:
    cases = choose(FLASH, Selection("full"), "cuda:0")
    for contract in FLASH[:2]:
        seen = {(c.params["head_dim"], _grouping(c)) for c in cases if c.contract == contract}
        assert {(dim, g) for dim in (64, 80, 96, 128, 192, 256) for g in ("mha", "gqa", "mqa")} <= seen


def test_the_quick_set_is_part_of_the_full_one() -> None:
    full = {case.id: case for case in choose(FLASH, Selection("full"), "cpu")}
    for case in choose(FLASH, Selection("quick"), "cpu"):
        assert full[case.id] == case


def test_inference_leaves_every_backward_out() -> None:
    assert not any(case.params["backward"] for case in choose(FLASH, Selection("full", backward=False), "cpu"))


def test_a_case_can_be_run_again_by_its_id_and_seed() -> None:
    name = "dense-gqa-window-127-0-bf16-d64"
    assert name not in {case.id for case in choose(FLASH, Selection("quick"), "cpu")}
    (again,) = choose(FLASH, Selection("quick", only=(name,), seed=42), "cpu")
    assert (again.id, again.seed) == (name, 42)


def test_the_workload_sets_the_shape_of_every_case() -> None:
    gemma = {**LLAMA, "window": 4096, "softcap": 50.0, "head_dim": 256}
    cases = choose(FLASH, Selection("workload", workload=gemma), "cuda:0")
    assert {case.contract for case in cases} == set(FLASH)
    for case in cases:
        assert {key: case.params[key] for key in ("heads", "kv_heads", "head_dim", "softcap")} == {
            "heads": 32,
            "kv_heads": 8,
            "head_dim": 256,
            "softcap": 50.0,
        }
        # A window of w keys is the own one and w - 1 before it.
        assert case.params["window"] == [4095, 0]
    (again,) = choose(FLASH, Selection("workload", workload=gemma, only=("kvcache-workload-decode",)), "cuda:0")
    assert again in cases


@pytest.mark.parametrize(
    "workload",
    [{}, {**LLAMA, "kv_heads": 5}, {**LLAMA, "heads": 0}, {**LLAMA, "head_dim": 0}, {**LLAMA, "dtype": "float8"}, None],
)
def test_an_impossible_workload_is_refused(workload: dict[str, object] | None) -> None:
    with pytest.raises(ProtocolError):
        choose(FLASH, Selection("workload", workload=workload), "cpu")


def test_every_contract_says_what_it_is() -> None:
    found = contracts.contracts()
    assert [one.name for one in found] == sorted({one.name for one in found})
    for one in found:
        assert "\n" not in one.description
        assert len(one.description) > 20
        assert one.exports
        assert contracts.contract(one.name) is one
    with pytest.raises(KeyError):
        contracts.contract("no such contract")


def test_choosing_imports_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from kerneldoctor.smoke.cases import choose\n"
        "from kerneldoctor.smoke.contracts import contracts\n"
        "from kerneldoctor.smoke.protocol import Selection\n"
        "assert choose([e for c in contracts() for e in c.exports], Selection('full'), 'cpu')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _grouping(case: Case) -> str:
    heads, kv_heads = case.params["heads"], case.params["kv_heads"]
    return "mha" if heads == kv_heads else "mqa" if kv_heads == 1 else "gqa"


def _work(case: Case) -> int:
    p = case.params
    if "seqlen_q" in p:
        return int(p["batch"] * p["heads"] * p["seqlen_q"] * p["seqlen_k"])
    if "lengths_q" in p:
        return int(sum(p["heads"] * q * k for q, k in zip(p["lengths_q"], p["lengths_k"], strict=True)))
    return int(sum(p["heads"] * p["new"] * length for length in p["cached"]))
