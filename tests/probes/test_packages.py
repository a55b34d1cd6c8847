from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldoctor.environment import Packages
from kerneldoctor.errors import ProbeError
from kerneldoctor.probes.packages import probe
from kerneldoctor.probes.scene import Scene

from ..fake_host import FakeHost
from .sites import add, scene


def packages(looked_at: Scene) -> Packages:
    found = probe(looked_at)["packages"]
    assert isinstance(found, Packages)
    return found


def test_every_distribution_is_listed_with_version_and_place(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.13.0+cu130", installer="uv")
    add(tmp_path, "some-other-thing", "1.0")
    found = packages(scene(tmp_path))
    assert {name: p.version.value for name, p in found.items.items()} == {
        "some-other-thing": "1.0",
        "torch": "2.13.0+cu130",
    }
    torch = found.get("torch")
    assert torch.installer.value == "uv"
    assert torch.location.value == str(tmp_path)
    assert torch.editable.value is False


def test_what_is_not_listed_is_absent_when_all_was_seen(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.13.0")
    assert packages(scene(tmp_path)).get("kernels").version.is_absent


def test_what_is_not_listed_is_unknown_when_a_folder_could_not_be_read() -> None:
    host = FakeHost(
        files={"/site/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.13.0\n", "/user/": ""},
        denied=frozenset({"/user"}),
    )
    found = packages(scene("/user", "/site", host=host))
    assert found.get("torch").version.value == "2.13.0"
    assert found.get("kernels").version.is_unknown
    assert "/user" in found.get("kernels").version.note


def test_nothing_is_said_when_site_packages_cannot_be_read() -> None:
    host = FakeHost(files={"/site/torch-2.13.0.dist-info/METADATA": ""}, denied=frozenset({"/site"}))
    with pytest.raises(ProbeError, match="/site"):
        probe(scene("/site", host=host))


def test_pythonpath_shadows(tmp_path: Path) -> None:
    add(tmp_path / "mine", "kernels", "0.17.2")
    add(tmp_path / "site", "kernels", "0.16.2")
    found = packages(scene(tmp_path / "mine", tmp_path / "site")).get("kernels")
    assert found.version.value == "0.17.2"
    assert found.location.value == str(tmp_path / "mine")


def test_two_versions_in_one_folder_leave_the_version_unknown(tmp_path: Path) -> None:
    add(tmp_path, "numpy", "1.26.4")
    add(tmp_path, "numpy", "2.4.6")
    version = packages(scene(tmp_path)).get("numpy").version
    assert version.is_unknown
    assert "1.26.4, 2.4.6" in version.note


def test_a_second_folder_that_lost_its_metadata_does_not_count(tmp_path: Path) -> None:
    (add(tmp_path, "numpy", "1.26.4") / "METADATA").unlink()
    add(tmp_path, "numpy", "2.4.6")
    assert packages(scene(tmp_path)).get("numpy").version.value == "2.4.6"


def test_metadata_has_the_last_word_on_the_version(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.13.0", metadata=b"Name: torch\nVersion: 2.13.0+cu130\n")
    assert packages(scene(tmp_path)).get("torch").version.value == "2.13.0+cu130"


@pytest.mark.parametrize("content", [b"", b"\0\1\2", b"rubbish"])
def test_a_broken_metadata_leaves_the_version_of_the_folder_name_and_says_so(tmp_path: Path, content: bytes) -> None:
    add(tmp_path, "torch", "2.13.0", metadata=content)
    version = packages(scene(tmp_path)).get("torch").version
    assert version.value == "2.13.0"
    assert "METADATA" in version.note


def test_an_editable_install_is_seen(tmp_path: Path) -> None:
    folder = add(tmp_path, "transformers", "5.24.0.dev0")
    (folder / "direct_url.json").write_text(json.dumps({"url": "file:///src", "dir_info": {"editable": True}}))
    add(tmp_path, "my-project", "0.1")
    (tmp_path / "__editable__.my_project-0.1.pth").write_text("/src")
    found = packages(scene(tmp_path))
    assert found.get("transformers").editable.value is True
    assert found.get("my-project").editable.value is True
