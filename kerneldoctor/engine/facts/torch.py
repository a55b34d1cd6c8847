"""torch against the driver and the GPUs. Pure functions over facts and tables; they look at no machine."""

from __future__ import annotations

import re

from ...archs import parse_arch, supports_gpu
from ...environment import Fact, absent, known, unknown
from ..case import Case, Row, derived
from ..conditions import in_range, major_of, parse_version
from .driver import driver_carries, family_minimum, gpu_capability, visible_nvidia_gpus

_LABEL = re.compile(r"cu(\d{2,3})")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_NUMPY2 = {"windows": "2.4.1"}  # https://github.com/pytorch/pytorch/issues/131668
_NUMPY2_ELSEWHERE = "2.3"  # https://github.com/pytorch/pytorch/issues/132179


@derived("torch.driver_carries_cuda", bool)
def driver_carries_cuda(case: Case) -> Fact[bool]:
    """Whether the driver runs the CUDA release that torch was built for, by minor-version compatibility."""
    cuda = case.fact("torch.cuda")
    if not cuda.is_known:
        return absent(cuda.note) if cuda.is_absent else unknown(f"torch.cuda: {cuda.note}")
    return driver_carries(case, str(cuda.value))


@derived("torch.driver_needed", str)
def driver_needed(case: Case) -> Fact[str]:
    """The oldest driver that runs torch's CUDA release on this operating system, "580.65.06"."""
    cuda = case.fact("torch.cuda")
    if not cuda.is_known:
        return absent(cuda.note) if cuda.is_absent else unknown(f"torch.cuda: {cuda.note}")
    major = major_of(cuda.value)
    if major is None:
        return unknown(f"torch.cuda {cuda.value!r} is no CUDA release")
    return family_minimum(case, str(major))


@derived("torch.gpu_archs", tuple[str, ...])
def gpu_archs(case: Case) -> Fact[tuple[str, ...]]:
    """The GPU architectures that torch holds code for: as it says, from its binary, or of that wheel (torch_wheels)."""
    for path in ("deep.torch_archs", "torch.archs"):
        fact = case.fact(path)
        if fact.is_known and fact.value:
            return fact
    backend = case.fact("torch.backend")
    if backend.is_known and backend.value != "cuda":
        return absent(f"torch is a {backend.value} build")
    row = _wheel_row(case)
    if isinstance(row, str):
        return unknown(row)
    return known(tuple(row["archs"]), f"table torch_wheels, torch {row['torch']} {row['wheel']} {row['machine']}")


@derived("gpu.torch_has_code", bool)
def torch_has_code(case: Case) -> Fact[bool]:
    """Whether the installed torch holds code that this GPU runs. Absent for a GPU that is hidden or not of NVIDIA."""
    if case.fact("gpu.visible").value is False:
        return absent("CUDA_VISIBLE_DEVICES hides this GPU")
    backend, gpu = case.fact("torch.backend"), case.fact("gpu.capability")
    if backend.is_absent or (backend.is_known and backend.value != "cuda"):
        return absent(backend.note or f"torch is a {backend.value} build")
    if not gpu.is_known:
        return absent(gpu.note) if gpu.is_absent else unknown(gpu.note)
    archs = case.fact("torch.gpu_archs")
    if archs.is_known:
        return _runs(tuple(archs.value or ()), str(gpu.value), archs.note)
    return _ruled_out_by_toolkit(case, str(gpu.value), archs.note)


def _runs(archs: tuple[str, ...], gpu: str, source: str) -> Fact[bool]:
    answer = supports_gpu(archs, gpu)
    if answer is None:
        return unknown(f"whether {', '.join(archs)} runs on {gpu} cannot be told")
    if not answer and source.startswith("table ") and _newer_than_all(gpu, archs):
        return unknown(f"{source} does not say whether the wheel holds intermediate code for a GPU as new as {gpu}")
    return known(answer, source)


def _newer_than_all(gpu: str, archs: tuple[str, ...]) -> bool:
    """Whether the GPU is newer than any that existed when the table was made (12.1) and the wheel is a recent one."""
    capability = parse_version(gpu)
    newest = max((arch.capability for arch in map(parse_arch, archs) if arch), default=(0, 0))
    return capability is not None and newest >= (12, 0) and (capability.major, capability.minor) > (12, 9)


def _ruled_out_by_toolkit(case: Case, gpu: str, reason: str) -> Fact[bool]:
    """What is certain without a list: CUDA 13 makes nothing for GPUs before 7.5, and no label below cu128 has 10.0."""
    cuda, label = case.fact("torch.cuda"), _label(case)
    if cuda.is_known and in_range(cuda.value, ">=13") and in_range(gpu, "<7.5"):
        return known(False, "CUDA 13 compiles for no GPU before 7.5")
    if label and in_range(_cuda_of(label), "<12.8") and in_range(gpu, ">=10"):
        return known(False, f"CUDA {_cuda_of(label)} compiles for no GPU from 10.0 on")
    return unknown(reason)


@derived("torch.fitting_release", str)
def fitting_release(case: Case) -> Fact[str]:
    """The torch release nearest to the installed one that has a wheel for this driver, these GPUs and this Python.

    Advice, so it never guesses: absent where no wheel of the tables is known to fit, also for want of a fact.
    """
    found = _fitting(case)
    return absent(found) if isinstance(found, str) else known(found[0], "tables torch_releases, torch_wheels")


@derived("torch.fitting_wheel", str)
def fitting_wheel(case: Case) -> Fact[str]:
    """The CUDA tag of that wheel, "cu126": the newest that fits. Absent as `torch.fitting_release` is."""
    found = _fitting(case)
    return absent(found) if isinstance(found, str) else known(found[1], "tables torch_releases, torch_wheels")


@derived("torch.fitting_differs", bool)
def fitting_differs(case: Case) -> Fact[bool]:
    """Whether that wheel is another one than the installed torch. Absent as `torch.fitting_release` is."""
    found = _fitting(case)
    if isinstance(found, str):
        return absent(found)
    version = parse_version(str(case.fact("torch.version").value))
    same = version is not None and f"{version.base_version}+{_label(case)}" == f"{found[0]}+{found[1]}"
    return known(not same, "torch.version")


def wheel_from(case: Case, oldest: str) -> str | None:
    """What to give to pip for the nearest torch from `oldest` on that fits driver, GPUs and Python; None for none."""
    found = _fitting(case, oldest)
    if isinstance(found, str):
        return None
    return f'"torch=={found[0]}+{found[1]}" --index-url https://download.pytorch.org/whl/{found[1]}'


@derived("torch.numpy_too_new", bool)
def numpy_too_new(case: Case) -> Fact[bool]:
    """Whether torch was built against the C interface of NumPy 1 and NumPy 2 is installed."""
    version, numpy, system = (case.fact(p) for p in ("torch.version", "packages.numpy.version", "system.os"))
    if version.is_absent or numpy.is_absent:
        return absent("torch or numpy is not installed")
    if not version.is_known or not numpy.is_known:
        return unknown(f"torch.version or packages.numpy.version: {version.note if version.is_unknown else numpy.note}")
    depends_on_system = in_range(version.value, f">={_NUMPY2_ELSEWHERE},<{_NUMPY2['windows']}")
    if depends_on_system and system.is_unknown:
        return unknown(f"system.os: {system.note}")
    first = _NUMPY2.get(str(system.value), _NUMPY2_ELSEWHERE)
    old, new = in_range(version.value, f"<{first}"), in_range(numpy.value, ">=2")
    if old is None or new is None:
        return unknown(f"torch {version.value} or numpy {numpy.value} is no version")
    return known(old and new, f"torch {first} is the first release built for NumPy 2 here")


@derived("torch.pypi_wheel_is_cpu", bool)
def pypi_wheel_is_cpu(case: Case) -> Fact[bool]:
    """Whether PyPI's wheel of the installed release is a CPU build on this machine (Linux aarch64 up to 2.10)."""
    version, machine = case.fact("torch.version"), case.fact("system.machine")
    if not version.is_known or not machine.is_known:
        return unknown("torch.version or system.machine is not known")
    if case.fact("system.os").value != "linux" or _machine(str(machine.value)) != "aarch64":
        return known(False, "system.machine")
    old = in_range(version.value, "<2.11.dev0")
    return unknown(f"{version.value} is no version") if old is None else known(old, "table torch_releases")


def _wheel_row(case: Case) -> Row | str:
    """The row of torch_wheels for the installed torch, or why there is none."""
    version, machine = case.fact("torch.version"), case.fact("system.machine")
    if not version.is_known or not machine.is_known:
        return f"torch.version: {version.note}" if not version.is_known else f"system.machine: {machine.note}"
    parsed, label = parse_version(str(version.value)), _label(case)
    if parsed is None or parsed.is_prerelease or label is None:
        return f"torch {version.value} is no wheel of a known list"
    minor = f"{parsed.major}.{parsed.minor}"
    found = _find_row(case, minor, label, _machine(str(machine.value)))
    return found if found is not None else f"torch {minor} {label} for {machine.value} is not in the table torch_wheels"


def _find_row(case: Case, minor: str, wheel: str, machine: str) -> Row | None:
    for row in case.table("torch_wheels"):
        if (row["torch"], row["wheel"], row["machine"]) == (minor, wheel, machine):
            return row
    return None


def _label(case: Case) -> str | None:
    """The CUDA tag of the wheel: the local label, or for a PyPI wheel (none in its metadata) torch's CUDA release."""
    version, cuda = parse_version(str(case.fact("torch.version").value)), case.fact("torch.cuda")
    if version is None:
        return None
    if version.local:
        return version.local if _LABEL.fullmatch(version.local) else None
    by_wheel = case.fact("torch.installer").value in ("pip", "uv")
    label = "cu" + str(cuda.value).replace(".", "")
    return label if cuda.is_known and by_wheel and _LABEL.fullmatch(label) else None


def _cuda_of(label: str) -> str:
    digits = label.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}"


def _machine(name: str) -> str:
    return _MACHINES.get(name.lower(), name.lower())


def _fitting(case: Case, oldest: str = "0") -> tuple[str, str] | str:
    """Release and CUDA tag of the wheel that changes least, not before `oldest`, or why none is offered."""
    python, system, machine = (case.fact(p) for p in ("python.version", "system.os", "system.machine"))
    gpus = visible_nvidia_gpus(case)
    if not (python.is_known and system.value in ("linux", "windows") and machine.is_known and gpus.is_known):
        return "Python, operating system, machine or GPUs are not known"
    if not gpus.value or case.fact("python.free_threaded").value is True:
        return "no NVIDIA GPU is visible, or Python is free-threaded"
    if "tegra" in str(case.fact("system.kernel").value):
        return "Jetson systems take wheels of their own"
    capabilities = [gpu_capability(gpu, case) for gpu in gpus.value]
    if not all(capability.is_known for capability in capabilities):
        return "the compute capability of a GPU is not known"
    wanted = [str(capability.value) for capability in capabilities]
    rows = [row for row in case.table("torch_releases") if _installable(row, case)]
    rows = [row for row in rows if in_range(row["torch"], f">={oldest}")]
    for row in sorted(rows, key=lambda row: _distance(row, rows, case)):
        for wheel in sorted(row["wheels"], key=lambda wheel: _change(wheel, case)):
            if _wheel_fits(case, row, wheel, wanted):
                return _release(row, case), wheel
    return "no wheel of the tables fits driver, GPUs and Python"


def _wheel_fits(case: Case, row: Row, wheel: str, wanted: list[str]) -> bool:
    minor = ".".join(row["torch"].split(".")[:2])
    found = _find_row(case, minor, wheel, _machine(str(case.fact("system.machine").value)))
    if found is None or driver_carries(case, _cuda_of(wheel)).value is not True:
        return False
    return all(supports_gpu(found["archs"], gpu) is True for gpu in wanted)


def _installable(row: Row, case: Case) -> bool:
    """Whether the release has wheels for this Python and C library."""
    libc, glibc = case.fact("system.libc"), case.fact("system.libc_version")
    too_old = glibc.is_known and in_range(glibc.value, f">={row['glibc']}") is not True
    if case.fact("system.os").value == "linux" and (libc.value == "musl" or too_old):
        return False
    return in_range(case.fact("python.version").value, row["python"]) is True


def _distance(row: Row, rows: list[Row], case: Case) -> tuple[int, int]:
    """How many minor releases away; of two at one distance the newer one first."""
    version = parse_version(str(case.fact("torch.version").value))
    minors = [tuple(map(int, r["torch"].split(".")[:2])) for r in rows]
    mine = tuple(map(int, row["torch"].split(".")[:2]))
    if version is None:
        return len(minors) - minors.index(mine), 0
    installed = (version.major, version.minor)
    between = sum(min(mine, installed) < minor <= max(mine, installed) for minor in minors)
    return between, -minors.index(mine)


def _release(row: Row, case: Case) -> str:
    """The installed patch release where the minor release stays, else the newest patch."""
    version = parse_version(str(case.fact("torch.version").value))
    if version is None or version.is_prerelease:
        return str(row["torch"])
    same = row["torch"].split(".")[:2] == [str(version.major), str(version.minor)]
    return version.base_version if same else str(row["torch"])


def _change(wheel: str, case: Case) -> tuple[bool, bool, bool, int]:
    """What a CUDA tag changes: best is the installed one, then its major release, then what the driver names itself."""
    cuda, offered = _cuda_of(wheel), case.fact("driver.cuda_offered")
    other_major = major_of(cuda) != major_of(case.fact("torch.cuda").value)
    newer = offered.is_known and in_range(cuda, f"<{offered.value}.999") is not True
    return wheel != _label(case), other_major, newer, -int(wheel.removeprefix("cu"))
