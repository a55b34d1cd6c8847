"""What a build says of itself is read in every era; what `kernels` would stumble over is named, never a traceback."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldoctor.hub.metadata import Metadata, MetadataError, parse_metadata, read_metadata

WITH_KERNELS = pytest.mark.skipif(importlib.util.find_spec("kernels") is None, reason="kernels is not installed")
FULL: dict[str, Any] = {
    "name": "mykernel",
    "id": "_mykernel_cuda_0a1b2c3",
    "version": 2,
    "kernels-minver": "0.17.0",
    "license": "MIT",
    "python-depends": ["einops"],
    "backend": {"type": "cuda", "archs": ["8.0", "9.0a"]},
}


def text(**changes: Any) -> bytes:
    """A metadata.json; a change to None leaves the field out."""
    changed = {**FULL, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return json.dumps({name: value for name, value in changed.items() if value is not None}).encode()


def test_everything_that_it_says() -> None:
    assert parse_metadata(text()) == Metadata(
        "mykernel", "_mykernel_cuda_0a1b2c3", 2, "0.17.0", ("einops",), "cuda", ("8.0", "9.0a")
    )


@pytest.mark.parametrize(
    ("era", "said", "lacks"),
    [
        ("January 2026", {"version": 1, "python-depends": []}, ("name", "id", "license", "backend")),
        ("March 2026", {"version": 1, "license": "MIT", "python-depends": []}, ("name", "id", "backend")),
        ("April 2026", {"version": 1, "license": "MIT", "python-depends": [],
                        "backend": {"type": "cuda", "archs": ["9.0a"]}}, ("name", "id")),
        ("June 2026, no GPU code", {"name": "liger-kernels", "id": "_l_rocm_e29f7ec", "version": 1, "license": "x",
                                    "python-depends": [], "backend": {"type": "rocm"}}, ()),
        ("August 2026", {**FULL, "provenance": {"kernel": {"sha": "0" * 40, "dirty": False}}, "source": "x"}, ()),
        ("a later one", {**FULL, "something-new": {"deep": [1]}}, ()),
    ],
)  # fmt: skip
def test_each_era(era: str, said: dict[str, Any], lacks: tuple[str, ...]) -> None:
    assert parse_metadata(json.dumps(said).encode()).lacks == lacks, era


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "no JSON"), (b"[]", "no object"), (b"\xff\xfe", "no JSON"), (b"[" * 100_000, "no JSON"),
        (b"\xef\xbb\xbf{}", "no JSON"), (b'{"version": NaN}', "no JSON"), (b"", "no JSON"), (b"<html>", "no JSON"),
        (b'{"digest": {"algorithm": "md5", "files": {}}}', "digest"), (b'{"digest": 3}', "digest"),
        (b'{"digest": {"algorithm": "sha256", "files": {"a": 1}}}', "digest"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_why(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "metadata.json").write_bytes(content)
    with pytest.raises(MetadataError, match=why):
        read_metadata(tmp_path)


def test_missing_and_endless_files_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(MetadataError, match="there is no"):
        read_metadata(tmp_path)
    (tmp_path / "metadata.json").write_bytes(b" " * (5 << 20))
    with pytest.raises(MetadataError, match="larger"):
        read_metadata(tmp_path)


# Each field of the format with values that are right, and some that are not.
VALUES: dict[str, list[Any]] = {
    "name": ["mykernel", "a1", "a--b", None, "A", "a", "a-", "1a", "a_b", "é1", "", 3],
    "id": ["_x", "", None, 3],
    "version": [0, 7, 2**63, None, -1, 2**64, 1.0, "1", True],
    "license": ["MIT", "", None, []],
    "python-depends": [[], ["einops", "anything"], None, [1], "einops", {}],
    "backend": [
        {"type": "cuda"}, {"type": "rocm", "archs": []}, {"type": "tpu", "archs": None, "more": 1},
        {"type": "metal", "archs": ["x"]}, None, {}, "cuda", {"type": "npu"}, {"type": "CUDA"}, {"type": 1},
        {"type": "cuda", "archs": "9.0"}, {"type": "cuda", "archs": [9.0]}, {"type": "cuda", "archs": {}},
    ],
    "kernels-minver": [None, "0.17.0", "01.2.3", "+1.2.3", "0.17", "0.17.0.1", "1..3", "1.2.-3", "", 5],
    "more": [None, 1],
}  # fmt: skip


@pytest.mark.torch
@WITH_KERNELS
@settings(max_examples=2000, deadline=None)
@given(st.lists(st.sampled_from([(name, value) for name, values in VALUES.items() for value in values]), max_size=3))
def test_kernels_reads_what_we_say_it_reads(changes: list[tuple[str, Any]]) -> None:
    from kernels._rust import Metadata as Theirs

    said = {**FULL, **dict(changes)}
    content = json.dumps({name: value for name, value in said.items() if value is not None}).encode()
    try:
        theirs = Theirs.from_bytes(content)
    except ValueError:
        assert parse_metadata(content).lacks
        return
    ours = parse_metadata(content)
    assert ours.lacks == ()
    assert (ours.id, ours.version, ours.archs) == (theirs.id, theirs.version, tuple(theirs.backend.archs or ()))
    assert (str(theirs.kernels_minver or "") == "") is (ours.minver == "")


@pytest.mark.torch
@WITH_KERNELS
@pytest.mark.parametrize("field", ["name", "id", "version", "license", "python-depends", "backend"])
def test_kernels_names_the_field_that_we_name(field: str) -> None:
    from kernels._rust import Metadata as Theirs

    content = text(**{field.replace("-", "_"): None})
    assert parse_metadata(content).lacks == (field,)
    with pytest.raises(ValueError, match=f"missing field `{field}`"):
        Theirs.from_bytes(content)
