from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.environment import Nvcc, Toolkit
from kerneldoctor.host import CommandResult, Host, RealHost
from kerneldoctor.probes import toolkit
from tests.fake_host import FakeHost
from tests.probes.scenes import scene

RELEASE = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {}, V{}.93\n"


def said(version: str) -> str:
    return RELEASE.format(version, version)


def version_json(cuda: str, nvcc: str) -> str:
    return json.dumps({"cuda": {"name": "CUDA SDK", "version": cuda}, "cuda_nvcc": {"version": nvcc}})


def installed(home: str, version: str = "12.8.1") -> dict[str, str]:
    return {
        f"{home}/bin/nvcc": "",
        f"{home}/bin/ptxas": "",
        f"{home}/version.json": version_json(version, version),
    }


def look(host: Host, **target: Any) -> Toolkit:
    parts: dict[str, Any] = toolkit.probe(scene(host, **target))
    assert list(parts) == ["toolkit"]
    section: Toolkit = parts["toolkit"]
    for name in Toolkit.__dataclass_fields__:
        assert getattr(section, name).note not in ("", "not looked at"), name
    return section


def test_no_toolkit() -> None:
    seen = look(FakeHost())
    for name in ("cuda_home", "nvcc_version", "nvccs", "cudart", "nvrtc", "ptxas_version"):
        assert getattr(seen, name).is_absent, name
    assert seen.ninja.value is False


def test_toolkit_in_the_default_place_is_read_without_starting_anything() -> None:
    host = FakeHost(files=installed("/usr/local/cuda-12.8"), links={"/usr/local/cuda": "/usr/local/cuda-12.8"})
    seen = look(host)
    assert (seen.cuda_home.value, seen.nvcc_version.value, seen.ptxas_version.value) == (
        "/usr/local/cuda",
        "12.8",
        "12.8",
    )
    assert seen.nvccs.value == (Nvcc("/usr/local/cuda/bin/nvcc", "12.8"),)  # the link and its target are one
    assert [asked for asked in host.asked if "--version" in asked] == []


def test_every_nvcc_with_the_one_of_cuda_home_first() -> None:
    host = FakeHost(
        files={
            **installed("/usr/local/cuda-13.0", "13.0.1"),
            **installed("/opt/cuda-12.4", "12.4.0"),
            "/usr/bin/nvcc": "",
        },
        environ={"CUDA_HOME": "/opt/cuda-12.4/"},
        programs={"nvcc": "/usr/bin/nvcc"},
        commands={("/usr/bin/nvcc", "--version"): said("11.5")},
    )
    seen = look(host)
    assert (seen.cuda_home.value, seen.cuda_home.note, seen.nvcc_version.value) == (
        "/opt/cuda-12.4",
        "CUDA_HOME",
        "12.4",
    )
    assert seen.nvccs.value == (
        Nvcc("/opt/cuda-12.4/bin/nvcc", "12.4"),
        Nvcc("/usr/bin/nvcc", "11.5"),
        Nvcc("/usr/local/cuda-13.0/bin/nvcc", "13.0"),
    )


def test_nvcc_of_another_release_than_its_toolkit() -> None:
    files = installed("/usr/local/cuda") | {"/usr/local/cuda/version.json": version_json("12.8.1", "12.9.41")}
    assert look(FakeHost(files=files)).nvcc_version.value == "12.9"


def test_version_txt_of_old_toolkits() -> None:
    files = {"/usr/local/cuda/bin/nvcc": "", "/usr/local/cuda/version.txt": "CUDA Version 10.2.89\n"}
    assert look(FakeHost(files=files)).nvcc_version.value == "10.2"


@pytest.mark.parametrize("text", ["{", "[]", '{"cuda": 12}', '{"cuda": {}}', "null"])
def test_rubbish_in_version_json_falls_back_to_the_program(text: str) -> None:
    nvcc = "/usr/local/cuda/bin/nvcc"
    files = {nvcc: "", "/usr/local/cuda/version.json": text}
    assert look(FakeHost(files=files, commands={(nvcc, "--version"): said("12.6")})).nvcc_version.value == "12.6"


def test_cuda_home_that_does_not_exist_is_stated() -> None:
    seen = look(FakeHost(environ={"CUDA_HOME": "/gone"}))
    assert (seen.cuda_home.value, seen.nvcc_version.is_absent) == ("/gone", True)
    assert "no such folder" in seen.cuda_home.note


def test_cuda_home_follows_the_nvcc_on_path() -> None:
    host = FakeHost(files=installed("/apps/cuda/12.4", "12.4.0"), programs={"nvcc": "/apps/cuda/12.4/bin/nvcc"})
    assert look(host).cuda_home.value == "/apps/cuda/12.4"


def test_conda_toolkit_in_the_prefix_of_the_target() -> None:
    host = FakeHost(files={"/conda/bin/nvcc": ""}, commands={("/conda/bin/nvcc", "--version"): said("12.4")})
    seen = look(host, prefix="/conda")
    assert seen.nvccs.value == (Nvcc("/conda/bin/nvcc", "12.4"),)
    assert seen.nvcc_version.is_absent  # neither CUDA_HOME nor PATH leads there


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (CommandResult(None, "", "", "timeout"), "no answer within"),
        (CommandResult(127, "", "nvcc: error while loading shared libraries"), "shared libraries"),
        (CommandResult(0, "something else", ""), "exit code 0"),
    ],
)
def test_nvcc_that_does_not_say_its_version(result: CommandResult, reason: str) -> None:
    nvcc = "/usr/local/cuda/bin/nvcc"
    seen = look(FakeHost(files={nvcc: ""}, commands={(nvcc, "--version"): result}))
    assert seen.nvcc_version.is_unknown
    assert reason in seen.nvcc_version.note
    assert seen.nvccs.is_unknown


def test_libraries_that_the_loader_would_pick() -> None:
    host = FakeHost(
        files={"/cuda/lib64/libcudart.so.12": "", "/cuda/lib64/libcudart.so": "", "/l/libnvrtc.so.13": ""},
        environ={"LD_LIBRARY_PATH": "/cuda/lib64"},
        observations={"loader_cache": {"libnvrtc.so.13": ["/l/libnvrtc.so.13"], "libnvrtc.so": ["/l/libnvrtc.so"]}},
    )
    seen = look(host)
    assert (seen.cudart.value, seen.cudart.note) == ("/cuda/lib64/libcudart.so.12", "LD_LIBRARY_PATH")
    assert (seen.nvrtc.value, seen.nvrtc.note) == ("/l/libnvrtc.so.13", "loader cache")


def test_library_that_only_lies_in_a_toolkit_is_not_picked_but_named() -> None:
    host = FakeHost(files={"/usr/local/cuda/lib64/libcudart.so.12": ""})
    cudart = look(host).cudart
    assert cudart.is_absent
    assert "/usr/local/cuda/lib64/libcudart.so.12" in cudart.note


@pytest.mark.parametrize(
    ("files", "programs", "expected"),
    [({}, {"ninja": "/usr/bin/ninja"}, True), ({"/venv/bin/ninja": ""}, {}, True), ({}, {}, False)],
)
def test_ninja(files: dict[str, str], programs: dict[str, str], expected: bool) -> None:
    assert look(FakeHost(files=files, programs=programs)).ninja.value is expected


def test_hanging_nvcc_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\nsleep 60\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(toolkit, "_TIME_LIMIT", 0.3)
    began = time.monotonic()
    seen = look(RealHost())
    assert time.monotonic() - began < 15
    assert seen.nvcc_version.is_unknown
    assert "no answer within" in seen.nvcc_version.note
