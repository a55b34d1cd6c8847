from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.errors import ProbeError
from kerneldoctor.host import RealHost
from kerneldoctor.probes import kernel_cache
from kerneldoctor.probes.kernel_cache import look_into

A, B = "a" * 40, "b" * 40
VARIANT = "torch-stable-abi210-cu130-x86_64-linux"


def snapshot(cache: Path, folder: str, commit: str, *files: str) -> Path:
    """Files as links into blobs/, as huggingface_hub lays them out."""
    root = cache / folder
    for number, name in enumerate(files):
        blob = root / "blobs" / f"{commit[:8]}{number}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_text(name)
        path = root / "snapshots" / commit / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(blob, path.parent))
    return root


def tree(root: Path, commit: str, *files: str, version: int = 1) -> None:
    (root / "trees").mkdir(exist_ok=True)
    listed = {name: {"size": 1, "blob_id": "x"} for name in files}
    (root / "trees" / f"{commit}.json").write_text(json.dumps({"format_version": version, "files": listed}))


def ref(root: Path, name: str, commit: str) -> None:
    path = root / "refs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(commit)


def kernels(cache: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = look_into(RealHost(), str(cache))["kernels"]
    return found


def test_a_kernel_as_the_hub_client_lays_it_out(tmp_path: Path) -> None:
    files = (f"build/{VARIANT}/__init__.py", f"build/{VARIANT}/_flash_attn2_cuda_48628c8.abi3.so")
    root = snapshot(tmp_path, "kernels--kernels-community--flash-attn2", A, *files)
    ref(root, "v3", A)
    ref(root, "main", B)
    ref(root, "pr/1", A)
    assert kernels(tmp_path) == [
        {
            "repo": "kernels-community/flash-attn2",
            "commit": A,
            "branches": ["pr/1", "v3"],
            "variants": [VARIANT],
            "build_ids": ["48628c8"],
            "complete": None,
        }
    ]


def test_commits_are_told_apart(tmp_path: Path) -> None:
    folder = "kernels--kernels-community--relu"
    snapshot(tmp_path, folder, A, "build/torch-cpu/_relu_cpu_1111111.abi3.so")
    snapshot(tmp_path, folder, B, "build/torch-cpu/_relu_cpu_2222222.abi3.so")
    assert [(k["commit"], k["build_ids"]) for k in kernels(tmp_path)] == [(A, ["1111111"]), (B, ["2222222"])]


@pytest.mark.parametrize(
    ("file", "ids"),
    [
        ("_flash_attn2_cuda_48628c8.abi3.so", ["48628c8"]),
        ("_mykernel_cuda_7645816_dirty.abi3.so", ["7645816_dirty"]),
        ("flash_attn/_flash_attn_9e27194.abi3.so", ["9e27194"]),  # old builds hold a package
        ("_activation_hofgkl5bdzq1c.abi3.so", ["hofgkl5bdzq1c"]),  # a Nix hash
        ("_kernels.abi3.so", []),
        ("_quantization_extension.abi3.so", []),
        ("_ops_48628c8.py", []),
    ],
)
def test_build_ids(tmp_path: Path, file: str, ids: list[str]) -> None:
    snapshot(tmp_path, "kernels--o--n", A, f"build/{VARIANT}/{file}")
    assert kernels(tmp_path)[0]["build_ids"] == ids


def test_a_model_repository_counts_only_when_it_holds_builds(tmp_path: Path) -> None:
    snapshot(tmp_path, "models--kernels-community--activation", A, "build/torch26-cxx11-cu124-x86_64-linux/x.py")
    snapshot(tmp_path, "models--Qwen--Qwen3-0.6B", A, "config.json", "model.safetensors")
    snapshot(tmp_path, "datasets--o--n", A, "build/x/y.py")
    assert [k["repo"] for k in kernels(tmp_path)] == ["kernels-community/activation"]


def test_complete_is_what_the_hub_client_asks_for_offline(tmp_path: Path) -> None:
    one, other = "build/torch-cpu/__init__.py", "build/torch-cuda/__init__.py"
    root = snapshot(tmp_path, "kernels--o--n", A, one)
    tree(root, A, one, other)
    assert kernels(tmp_path)[0]["complete"] is False
    snapshot(tmp_path, "kernels--o--n", A, other)
    assert kernels(tmp_path)[0]["complete"] is True


def test_compiled_python_is_never_downloaded_and_not_missed(tmp_path: Path) -> None:
    root = snapshot(tmp_path, "kernels--o--n", A, "build/torch-cpu/__init__.py")
    tree(root, A, "build/torch-cpu/__init__.py", "build/torch-cpu/__pycache__/x.cpython-313.pyc")
    assert kernels(tmp_path)[0]["complete"] is True


def test_a_link_whose_blob_is_gone_is_incomplete(tmp_path: Path) -> None:
    root = snapshot(tmp_path, "kernels--o--n", A, "build/torch-cpu/__init__.py")
    tree(root, A, "build/torch-cpu/__init__.py")
    for blob in (root / "blobs").iterdir():
        blob.unlink()
    assert kernels(tmp_path)[0]["complete"] is False


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"format_version": 1}', '{"format_version": 1, "files": 3}', "[" * 100_000]
    + [
        json.dumps({"format_version": 1, "files": {bad: {}}}) for bad in ("../../../../etc/passwd", "/etc/passwd", "\0")
    ],
)
def test_a_tree_file_of_rubbish_says_nothing(tmp_path: Path, content: str) -> None:
    root = snapshot(tmp_path, "kernels--o--n", A, "build/torch-cpu/__init__.py")
    (root / "trees").mkdir()
    (root / "trees" / f"{A}.json").write_text(content)
    assert kernels(tmp_path)[0]["complete"] is None


def test_a_tree_file_of_a_later_format_says_nothing(tmp_path: Path) -> None:
    root = snapshot(tmp_path, "kernels--o--n", A, "build/torch-cpu/__init__.py")
    tree(root, A, "build/torch-cpu/__init__.py", version=2)
    assert kernels(tmp_path)[0]["complete"] is None


def test_odd_things_in_a_cache_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "kernels--o--file").write_text("a file")
    (tmp_path / "kernels--only").mkdir()
    (tmp_path / "kernels--o--empty").mkdir()
    (tmp_path / "kernels--o--loop").symlink_to("kernels--o--loop")
    os.mkfifo(tmp_path / "version.txt")
    root = snapshot(tmp_path, "kernels--o--n", A, "build/torch-cpu/x.py")
    (root / "snapshots" / "not-a-commit").mkdir()
    (root / "refs").mkdir()
    os.mkfifo(root / "refs" / "main")
    (root / "refs" / "v1").write_bytes(b"\xff" * 1000)
    assert [(k["repo"], k["commit"], k["branches"]) for k in kernels(tmp_path)] == [("o/n", A, [])]


def test_a_huge_cache_is_cut_short_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "ENTRIES", 60)
    for number in range(20):
        snapshot(tmp_path, f"kernels--o--n{number:02}", A, "build/torch-cpu/x.py")
    found = look_into(RealHost(), str(tmp_path))
    assert 0 < len(found["kernels"]) < 20
    assert found["note"] == "stopped after 60 entries"


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert look_into(RealHost(), str(tmp_path / "hub")) == {"kernels": [], "note": "the folder is not there"}


def test_a_cache_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("")
    with pytest.raises(ProbeError, match="hub"):
        look_into(RealHost(), str(tmp_path / "hub"))
