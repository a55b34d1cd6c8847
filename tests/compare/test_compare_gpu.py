"""`kerneldoctor compare` on a GPU: a Triton kernel in Hub layout beside torch's own, at two short lengths.

Needs an NVIDIA GPU, torch for CUDA, triton and kernels; run it there with `pytest -m gpu tests/compare`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hub.server import serve
from tests.kernels.layout import GPU_VARIANT, metadata, repository, triton_attention, write
from tests.smoke.place import Place

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU"),
]


def test_times_and_memory_are_those_of_the_gpu(tmp_path: Path) -> None:
    build = triton_attention()
    folder = write(tmp_path / "triton", repository(build, metadata(build, backend={"type": "cuda"}), GPU_VARIANT))
    with serve() as hub:
        place = Place.make(hub, tmp_path, "0")
        code, out, error = place.run(
            "compare", "--local", str(folder), "--built-in", "sdpa", "--built-in", "eager", "--device", "0",
            "--lengths", "512,1k", "--batch", "2", "--repeats", "1", "--format", "json",
        )  # fmt: skip
    assert code == 0, error
    found = {one["name"]: one for one in json.loads(out)["implementations"]}
    assert {one["standing"] for one in found.values()} == {"right"}
    cells = {name: {(r["length"], r["direction"]): r for r in one["results"]} for name, one in found.items()}
    scores = 2 * 32 * 1024**2 * 2  # bytes of the scores of one pass in bf16: eager keeps them, sdpa does not
    assert cells["eager"][1024, "step"]["peak_bytes"] > scores > cells["sdpa"][1024, "step"]["peak_bytes"]
    assert all(r["ms"]["cold_l2"] for r in cells["sdpa"].values() if r["direction"] != "backward")
    assert cells["sdpa"][1024, "step"]["ms"]["median"] < cells["eager"][1024, "step"]["ms"]["median"]
    assert found["sdpa"]["sdpa_backend"]["step"] in ("flash", "cudnn", "efficient")
