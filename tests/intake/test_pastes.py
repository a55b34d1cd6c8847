"""What people paste besides the reports of tools: files of package managers, images, lists of GPUs, forms, prompts."""

from __future__ import annotations

import pytest

from kerneldoctor.intake import read

from .printers import collect_env, pip_list
from .test_honesty import HERE, THERE

CONDA = """name: fa
channels: [pytorch, nvidia]
dependencies:
  - python=3.11.9
  - pytorch=2.5.1=py3.11_cuda12.4_cudnn9.1.0_0
  - pip:
    - flash-attn==2.7.4.post1
"""
LOCK = """[[package]]
name = "flash-attn"
version = "2.8.3"
description = "…"

[[package]]
name = "torch"
version = "2.8.0+cu128"
"""
FORM = """### PyTorch version

2.7.1+cu128

### GPU model

NVIDIA GeForce RTX 5090

### What version of Python are you using?

3.12.4
"""
LSPCI = """$ lspci | grep -i nvidia
3b:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)
af:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
"""
CSV = """$ nvidia-smi --query-gpu=driver_version,name,compute_cap --format=csv
driver_version, name, compute_cap
575.57.08, NVIDIA GeForce RTX 5090, 12.0
"""
PRINTS = """import torch; print(torch.__version__); print(torch.version.cuda); print(torch.cuda.get_device_name(0))
2.8.0
12.6
NVIDIA GeForce RTX 3090
"""
NOTEBOOK = """In [2]: torch.__version__
Out[2]: '2.9.0+cu128'
In [3]: torch.cuda.get_device_capability()
Out[3]: (8, 9)
"""
INFO = """{
  "repo_id": "kernels-community/flash-attn3",
  "revision": "v1",
  "kernels_minver": "0.12.0",
  "python_depends": ["einops"]
}"""


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        (CONDA, "torch.version", "2.5.1"),
        (CONDA, "torch.cuda", "12.4"),
        (CONDA, "flash_attn.version", "2.7.4.post1"),
        (LOCK, "torch.version", "2.8.0+cu128"),
        (LOCK, "flash_attn.version", "2.8.3"),
        (FORM, "torch.version", "2.7.1+cu128"),
        (FORM, "python.version", "3.12.4"),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "torch.version", "2.6.0"),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel", "torch.cuda", "12.4"),
        ("FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu22.04", "toolkit.nvcc_version", "12.8"),
        ("libcudart.so.12 (libc6,x86-64) => /usr/local/cuda-12.4/lib64/libcudart.so.12", "torch.cuda", None),
        (CSV, "driver.version", "575.57.08"),
        (PRINTS, "torch.version", "2.8.0"),
        (PRINTS, "torch.cuda", "12.6"),
        (NOTEBOOK, "torch.cuda", "12.8"),
        ("print(torch.__version__)  # 2.8.0+cu126", "torch.version", "2.8.0+cu126"),
    ],
)
def test_a_paste_gives_its_facts(text: str, path: str, value: object) -> None:
    assert read(text).environment.fact(path).value == value


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (FORM, ["NVIDIA GeForce RTX 5090"]),
        (LSPCI, ["A100 PCIe 40GB", "H100 SXM5 80GB"]),
        (CSV, ["NVIDIA GeForce RTX 5090"]),
        (PRINTS, ["NVIDIA GeForce RTX 3090"]),
    ],
)
def test_a_paste_gives_its_gpus(text: str, names: list[str]) -> None:
    assert [gpu.name.value for gpu in read(text).environment.gpus.value or ()] == names


def test_what_a_container_image_of_a_vendor_holds_is_not_guessed() -> None:
    environment = read("FROM nvcr.io/nvidia/pytorch:25.03-py3").environment
    assert environment.fact("system.container").value == "docker"
    assert environment.fact("torch.version").is_unknown


def test_kernels_info_as_json_tells_the_kernel() -> None:
    kernel = read(INFO).kernel
    assert kernel is not None
    assert (kernel.repo.value, kernel.revision.value) == ("kernels-community/flash-attn3", "v1")
    assert (kernel.minver.value, kernel.python_depends.value) == ("0.12.0", ("einops",))


@pytest.mark.parametrize("report", [collect_env(HERE)[0], "PyTorch version: 2.9.1+cu128\nIs debug build: False\n"])
def test_two_environments_in_one_text_contradict_each_other(report: str) -> None:
    pasted = read(f"{report}\n\n{pip_list(THERE)[0]}")
    (found,) = [c for c in pasted.contradictions if c.path.endswith("torch.version")]
    assert [s.value for s in found.values] == ["2.9.1+cu128", "2.8.0+cu126"]


def test_the_files_in_a_capture_are_not_read_as_the_report() -> None:
    capture = (
        '{\n "schema": "kerneldoctor.capture/1",\n "files": {"/x/METADATA": "torch==1.9.0\\n"},\n "a": "torch 1.8"\n}'
    )
    pasted = read(f"It fails.\n{capture}\nI use torch 2.9.")
    assert "kerneldoctor capture" in pasted.kinds
    assert [(s.value, s.line_number) for s in pasted.sightings if s.path == "torch.version"] == [("2.9", 7)]
