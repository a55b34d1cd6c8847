"""Made-up machines for tests of the hub room: what is not given is a healthy H100 with torch 2.13 and CUDA 13.0."""

from __future__ import annotations

from typing import Any

from kerneldoctor.engine.loading import shipped_rules, shipped_tables
from kerneldoctor.environment import (
    CachedKernel,
    Driver,
    Environment,
    Fact,
    Gpu,
    HuggingFace,
    Package,
    Packages,
    Python,
    System,
    Torch,
    absent,
    known,
)
from kerneldoctor.hub.listing import Build, Listing, Version

FLASH = "kernels-community/flash-attn2"
STABLE = "torch-stable-abi210-cu{}-x86_64-linux"
TABLES = shipped_tables()
RULES = shipped_rules()


def seen(value: Any) -> Fact[Any]:
    return known(value, "test")


def gpu(capability: str, index: int = 0, name: str = "") -> Gpu:
    label = name or f"GPU {capability}"
    return Gpu(seen(index), seen(label), seen("nvidia"), compute_capability=seen(capability), visible=seen(True))


def packages(**versions: str) -> Packages:
    items = {name.replace("_", "-"): Package(version=seen(version)) for name, version in versions.items() if version}
    return Packages(items, complete=True, note="test")


def machine(
    torch: str = "2.13.0+cu130",
    gpus: Fact[Any] | str = "9.0",
    cached: tuple[CachedKernel, ...] = (),
    system: System | None = None,
    driver: str = "580.95.05",
    **versions: str,
) -> Environment:
    """A Linux machine. The local label of `torch` says the CUDA release; `versions` are packages beside torch."""
    label = torch.partition("+")[2]
    cuda = f"{label[2:-1]}.{label[-1]}" if label.startswith("cu") else ""
    installed = {"kernels": "0.17.2", "huggingface_hub": "1.33.0", **versions}
    return Environment(
        system=system or System(
            os=seen("linux"), machine=seen("x86_64"), libc=seen("glibc"), libc_version=seen("2.36"), wsl=seen(False)
        ),
        python=Python(version=seen("3.12.3"), free_threaded=seen(False)),
        driver=Driver(version=seen(driver), cuda_compat=absent("test")),
        torch=Torch(
            version=seen(torch) if torch else absent("test"),
            backend=seen("cuda" if cuda else "cpu") if torch else absent("test"),
            cuda=seen(cuda) if cuda else absent("test"),
            hip=absent("test"), cxx11_abi=seen(True), installer=seen("pip"),
        ),
        gpus=seen((gpu(gpus),)) if isinstance(gpus, str) else gpus,
        packages=packages(**installed),
        huggingface=HuggingFace(cached_kernels=seen(cached)),
    )  # fmt: skip


def live(*builds: str | Build, repo: str = FLASH, version: str = "v3", commit: str = "a" * 40) -> Listing:
    """One version as the live Hub would list it."""
    found = tuple(build if isinstance(build, Build) else Build(build) for build in builds)
    return Listing(repo, "live", "2026-12-01", (Version(version, commit, found, "live", "2026-12-01", True),))
