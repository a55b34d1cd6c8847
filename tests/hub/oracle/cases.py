"""Makes (machine, listed folders) pairs from a seed, near enough to each other that many builds are accepted.

Only `Random.random()` is drawn from, because Python promises the same sequence of it for all time; the frozen answers
in data/ hang on that.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from kerneldoctor.environment import (
    Environment,
    Fact,
    Package,
    Packages,
    Python,
    System,
    Toolkit,
    Torch,
    absent,
    known,
)
from kerneldoctor.hub.system import SystemDescription, describe

T = TypeVar("T")
Machine = dict[str, Any]
Case = tuple[Machine, list[str]]

TORCHES = ["2.6.0+cu124", "2.8.0", "2.9.1+cu128", "2.10.0a0+gitabc", "2.11.0+cu130", "2.13.0+cu132", "2.14.0", "3.0.0"]
CUDAS = ["11.8", "12.4", "12.6", "12.8", "12.9", "13.0", "13.2", "13.10"]
HIPS = ["6.3.42131-fa1d09cbd", "7.1.25424", "7.2.26015-0", "7.14.1-4e9bd"]
XPUS = ["20250001", "20250101", "20250302", "20260100"]
TAGS = [
    *("cu118", "cu124", "cu126", "cu128", "cu129", "cu130", "cu132", "cu1310", "cu1300"),
    *("rocm63", "rocm71", "rocm72", "rocm714", "xpu20250", "xpu20251", "xpu20253", "xpu20261"),
    *("cpu", "metal", "neuron", "tpu", "cann81", "cann85"),
]
NOARCH = ["cuda", "rocm", "cpu", "metal", "xpu", "npu", "cann", "neuron", "tpu", "ext", "", *["universal"] * 4]
RUBBISH = [
    *("torch", "torch2-cu128-x86_64-linux", "torch28", "torch28-cxx11", "torch28-cxx12-cu128-x86_64-linux"),
    *("torch28-cxx11-cu8-x86_64-linux", "torch28-cxx11-cuda-x86_64-linux", "torch-stable-abi", "torch-stable-abi2"),
    *("torch-stable-abi210-cxx11-cu130-x86_64-linux", "tvm-ffi-cu130-x86_64-linux", "tvm-ffi01", "tvm", "flash_attn"),
    *("torch28-cxx11-cu128-x86_64", "torch28-cu128-x86_64-linux-extra", "__pycache__", "Torch28-cu128-x86_64-linux"),
    *("torch28-xpu-x86_64-linux", "torch2010-cxx11-cu128-x86_64-linux", "jax-cuda", "torch28--x86_64-linux", "-", ""),
]


class Dice(random.Random):
    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.random() * len(items))]


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` pairs, the same for the same seed."""
    dice = Dice(seed)
    for _ in range(count):
        machine = _machine(dice)
        names = dict.fromkeys(_name(dice, machine) for _ in range(dice.pick(range(1, 17))))
        yield machine, list(names)


def _machine(dice: Dice) -> Machine:
    os = dice.pick(["linux"] * 4 + ["windows", "darwin"])
    chips = {"linux": ["x86_64", "x86_64", "aarch64"], "windows": ["AMD64", "ARM64"], "darwin": ["arm64", "x86_64"]}
    backend = "cpu" if os == "darwin" else dice.pick(["cuda"] * 9 + ["rocm"] * 2 + ["xpu"] * 2 + ["cpu"] * 3)
    has_torch = dice.random() < 0.93
    npu = backend == "cpu" and os == "linux"
    plugins, chance = (["neuron", "tpu", "npu", "npu"], 0.5) if npu else (["neuron", "tpu"], 0.1)
    return {
        "torch": dice.pick(TORCHES) if has_torch else None,
        "cxx11": dice.random() < 0.8,
        "cuda": dice.pick(CUDAS) if backend == "cuda" else None,
        "hip": dice.pick(HIPS) if backend == "rocm" else None,
        "xpu": dice.pick(XPUS) if backend == "xpu" else None,
        "cudart": dice.pick(CUDAS) if not has_torch and dice.random() < 0.6 else None,
        "plugin": dice.pick(plugins) if has_torch and dice.random() < chance else None,
        "cann": dice.pick(["8.1.RC1", "8.5.0"]),
        "machine": "arm64" if os == "darwin" and has_torch else dice.pick(chips[os]),  # an Intel Mac: MPS is unknown
        "os": os,
        "macos": dice.pick(["15.6", "26.0", "26.1.2", "27.0"]) if os == "darwin" else None,
        "tvm_ffi": dice.pick(["0.1.9", "0.2.0", "1.0"]) if dice.random() < 0.5 else None,
        "free_threaded": dice.random() < 0.08,
    }


def _name(dice: Dice, machine: Machine) -> str:
    kind = dice.random()
    if kind < 0.06:
        return dice.pick(RUBBISH)
    if kind < 0.24:
        own = "npu" if machine["plugin"] == "npu" and dice.random() < 0.4 else None
        return f"torch-{own or dice.pick(NOARCH)}"
    return f"{_framework(dice, machine)}-{_tag(dice, machine)}-{_platform(dice, machine)}"


def _framework(dice: Dice, machine: Machine) -> str:
    kind = dice.random()
    if kind < 0.15:
        return f"tvm-ffi{dice.pick(['01', '02', '10', '010'])}"
    near = machine["torch"] is not None and dice.random() < 0.7
    major, minor = (machine["torch"] if near else dice.pick(TORCHES)).split(".")[:2]
    if kind < 0.45:
        return f"torch-stable-abi{major}{minor}"
    return f"torch{major}{minor}{dice.pick(['', '-cxx11', '-cxx11', '-cxx98'])}"


def _tag(dice: Dice, machine: Machine) -> str:
    cuda = machine["cuda"] or machine["cudart"]
    if cuda and dice.random() < 0.75:
        near = [c for c in CUDAS if c.split(".")[0] == cuda.split(".")[0]] if dice.random() < 0.8 else CUDAS
        return "cu" + dice.pick(near).replace(".", "")
    if machine["plugin"] == "npu" and dice.random() < 0.5:
        return dice.pick(["cann81", "cann85", "cann815"])
    return dice.pick(TAGS)


def _platform(dice: Dice, machine: Machine) -> str:
    if dice.random() < 0.8:
        chip = {"AMD64": "x86_64", "arm64": "aarch64"}.get(machine["machine"], machine["machine"])
        return f"{chip}-{machine['os']}"
    chip = dice.pick(["x86_64", "aarch64", "arm64", "AMD64"])
    return f"{chip}-{dice.pick(['linux', 'windows', 'darwin'])}"


def system_of(machine: Machine) -> SystemDescription:
    """The machine as we describe it. Files do not tell the CANN release; the library asks torch-npu for it."""
    system = describe(environment_of(machine))
    if machine["plugin"] != "npu":
        return system
    major, minor = machine["cann"].split(".")[:2]
    return dataclasses.replace(system, backend_version=known((int(major), int(minor)), "test"))


def environment_of(machine: Machine) -> Environment:
    """The facts that our probes would find on such a machine."""
    torch = machine["torch"]
    backend = "cuda" if machine["cuda"] else "rocm" if machine["hip"] else "xpu" if machine["xpu"] else "cpu"
    packages = {"apache-tvm-ffi": machine["tvm_ffi"]}
    if machine["plugin"]:
        packages[{"neuron": "torch-neuronx", "tpu": "torch-tpu", "npu": "torch-npu"}[machine["plugin"]]] = "1.0"
    return Environment(
        system=System(
            os=known(machine["os"], "test"),
            machine=known(machine["machine"], "test"),
            distribution=known(f"macOS {machine['macos']}" if machine["macos"] else "Ubuntu 24.04", "test"),
        ),
        python=Python(version=known("3.13.2", "test"), free_threaded=known(machine["free_threaded"], "test")),
        toolkit=Toolkit(cudart=_fact(machine["cudart"] and f"/usr/lib/libcudart.so.{machine['cudart']}.90")),
        torch=Torch(
            version=_fact(torch),
            backend=_fact(torch and backend),
            cuda=_fact(torch and machine["cuda"]),
            hip=_fact(torch and machine["hip"]),
            xpu=_fact(torch and machine["xpu"]),
            cxx11_abi=_fact(torch and machine["cxx11"]),
        ),
        packages=Packages({n: Package(version=known(v, "test")) for n, v in packages.items() if v}, True, "test"),
    )


def _fact(value: Any) -> Fact[Any]:
    return absent("test") if value is None else known(value, "test")
