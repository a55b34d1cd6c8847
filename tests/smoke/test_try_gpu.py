"""`kerneldoctor try` on a GPU: Triton kernels in Hub layout, good, writing where they may not, and without end.

Needs an NVIDIA GPU, torch for CUDA, triton and kernels; run it there with `pytest -m gpu tests/smoke/test_try_gpu.py`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Hub, serve
from tests.kernels.layout import GPU_VARIANT, attention, metadata, publish, repository, triton_attention

from .place import Place, of_kind

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU"),
]
REPO = "kernels-test/triton-attention"


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Iterator[Place]:
    before = used_memory()
    yield Place.make(running, tmp_path, "0")
    # Somebody else may use the GPU as well; a context that was left behind would hold hundreds of MiB.
    assert used_memory() - before < 200


def used_memory() -> int:
    """MiB in use on the first GPU."""
    asked = ["nvidia-smi", "--id=0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


def offer(place: Place, fault: str = "", archs: tuple[str, ...] = ()) -> str:
    build = triton_attention(fault)
    described = metadata(build, backend={"type": "cuda", **({"archs": list(archs)} if archs else {})})
    return publish(place.hub, REPO, repository(build, described, GPU_VARIANT), "v1")


def test_a_good_kernel_passes(place: Place) -> None:
    commit = offer(place)
    found = place.attempt(f"{REPO}@v1")
    assert found["verdict"]["kind"] == "passed", [(c["id"], c["outcome"], c["detail"]) for c in found["cases"]]
    assert found["pin"]["attn_implementation"] == f'attn_implementation="{REPO}@{commit}"'
    assert found["device"]["gpu"]["name"]
    assert found["device"]["processes"] == 1


def test_all_devices_are_tried(place: Place) -> None:
    offer(place)
    place.device = "all"
    found = place.attempt(f"{REPO}@v1", "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["kind"] == "passed"
    assert {case["device"] for case in found["cases"]} == {device["name"] for device in found["devices"]}


def test_an_illegal_address_is_named_and_the_other_cases_are_judged(place: Place) -> None:
    offer(place, "far-write")
    found = place.attempt(f"{REPO}@v1")
    assert found["verdict"]["kind"] == "failed"
    assert found["device"]["processes"] > 1
    bad = [case for case in found["cases"] if case["outcome"] in ("raised", "crashed")]
    assert bad
    assert all("illegal" in (case["detail"] + case["said"]).lower() for case in bad)
    assert {case["params"]["head_dim"] for case in bad} == {128}
    assert {case["outcome"] for case in found["cases"] if case not in bad} <= {"passed", "unsupported"}


def test_a_write_of_one_element_behind_its_own_output_is_named(place: Place) -> None:
    offer(place, "near-write")
    found = place.attempt(f"{REPO}@v1")
    assert found["verdict"]["kind"] == "failed"
    wrong = of_kind(found, "wrong")
    assert wrong
    assert all("out: memory behind its end was written, up to byte 2 beyond" in case["detail"] for case in wrong)
    assert {case["outcome"] for case in found["cases"] if case not in wrong} <= {"passed", "unsupported"}


def test_a_kernel_without_end_is_ended_and_the_other_cases_are_judged(place: Place) -> None:
    offer(place, "endless")
    asked = ("dense-mha-bf16-d64", "dense-gqa-window-causal-bf16-d128", "varlen-mha-bf16-d64")
    began = time.monotonic()
    # Triton compiles within this time; where the cases before this one ran, it has done so already.
    found = place.attempt(f"{REPO}@v1", "--timeout", "15", *(part for case in asked for part in ("--case", case)))
    assert {case["id"]: case["outcome"] for case in found["cases"]} == {
        "dense-mha-bf16-d64": "passed",
        "dense-gqa-window-causal-bf16-d128": "hung",
        "varlen-mha-bf16-d64": "passed",
    }
    assert time.monotonic() - began < 90


def test_a_build_without_code_for_this_gpu_is_refused(place: Place) -> None:
    offer(place, archs=("7.0",))
    found = place.attempt(f"{REPO}@v1")
    assert found["refusals"][0]["code"] == "wrong-architecture"


def test_the_cpu_is_tried_on_a_machine_with_a_gpu(place: Place) -> None:
    publish(place.hub, "kernels-test/cpu-attention", repository(attention()), "v1")
    place.device = "cpu"
    found = place.attempt("kernels-test/cpu-attention@v1", "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["text"] == "passed (1 of 1)"
