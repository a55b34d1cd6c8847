from __future__ import annotations

import json
from pathlib import Path

import pytest

from kerneldoctor.errors import ProbeError
from kerneldoctor.host import RealHost
from kerneldoctor.probes import distributions
from kerneldoctor.probes.distributions import (
    direct_url,
    editable,
    editable_names,
    installer,
    list_distributions,
    metadata,
    not_installed,
    record_paths,
    unreadable_folders,
)
from kerneldoctor.probes.scene import Distribution

from ..fake_host import FakeHost
from .sites import add

HOST = RealHost()


def found(*path: Path) -> list[tuple[str, str]]:
    return [(d.name, d.version) for d in list_distributions(HOST, tuple(str(p) for p in path))]


def one(root: Path) -> Distribution:
    (only,) = list_distributions(HOST, (str(root),))
    return only


@pytest.mark.parametrize(
    ("entry", "name", "version"),
    [
        ("torch-2.13.0+cu130.dist-info", "torch", "2.13.0+cu130"),
        ("flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE.dist-info", "flash-attn", "2.8.3+cu12torch2.8cxx11abiTRUE"),
        ("PyYAML-6.0.dist-info", "pyyaml", "6.0"),
        ("python-dateutil-2.9.0.post0.dist-info", "python-dateutil", "2.9.0.post0"),  # not escaped, as some tools write
        ("zope.interface-5.0.dist-info", "zope-interface", "5.0"),
        ("flash_attn-2.7.4.post1-py3.11.egg-info", "flash-attn", "2.7.4.post1"),
        ("mamba_ssm-2.2.2-py3.11-linux-x86_64.egg-info", "mamba-ssm", "2.2.2"),
    ],
)
def test_name_and_version_come_from_the_folder_name(tmp_path: Path, entry: str, name: str, version: str) -> None:
    (tmp_path / entry).mkdir()
    assert found(tmp_path) == [(name, version)]


def test_an_egg_info_without_a_version_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "flash_attn.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: flash-attn\nVersion: 2.8.3\n")
    assert found(tmp_path) == [("flash-attn", "2.8.3")]


def test_an_egg_on_the_path_is_read(tmp_path: Path) -> None:
    (tmp_path / "EGG-INFO").mkdir()
    (tmp_path / "EGG-INFO" / "PKG-INFO").write_text("Name: apex\nVersion: 0.1\n")
    assert found(tmp_path) == [("apex", "0.1")]


def test_an_egg_info_that_is_one_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "apex-0.1.egg-info").write_text("Name: apex\nVersion: 0.1\n")
    assert metadata(HOST, one(tmp_path)).version == "0.1"


@pytest.mark.parametrize("entry", ["~orch-2.9.0.dist-info", "-.dist-info", ".dist-info", "torch", "torch.libs"])
def test_what_is_no_distribution_is_passed_over(tmp_path: Path, entry: str) -> None:
    (tmp_path / entry).mkdir()
    assert found(tmp_path) == []


def test_the_first_on_the_path_comes_first(tmp_path: Path) -> None:
    add(tmp_path / "b", "torch", "2.9.0")
    add(tmp_path / "a", "torch", "2.13.0")
    assert found(tmp_path / "b", tmp_path / "a") == [("torch", "2.9.0"), ("torch", "2.13.0")]


def test_a_folder_that_is_on_the_path_under_two_names_counts_once(tmp_path: Path) -> None:
    add(tmp_path / "lib", "torch", "2.9.0")
    (tmp_path / "lib64").symlink_to("lib")
    assert found(tmp_path / "lib", tmp_path / "lib64") == [("torch", "2.9.0")]


def test_of_two_folders_the_one_that_has_lost_its_metadata_comes_last(tmp_path: Path) -> None:
    (add(tmp_path, "numpy", "1.26.4") / "METADATA").unlink()
    add(tmp_path, "numpy", "2.4.6")
    assert found(tmp_path) == [("numpy", "2.4.6"), ("numpy", "1.26.4")]


def test_a_path_with_nothing_on_it_is_empty_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "python311.zip").write_bytes(b"PK")
    assert found(tmp_path / "missing", tmp_path / "python311.zip", tmp_path) == []


def test_an_unreadable_site_packages_is_not_an_empty_one() -> None:
    host = FakeHost(files={"/lib/os.py": "", "/site/torch-2.13.0.dist-info/METADATA": ""}, denied=frozenset({"/site"}))
    with pytest.raises(ProbeError, match="no permission to read /site"):
        list_distributions(host, ("/lib", "/site"))


def test_a_gap_in_the_list_shows() -> None:
    host = FakeHost(
        files={"/site/torch-2.13.0.dist-info/METADATA": "", "/user/x.dist-info/METADATA": ""},
        denied=frozenset({"/user"}),
    )
    path = ("/user", "/site")
    assert [d.name for d in list_distributions(host, path)] == ["torch"]
    assert unreadable_folders(host, path) == ("no permission to read /user",)
    assert not_installed(host, path).is_unknown
    assert not_installed(host, ("/site",)).is_absent


def test_listing_opens_no_file_of_a_distribution_with_a_whole_name(tmp_path: Path) -> None:
    class Shut(RealHost):
        def read(self, path: str, limit: int = 0) -> bytes:
            pytest.fail(f"read {path}")

    for number in range(20):
        add(tmp_path, f"package-{number}", "1.0")
    assert len(list_distributions(Shut(), (str(tmp_path),))) == 20


# ------------------------------------------------------------------------------------------------- one distribution


def test_metadata_is_read_up_to_the_readme(tmp_path: Path) -> None:
    add(tmp_path, "kernels", "0.17.2", requires=("huggingface_hub>=1.10", "torch ; extra == 'torch'"), python=">=3.9")
    read = metadata(HOST, one(tmp_path))
    assert (read.name, read.version, read.requires_python, read.problem) == ("kernels", "0.17.2", ">=3.9", "")
    assert read.requires == ("huggingface_hub>=1.10", "torch ; extra == 'torch'")


def test_long_headers_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    text = b"Name: x\r\nVersion: 1\r\nRequires-Dist: numpy\r\n  >=2\r\n\r\nRequires-Dist: no\r\n"
    add(tmp_path, "x", "1", metadata=text)
    assert metadata(HOST, one(tmp_path)).requires == ("numpy >=2",)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n  \n", "is empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "is no text"),
        (b"\xff\xfe rubbish \x80\x81", "names no distribution"),
        (b"Name: torch\nSummary: version is gone\n", "names no version"),
    ],
)
def test_rubbish_in_metadata_is_named_not_raised(tmp_path: Path, content: bytes, problem: str) -> None:
    add(tmp_path, "torch", "2.13.0", metadata=content)
    distribution = one(tmp_path)
    assert (distribution.name, distribution.version) == ("torch", "2.13.0")
    read = metadata(HOST, distribution)
    assert problem in read.problem
    assert "METADATA" in read.problem


def test_a_folder_without_metadata_is_named(tmp_path: Path) -> None:
    (add(tmp_path, "torch", "2.13.0") / "METADATA").unlink()
    assert "METADATA" in metadata(HOST, one(tmp_path)).problem


def test_an_endless_metadata_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "METADATA_LIMIT", 100)
    lines = b"".join(b"Requires-Dist: p%d\n" % n for n in range(1000))
    add(tmp_path, "x", "1", metadata=b"Name: x\nVersion: 1\n" + lines)
    assert 0 < len(metadata(HOST, one(tmp_path)).requires) < 10


def test_requires_txt_of_an_egg_info(tmp_path: Path) -> None:
    folder = tmp_path / "x-1.0-py3.11.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Name: x\nVersion: 1.0\n")
    (folder / "requires.txt").write_text(
        "torch\n\n[:python_version < '3.9']\nold\n\n[test]\npytest\n\n[test:sys_platform == 'linux']\nmore\n"
    )
    assert metadata(HOST, one(tmp_path)).requires == ("torch", "old ; python_version < '3.9'")


@pytest.mark.parametrize("who", ["pip", "uv", "conda"])
def test_installer_is_what_installer_says(tmp_path: Path, who: str) -> None:
    add(tmp_path, "torch", "2.13.0", installer=who)
    assert installer(HOST, one(tmp_path)).value == who


def test_conda_is_known_by_its_records_too(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    add(site, "torch", "2.13.0", installer=None)
    assert installer(HOST, one(site)).is_absent
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "pytorch-2.13.0-py3.12_cuda13.0_0.json").write_text("{}")
    assert installer(HOST, one(site)).value == "conda"


def test_an_unreadable_installer_is_unknown() -> None:
    host = FakeHost(files={"/s/x-1.dist-info/INSTALLER": "pip"}, denied=frozenset({"/s/x-1.dist-info/INSTALLER"}))
    (only,) = list_distributions(host, ("/s",))
    assert installer(host, only).is_unknown


def test_direct_url_tells_an_editable_install(tmp_path: Path) -> None:
    folder = add(tmp_path, "transformers", "5.24.0")
    assert direct_url(HOST, one(tmp_path)) is None
    assert editable(HOST, one(tmp_path)).value is False
    (folder / "direct_url.json").write_text(json.dumps({"url": "file:///src", "dir_info": {"editable": True}}))
    assert editable(HOST, one(tmp_path)).value is True


@pytest.mark.parametrize("content", ["", "[]", "{", '{"dir_info": 3}', "[" * 100_000])
def test_rubbish_in_direct_url_is_never_editable(tmp_path: Path, content: str) -> None:
    (add(tmp_path, "transformers", "5.24.0") / "direct_url.json").write_text(content)
    assert editable(HOST, one(tmp_path)).value is not True


@pytest.mark.parametrize("marker", ["__editable__.flash_attn-2.8.3.pth", "flash-attn.egg-link"])
def test_markers_of_setuptools_tell_an_editable_install(tmp_path: Path, marker: str) -> None:
    add(tmp_path, "flash-attn", "2.8.3")
    (tmp_path / marker).write_text("/src")
    marked = editable_names(HOST, (str(tmp_path),))
    assert marked == {"flash-attn"}
    assert editable(HOST, one(tmp_path), marked).value is True


def test_record_lists_files(tmp_path: Path) -> None:
    folder = add(tmp_path, "x", "1")
    (folder / "RECORD").write_text('x/__init__.py,sha256=abc,12\n"x/a,b.py",,\n\n../../../bin/x,,\nx/\ufffd.py,,\n')
    assert record_paths(HOST, one(tmp_path)) == ("x/__init__.py", "x/a,b.py", "../../../bin/x", "x/\ufffd.py")


def test_installed_files_of_an_egg_info_are_relative_to_the_root(tmp_path: Path) -> None:
    folder = tmp_path / "x-1-py3.11.egg-info"
    folder.mkdir()
    (folder / "installed-files.txt").write_text("../x/__init__.py\nPKG-INFO\n")
    assert record_paths(HOST, one(tmp_path)) == ("x/__init__.py", "x-1-py3.11.egg-info/PKG-INFO")


def test_no_record_is_said(tmp_path: Path) -> None:
    add(tmp_path, "x", "1")
    with pytest.raises(ProbeError, match="RECORD"):
        record_paths(HOST, one(tmp_path))


def test_a_record_of_one_endless_field_is_said(tmp_path: Path) -> None:
    (add(tmp_path, "x", "1") / "RECORD").write_text("a" * 200_000)
    with pytest.raises(ProbeError, match="no list of files"):
        record_paths(HOST, one(tmp_path))
