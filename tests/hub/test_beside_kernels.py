"""What the kernels library says beside what we say, in the same place: where it misleads, ours must be right."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldoctor

from .machines import FLASH, machine
from .server import Hub, serve

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("kernels") is None, reason="kernels is not installed"),
]

ROOT = Path(kerneldoctor.__file__).parent.parent
FAULTY = "torch-stable-abi210-cpu-x86_64-linux"
Result = subprocess.CompletedProcess[str]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    saved = tmp_path / "env.json"
    saved.write_text(json.dumps(machine().to_json()), "utf-8")
    return tmp_path


def run(place: Path, *command: str, **variables: str) -> Result:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_", "KERNELS_", "XDG_"))}
    environ = {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "HOME": str(place), "HF_HOME": str(place / "hf"),
               "XDG_CACHE_HOME": str(place / "cache"), **variables}  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=120, cwd=place)


def theirs(place: Path, *arguments: str, **variables: str) -> Result:
    """The library's own command, as it is installed."""
    return run(place, sys.executable, "-c", "from kernels.cli import main; main()", *arguments, **variables)


def ours(place: Path, *arguments: str, **variables: str) -> Result:
    return run(place, sys.executable, "-m", "kerneldoctor", *arguments, **variables)


def test_versions_without_network(place: Path) -> None:
    told = theirs(place, "versions", FLASH, HF_HUB_OFFLINE="1")
    assert (told.returncode, told.stdout.strip()) == (0, f"Repository does not support kernel versions: {FLASH}")
    right = ours(place, "variants", FLASH, "--env", "env.json", HF_HUB_OFFLINE="1")
    assert right.returncode == 0
    assert "the Hub was not asked: HF_HUB_OFFLINE is set" in right.stdout
    assert "the bundled index of 2026-" in right.stdout
    assert "\n  v2      would load " in right.stdout


def test_a_path_that_is_not_there(place: Path) -> None:
    told = theirs(place, "info", "./build/missing", HF_HUB_OFFLINE="1")
    assert told.returncode == 1
    assert "Traceback (most recent call last)" in told.stderr
    for command in ("variants", "resolve"):
        right = ours(place, command, "./build/missing", HF_HUB_OFFLINE="1")
        assert right.returncode == 2
        assert right.stderr.count("\n") == 1
        assert "this looks like a folder on disk" in right.stderr
    right = ours(place, "try", "--local", "./build/missing", HF_HUB_OFFLINE="1")
    assert right.returncode == 2
    assert right.stderr.count("\n") == 1
    assert "no folder" in right.stderr


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Version 1 fits nowhere, version 2 by its name, with the build that is known to fail in backward."""
    said = {"name": "flash-attn2", "id": "_flash_attn2_48628c8", "version": 2, "license": "BSD-3-Clause",
            "python-depends": [], "backend": {"type": "cpu"}}  # fmt: skip
    with serve() as running:
        repo = running.repo(FLASH)
        repo.commit({"build/torch12-cxx11-cpu-x86_64-linux/x.py": b""}, "v1")
        files = {"metadata.json": json.dumps(said).encode(), "_flash_attn2_48628c8.abi3.so": b"ELF"}
        repo.commit({f"build/{FAULTY}/{name}": content for name, content in files.items()}, "v2")
        yield running


def test_a_version_with_a_compatible_build(place: Path, hub: Hub) -> None:
    ask = f"import kernels; kernels.get_kernel({FLASH!r}, version=1)"
    told = run(place, sys.executable, "-c", ask, **hub.environment())
    assert f"version v2 of '{FLASH}' has a build compatible with your" in " ".join(told.stderr.split())
    here = place / "here.json"
    here.write_text(json.dumps(machine("2.13.0").to_json()), "utf-8")
    arguments = ("variants", f"{FLASH}@v2", "--env", str(here), "--training", "--heads", "8", "--kv-heads", "2")
    right = ours(place, *arguments, **hub.environment())
    assert right.returncode == 1
    assert f"would take {FAULTY}, which is of no use here" in " ".join(right.stdout.split())
    assert "[KD3101]" in right.stdout


def test_a_listing_where_telemetry_is_off(place: Path, hub: Hub) -> None:
    ask = f"import kernels; kernels.get_kernel({FLASH!r}, version=2)"
    told = run(place, sys.executable, "-c", ask, **hub.environment(), DO_NOT_TRACK="1")
    assert told.returncode == 1
    assert "could not verify publisher trust status" in told.stderr  # of an organisation that the Hub calls trusted
    right = ours(place, "variants", FLASH, "--env", "env.json", **hub.environment(), DO_NOT_TRACK="1")
    assert "the live Hub" in right.stdout
    scanned = ours(place, "scan", "--format", "json", **hub.environment(), DO_NOT_TRACK="1")
    assert "KD3001" in {finding["rule"] for finding in json.loads(scanned.stdout)["findings"]}
