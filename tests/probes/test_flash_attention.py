from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldoctor.environment import FlashAttention
from kerneldoctor.probes import flash_attention

from .sites import add, scene

BINARY = "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"


@pytest.fixture(autouse=True)
def no_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flash_attention.AMD_SWITCH, raising=False)


def put(root: Path, *files: str) -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()


def installed(root: Path, name: str, version: str, *files: str, label: str = "") -> None:
    """A distribution with its files and its RECORD."""
    put(root, *files)
    folder = add(root, name, version)
    (folder / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    if label:
        url = f"https://example.com/releases/{name.replace('-', '_')}-{version}%2B{label}-cp311-cp311-linux_x86_64.whl"
        (folder / "direct_url.json").write_text(json.dumps({"url": url, "archive_info": {}}))


def look(*path: Path) -> tuple[FlashAttention, FlashAttention, FlashAttention]:
    found = flash_attention.probe(scene(*path))
    values = found["flash_attn"], found["flash_attn_3"], found["flash_attn_4"]
    assert all(isinstance(v, FlashAttention) for v in values)
    return values  # type: ignore[return-value]


def test_nothing_is_there(tmp_path: Path) -> None:
    assert all(section.kind.is_absent and section.version.is_absent for section in look(tmp_path))


def test_a_complete_fa2(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn", "2.8.3+cu12torch2.8cxx11abiTRUE", "flash_attn/__init__.py", BINARY)
    second, third, fourth = look(tmp_path)
    assert (second.kind.value, second.distribution.value) == ("complete", "flash-attn")
    assert (second.built_for_torch.value, second.built_for_cuda.value) == ("2.8", "12")
    assert second.built_for_cxx11_abi.value is True
    assert second.providers.value == ("flash-attn",)
    assert second.location.value == str(tmp_path / "flash_attn")
    assert third.kind.is_absent
    assert fourth.kind.is_absent


def test_the_label_of_a_release_wheel_is_in_the_address_it_came_from(tmp_path: Path) -> None:
    # Upstream renames its wheels after building them: METADATA has no label.
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py", BINARY, label="cu12torch2.9cxx11abiTRUE")
    second, _, _ = look(tmp_path)
    assert second.version.value == "2.8.3+cu12torch2.9cxx11abiTRUE"
    assert (second.built_for_torch.value, second.built_for_cuda.value) == ("2.9", "12")


def test_a_version_without_a_label_tells_no_build(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py", BINARY)
    second, _, _ = look(tmp_path)
    assert second.version.value == "2.8.3"
    assert second.built_for_torch.is_absent


@pytest.mark.parametrize("file", ["flash_attn.py", "flash_attn/__init__.py"])
def test_a_stub(tmp_path: Path, file: str) -> None:
    put(tmp_path, file)
    (tmp_path / file).write_text('__version__ = "2.0.0"\n')
    second, _, _ = look(tmp_path)
    assert (second.kind.value, second.version.value) == ("stub", "2.0.0")
    assert second.distribution.is_absent
    assert second.providers.value == ()


@pytest.mark.parametrize("left", ["flash_attn/__pycache__/a.pyc", "flash_attn/ops/__init__.py"])
def test_a_folder_that_a_removal_left_behind(tmp_path: Path, left: str) -> None:
    put(tmp_path, left)
    second, _, _ = look(tmp_path)
    assert second.kind.value == "leftover"


def test_the_package_and_its_binary_without_metadata(tmp_path: Path) -> None:
    put(tmp_path, "flash_attn/__init__.py", BINARY)
    second, _, _ = look(tmp_path)
    assert second.kind.value == "leftover"


def test_a_binary_that_was_installed_and_is_gone(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py", BINARY)
    (tmp_path / BINARY).unlink()
    kind = look(tmp_path)[0].kind
    assert (kind.value, kind.note) == ("incomplete", "flash_attn_2_cuda was installed and is gone")


def test_built_without_its_binary_it_works_only_on_triton_for_amd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py")
    assert look(tmp_path)[0].kind.value == "incomplete"
    monkeypatch.setenv(flash_attention.AMD_SWITCH, "TRUE")
    assert look(tmp_path)[0].kind.value == "complete"


def test_metadata_alone(tmp_path: Path) -> None:
    add(tmp_path, "flash-attn", "2.8.3")
    second, _, _ = look(tmp_path)
    assert (second.kind.value, second.version.value) == ("metadata_only", "2.8.3")
    assert second.location.is_absent
    (tmp_path / "__editable__.flash_attn-2.8.3.pth").touch()
    assert look(tmp_path)[0].kind.is_unknown


def test_a_source_folder_that_comes_first_hides_the_installed_one(tmp_path: Path) -> None:
    installed(tmp_path / "site", "flash-attn", "2.8.3", "flash_attn/__init__.py", BINARY)
    put(tmp_path / "checkout", "flash_attn/__init__.py")
    second, _, _ = look(tmp_path / "checkout", tmp_path / "site")
    assert second.location.value == str(tmp_path / "checkout/flash_attn")


def test_fa4_alone_leaves_only_a_namespace_for_fa2(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn-4", "4.0.0b36", "flash_attn/cute/__init__.py")
    second, third, fourth = look(tmp_path)
    assert second.kind.value == "namespace_only"
    assert second.version.is_absent
    assert second.providers.value == ("flash-attn-4",)
    assert (fourth.kind.value, fourth.version.value) == ("complete", "4.0.0b36")
    assert fourth.location.value == str(tmp_path / "flash_attn/cute")
    assert third.kind.is_absent


def test_fa4_of_which_only_a_folder_is_left(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn-4", "4.0.0b36", "flash_attn/cute/__init__.py")
    (tmp_path / "flash_attn/cute/__init__.py").unlink()
    assert look(tmp_path)[2].kind.value == "incomplete"
    (tmp_path / "flash_attn/cute").rmdir()
    assert look(tmp_path)[2].kind.value == "metadata_only"


def test_the_cute_folder_of_fa2_is_not_fa4(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py", "flash_attn/cute/__init__.py", BINARY)
    second, _, fourth = look(tmp_path)
    assert second.kind.value == "complete"
    assert (fourth.kind.value, fourth.distribution.value) == ("stub", "flash-attn")
    assert fourth.version.is_absent
    assert fourth.providers.value == ("flash-attn",)


def test_both_own_the_name_when_both_are_installed(tmp_path: Path) -> None:
    installed(tmp_path, "flash-attn", "2.8.3", "flash_attn/__init__.py", BINARY)
    installed(tmp_path, "flash-attn-4", "4.0.0b36", "flash_attn/cute/__init__.py")
    second, _, fourth = look(tmp_path)
    assert second.providers.value == ("flash-attn", "flash-attn-4")
    assert (second.kind.value, fourth.kind.value) == ("complete", "complete")
    assert fourth.providers.value == ("flash-attn-4",)


def test_fa4_in_another_folder_is_hidden_by_fa2(tmp_path: Path) -> None:
    installed(tmp_path / "a", "flash-attn", "2.7.4", "flash_attn/__init__.py", BINARY)
    installed(tmp_path / "b", "flash-attn-4", "4.0.0b36", "flash_attn/cute/__init__.py")
    assert look(tmp_path / "a", tmp_path / "b")[2].kind.value == "metadata_only"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("flash-attn-3", ("flash_attn_interface.py", "flash_attn_3/_C.abi3.so")),
        ("flash-attn-3", ("flash_attn_interface.py", "flash_attn_3_cuda.cpython-311-x86_64-linux-gnu.so")),
        ("flashattn-hopper", ("flash_attn_interface.py", "flashattn_hopper_cuda.cpython-311-x86_64-linux-gnu.so")),
        ("fa3-fwd", ("fa3_fwd_interface.py", "fa3_fwd/_C.abi3.so")),
    ],
)
def test_fa3_under_each_of_its_names(tmp_path: Path, name: str, files: tuple[str, ...]) -> None:
    installed(tmp_path, name, "3.0.0", *files)
    second, third, _ = look(tmp_path)
    assert second.kind.is_absent
    assert (third.kind.value, third.distribution.value, third.version.value) == ("complete", name, "3.0.0")
    assert third.providers.value == (name,)
    (tmp_path / files[1]).unlink()
    assert look(tmp_path)[1].kind.value == "incomplete"
    (tmp_path / files[0]).unlink()
    assert look(tmp_path)[1].kind.value == "metadata_only"


def test_fa3_files_without_metadata(tmp_path: Path) -> None:
    put(tmp_path, "flash_attn_interface.py")
    assert look(tmp_path)[1].kind.value == "stub"
    put(tmp_path, "flash_attn_3/_C.abi3.so")
    assert look(tmp_path)[1].kind.value == "leftover"
