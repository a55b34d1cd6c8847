"""`kerneldoctor recommend` on a GPU: Triton kernels in Hub layout, good, bad for one head size, and for another GPU.

Needs an NVIDIA GPU, torch for CUDA, triton and kernels; run it there with `pytest -m gpu tests/recommendation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.lock import read_lock
from tests.hub.server import Hub, serve
from tests.kernels.layout import GPU_VARIANT, metadata, publish, repository, triton_attention
from tests.smoke.place import Place

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.torch,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU"),
]
REPO, BROKEN = "kernels-test/triton-versions", "kernels-test/triton-broken"
WIDE = ("--heads", "8", "--kv-heads", "2", "--head-dim", "128")
NARROW = ("--heads", "8", "--kv-heads", "2", "--head-dim", "64")


def offer(hub: Hub, repo: str, branch: str, fault: str = "", archs: tuple[str, ...] = ()) -> str:
    build = triton_attention(fault)
    described = metadata(build, backend={"type": "cuda", **({"archs": list(archs)} if archs else {})})
    return publish(hub, repo, repository(build, described, GPU_VARIANT), branch)


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    """v3 for another GPU, v2 with an illegal address for head size 128, v1 right."""
    with serve() as hub:
        offer(hub, REPO, "v1")
        offer(hub, REPO, "v2", "far-write")
        offer(hub, REPO, "v3", archs=("7.0",))
        offer(hub, BROKEN, "v1", "far-write")
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Place:
    return Place.make(running, tmp_path, "0")


def answer(place: Place, *arguments: str) -> dict[str, Any]:
    code, out, err = place.run("recommend", *arguments, "--device", "0", "--format", "json", "--no-alternatives")
    assert out, err
    found: dict[str, Any] = json.loads(out)
    assert found["exit_code"] == code
    return found


def test_the_one_that_trains_here_is_pinned_and_kept(place: Place) -> None:
    path = place.folder / "kerneldoctor.lock"
    found = answer(place, REPO, *WIDE, f"--write={path}")
    kinds = {c["version"]: (c["basis"], c["trial"]["verdict"]["kind"] if c["trial"] else None)
             for c in found["candidates"] if c["version"]}  # fmt: skip
    assert kinds["v3"][0] == "ruled out", found["candidates"]
    assert kinds["v2"] == ("measured", "failed")
    assert kinds["v1"] == ("measured", "passed"), found["candidates"]
    (entry,) = read_lock(str(path))
    assert (entry.commit, entry.revision) == (place.hub.repos[REPO].branches["v1"], "v1")
    assert entry.environment["backend"].startswith("cuda 1")
    assert {"gpu", "driver", "compute_capability"} <= entry.environment.keys()


def test_another_head_size_takes_the_newer_one(place: Place) -> None:
    found = answer(place, REPO, *NARROW)
    assert found["pin"]["comment"] == "v2"
    assert found["pin"]["tested"]


def test_where_all_are_broken_sdpa_remains(place: Place) -> None:
    found = answer(place, BROKEN, *WIDE)
    assert (found["exit_code"], found["chosen"]["name"]) == (1, "sdpa")
