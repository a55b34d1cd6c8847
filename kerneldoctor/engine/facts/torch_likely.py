"""The torch wheel to advise where a machine is not known well enough for a certain one. It replaces no known fit.

What a report leaves out is taken for usual (Linux on a PC, a recent Python, a new driver), and the driver
that the advice then needs is a fact of its own, to be said with it.
"""

from __future__ import annotations

import dataclasses
import re

from ...environment import Driver, Environment, Fact, Gpu, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range, parse_version
from .driver import family_minimum, gpu_capability, visible_nvidia_gpus
from .torch import driver_needed, fitting_release, fitting_wheel

_USUAL_PYTHON = "3.12"  # every release of the table torch_releases has wheels for it
_ANY_DRIVER = "999.0"
_ARM = re.compile(r"\b(?:GH\d|GB\d|Grace|DGX Spark)", re.IGNORECASE)
_JETSON = re.compile(r"\b(?:Jetson|Orin|Xavier|Tegra|Thor)\b", re.IGNORECASE)
# The first driver branch that knows these GPUs, which is the one that came with CUDA 12.8:
# https://docs.nvidia.com/cuda/blackwell-compatibility-guide/index.html
_BLACKWELL, _BLACKWELL_CUDA = ">=10", "12.8"


@derived("torch.likely_release", str)
def likely_release(case: Case) -> Fact[str]:
    """The torch release with a wheel for these GPUs, where the rest is as usual. Absent: none has one."""
    return _likely(case, 0)


@derived("torch.likely_wheel", str)
def likely_wheel(case: Case) -> Fact[str]:
    """The CUDA tag of that wheel, "cu128"."""
    return _likely(case, 1)


@derived("torch.likely_driver", str)
def likely_driver(case: Case) -> Fact[str]:
    """The oldest driver that runs that wheel on these GPUs, "570.26"."""
    wheel = likely_wheel(case)
    if not wheel.is_known:
        return wheel
    supposed = _supposed(case, newest_driver=True)
    minimum = family_minimum(supposed, str(wheel.value).removeprefix("cu")[:-1])
    blackwell = any(in_range(str(gpu_capability(gpu, case).value), _BLACKWELL) for gpu in _gpus(case))
    if not blackwell or not minimum.is_known:
        return minimum
    column = "windows" if supposed.fact("system.os").value == "windows" else "linux"
    row = next((row for row in case.table("cuda_drivers") if row["cuda"] == _BLACKWELL_CUDA), None)
    first = str(row[column]) if row is not None else str(minimum.value)
    newer = parse_version(first), parse_version(str(minimum.value))
    return known(first, "table cuda_drivers") if newer[0] and newer[1] and newer[0] > newer[1] else minimum


@derived("torch.usual_driver_needed", str)
def usual_driver_needed(case: Case) -> Fact[str]:
    """The oldest driver for torch's CUDA release, on Linux where the operating system is not known."""
    return driver_needed(_supposed(case, newest_driver=False))


@derived("torch.likely_differs", bool)
def likely_differs(case: Case) -> Fact[bool]:
    """Whether the advised wheel is another one than the installed torch."""
    release, wheel = likely_release(case), likely_wheel(case)
    if not release.is_known:
        return absent(release.note) if release.is_absent else unknown(release.note)
    return known(f"{release.value}+{wheel.value}" != str(case.fact("torch.version").value), "torch.version")


def _likely(case: Case, part: int) -> Fact[str]:
    gpus = _gpus(case)
    if not gpus or not all(gpu_capability(gpu, case).is_known for gpu in gpus):
        return unknown("the GPUs are not known")
    if "tegra" in str(case.fact("system.kernel").value) or any(_JETSON.search(str(gpu.name.value)) for gpu in gpus):
        return unknown("Jetson systems take wheels of their own")
    if case.fact("system.os").value not in (None, "linux", "windows"):
        return unknown("no CUDA wheel is made for this operating system")
    for newest in (False, True):
        supposed = _supposed(case, newest)
        found = fitting_release(supposed), fitting_wheel(supposed)
        if found[part].is_known:
            return found[part]
    return absent("no wheel of the tables has code for these GPUs")


def _gpus(case: Case) -> tuple[Gpu, ...]:
    return tuple(visible_nvidia_gpus(case).value or ())


def _supposed(case: Case, newest_driver: bool) -> Case:
    """The same machine with what is not known taken for usual."""
    own: Environment = case.environment
    named = " ".join(str(gpu.name.value) for gpu in own.gpus.value or ())
    usual = known("linux", "usual"), known("aarch64" if _ARM.search(named) else "x86_64", "usual")
    system = dataclasses.replace(
        own.system,
        os=own.system.os if own.system.os.is_known else usual[0],
        machine=own.system.machine if own.system.machine.is_known else usual[1],
        wsl=own.system.wsl if not own.system.wsl.is_unknown else known(False, "usual"),
    )
    python = (
        own.python if own.python.version.is_known else dataclasses.replace(own.python, version=known(_USUAL_PYTHON, ""))
    )
    there = own.driver.version.is_known or own.driver.cuda.is_known
    driver = own.driver if there and not newest_driver else Driver(version=known(_ANY_DRIVER, "usual"))
    environment = dataclasses.replace(own, system=system, python=python, driver=driver)
    return Case(environment, case.tables, case.kernel, case.workload, case.item_name, case.item)
