"""A machine that was recorded answers as it did when it was looked at."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from types import ModuleType

import pytest

from kerneldoctor.host import RealHost, RecordedHost, RecordingHost
from kerneldoctor.probes import huggingface, packages, python, requirements
from kerneldoctor.probes.interpreter import find_target
from kerneldoctor.probes.scene import Scene

from .sites import add
from .test_kernel_cache import A, snapshot


@pytest.mark.parametrize("module", [python, packages, requirements, huggingface])
def test_a_recording_gives_the_same_facts(module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = (folder / "lib").glob("python3.*/site-packages")
    add(site, "transformers", "5.24.0", requires=("huggingface-hub>=3", "tokenizers ; python_version >= '3.9'"))
    add(site, "huggingface-hub", "2.4.0", metadata=b"\0\1rubbish")
    add(site, "numpy", "1.26.4")
    (add(site, "numpy", "2.4.6") / "METADATA").unlink()
    snapshot(tmp_path / "hub", "kernels--o--n", A, "build/torch-cpu/_n_1111111.abi3.so")
    monkeypatch.setenv("HF_HUB_CACHE", "~/hub")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")

    recording = RecordingHost(RealHost())
    looked_at = module.probe(Scene(recording, find_target(recording, str(folder))))
    capture = json.loads(json.dumps(recording.capture(huggingface.VARIABLES.__contains__)))
    for name in ("HOME", "HF_TOKEN", "HTTPS_PROXY", "HF_HUB_CACHE"):
        monkeypatch.delenv(name)
    recorded = RecordedHost(capture)
    assert module.probe(Scene(recorded, find_target(recorded, None))) == looked_at
