from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.environment import LibraryOverride, System
from kerneldoctor.errors import ProbeError
from kerneldoctor.host import CommandResult, Host, RealHost
from kerneldoctor.probes import system
from kerneldoctor.probes.runtime_libraries import newest_glibcxx
from tests.fake_host import FakeHost
from tests.probes.scenes import scene

PLATFORM = {"os": "linux", "machine": "x86_64", "release": "6.8.0-45-generic", "libc": "glibc 2.35"}
LIBSTDCXX = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
FILES = {
    "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"\nVERSION_ID="22.04"\n',
    "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R)  Platinum 8480+\n",
    "/proc/meminfo": "MemTotal:       65536000 kB\nMemFree:        1 kB\n",
    "/proc/version": "Linux version 6.8.0-45-generic (buildd@host)\n",
    "/proc/1/cgroup": "0::/init.scope\n",
    "/proc/self/cgroup": "0::/user.slice/session-1.scope\n",
    LIBSTDCXX: "",
}


def machine(files: dict[str, Any] | None = None, **more: Any) -> FakeHost:
    observations = {"platform": PLATFORM, "glibcxx": "3.4.30"} | more.pop("observations", {})
    return FakeHost(files={**FILES, **(files or {})}, observations=observations, **more)


def look(host: Host, **target: Any) -> System:
    parts: dict[str, Any] = system.probe(scene(host, **target))
    assert list(parts) == ["system"]
    section: System = parts["system"]
    return section


def test_ordinary_machine() -> None:
    seen = look(machine())
    assert (seen.os.value, seen.machine.value, seen.kernel.value) == ("linux", "x86_64", "6.8.0-45-generic")
    assert (seen.distribution.value, seen.cpu.value) == ("Ubuntu 22.04.4 LTS", "Intel(R) Xeon(R) Platinum 8480+")
    assert (seen.libc.value, seen.libc_version.value) == ("glibc", "2.35")
    assert (seen.glibcxx.value, seen.glibcxx.note) == ("3.4.30", LIBSTDCXX)
    assert seen.memory_bytes.value == 65536000 * 1024
    assert seen.wsl.value is False
    assert all(f.is_absent for f in (seen.container, seen.scheduler, seen.notebook, seen.library_overrides))


def test_machine_that_shows_nothing_is_unknown_not_absent() -> None:
    seen = look(FakeHost())
    for name in ("os", "distribution", "kernel", "machine", "cpu", "libc", "libc_version", "wsl", "memory_bytes"):
        fact = getattr(seen, name)
        assert fact.is_unknown, name
        assert fact.note not in ("", "not looked at")


def test_musl_says_its_version_when_its_loader_is_started() -> None:
    loader = "/lib/ld-musl-x86_64.so.1"
    usage = "musl libc (x86_64)\nVersion 1.2.5\nDynamic Program Loader\nUsage: ...\n"
    seen = look(
        machine(
            {loader: ""},
            observations={"platform": PLATFORM | {"libc": None}},
            commands={(loader,): CommandResult(1, "", usage)},
        )
    )
    assert (seen.libc.value, seen.libc_version.value) == ("musl", "1.2.5")


def test_arm_processor_has_numbers_only() -> None:
    grace = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"
    assert look(machine({"/proc/cpuinfo": grace})).cpu.value == "Arm Neoverse-V2"
    other = "processor\t: 0\nCPU implementer\t: 0x61\nCPU part\t: 0x022\n"
    assert look(machine({"/proc/cpuinfo": other})).cpu.value == "Arm implementer 0x61 part 0x022"


@pytest.mark.parametrize(
    ("files", "environ", "expected"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/run/.containerenv": ""}, {}, "podman"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/.dockerenv": ""}, {"APPTAINER_NAME": "x.sif"}, "apptainer"),
        ({"/.singularity.d/": ""}, {}, "apptainer"),
        ({"/proc/1/cgroup": "0::/kubepods/pod1\n"}, {}, "kubernetes"),
        ({"/proc/1/cgroup": "0::/lxc.payload.box\n"}, {}, "lxc"),
        ({}, {"container": "systemd-nspawn"}, "container"),
        ({}, {"container": "podman"}, "podman"),
    ],
)
def test_containers(files: dict[str, str], environ: dict[str, str], expected: str) -> None:
    fact = look(machine(files, environ=environ)).container
    assert fact.value == expected
    assert fact.note


def test_wsl_kernel() -> None:
    text = "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@x)\n"
    assert look(machine({"/proc/version": text})).wsl.value is True


@pytest.mark.parametrize(
    ("environ", "scheduler", "notebook"),
    [
        ({"SLURM_JOB_ID": "7"}, "slurm", None),
        ({"PBS_JOBID": "7"}, "pbs", None),
        ({"LSB_JOBID": "7"}, "lsf", None),
        ({"KUBERNETES_SERVICE_HOST": "x", "SLURM_JOB_ID": "7"}, "slurm", None),
        ({"COLAB_RELEASE_TAG": "release-colab"}, None, "colab"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Batch"}, None, "kaggle"),
        ({"SM_TRAINING_ENV": "{}"}, None, "sagemaker"),
        ({"DATABRICKS_RUNTIME_VERSION": "15.4"}, None, "databricks"),
        ({"SLURM_JOB_ID": ""}, None, None),
    ],
)
def test_schedulers_and_notebooks(environ: dict[str, str], scheduler: str | None, notebook: str | None) -> None:
    seen = look(machine(environ=environ))
    assert (seen.scheduler.value, seen.notebook.value) == (scheduler, notebook)


@pytest.mark.parametrize(
    ("files", "expected", "source"),
    [
        ({"/sys/fs/cgroup/memory.max": "max\n"}, 65536000 * 1024, "/proc/meminfo"),
        ({"/sys/fs/cgroup/memory.max": "8589934592\n"}, 8589934592, "/sys/fs/cgroup/memory.max"),
        (
            {"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},  # "no limit" of version 1
            65536000 * 1024,
            "/proc/meminfo",
        ),
        (
            {"/sys/fs/cgroup/user.slice/session-1.scope/memory.max": "1000\n", "/sys/fs/cgroup/memory.max": "2000"},
            1000,
            "/sys/fs/cgroup/user.slice/session-1.scope/memory.max",
        ),
        (
            {"/proc/self/cgroup": "4:cpu,memory:/job\n", "/sys/fs/cgroup/memory/job/memory.limit_in_bytes": "4096\n"},
            4096,
            "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
        ),
        ({"/sys/fs/cgroup/memory.max": "999999999999999\n"}, 65536000 * 1024, "/proc/meminfo"),
    ],
)
def test_memory_is_the_smaller_of_machine_and_limit(files: dict[str, str], expected: int, source: str) -> None:
    fact = look(machine(files)).memory_bytes
    assert (fact.value, fact.note) == (expected, source)


def test_libraries_that_variables_put_first() -> None:
    names = ("libcudart.so", "libcudart.so.12", "libcudart.so.12.8.90", "libcudnn.so.9", "libstdc++.so.6", "libz.so.1")
    seen = look(
        machine(
            {f"/cuda/{n}": "" for n in names} | {"/old/libnvJitLink.so.12": ""},
            environ={"LD_LIBRARY_PATH": "/nowhere:/cuda:/old", "LD_PRELOAD": "/x/libnccl.so.2 /x/libjemalloc.so.2"},
        )
    ).library_overrides
    assert seen.value is not None
    assert sorted((o.variable, o.path, o.family) for o in seen.value) == [
        ("LD_LIBRARY_PATH", "/cuda/libcudart.so.12", "cuda"),
        ("LD_LIBRARY_PATH", "/cuda/libcudnn.so.9", "cudnn"),
        ("LD_LIBRARY_PATH", "/cuda/libstdc++.so.6", "libstdc++"),
        ("LD_LIBRARY_PATH", "/old/libnvJitLink.so.12", "nvjitlink"),
        ("LD_PRELOAD", "/x/libnccl.so.2", "nccl"),
    ]
    assert isinstance(seen.value[0], LibraryOverride)


def test_library_path_without_any_of_them() -> None:
    fact = look(machine({"/opt/lib/libz.so.1": ""}, environ={"LD_LIBRARY_PATH": "/opt/lib"})).library_overrides
    assert fact.is_absent
    assert "LD_LIBRARY_PATH" in fact.note


@pytest.mark.parametrize(
    ("files", "environ", "target", "expected"),
    [
        ({}, {}, {}, LIBSTDCXX),
        (
            {"/conda/conda-meta/": "", "/conda/lib/libstdc++.so.6": ""},
            {},
            {"prefix": "/conda"},
            "/conda/lib/libstdc++.so.6",
        ),
        # a venv made with conda's python
        (
            {"/conda/conda-meta/": "", "/conda/lib/libstdc++.so.6": ""},
            {},
            {"base_prefix": "/conda"},
            "/conda/lib/libstdc++.so.6",
        ),
        ({"/venv/lib/libstdc++.so.6": ""}, {}, {}, LIBSTDCXX),  # no conda: nothing leads the loader there
        (
            {"/gcc/libstdc++.so.6": "", "/conda/conda-meta/": "", "/conda/lib/libstdc++.so.6": ""},
            {"LD_LIBRARY_PATH": "/gcc"},
            {"prefix": "/conda"},
            "/gcc/libstdc++.so.6",
        ),
    ],
)
def test_which_libstdcxx_is_in_force(
    files: dict[str, str], environ: dict[str, str], target: dict[str, str], expected: str
) -> None:
    seen = look(machine(files, environ=environ), **target).glibcxx
    assert (seen.value, seen.note) == ("3.4.30", expected)


def test_no_libstdcxx_at_all() -> None:
    assert look(FakeHost(observations={"platform": PLATFORM})).glibcxx.is_absent


def test_glibcxx_of_the_real_library_is_what_its_version_table_says() -> None:
    seen = look(RealHost()).glibcxx
    readelf = shutil.which("readelf")
    if not seen.is_known or readelf is None:
        pytest.skip("needs libstdc++ and readelf")
    table = subprocess.run([readelf, "-V", seen.note], capture_output=True, text=True, check=True).stdout
    assert f"GLIBCXX_{seen.value}" in table
    major, minor, patch = (int(n) for n in str(seen.value).split("."))
    assert f"GLIBCXX_{major}.{minor}.{patch + 1}" not in table


def test_glibcxx_compares_numbers_not_text(tmp_path: Path) -> None:
    library = tmp_path / "libstdc++.so.6"
    library.write_bytes(b"\x7fELF\0GLIBCXX_3.4.9\0GLIBCXX_3.4.30\0GLIBCXX_3.4\0GLIBCXX_DEBUG\0CXXABI_1.3.13\0")
    assert newest_glibcxx(str(library)) == "3.4.30"
    library.write_bytes(b"")
    with pytest.raises(ProbeError, match=r"libstdc\+\+"):
        newest_glibcxx(str(library))


def test_unreadable_libstdcxx_is_unknown() -> None:
    seen = look(machine(observations={"glibcxx": ProbeError(f"{LIBSTDCXX}: Permission denied")})).glibcxx
    assert (seen.is_unknown, seen.note) == (True, f"{LIBSTDCXX}: Permission denied")


def test_this_machine() -> None:
    seen = look(RealHost())
    assert (seen.kernel.value, seen.machine.value) == (os.uname().release, os.uname().machine)
    assert seen.memory_bytes.value is None or seen.memory_bytes.value <= os.sysconf("SC_PAGE_SIZE") * os.sysconf(
        "SC_PHYS_PAGES"
    )
    for name in System.__dataclass_fields__:
        assert getattr(seen, name).note not in ("", "not looked at"), name
