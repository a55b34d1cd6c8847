"""Prints a made-up machine in each form that people paste, with the facts that the form tells."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from kerneldoctor.environment import Environment, Gpu, known

GPUS: tuple[tuple[str, str, int], ...] = (
    ("NVIDIA H100 80GB HBM3", "9.0", 81559),
    ("NVIDIA GeForce RTX 5090", "12.0", 32607),
    ("NVIDIA A100-SXM4-80GB", "8.0", 81920),
    ("Tesla V100-SXM2-16GB", "7.0", 16384),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", "8.9", 16376),
    ("NVIDIA L40S", "8.9", 46068),
    ("NVIDIA B200", "10.0", 183359),
    ("Tesla T4", "7.5", 15360),
    ("NVIDIA GH200 480GB", "9.0", 97871),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", 97887),
)
CUDAS = ("11.8", "12.1", "12.4", "12.6", "12.8", "12.9", "13.0", "13.2")


@dataclass(frozen=True, slots=True)
class Machine:
    """What the printers print."""

    torch: str  # "2.9.1", without its label
    cuda: str
    gpu: tuple[str, str, int]
    gpus: int
    driver: str
    driver_cuda: str
    python: str
    flash_attn: str | None
    kernels: str
    transformers: str
    hub: str

    @property
    def tag(self) -> str:
        return "cu" + self.cuda.replace(".", "")

    @property
    def torch_full(self) -> str:
        return f"{self.torch}+{self.tag}"


def _versions(*parts: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda numbers: ".".join(map(str, numbers)))


def machines() -> st.SearchStrategy[Machine]:
    """Any machine; versions need not be ones that exist."""
    number = st.integers
    return st.builds(
        Machine,
        torch=_versions(st.just(2), number(0, 15), number(0, 3)),
        cuda=st.sampled_from(CUDAS),
        gpu=st.sampled_from(GPUS),
        gpus=number(1, 8),
        driver=_versions(number(450, 595), number(10, 199), number(1, 20)).map(_two_digits),
        driver_cuda=st.sampled_from(CUDAS),
        python=_versions(st.just(3), number(8, 14), number(0, 20)),
        flash_attn=st.none() | _versions(st.just(2), number(0, 9), number(0, 9)) | st.just("2.7.4.post1"),
        kernels=_versions(st.just(0), number(4, 20), number(0, 9)),
        transformers=_versions(number(4, 5), number(0, 60), number(0, 9)),
        hub=_versions(number(0, 2), number(0, 40), number(0, 9)),
    )


def _two_digits(driver: str) -> str:
    branch, minor, patch = driver.split(".")
    return f"{branch}.{minor}.{int(patch):02d}"


Facts = dict[str, Any]
Printer = Callable[[Machine], tuple[str, Facts]]


def _torch(m: Machine) -> Facts:
    return {"torch.version": m.torch_full, "torch.cuda": m.cuda, "torch.backend": "cuda"}


def collect_env(m: Machine) -> tuple[str, Facts]:
    gpus = "\n".join(f"GPU {i}: {m.gpu[0]}" for i in range(m.gpus))
    gpus = f" {gpus}" if m.gpus == 1 else f"\n{gpus}\n"
    flash = f"[pip3] flash_attn=={m.flash_attn}\n" if m.flash_attn else ""
    text = f"""Collecting environment information...
PyTorch version: {m.torch_full}
Is debug build: False
CUDA used to build PyTorch: {m.cuda}
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.5 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Clang version: Could not collect
CMake version: version 3.31.2
Libc version: glibc-2.35

Python version: {m.python} (main, Feb  4 2025, 14:57:36) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-6.8.0-52-generic-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: Could not collect
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:{gpus}
Nvidia driver version: {m.driver}
cuDNN version: Could not collect
HIP runtime version: N/A
MIOpen runtime version: N/A
Is XNNPACK available: True

CPU:
Architecture:                         x86_64
CPU op-mode(s):                       32-bit, 64-bit
Model name:                           Intel(R) Xeon(R) Platinum 8480+
NVIDIA GPU-like words:                none
Vulnerability Mds:                    Not affected

Versions of relevant libraries:
{flash}[pip3] numpy==2.1.3
[pip3] torch=={m.torch_full}
[pip3] triton==3.4.0
[conda] Could not collect
"""
    facts = {
        **_torch(m),
        "python.version": m.python,
        "driver.version": m.driver,
        "gpu.name": m.gpu[0],
        "gpu.count": m.gpus,
        "system.distribution": "Ubuntu 22.04.5 LTS",
        "system.libc_version": "2.35",
        "system.kernel": "6.8.0-52-generic",
    }
    return text, facts | ({"flash_attn.version": m.flash_attn} if m.flash_attn else {})


def vllm_collect_env(m: Machine) -> tuple[str, Facts]:
    gpus = "\n".join(f"GPU {i}: {m.gpu[0]}" for i in range(m.gpus))
    text = f"""==============================
        System Info
==============================
OS                           : Ubuntu 24.04.2 LTS (x86_64)
GCC version                  : (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0
Clang version                : Could not collect
CMake version                : Could not collect
Libc version                 : glibc-2.39

==============================
       PyTorch Info
==============================
PyTorch version              : {m.torch_full}
Is debug build               : False
CUDA used to build PyTorch   : {m.cuda}
ROCM used to build PyTorch   : N/A

==============================
      Python Environment
==============================
Python version               : {m.python} (main, Jun 18 2025, 17:59:45) [GCC 13.3.0] (64-bit runtime)
Python platform              : Linux-6.11.0-29-generic-x86_64-with-glibc2.39

==============================
       CUDA / GPU Info
==============================
Is CUDA available            : True
CUDA runtime version         : 12.6.20
CUDA_MODULE_LOADING set to   : LAZY
GPU models and configuration :
{gpus}

Nvidia driver version        : {m.driver}
cuDNN version                : Could not collect

==============================
Versions of relevant libraries
==============================
[pip3] torch=={m.torch_full}
[pip3] transformers=={m.transformers}
[conda] Could not collect

==============================
         vLLM Info
==============================
ROCM Version                 : Could not collect
vLLM Version                 : 0.11.2
vLLM Build Flags:
  CUDA Archs: Not Set; ROCm: Disabled
GPU Topology:
        GPU0    CPU Affinity    NUMA Affinity
GPU0     X      0-31            0

==============================
     Environment Variables
==============================
CUDA_VISIBLE_DEVICES=0
LD_LIBRARY_PATH=/usr/local/cuda/lib64
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "driver.version": m.driver,
        "gpu.name": m.gpu[0],
        "gpu.count": m.gpus,
        "packages.transformers.version": m.transformers,
        "packages.vllm.version": "0.11.2",
        "toolkit.nvcc_version": "12.6",
        "visibility.raw": "0",
    }


def transformers_env(m: Machine) -> tuple[str, Facts]:
    text = f"""- `transformers` version: {m.transformers}
- Platform: Linux-5.15.0-124-generic-x86_64-with-glibc2.35
- Python version: {m.python}
- Huggingface_hub version: {m.hub}
- Safetensors version: 0.6.2
- Accelerate version: 1.10.1
- Accelerate config:    not found
- DeepSpeed version: not installed
- PyTorch version (accelerator?): {m.torch_full} (CUDA)
- Tensorflow version (GPU?): not installed (NA)
- Flax version (CPU?/GPU?/TPU?): not installed (NA)
- Jax version: not installed
- JaxLib version: not installed
- Using distributed or parallel set-up in script?: No
- Using GPU in script?: Yes
- GPU type: {m.gpu[0]}
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "packages.transformers.version": m.transformers,
        "packages.huggingface-hub.version": m.hub,
        "gpu.name": m.gpu[0],
        "packages.deepspeed.version": None,
    }


def trl_env(m: Machine) -> tuple[str, Facts]:
    names = ", ".join([m.gpu[0]] * m.gpus)
    text = f"""Copy-paste the following information when reporting an issue:

- Platform: Linux-6.8.0-45-generic-x86_64-with-glibc2.39
- Python version: {m.python}
- TRL version: 0.24.0
- PyTorch version: {m.torch_full}
- accelerator(s): {names}
- Transformers version: {m.transformers}
- Accelerate version: 1.11.0
- Accelerate config: not found
- Datasets version: 4.3.0
- HF Hub version: {m.hub}
- bitsandbytes version: not installed
- DeepSpeed version: not installed
- Liger-Kernel version: 0.6.3
- PEFT version: 0.17.1
- vLLM version: not installed
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "packages.transformers.version": m.transformers,
        "packages.huggingface-hub.version": m.hub,
        "packages.trl.version": "0.24.0",
        "packages.bitsandbytes.version": None,
        "gpu.name": m.gpu[0],
        "gpu.count": m.gpus,
    }


def accelerate_env(m: Machine) -> tuple[str, Facts]:
    text = f"""- `Accelerate` version: 1.10.0
- Platform: Linux-6.8.0-71-generic-x86_64-with-glibc2.35
- `accelerate` bash location: /opt/env/bin/accelerate
- Python version: {m.python}
- Numpy version: 2.2.6
- PyTorch version: {m.torch_full}
- PyTorch accelerator: CUDA
- System RAM: 503.51 GB
- GPU type: {m.gpu[0]}
- `Accelerate` default config:
	- compute_environment: LOCAL_MACHINE
	- distributed_type: MULTI_GPU
	- mixed_precision: bf16
	- num_processes: 8
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "packages.accelerate.version": "1.10.0",
        "gpu.name": m.gpu[0],
    }


def flashinfer_env(m: Machine) -> tuple[str, Facts]:
    gpus = "\n".join(
        f"GPU {i} (CUDA order)   : {m.gpu[0]} | SM{m.gpu[1].replace('.', '')} | 132 SMs | 79.2 GiB"
        for i in range(m.gpus)
    )
    text = f"""### FlashInfer environment report
<!-- generated by `python -m flashinfer.collect_env`; paste into your issue -->

==== FlashInfer ====
flashinfer                   : 0.6.1
flashinfer-cubin             : not installed
JIT cache                    : /root/.cache/flashinfer (0 compiled .so)

==== Python / Platform ====
Python            : {m.python} (main, Jun  5 2025, 13:09:17) [GCC 11.2.0]
Python executable : /opt/env/bin/python
Platform          : Linux-6.8.0-71-generic-x86_64-with-glibc2.39
libc              : glibc 2.39
OS                : Ubuntu 24.04.3 LTS
Container         : no / not detected

==== GPU / Driver ====
Driver version       : {m.driver}
CUDA_VISIBLE_DEVICES : <unset>
{gpus}

==== PyTorch ====
torch                : {m.torch_full}
torch.version.cuda   : {m.cuda}
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "driver.version": m.driver,
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
        "gpu.count": m.gpus,
        "packages.flashinfer-python.version": "0.6.1",
        "system.libc_version": "2.39",
    }


def sglang_env(m: Machine) -> tuple[str, Facts]:
    numbers = ",".join(str(i) for i in range(m.gpus))
    text = f"""Python: {m.python} (main, Oct  8 2024, 00:25:34) [Clang 18.1.8 ]
CUDA available: True
GPU {numbers}: {m.gpu[0]}
GPU {numbers} Compute Capability: {m.gpu[1]}
CUDA_HOME: /usr/local/cuda
NVCC: Cuda compilation tools, release 12.6, V12.6.77
CUDA Driver Version: {m.driver}
PyTorch: {m.torch_full}
sglang: 0.5.2
transformers: {m.transformers}
numpy: 1.26.4
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "driver.version": m.driver,
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
        "gpu.count": m.gpus,
        "packages.transformers.version": m.transformers,
        "toolkit.nvcc_version": "12.6",
        "toolkit.cuda_home": "/usr/local/cuda",
    }


def ds_report(m: Machine) -> tuple[str, Facts]:
    lib = f"/opt/conda/lib/python{'.'.join(m.python.split('.')[:2])}/site-packages"
    text = f"""--------------------------------------------------
DeepSpeed C++/CUDA extension op report
--------------------------------------------------
ninja .................. [OKAY]
--------------------------------------------------
op name ................ installed .. compatible
--------------------------------------------------
fused_adam ............. [NO] ....... [OKAY]
--------------------------------------------------
DeepSpeed general environment info:
torch install path ............... ['{lib}/torch']
torch version .................... {m.torch_full}
deepspeed install path ........... ['{lib}/deepspeed']
deepspeed info ................... 0.17.6, unknown, unknown
torch cuda version ............... {m.cuda}
torch hip version ................ None
nvcc version ..................... 12.6
deepspeed wheel compiled w. ...... torch 0.0, cuda 0.0
shared memory (/dev/shm) size .... 503.75 GB
"""
    return text, {
        **_torch(m),
        "python.version": ".".join(m.python.split(".")[:2]),
        "toolkit.nvcc_version": "12.6",
        "packages.deepspeed.version": "0.17.6",
    }


def xformers_info(m: Machine) -> tuple[str, Facts]:
    text = f"""xFormers 0.0.32.post1
memory_efficient_attention.ckF:                    unavailable
memory_efficient_attention.cutlassF-pt:            available
memory_efficient_attention.fa2F@v2.5.7-pt:         available
memory_efficient_attention.fa3F@0.0.0:             unavailable
is_triton_available:                               True
pytorch.version:                                   {m.torch_full}
pytorch.cuda:                                      available
gpu.compute_capability:                            {m.gpu[1]}
gpu.name:                                          {m.gpu[0]}
dcgm_profiler:                                     unavailable
build.info:                                        available
build.cuda_version:                                1204
build.hip_version:                                 None
build.python_version:                              3.9.23
build.torch_version:                               2.1.0+cu121
build.env.TORCH_CUDA_ARCH_LIST:                    6.0+PTX 7.0 7.5 8.0+PTX 9.0a
"""
    return text, {
        **_torch(m),
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
        "packages.xformers.version": "0.0.32.post1",
    }


def bitsandbytes(m: Machine) -> tuple[str, Facts]:
    text = f"""=================== bitsandbytes v0.48.1 ===================
Platform: Linux-6.8.0-79-generic-x86_64-with-glibc2.39
  libc: glibc-2.39
Python: {m.python}
PyTorch: {m.torch_full}
  CUDA: {m.cuda}
  HIP: N/A
  XPU: N/A
Related packages:
  accelerate: 1.10.1
  diffusers: not found
  numpy: 2.2.6
  peft: 0.17.1
  safetensors: 0.6.2
  transformers: {m.transformers}
  triton: 3.4.0
  trl: not found
============================================================
PyTorch settings found: CUDA_VERSION={m.tag[2:]}, Highest Compute Capability: ({m.gpu[1].replace(".", ", ")}).
Checking that the library is importable and CUDA is callable...
SUCCESS!
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "packages.transformers.version": m.transformers,
        "packages.bitsandbytes.version": "0.48.1",
        "packages.trl.version": None,
        "gpu.compute_capability": m.gpu[1],
    }


def _package_rows(m: Machine) -> list[tuple[str, str]]:
    rows = [
        ("accelerate", "1.10.1"), ("certifi", "2025.8.3"), ("einops", "0.8.1"), ("filelock", "3.19.1"),
        ("huggingface-hub", m.hub),
        ("jinja2", "3.1.6"), ("kernels", m.kernels), ("networkx", "3.5"), ("numpy", "2.2.6"), ("packaging", "25.0"),
        ("pip", "25.2"),
        ("safetensors", "0.6.2"), ("tokenizers", "0.22.0"), ("torch", m.torch_full), ("transformers", m.transformers),
        ("triton", "3.4.0"),
    ]  # fmt: skip
    if m.flash_attn:
        rows.append(("flash-attn", m.flash_attn))
    return sorted(rows)


def _listed(m: Machine) -> Facts:
    return {
        **_torch(m),
        "packages.kernels.version": m.kernels,
        "packages.transformers.version": m.transformers,
        "packages.huggingface-hub.version": m.hub,
        "flash_attn.version": m.flash_attn,  # None: the list is whole, so that it is known to be absent
        "packages.xformers.version": None,
    }


def pip_list(m: Machine) -> tuple[str, Facts]:
    rows = _package_rows(m)
    width = max(len(name) for name, _ in rows)
    lines = [f"{'Package':{width}} Version", f"{'-' * width} {'-' * 15}"]
    return "\n".join([*lines, *(f"{name:{width}} {version}" for name, version in rows)]) + "\n", _listed(m)


def pip_freeze(m: Machine) -> tuple[str, Facts]:
    rows = [(n, v) for n, v in _package_rows(m) if n != "pip"]
    return "\n".join(f"{name}=={version}" for name, version in rows) + "\n", _listed(m)


def conda_list(m: Machine) -> tuple[str, Facts]:
    rows = [("_libgcc_mutex", "0.1", "main", ""), *((n, v, "pypi_0", "pypi") for n, v in _package_rows(m))]
    rows += [
        ("python", m.python, "h5148396_0_cpython", "conda-forge"),
        ("openssl", "3.5.2", "h26f9b46_0", "conda-forge"),
    ]
    lines = [
        "# packages in environment at /opt/conda/envs/work:",
        "#",
        "# Name                    Version                   Build  Channel",
    ]
    lines += [f"{n:25} {v:25} {b}    {c}" for n, v, b, c in sorted(rows)]
    return "\n".join(lines) + "\n", {**_listed(m), "python.version": m.python}


def nvidia_smi(m: Machine) -> tuple[str, Facts]:
    line = "+-----------------------------------------------------------------------------------------+"
    header = f"| NVIDIA-SMI {m.driver:22} Driver Version: {m.driver:14} CUDA Version: {m.driver_cuda:8} |"
    rows = []
    for i in range(m.gpus):
        name = m.gpu[0] if len(m.gpu[0]) <= 26 else m.gpu[0][:23] + "..."
        rows += [
            f"|   {i}  {name:28} On  |   00000000:{27 + i:02X}:00.0 Off |                    0 |",
            f"| N/A   33C    P0             71W /  700W |       1MiB / {m.gpu[2]:6}MiB |      0%      Default |",
            "|                                         |                        |             Disabled |",
            "+-----------------------------------------+------------------------+----------------------+",
        ]
    text = "\n".join(
        [
            "Mon Aug 18 10:12:01 2025",
            line,
            header,
            "|-----------------------------------------+------------------------+----------------------+",
            "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
            "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
            "|                                         |                        |               MIG M. |",
            "|=========================================+========================+======================|",
            *rows,
            "",
            line,
            "| Processes:                                                                              |",
            "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
            "|=========================================================================================|",
            "|    0   N/A  N/A           12345      C   python3.11                              1234MiB |",
            line,
        ]
    )
    shown = m.gpu[0] if len(m.gpu[0]) <= 26 else m.gpu[0][:23].rstrip()
    return text + "\n", {
        "driver.version": m.driver,
        "driver.cuda": m.driver_cuda,
        "gpu.name": shown,
        "gpu.count": m.gpus,
        "gpu.memory_bytes": m.gpu[2] * 2**20,
        "gpu.mig": False,
    }


def nvidia_smi_query(m: Machine) -> tuple[str, Facts]:
    gpus = "".join(
        f"""
GPU 00000000:{27 + i:02X}:00.0
    Product Name                          : {m.gpu[0]}
    Product Brand                         : NVIDIA
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU UUID                              : GPU-0{i}aa0bbb-1234-5678-9abc-def012345678
    FB Memory Usage
        Total                             : {m.gpu[2]} MiB
        Used                              : 4 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
"""
        for i in range(m.gpus)
    )
    text = f"""
==============NVSMI LOG==============

Timestamp                                 : Mon Aug 18 10:12:01 2025
Driver Version                            : {m.driver}
CUDA Version                              : {m.driver_cuda}

Attached GPUs                             : {m.gpus}{gpus}
"""
    return text, {
        "driver.version": m.driver,
        "driver.cuda": m.driver_cuda,
        "gpu.name": m.gpu[0],
        "gpu.count": m.gpus,
        "gpu.memory_bytes": m.gpu[2] * 2**20,
    }


def nvidia_smi_list(m: Machine) -> tuple[str, Facts]:
    text = "\n".join(f"GPU {i}: {m.gpu[0]} (UUID: GPU-0{i}aa0bbb-1234-5678-9abc-def012345678)" for i in range(m.gpus))
    return text + "\n", {"gpu.name": m.gpu[0], "gpu.count": m.gpus}


def python_prints(m: Machine) -> tuple[str, Facts]:
    text = f"""Python {m.python} (main, Feb  4 2025, 14:57:36) [GCC 11.4.0] on linux
Type "help", "copyright", "credits" or "license" for more information.
>>> import torch
>>> torch.__version__
'{m.torch_full}'
>>> torch.version.cuda
'{m.cuda}'
>>> torch.cuda.is_available()
True
>>> torch.cuda.get_device_name(0)
'{m.gpu[0]}'
>>> torch.cuda.get_device_capability()
({m.gpu[1].replace(".", ", ")})
>>> import transformers; print(transformers.__version__)
{m.transformers}
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
        "deep.cuda_available": True,
    }


def table(m: Machine) -> tuple[str, Facts]:
    flash = f"| flash-attn | {m.flash_attn} |\n" if m.flash_attn else ""
    text = f"""| component | version |
|-----------|---------|
| PyTorch | {m.torch_full} |
| Python | {m.python} |
| GPU | {m.gpu[0]} (compute capability {m.gpu[1]}) |
| Driver | {m.driver} |
{flash}| transformers | {m.transformers} |
| kernels | {m.kernels} |
"""
    facts = {
        **_torch(m),
        "python.version": m.python,
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
        "driver.version": m.driver,
        "packages.transformers.version": m.transformers,
        "packages.kernels.version": m.kernels,
    }
    return text, facts | ({"flash_attn.version": m.flash_attn} if m.flash_attn else {})


def bullets(m: Machine) -> tuple[str, Facts]:
    text = f"""**Environment**

- **PyTorch**: `{m.torch_full}`
- **CUDA**: {m.cuda}
- **GPU**: {m.gpu[0]}
- **NVIDIA driver**: {m.driver}
- **Python**: {m.python}
- **transformers**: `{m.transformers}`
- **kernels**: `{m.kernels}`
- **OS**: Ubuntu 22.04
"""
    return text, {
        **_torch(m),
        "python.version": m.python,
        "gpu.name": m.gpu[0],
        "driver.version": m.driver,
        "packages.transformers.version": m.transformers,
        "packages.kernels.version": m.kernels,
        "system.distribution": "Ubuntu 22.04",
    }


def sentence(m: Machine) -> tuple[str, Facts]:
    text = (
        f"I'm using an {m.gpu[0]} with driver {m.driver} and torch {m.torch_full}, Python {m.python}, "
        f"transformers {m.transformers} and kernels {m.kernels}.\n"
    )
    return text, {
        **_torch(m),
        "python.version": m.python,
        "gpu.name": m.gpu[0],
        "driver.version": m.driver,
        "packages.transformers.version": m.transformers,
        "packages.kernels.version": m.kernels,
    }


def scan_json(m: Machine) -> tuple[str, Facts]:
    blank = Environment()
    gpu = Gpu(index=known(0, "NVML"), name=known(m.gpu[0], "NVML"), compute_capability=known(m.gpu[1], "NVML"))
    environment = dataclasses.replace(
        blank,
        torch=dataclasses.replace(
            blank.torch,
            version=known(m.torch_full, "version.py"),
            cuda=known(m.cuda, "version.py"),
            backend=known("cuda", "version.py"),
        ),
        python=dataclasses.replace(blank.python, version=known(m.python, "interpreter")),
        driver=dataclasses.replace(blank.driver, version=known(m.driver, "NVML")),
        gpus=known((gpu,), "NVML"),
    )
    return json.dumps(environment.to_json(), indent=2) + "\n", {
        **_torch(m),
        "python.version": m.python,
        "driver.version": m.driver,
        "gpu.name": m.gpu[0],
        "gpu.compute_capability": m.gpu[1],
    }


PRINTERS: Mapping[str, Printer] = {
    printer.__name__: printer
    for printer in (
        collect_env, vllm_collect_env, transformers_env, trl_env, accelerate_env, flashinfer_env, sglang_env,
        ds_report, xformers_info, bitsandbytes, pip_list, pip_freeze, conda_list, nvidia_smi, nvidia_smi_query,
        nvidia_smi_list, python_prints, table, bullets, sentence, scan_json,
    )
}  # fmt: skip


# ------------------------------------------------------------------------------------------- what surrounds a paste


def _each(text: str, change: Callable[[int, str], str]) -> str:
    return "\n".join(change(i, line) for i, line in enumerate(text.split("\n")))


WRAPS: Mapping[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "fence": lambda text: f"### Bug\n\nIt crashes.\n\n```shell\n{text}```\n\nAny idea?\n",
    "details": lambda text: (
        f"<details>\n<summary>The output of my environment</summary>\n\n```text\n{text}```\n\n</details>\n"
    ),
    "quote": lambda text: _each(text, lambda _, line: f"> {line}".rstrip()),
    "quoted twice": lambda text: _each(text, lambda _, line: f"> > {line}".rstrip()),
    "timestamps": lambda text: _each(text, lambda i, line: f"2026-08-27T03:14:{i % 60:02d}.1234567Z {line}"),
    "job log": lambda text: _each(
        text, lambda i, line: f"test-gpu\tShow environment\t2026-08-27T03:14:{i % 60:02d}.1234567Z {line}"
    ),
    "rank": lambda text: _each(text, lambda _, line: f"[rank0]: {line}"),
    "ansi": lambda text: _each(text, lambda _, line: f"\x1b[36m{line}\x1b[0m"),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "indent": lambda text: _each(text, lambda _, line: f"    {line}"),
    "docker build": lambda text: _each(text, lambda i, line: f"#12 {i}.{i % 1000:03d} {line}"),
    "html": lambda text: f"<pre>\n{text.replace('&', '&amp;').replace('>', '&gt;')}</pre>\n",
    "noise": lambda text: f"thanks for the quick answer!\n\n{text}\n\nlet me know if you need more\n",
}


def differences(read: Callable[[str], Any], facts: Iterable[tuple[str, Any]]) -> list[str]:
    """Facts that were not read as they were printed: "path: printed / read"."""
    return [f"{path}: {wanted!r} / {read(path)!r}" for path, wanted in facts if read(path) != wanted]


def reader(environment: Environment) -> Callable[[str], Any]:
    """Looks a printed fact up: None for an absent one, "unknown" for an unknown one."""

    def look(path: str) -> Any:
        if path.startswith("gpu."):
            gpus = environment.gpus.value or ()
            if path == "gpu.count":
                return len(gpus)
            if not gpus:
                return "unknown"
            fact = getattr(gpus[-1], path.removeprefix("gpu."))
        else:
            fact = environment.fact(path)
        return "unknown" if fact.is_unknown else fact.value

    return look
