from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kerneldoctor.environment import Torch
from kerneldoctor.host import RealHost
from kerneldoctor.probes import companions, torch
from kerneldoctor.probes.importables import ImportPath
from kerneldoctor.probes.interpreter import find_target
from kerneldoctor.probes.scene import Distribution, Scene

from ..fake_host import FakeHost
from . import scenes
from .native import torch_package
from .sites import add, scene

X86_64 = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\x00\x3e\x00"
SITE = "/venv/lib"
VERSION = (
    "from typing import Optional\n__version__ = '2.13.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\n"
    "git_version = 'abc'\nhip: Optional[str] = None\nrocm = None\nxpu = None\n"
)
WHEEL = {
    f"{SITE}/torch/__init__.py": "",
    f"{SITE}/torch/version.py": VERSION,
    f"{SITE}/torch-2.13.0.dist-info/METADATA": "Name: torch\nVersion: 2.13.0\n",
    f"{SITE}/torch-2.13.0.dist-info/INSTALLER": "uv\n",
    "/venv/bin/python": X86_64,
}


def look(host: FakeHost, *path: str) -> Torch:
    made = scenes.scene(host, sys_path=path or (SITE,))
    return torch.look(made, ImportPath(made))


def test_a_cuda_wheel() -> None:
    code = {"8.0": 448, "9.0": 448, "9.0a": 4, "12.0": 448, "12.0+PTX": 448, "12.1a": 1}
    files = {**WHEEL, f"{SITE}/torch/lib/libc10.so": b"", f"{SITE}/torch/lib/libtorch_cuda.so": b""}
    found = look(FakeHost(files, observations={"torch-abi": True, "gpu-code": code}))
    assert (found.version.value, found.backend.value, found.cuda.value) == ("2.13.0+cu130", "cuda", "13.0")
    assert found.version.note == f"{SITE}/torch/version.py"
    assert found.hip.is_absent
    assert found.debug.value is False
    assert found.installer.value == "uv"
    assert found.cxx11_abi.value is True
    # What only a handful of kernels are compiled for does not make torch run on such a GPU.
    assert found.archs.value == ("8.0", "9.0", "12.0", "12.0+PTX")
    assert [f.value for f in (found.package_missing, found.metadata_missing, found.source_shadowed)] == [False] * 3


@pytest.mark.parametrize(
    ("line", "backend"),
    [("hip = '6.3.42131'", "rocm"), ("xpu = '20250101'", "xpu"), ("cuda = None", "cpu"), ("", "cpu")],
)
def test_the_build_is_told_from_version_py(line: str, backend: str) -> None:
    found = look(FakeHost({**WHEEL, f"{SITE}/torch/version.py": f"__version__ = '2.9.0'\n{line}\n"}))
    assert found.backend.value == backend
    assert found.archs.is_absent


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 10_000, b"\xff\xfe"])
def test_a_damaged_version_py_leaves_the_metadata(text: str | bytes) -> None:
    found = look(FakeHost({**WHEEL, f"{SITE}/torch/version.py": text}))
    assert found.version.value == "2.13.0"
    assert found.backend.is_unknown
    assert found.cuda.is_unknown
    assert found.archs.is_unknown
    assert found.package_missing.value is False


def test_metadata_without_the_package(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.9.0+cu128")
    found = torch.probe(scene(tmp_path))["torch"]
    assert isinstance(found, Torch)
    assert (found.version.value, found.package_missing.value) == ("2.9.0+cu128", True)
    assert found.location.is_absent
    # what pip leaves behind when compiled files were added after the install
    (tmp_path / "torch/__pycache__").mkdir(parents=True)
    found = torch.probe(scene(tmp_path))["torch"]
    assert isinstance(found, Torch)
    assert found.package_missing.value is True


def test_a_link_to_a_source_folder_is_not_called_missing(tmp_path: Path) -> None:
    add(tmp_path, "torch", "2.9.0a0")
    (tmp_path / "__editable___torch_2_9_0a0_finder.py").touch()
    (tmp_path / "__editable__.torch-2.9.0a0.pth").touch()
    found = torch.probe(scene(tmp_path))["torch"]
    assert isinstance(found, Torch)
    assert found.package_missing.is_unknown
    assert found.version.value == "2.9.0a0"


def test_the_package_without_metadata() -> None:
    found = look(FakeHost({name: text for name, text in WHEEL.items() if "dist-info" not in name}))
    assert (found.version.value, found.metadata_missing.value) == ("2.13.0+cu130", True)
    assert found.installer.is_absent
    assert found.missing_companions.is_absent


def test_the_first_of_two_is_described_and_the_second_told() -> None:
    second = {"/user/torch/__init__.py": "", "/user/torch/version.py": "__version__ = '1.0'"}
    found = look(FakeHost({**WHEEL, **second}), "/user", SITE)
    assert (found.version.value, found.location.value, found.source_shadowed.value) == ("1.0", "/user/torch", True)
    linked = look(FakeHost(WHEEL, links={"/venv/lib64": SITE}), SITE, "/venv/lib64")
    assert linked.source_shadowed.value is False


def test_a_folder_that_is_no_package_hides_nothing() -> None:
    found = look(FakeHost({**WHEEL, "/user/torch/notes.txt": ""}), "/user", SITE)
    assert (found.location.value, found.source_shadowed.value) == (f"{SITE}/torch", False)


def test_no_torch_is_absent_but_unknown_where_a_folder_may_not_be_listed() -> None:
    assert look(FakeHost({f"{SITE}/": ""})).version.is_absent
    other = f"{SITE}/pip-26.0.dist-info/METADATA"
    refused = look(FakeHost({other: "", "/user/": ""}, denied=frozenset({"/user"})), SITE, "/user")
    assert refused.version.is_unknown
    assert "permission" in refused.version.note
    files = {name: text for name, text in WHEEL.items() if "dist-info" not in name}
    refused = look(FakeHost({**files, other: "", "/user/": ""}, denied=frozenset({"/user"})), SITE, "/user")
    assert refused.metadata_missing.is_unknown


def test_ptxas_of_triton_is_asked_unless_another_one_is_chosen() -> None:
    said = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 12.8, V12.8.93\n"
    bundled, chosen = f"{SITE}/triton/backends/nvidia/bin/ptxas", "/opt/ptxas"
    files = {**WHEEL, f"{SITE}/triton/__init__.py": "", bundled: b"", chosen: b""}
    commands = {(bundled, "--version"): said, (chosen, "--version"): said.replace("12.8.93", "13.0.48")}
    assert look(FakeHost(files, commands=commands)).triton_ptxas_version.value == "12.8.93"
    host = FakeHost(files, commands=commands, environ={"TRITON_PTXAS_PATH": chosen})
    assert look(host).triton_ptxas_version.value == "13.0.48"
    assert look(FakeHost(files)).triton_ptxas_version.is_unknown
    assert look(FakeHost(WHEEL)).triton_ptxas_version.is_absent


# Requirements as torch 2.13.0 and 2.10.0 have them on PyPI.
CU13 = (
    'cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"',
    'cuda-bindings<14,>=13.0.3; platform_system == "Linux" and python_version < "3.15"',
    'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    "filelock",
    'pyyaml; extra == "pyyaml"',
)
CU12 = ('nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux" and platform_machine == "x86_64"',)


def companions_of(tmp_path: Path, requires: tuple[str, ...], *others: tuple[str, str]) -> list[str]:
    add(tmp_path, "torch", "2.13.0", requires=requires)
    for name, version in others:
        add(tmp_path, name, version)
    toolkit = ('nvidia-cublas==13.1.*; sys_platform == "linux" and extra == "cublas"', 'nvidia-nvtx; extra == "nvtx"')
    if "cuda-toolkit" not in dict(others):
        add(tmp_path, "cuda-toolkit", "13.0.3", requires=toolkit)
    made = scenes.scene(RealHost(), sys_path=(str(tmp_path),), executable=sys.executable)
    distribution = made.distribution("torch")
    assert distribution is not None
    found = companions.missing(made, distribution)
    return list(found.value or ())


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the requirements of CUDA 12 wheels are for x86_64")
def test_companions_behind_markers_and_extras(tmp_path: Path) -> None:
    have = [("cuda-bindings", "13.1.0"), ("nvidia-cublas", "13.1.1.3"), ("nvidia-cudnn-cu13", "9.20.0.48")]
    assert companions_of(tmp_path / "a", CU13, *have) == []
    assert companions_of(tmp_path / "b", CU13, *have[:1], ("nvidia-cublas", "13.2.0")) == [
        "nvidia-cublas==13.1.* (13.2.0 is installed)",
        "nvidia-cudnn-cu13==9.20.0.48 (not installed)",
    ]
    assert companions_of(tmp_path / "c", CU12) == ["nvidia-cudnn-cu12==9.10.2.21 (not installed)"]
    assert companions_of(tmp_path / "d", ("filelock", "nvidia-cudnn (rubbish")) == []


def test_families_that_are_there_for_two_cuda_majors() -> None:
    names = ("nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "nvidia-cublas-cu12", "nvidia-nccl-cu13", "nvidia-ml-py")
    installed = [Distribution(name, "1", "", "") for name in names]
    assert companions.duplicates(installed) == ("nvidia-cudnn: cu12 and cu13",)
    installed.append(Distribution("nvidia-cublas", "13.1.0.3", "", ""))
    installed.append(Distribution("nvidia-cudnn-frontend", "1.9", "", ""))
    assert companions.duplicates(installed) == (
        "nvidia-cublas: cu12 and 13.1.0.3 without a suffix",
        "nvidia-cudnn: cu12 and cu13",
    )


@pytest.mark.parametrize("abi", [0, 1])
def test_the_abi_comes_from_the_library(tmp_path: Path, abi: int) -> None:
    torch_package(tmp_path, abi=abi)
    found = torch.probe(scene(tmp_path))["torch"]
    assert isinstance(found, Torch)
    assert found.cxx11_abi.value is bool(abi)


@pytest.mark.torch
def test_a_real_torch_agrees_with_what_it_says_itself() -> None:
    python = os.environ.get("KERNELDOCTOR_TEST_PYTHON", sys.executable)
    script = "import json, torch; v = torch.version; print(json.dumps([torch.__version__, v.cuda, v.git_version,"
    script += "torch.compiled_with_cxx11_abi(), torch.__file__]))"
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python} has no torch")
    version, cuda, git_version, abi, file = json.loads(done.stdout)
    host = RealHost()
    found = torch.probe(Scene(host, find_target(host, python)))["torch"]
    assert isinstance(found, Torch)
    assert (found.version.value, found.cuda.value, found.git_version.value) == (version, cuda, git_version)
    assert found.backend.value == ("cuda" if cuda else "cpu")
    assert found.cxx11_abi.value is abi
    assert found.location.value == os.path.dirname(file)
    assert found.source_shadowed.value is False
    assert found.missing_companions.value == ()


def whole(root: Path, *more: str) -> Path:
    """A torch with every library that an import needs."""
    package = torch_package(root, cuda="13.0")
    for name in ("shm", "torch", "torch_python", "torch_global_deps", "c10_cuda", "torch_cuda", *more):
        shutil.copy(package / "lib/libc10.so", package / f"lib/lib{name}.so")
    (package / "_C.cpython-311-x86_64-linux-gnu.so").touch()
    return package


def unusable(root: Path) -> tuple[str, ...] | None:
    return torch.look(scene(root), ImportPath(scene(root))).unusable_libraries.value


def test_a_torch_whose_libraries_are_whole(tmp_path: Path) -> None:
    whole(tmp_path)
    assert unusable(tmp_path) == ()


def test_libraries_that_are_gone_or_cut_off(tmp_path: Path) -> None:
    lib = whole(tmp_path) / "lib"
    (lib / "libtorch_cuda.so").unlink()
    (lib / "libtorch_cpu.so").write_bytes((lib / "libtorch_cpu.so").read_bytes()[:3000])
    (lib / "libshm.so").write_bytes(b"")
    (lib / "libtorch.so").unlink()
    (lib / "libtorch.so").symlink_to(tmp_path / "gone")
    (lib / "libc10_cuda.so").unlink()
    (lib / "libc10_cuda.so").mkdir()
    assert unusable(tmp_path) == (
        "libshm.so (empty)",
        "libtorch.so (missing)",
        "libtorch_cpu.so (truncated)",
        "libc10_cuda.so (no file)",
        "libtorch_cuda.so (missing)",
    )


def test_a_torch_without_any_library(tmp_path: Path) -> None:
    package = whole(tmp_path)
    shutil.rmtree(package / "lib")
    next(package.glob("_C.*")).unlink()
    found = unusable(tmp_path)
    assert found is not None
    assert (len(found), found[0], found[-1]) == (9, "libc10.so (missing)", "_C (missing)")


def test_a_cpu_build_needs_no_library_for_cuda(tmp_path: Path) -> None:
    package = whole(tmp_path)
    (package / "version.py").write_text("__version__ = '2.9.0+cpu'\ncuda = None\n")
    (package / "lib/libtorch_cuda.so").unlink()
    (package / "lib/libc10_cuda.so").unlink()
    assert unusable(tmp_path) == ()


def test_conda_keeps_the_libraries_in_its_own_folder(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    package = whole(site)
    (tmp_path / "conda-meta").mkdir()
    for library in (package / "lib").iterdir():
        library.rename(tmp_path / "lib" / library.name)
    assert unusable(site) == ()


def test_the_torch_of_debian_is_not_judged() -> None:
    site = "/usr/lib/python3/dist-packages"
    host = FakeHost({f"{site}/torch/__init__.py": "", f"{site}/torch/version.py": VERSION, "/venv/bin/python": X86_64})
    assert look(host, site).unusable_libraries.is_unknown


@pytest.mark.parametrize(("header", "first"), [(b"MZ", "c10.dll"), (b"\xcf\xfa\xed\xfe", "libc10.dylib")])
def test_names_of_libraries_on_other_systems(header: bytes, first: str) -> None:
    names = [first.replace("c10", stem) for stem in ("c10", "shm", "torch", "torch_cpu", "torch_python")]
    names += [] if header == b"MZ" else ["libtorch_global_deps.dylib"]
    lib = {f"{SITE}/torch/lib/{name}": b"x" for name in names}
    cpu = "__version__ = '2.13.0'\ncuda = None\n"
    files = {**WHEEL, **lib, f"{SITE}/torch/version.py": cpu, "/venv/bin/python": header + b"\0" * 20}
    assert look(FakeHost({**files, f"{SITE}/torch/_C.pyd": b"x"})).unusable_libraries.value == ()
    del files[f"{SITE}/torch/lib/{first}"]
    assert look(FakeHost(files)).unusable_libraries.value == (f"{first} (missing)", "_C (missing)")
