"""The maintainers' script that reads release tables from wheels, and the tables against installed packages."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kerneldoctor.engine.loading import shipped_tables

SCRIPTS = Path(__file__).parent.parent.parent / "rules" / "tables"
HUB_KERNELS = "transformers/integrations/hub_kernels.py"
UTILITIES = "transformers/utils/import_utils.py"
FLASH = "transformers/modeling_flash_attention_utils.py"

GATE = """
KERNELS_MIN_VERSION = "0.17.2"
KERNELS_MAX_VERSION = "0.18.0"
def is_kernels_available(): ...
"""
REPLACEMENTS = """
FLASH_ATTN_KERNEL_FALLBACK = {
    "flash_attention_2": ("org/rocm-attn" if is_rocm_platform() else "org/attn2"),
    "flash_attention_4": "org/attn4",
}
FLASH_ATTN_KERNEL_VERSIONS = {
    "org/attn2": 4 if is_torch_greater_or_equal("2.10", accept_dev=True) else 3,
    "org/rocm-attn": 2,
}
"""
GATED_MAPPING = """
if is_kernels_available():
    from kernels import LayerRepository
    def mapping():
        return {"rocm": LayerRepository(repo_id="a/b", layer_name="L")}
"""
METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
Requires-Python: >=3.11
Requires-Dist: huggingface-hub<3.0,>=1.31.0
Requires-Dist: kernels<0.18,>=0.17.2; extra == "kernels"
"""


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[ModuleType, ModuleType]]:
    """The modules `archives` and `reading`, which live beside the tables and in no package."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield importlib.import_module("archives"), importlib.import_module("reading")
    finally:
        sys.path.remove(str(SCRIPTS))


def wheel(folder: Path, name: str, version: str, sources: Mapping[str, str], metadata: str = METADATA) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in sources.items():
            archive.writestr(member, text)
        archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata.format(name=name, version=version))
    return path


def transformers_row(folder: Path, scripts: tuple[ModuleType, ModuleType], **sources: str) -> dict[str, Any]:
    files = {UTILITIES: GATE, FLASH: REPLACEMENTS, HUB_KERNELS: GATED_MAPPING}
    files |= {{"flash": FLASH, "hub": HUB_KERNELS, "utilities": UTILITIES}[name]: t for name, t in sources.items()}
    archives, reading = scripts
    row: dict[str, Any] = reading.read_transformers(archives.Wheel(wheel(folder, "transformers", "9.9.0", files)))
    return row


def test_a_transformers_wheel_is_read_without_importing_it(
    tmp_path: Path, scripts: tuple[ModuleType, ModuleType]
) -> None:
    row = transformers_row(tmp_path, scripts, utilities=GATE + "raise SystemExit('imported')\n")
    assert row["version"] == "9.9.0"
    assert row["python"] == ">=3.11"
    assert row["huggingface_hub"] == ">=1.31.0,<3.0"
    assert row["kernels"] == ">=0.17.2,<0.18.0"
    assert (row["kernels_extra"], row["kernels_extra_range"]) == ("kernels", ">=0.17.2,<0.18")
    assert row["import_demands"] == []
    assert row["flash_attention_2"] == {
        "repo": "org/attn2", "version": 4, "torch": "2.10", "version_before": 3,
        "rocm_repo": "org/rocm-attn", "rocm_version": 2,
    }  # fmt: skip
    assert "flash_attention_3" not in row
    assert row["flash_attention_4"] == {"repo": "org/attn4", "version": 1}  # not listed: the default


def test_a_mapping_that_is_built_while_importing_makes_demands(
    tmp_path: Path, scripts: tuple[ModuleType, ModuleType]
) -> None:
    early = """
try:
    from kernels import LayerRepository
    MAP = {"cuda": LayerRepository(repo_id="a/b"), "rocm": LayerRepository(repo_id="a/b", version=1)}
except ImportError:
    MAP = {}
"""
    assert transformers_row(tmp_path, scripts, hub=early)["import_demands"] == ["no_version", "rocm", "version"]


def test_a_release_that_moved_things_is_refused_rather_than_guessed(
    tmp_path: Path, scripts: tuple[ModuleType, ModuleType]
) -> None:
    archives, _ = scripts
    with pytest.raises(archives.Unreadable, match="is_kernels_available"):
        transformers_row(tmp_path, scripts, utilities="moved = True\n")
    other = 'FLASH_ATTN_KERNEL_FALLBACK = {"flash_attention_2": choose("org/attn2")}\n'
    with pytest.raises(archives.Unreadable, match="choose"):
        transformers_row(tmp_path, scripts, flash=other)


def test_a_kernels_wheel(tmp_path: Path, scripts: tuple[ModuleType, ModuleType]) -> None:
    archives, reading = scripts
    source = """
def get_kernel(repo_id, *, version: int | None = None, trust_remote_code=False, check_arch=True):
    if version is None:
        raise ValueError("A kernel version or revision must be specified.")
    api().list_repo_tree(repo_id, repo_type="kernel")

def api(user_agent=None):
    text = ""
    if not constants.HF_HUB_DISABLE_TELEMETRY:
        text = "kernels"
    return HfApi(user_agent=text)
"""
    row = reading.read_kernels(archives.Wheel(wheel(tmp_path, "kernels", "9.9.0", {"kernels/load.py": source})))
    assert row["repo_type"] == "kernel"
    assert row["versions"] == "branches"
    assert (row["version_required"], row["layer_version_required"]) == (True, False)
    assert (row["telemetry_fault"], row["lists_builds_online"], row["offline"]) == (True, True, False)
    assert (row["trust"], row["arch_check"], row["stable_abi"]) == ("list", True, False)
    mended = source.replace('text = ""', "text = None")
    row = reading.read_kernels(archives.Wheel(wheel(tmp_path, "kernels", "9.9.1", {"kernels/load.py": mended})))
    assert row["telemetry_fault"] is False


def test_what_the_script_writes_it_reads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    regenerate = importlib.import_module("regenerate")
    rows = regenerate.read_table("transformers")
    monkeypatch.setattr(regenerate, "TABLES", tmp_path)
    regenerate.write_table("transformers", reversed(rows))
    assert regenerate.read_table("transformers") == rows  # sorted by version, nothing lost
    assert (tmp_path / "transformers.toml").read_text() == (SCRIPTS / "transformers.toml").read_text()


@pytest.mark.parametrize("project", ["transformers", "kernels", "huggingface_hub"])
def test_each_table_ends_with_the_newest_release_of_its_listing(project: str) -> None:
    tables = shipped_tables()
    [listing] = [row for row in tables["listings"] if row["project"] == project]
    assert tables[project][-1]["version"] == listing["version"]
    assert all(row["source"].startswith("https://pypi.org/project/") for row in tables[project])


@pytest.mark.torch
@pytest.mark.parametrize("project", ["transformers", "kernels", "huggingface_hub"])
def test_the_row_of_an_installed_release(tmp_path: Path, project: str, scripts: tuple[ModuleType, ModuleType]) -> None:
    if importlib.util.find_spec(project) is None:
        pytest.skip(f"{project} is not installed")
    version = importlib.metadata.version(project)
    table = {row["version"]: row for row in shipped_tables()[project]}
    if version not in table:
        pytest.skip(f"{project} {version} is not in the table")
    archives, reading = scripts
    path = wheel(tmp_path, project, version, dict(_sources(project)), _metadata(project))
    assert reading.READERS[project](archives.Wheel(path)) == table[version]


def _metadata(project: str) -> str:
    text = importlib.metadata.distribution(project).read_text("METADATA") or ""
    return text.partition("\n\n")[0].replace("{", "{{").replace("}", "}}")


def _sources(project: str) -> Iterator[tuple[str, str]]:
    """What the script looks at: of transformers a few files, of the others every source."""
    for file in importlib.metadata.files(project) or ():
        wanted = project != "transformers" or str(file) in (
            UTILITIES,
            FLASH,
            HUB_KERNELS,
            "transformers/modeling_utils.py",
        )
        if wanted and file.suffix == ".py":
            yield str(file), file.read_text("utf-8")
