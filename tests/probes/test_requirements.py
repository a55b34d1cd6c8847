from __future__ import annotations

from pathlib import Path

import pytest

from kerneldoctor.environment import Conflict, Requirements
from kerneldoctor.probes.requirements import probe
from kerneldoctor.probes.scene import Scene

from ..fake_host import FakeHost
from .sites import add, scene


def requirements(looked_at: Scene) -> Requirements:
    found = probe(looked_at)["requirements"]
    assert isinstance(found, Requirements)
    return found


def conflicts(root: Path, version: str = "3.11.7") -> tuple[Conflict, ...] | None:
    return requirements(scene(root, version=version)).conflicts.value


def test_a_version_out_of_range_is_a_conflict(tmp_path: Path) -> None:
    add(tmp_path, "transformers", "5.17.0", requires=("huggingface_hub<2.0,>=1.5.0", "tqdm>=4.27"))
    add(tmp_path, "huggingface-hub", "2.4.0")
    add(tmp_path, "tqdm", "4.70.1")
    assert conflicts(tmp_path) == (Conflict("transformers", "huggingface_hub<2.0,>=1.5.0", "2.4.0"),)


def test_a_requirement_that_is_not_installed_is_a_conflict(tmp_path: Path) -> None:
    add(tmp_path, "flash-attn", "2.8.3", requires=("torch", "einops"))
    add(tmp_path, "torch", "2.8.0")
    assert conflicts(tmp_path) == (Conflict("flash-attn", "einops", ""),)


@pytest.mark.parametrize(
    ("line", "installed"),
    [
        ("torch==2.13.0", "2.13.0+cpu"),  # a local label does not matter unless it is named
        ("torch (>=2.0)", "2.13.0"),  # the old way to write it
        ("torch>=2.13", "2.14.0.dev20261101+cu130"),  # nightlies count
        ("torch>=2.9.dev0", "2.9.0a0+git1234567"),
        ("torch[opt-einsum]>=2.0", "2.13.0"),
        ("torch @ https://example.org/torch.whl", "2.13.0"),
        ("torch>=99 ; extra == 'gpu'", "2.13.0"),
        ("torch>=99; sys_platform == 'win32' or extra == 'gpu'", "2.13.0"),
        ("torch>=99; python_version < '3.11'", "2.13.0"),
        ("torch>=99; platform_python_implementation == 'PyPy'", "2.13.0"),
        ("Torch", "2.13.0"),
        ("torch>=2", "not.a.version"),  # cannot be compared: nothing is claimed
    ],
)
def test_what_is_met_or_does_not_apply_is_no_conflict(tmp_path: Path, line: str, installed: str) -> None:
    add(tmp_path, "kernels", "0.17.2", requires=(line,))
    add(tmp_path, "torch", installed)
    assert conflicts(tmp_path) == ()


def test_markers_are_those_of_the_target(tmp_path: Path) -> None:
    add(tmp_path, "kernels", "0.17.2", requires=("tomli>=2 ; python_version < '3.11'",))
    assert conflicts(tmp_path, "3.10.14") == (Conflict("kernels", "tomli>=2", ""),)
    assert conflicts(tmp_path, "3.13.1") == ()


def test_a_python_that_is_too_old_is_a_conflict(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.15.0", python=">=3.11")
    assert conflicts(tmp_path, "3.10.14") == (Conflict("torch", "python>=3.11", "3.10.14"),)
    assert conflicts(tmp_path, "3.11.0rc1") == ()


def test_packages_that_do_not_matter_are_not_checked(tmp_path: Path) -> None:
    add(tmp_path, "jupyter-something", "1.0", requires=("never-heard-of>=3",))
    assert conflicts(tmp_path) == ()


@pytest.mark.parametrize("content", [b"", b"\0\0", b"no header at all"])
def test_an_unreadable_metadata_is_not_taken_for_no_requirements(tmp_path: Path, content: bytes) -> None:
    add(tmp_path, "transformers", "5.24.0", metadata=content)
    fact = requirements(scene(tmp_path)).conflicts
    assert fact.is_unknown
    assert "transformers" in fact.note


def test_an_unreadable_metadata_does_not_hide_a_conflict_elsewhere(tmp_path: Path) -> None:
    add(tmp_path, "transformers", "5.24.0", metadata=b"")
    add(tmp_path, "flash-attn", "2.8.3", requires=("einops", "@@ what"))
    fact = requirements(scene(tmp_path)).conflicts
    assert fact.value == (Conflict("flash-attn", "einops", ""),)
    assert "transformers" in fact.note
    assert "@@ what" in fact.note


def test_with_a_gap_in_the_list_nothing_is_called_missing() -> None:
    host = FakeHost(
        files={
            "/site/kernels-0.17.2.dist-info/METADATA": "Name: kernels\nVersion: 0.17.2\nRequires-Dist: pyyaml\n",
            "/user/": "",
        },
        denied=frozenset({"/user"}),
        observations={"markers": {"sys_platform": "linux"}},
    )
    found = requirements(scene("/user", "/site", host=host))
    assert found.conflicts.is_unknown
    assert "/user" in found.conflicts.note
    assert found.duplicates.is_unknown


def test_two_metadata_folders_are_duplicates(tmp_path: Path) -> None:
    add(tmp_path, "numpy", "1.26.4")
    add(tmp_path, "numpy", "2.4.6")
    add(tmp_path, "trl", "1.16.0", requires=("numpy>=2",))
    found = requirements(scene(tmp_path))
    assert found.duplicates.value == ("numpy 1.26.4, 2.4.6",)
    assert found.conflicts.value == ()  # one of the two meets it; which is in force cannot be told


def test_shadowing_and_conda_pairs_are_no_duplicates(tmp_path: Path) -> None:
    add(tmp_path / "mine", "numpy", "1.26.4")
    add(tmp_path / "site", "numpy", "2.4.6")
    (tmp_path / "site" / "numpy-2.4.6-py3.11.egg-info").mkdir()
    assert requirements(scene(tmp_path / "mine", tmp_path / "site")).duplicates.value == ()
