from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.probes.visibility import CudaGpu, MigDevice, Selection, read_visible_devices

H200 = [CudaGpu(f"GPU-{digit * 8}-0000", "NVIDIA H200") for digit in "0123"]
ALIKE = [CudaGpu("GPU-aaaa1111", "X"), CudaGpu("GPU-aaaa2222", "X")]
MIG = [
    CudaGpu("GPU-1", "A100", True, (MigDevice("MIG-a1", 1), MigDevice("MIG-a2", 1), MigDevice("MIG-b1", 2))),
    CudaGpu("GPU-2", "A100"),
]


def see(raw: str | None, gpus: list[CudaGpu] | None = None, **more: object) -> Selection:
    return read_visible_devices(raw, H200 if gpus is None else gpus, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("raw", "visible", "problem", "ignored"),
    [
        (None, {0, 1, 2, 3}, "", ""),
        ("", set(), "empty", ""),
        ("-1", set(), "empty", ""),
        ("NoDevFiles", set(), "empty", ""),
        ("0", {0}, "", ""),
        ("2,1", {1, 2}, "", ""),
        ("0, 1 , 2", {0, 1, 2}, "", ""),
        ("2, +3, -0", {0, 2, 3}, "", ""),
        ("0,2,-1,1", {0, 2}, "invalid_entry", "-1,1"),  # the example of NVIDIA's manual
        ("1gpu2,2ampere", {1, 2}, "trailing_text", "gpu2"),
        ("0-3", {0}, "trailing_text", "-3"),
        ("3,2,two,one", {2, 3}, "invalid_entry", "two,one"),
        ("one,two,3", set(), "invalid_entry", "one,two,3"),
        ('"0,1"', set(), "invalid_entry", '"0,1"'),  # quotes that an env file kept
        ("0,,1", {0}, "invalid_entry", ",1"),
        ("0,", {0}, "", ""),  # reading stops at nothing, and nothing is lost
        ("1,2, ,", {1, 2}, "", ""),
        (",", set(), "invalid_entry", ","),
        (",0", set(), "invalid_entry", ",0"),
        ("GPU-0,", {0}, "", ""),
        ("0,9,1", {0}, "out_of_range", "9,1"),
        ("7", set(), "out_of_range", "7"),
        ("0,1,2,1", set(), "duplicate", "1"),
        ("٣", set(), "invalid_entry", "٣"),  # a digit for Python, not for C
        ("GPU-0000", {0}, "", ""),
        ("GPU-33333333-0000,GPU-1", {1, 3}, "", ""),
        ("GPU-0,1", {0}, "invalid_entry", "1"),
        ("GPU-9", set(), "invalid_entry", "GPU-9"),
        ("GPU-0,GPU-0", set(), "duplicate", "GPU-0"),
        ("GPU-0,GPU-00", set(), "duplicate", "GPU-00"),  # two prefixes of one GPU
        ("0,MIG-a", {0}, "mig_mixed", "MIG-a"),
    ],
)
def test_reading(raw: str | None, visible: set[int], problem: str, ignored: str) -> None:
    seen = see(raw)
    assert (seen.count, seen.visible, seen.problem, seen.ignored) == (len(visible), visible, problem, ignored)


def test_prefix_that_fits_two_gpus_is_invalid() -> None:
    assert see("GPU-aaaa", ALIKE).problem == "invalid_entry"
    assert see("GPU-aaaa2", ALIKE).visible == {1}


def test_unknown_gpus_leave_the_count_unknown_unless_all_are_hidden() -> None:
    assert read_visible_devices("0,1", None).count is None
    assert read_visible_devices(None, None).count is None
    assert read_visible_devices("-1", None).count == 0
    assert read_visible_devices("junk", None).count == 0


def test_index_in_a_machine_of_mixed_models_depends_on_the_order() -> None:
    mixed = [CudaGpu("GPU-1", "RTX 3060"), CudaGpu("GPU-2", "RTX 4090")]
    assert (see("0", mixed).count, see("0", mixed).visible) == (1, None)
    assert "CUDA_DEVICE_ORDER" in see("0", mixed).doubt
    assert see("0", mixed, by_pci_bus=True).visible == {0}


@pytest.mark.parametrize(
    ("raw", "driver", "count", "visible"),
    [
        (None, 580, 3, {0, 1}),  # one of each of two GPU instances, and the whole GPU
        (None, 550, 1, {0}),  # one MIG device is all that a process sees
        (None, None, None, None),
        ("MIG-a1", 550, 1, {0}),
        ("MIG-a1,MIG-b1", 580, 2, {0}),
        ("MIG-a1,MIG-b1", 550, 1, {0}),
        ("MIG-a1,MIG-a2", 580, 1, {0}),  # both in one GPU instance
        ("MIG-zz", 580, 0, set()),
        ("GPU-2", 580, 1, {1}),
        ("GPU-1", 580, None, {0}),
        ("0", 580, None, None),
        ("MIG-GPU-1/1/0", 460, None, None),
        ("MIG-a1,GPU-2", 580, None, None),
        ("MIG-a1,GPU-2", 550, 1, {0}),
    ],
)
def test_mig(raw: str | None, driver: int | None, count: int | None, visible: set[int] | None) -> None:
    seen = see(raw, MIG, driver_major=driver)
    assert (seen.count, seen.visible) == (count, visible)
    assert bool(seen.doubt) is (count is None)


def test_gpu_in_mig_mode_without_instances_is_not_seen() -> None:
    assert see(None, [CudaGpu("GPU-1", "A100", mig=True), CudaGpu("GPU-2", "A100")], driver_major=580).visible == {1}


@pytest.mark.parametrize("raw", [None, "0", "GPU-1", "MIG-a"])
def test_no_entry_names_a_device_where_every_gpu_is_in_mig_mode_without_instances(raw: str | None) -> None:
    seen = see(raw, [CudaGpu("GPU-1", "A100", mig=True)], driver_major=580)
    assert (seen.count, seen.visible, seen.doubt) == (0, frozenset(), "")


texts = st.one_of(st.text(max_size=30), st.text("0123,-+ GPUMI", max_size=30))


@given(texts, st.integers(0, 4))
def test_any_text_gives_a_consistent_answer(raw: str, count: int) -> None:
    seen = see(raw, H200[:count])
    if seen.visible is not None:
        assert seen.visible <= set(range(count))
        assert seen.count == len(seen.visible)
    assert (seen.count is None) <= bool(seen.doubt)
    assert not seen.ignored or seen.problem
    assert seen.ignored in raw or seen.problem == "out_of_range"


@given(st.lists(st.integers(0, 3), unique=True, max_size=4), texts)
def test_what_follows_an_invalid_entry_never_counts(indices: list[int], rest: str) -> None:
    head = ",".join(map(str, indices))
    seen = see(f"{head},x,{rest}" if indices else f"x,{rest}")
    assert (seen.visible, seen.problem) == (set(indices), "invalid_entry")


@given(st.permutations(range(4)), st.integers(1, 4))
def test_order_and_form_of_the_names_do_not_change_the_set(order: list[int], length: int) -> None:
    chosen = order[:length]
    by_index = see(",".join(map(str, chosen)))
    by_uuid = see(",".join(H200[i].uuid for i in chosen))
    assert by_index.visible == by_uuid.visible == set(chosen)


@pytest.fixture(scope="module")
def cuda() -> Any:
    return pytest.importorskip("torch.cuda")


@pytest.mark.torch
@given(st.lists(st.sampled_from(["0", "1", " 2", "3x", "-1", "+1", "x", "", "GPU-0", "GPU-1"]), min_size=1, max_size=5))
def test_agrees_with_torch(cuda: Any, entries: list[str]) -> None:
    raw = ",".join(entries)
    os.environ["CUDA_VISIBLE_DEVICES"] = raw
    try:
        theirs = cuda._parse_visible_devices()
    finally:
        del os.environ["CUDA_VISIBLE_DEVICES"]
    if theirs and isinstance(theirs[0], str):
        theirs = cuda._transform_uuid_to_ordinals(theirs, [g.uuid for g in H200])
    assert see(raw).visible == set(theirs)
