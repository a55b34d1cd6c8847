"""The lock file: what is written is read again, what is wrong is named with its place, other entries stay."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.environment import Environment, absent, unknown
from kerneldoctor.errors import UsageError
from kerneldoctor.lock import (
    SCHEMA,
    Difference,
    Locked,
    LockedVerdict,
    check_writable,
    differences,
    find_locked,
    fingerprint,
    read_lock,
    write_lock,
)
from tests.hub.machines import gpu, machine, seen

ENTRY = Locked(
    reference="flash_attention_2", repo="kernels-community/flash-attn2", revision="v3", commit="8" * 40,
    variant="torch-stable-abi210-cu130-x86_64-linux", build_id="4eec01c", digests={"_ops.py": f"sha256:{'0' * 64}"},
    environment=fingerprint(machine()), verdict=LockedVerdict("passed", "passed (16 of 16)", 16),
    workload={"heads": 14, "kv_heads": 2}, date="2026-12-01", kerneldoctor="0.1.0",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "kerneldoctor.lock")


def test_what_is_written_is_read_again(path: str) -> None:
    write_lock(path, [ENTRY])
    assert read_lock(path) == (ENTRY,)
    text = Path(path).read_text()
    assert text.endswith("}\n")
    assert json.loads(text)["schema"] == SCHEMA
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def test_a_new_entry_replaces_the_one_for_the_same_environment_and_keeps_the_others(path: str) -> None:
    older = fingerprint(machine("2.12.1+cu128"))
    write_lock(path, [ENTRY, replace(ENTRY, environment=older, commit="1" * 40)])
    patched = fingerprint(machine("2.13.1+cu130", driver="590.1"))  # a patch release and a driver are no new key
    write_lock(path, [replace(ENTRY, environment=patched, commit="2" * 40)])
    entries = read_lock(path)
    assert sorted(entry.commit[0] for entry in entries) == ["1", "2"]
    found = find_locked(entries, "flash_attention_2", fingerprint(machine("2.12.0+cu128")))
    assert found is not None
    assert found.commit == "1" * 40
    assert find_locked(entries, "flash_attention_2", fingerprint(machine(gpus="12.0"))) is None


def test_keys_that_a_later_release_adds_stay_with_their_entry(path: str) -> None:
    write_lock(path, [ENTRY])
    document = json.loads(Path(path).read_text())
    document["entries"][0]["signed_by"] = "somebody"
    Path(path).write_text(json.dumps(document))
    write_lock(path, [replace(ENTRY, reference="kernels-community/flash-attn2")])
    assert [entry.get("signed_by") for entry in json.loads(Path(path).read_text())["entries"]] == ["somebody", None]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "kerneldoctor.lock/2"}, "written by another release"),
        ({"schema": "kerneldoctor.trial/1"}, "this is not a kerneldoctor.lock"),
        ({"entries": {}}, '"entries" is no list'),
        ({"entries": [1]}, "entries[0] is no object"),
        ({"commit": "81fb77c"}, "entries[0].commit is not usable: '81fb77c'"),
        ({"commit": None}, "entries[0].commit is not usable"),
        ({"digests": {"x.so": "md5:00"}}, "entries[0].digests.x.so is not usable"),
        ({"digests": {"../x.so": f"sha256:{'0' * 64}"}}, "is no file of a build"),
        ({"verdict": {"kind": "fine", "text": ""}}, "entries[0].verdict.kind is not usable: 'fine'"),
        ({"environment": {"torch": 2}}, "entries[0].environment.torch is not usable: '2'"),
        ({"repo": "a b"}, "entries[0].repo is not usable"),
        ({"variant": "../x"}, "entries[0].variant is not usable"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_nothing_is_overwritten(
    path: str, change: dict[str, Any], says: str
) -> None:
    document = {"schema": SCHEMA, "entries": [asdict(ENTRY)]}
    inner: dict[str, Any] = document if change.keys() <= document.keys() else document["entries"][0]  # type: ignore[assignment]
    inner |= change
    Path(path).write_text(json.dumps(document))
    with pytest.raises(UsageError) as raised:
        read_lock(path)
    assert says in str(raised.value)
    assert str(raised.value).startswith(path)
    before = Path(path).read_text()
    with pytest.raises(UsageError):
        write_lock(path, [ENTRY])
    assert Path(path).read_text() == before


def test_whether_a_lock_can_be_written_is_told_before_there_is_anything_to_write(path: str) -> None:
    check_writable(path)
    assert not Path(path).exists()
    Path(path).write_text('{"schema": "kerneldoctor.lock/1", "ent')
    with pytest.raises(UsageError, match="not JSON"):
        check_writable(path)
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(f"{path}.d/kerneldoctor.lock")


def test_a_field_that_is_missing_is_named(path: str) -> None:
    entry = asdict(ENTRY)
    del entry["date"]
    Path(path).write_text(json.dumps({"schema": SCHEMA, "entries": [entry]}))
    with pytest.raises(UsageError, match=r"entries\[0\]\.date is missing"):
        read_lock(path)


class TestFingerprint:
    def test_the_whole_of_a_gpu_machine(self) -> None:
        environment = machine(gpus=seen((gpu("9.0", 0, "NVIDIA H200"), gpu("9.0", 1, "NVIDIA H200"))))
        assert fingerprint(environment) == {
            "backend": "cuda 13.0", "compute_capability": "9.0", "driver": "580.95.05", "gpu": "NVIDIA H200",
            "huggingface_hub": "1.33.0", "kernels": "0.17.2", "platform": "x86_64-linux", "python": "3.12.3",
            "torch": "2.13.0+cu130", "transformers": "none",
        }  # fmt: skip

    def test_what_was_not_looked_at_is_left_out_and_what_is_not_there_is_none(self) -> None:
        assert fingerprint(Environment()) == {}
        assert fingerprint(machine(gpus=unknown("no answer"))).get("gpu") is None
        assert fingerprint(machine(gpus=absent("NVML")))["gpu"] == "none"

    def test_with_a_torch_for_the_cpu_the_gpu_does_not_count(self) -> None:
        found = fingerprint(machine("2.13.0+cpu", gpus="9.0"))
        assert (found["backend"], found["gpu"], found["driver"]) == ("cpu", "none", "none")

    def test_differences_name_both_sides_and_begin_with_what_decides(self) -> None:
        there = fingerprint(machine("2.13.0+cu130", driver="580.1", transformers="5.22.2"))
        here = fingerprint(machine("2.13.0+cu128", gpus=unknown("no answer"), driver="580.1", transformers="5.24.0"))
        assert differences(there, here) == (
            Difference("backend", "cuda 13.0", "cuda 12.8"),
            Difference("torch", "2.13.0+cu130", "2.13.0+cu128"),
            Difference("compute_capability", "9.0", ""),
            Difference("gpu", "GPU 9.0", ""),
            Difference("transformers", "5.22.2", "5.24.0"),
        )
        assert differences(there, there) == ()
