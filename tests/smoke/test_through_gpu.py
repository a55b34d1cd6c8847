"""`kerneldoctor try --through transformers` on a GPU: Triton attention in Hub layout, right and wrong with packing.

Needs an NVIDIA GPU, torch for CUDA, triton, transformers and kernels that fit each other; run it there with
`pytest -m gpu tests/smoke/test_through_gpu.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Hub, serve
from tests.kernels.layout import GPU_VARIANT, metadata, publish, repository, triton_attention

from .place import Place

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU"),
]
REPO = "kernels-test/triton-attention"
THROUGH = ("--through", "transformers")


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Place:
    return Place.make(running, tmp_path, "0")


def offer(place: Place, fault: str = "") -> str:
    build = triton_attention(fault)
    described = metadata(build, backend={"type": "cuda"}, id="_triton_attention_cuda_0123abc")
    return publish(place.hub, REPO, repository(build, described, GPU_VARIANT), "v1")


def test_a_right_kernel_passes_in_every_layout_and_compiled(place: Place) -> None:
    commit = offer(place)
    found = place.attempt(f"{REPO}@v1", *THROUGH, "--compile")
    assert found["verdict"]["kind"] == "passed", [(c["id"], c["outcome"], c["detail"]) for c in found["cases"]]
    assert len(found["cases"]) == 9
    assert f"/snapshots/{commit}/build/{GPU_VARIANT}/" in found["load"][0]["file"]
    assert found["pin"]["attn_implementation"] == f'attn_implementation="{REPO}@{commit}"'


def test_a_kernel_that_is_wrong_with_packing_alone_is_caught(place: Place) -> None:
    offer(place, "packing-ignored")
    found = place.attempt(f"{REPO}@v1", *THROUGH)
    wrong = {case["id"] for case in found["cases"] if case["outcome"] == "wrong"}
    assert wrong == {"packed", "packed-kwargs"}
    assert found["verdict"]["kind"] == "failed"


def test_flash_attention_2_becomes_the_kernel(place: Place) -> None:
    build = triton_attention()
    described = metadata(build, backend={"type": "cuda"})
    files = repository(build, described, GPU_VARIANT)
    for branch in ("v3", "v4"):  # which of them is taken depends on the releases of transformers and torch
        publish(place.hub, "kernels-community/flash-attn2", files, branch)
    found = place.attempt("flash_attention_2", *THROUGH, "--case", "packed")
    assert found["verdict"]["kind"] == "passed", found
    assert found["load"][0]["through"]["runs"] == "kernels-community/flash-attn2"
