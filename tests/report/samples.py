"""Machines for report tests: one that is well, one without GPU and torch, one with several faults, one that hangs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import load_rules
from kerneldoctor.engine.matching import judge
from kerneldoctor.environment import (
    CachedKernel,
    Driver,
    Environment,
    Fact,
    FlashAttention,
    Gpu,
    HuggingFace,
    Package,
    Packages,
    Python,
    System,
    Torch,
    Visibility,
    absent,
    blank,
    known,
    unknown,
)
from kerneldoctor.report.model import Ignore, Report, build_report

RULES = Path(__file__).parent / "rules"
HOME = "/home/alice"


def make_report(environment: Environment, ignores: tuple[Ignore, ...] = (), date: str = "2026-12-01") -> Report:
    rules = load_rules(RULES)
    return build_report(environment, judge(rules, Case(environment)), rules, ignores, "1.2.3", date)


def gpu(index: int, name: str, capability: str, gib: int) -> Gpu:
    return Gpu(
        index=known(index, "NVML"),
        name=known(name, "NVML"),
        vendor=known("nvidia", "NVML"),
        uuid=known(f"GPU-8f3b1c2{index}-11aa-22bb-33cc-44556677889{index}", "NVML"),
        compute_capability=known(capability, "NVML"),
        memory_bytes=known(gib * 2**30, "NVML"),
        mig=known(False, "NVML"),
        visible=known(True, "CUDA_VISIBLE_DEVICES"),
    )


def packages(**versions: str) -> Packages:
    items = {name.replace("_", "-"): Package(version=known(v, "METADATA")) for name, v in versions.items()}
    return Packages(items, True, "3 folders of sys.path")


NO_FLASH = blank(FlashAttention, absent("site-packages"))
BASE = Environment(
    system=System(
        os=known("linux", "uname"),
        distribution=known("Ubuntu 24.04.2 LTS", "/etc/os-release"),
        machine=known("x86_64", "uname"),
        libc=known("glibc", "confstr"),
        libc_version=known("2.39", "confstr"),
    ),
    python=Python(
        version=known("3.12.3", "interpreter"),
        executable=known(f"{HOME}/venv/bin/python", "interpreter"),
        environment_kind=known("venv", "pyvenv.cfg"),
    ),
    huggingface=HuggingFace(
        endpoint=known("https://huggingface.co", "default"),
        offline=known(False, "HF_HUB_OFFLINE"),
        token=known(True, "HF_TOKEN"),
        use_hub_kernels=known(True, "default"),
        cache_writable=known(True, "access"),
        cache_free_bytes=known(812 * 2**30, "statvfs"),
    ),
    flash_attn=NO_FLASH,
    flash_attn_3=NO_FLASH,
    flash_attn_4=NO_FLASH,
    packages=packages(),
    gpus=absent("NVML"),
    driver=blank(Driver, absent("/proc/driver/nvidia")),
    torch=blank(Torch, absent("site-packages")),
)
BARE = BASE
HEALTHY = replace(
    BASE,
    gpus=known((gpu(0, "NVIDIA H200", "9.0", 140),), "NVML"),
    driver=Driver(version=known("580.159.04", "NVML"), cuda=known("13.0", "NVML"), nvml_error=absent("NVML")),
    torch=Torch(
        version=known("2.11.0+cu130", "torch/version.py"),
        backend=known("cuda", "torch/version.py"),
        cuda=known("13.0", "torch/version.py"),
        archs=known(("7.5", "8.0", "8.6", "9.0", "10.0", "12.0+PTX"), "table of releases"),
    ),
    packages=packages(transformers="5.17.0", kernels="0.16.1", huggingface_hub="1.33.0", trl="1.2.0"),
)
BROKEN = replace(
    HEALTHY,
    gpus=known(
        (
            *(gpu(i, "NVIDIA H100 80GB HBM3", "9.0", 80) for i in range(2)),
            gpu(2, "NVIDIA GeForce RTX 5090", "12.0", 32),
        ),
        "NVML",
    ),
    visibility=Visibility(raw=known("0,2", "environment"), count=known(2, "CUDA_VISIBLE_DEVICES")),
    driver=Driver(version=known("550.54.15", "NVML"), cuda=unknown("NVML has no function for it")),
    torch=Torch(
        version=known("2.6.0+cu124", f"{HOME}/venv/lib/python3.12/site-packages/torch/version.py"),
        backend=known("cuda", "torch/version.py"),
        cuda=known("12.4", "torch/version.py"),
        archs=unknown("no permission to read libtorch_cuda.so"),
    ),
    packages=packages(transformers="5.24.0", kernels="0.17.2", huggingface_hub="2.4.0"),
)
HUNG: Fact[tuple[Gpu, ...]] = unknown("no answer within 8 s")
HANGING = replace(HEALTHY, gpus=HUNG, driver=blank(Driver, unknown("no answer within 8 s")))
CACHED = CachedKernel("kernels-community/relu", "a" * 40, ("main",), ("torch-cuda",), ("48628c8",), True)
