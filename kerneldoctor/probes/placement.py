"""Tells where a process runs: platform, container, WSL, batch scheduler, notebook. It does not look at hardware."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..environment import Fact, absent, known, unknown
from ..errors import ProbeError
from ..host import Host, exists, read_text

_OS_NAMES = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
# The first variable that is set decides; the more telling ones come first.
_SCHEDULERS = (
    ("SLURM_JOB_ID", "slurm"),
    ("PBS_JOBID", "pbs"),
    ("LSB_JOBID", "lsf"),
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
)
_NOTEBOOKS = (
    ("COLAB_RELEASE_TAG", "colab"),
    ("COLAB_GPU", "colab"),
    ("KAGGLE_KERNEL_RUN_TYPE", "kaggle"),
    ("KAGGLE_URL_BASE", "kaggle"),
    ("SM_TRAINING_ENV", "sagemaker"),
    ("SM_CURRENT_HOST", "sagemaker"),
    ("SAGEMAKER_APP_TYPE", "sagemaker"),
    ("SAGEMAKER_INTERNAL_IMAGE_URI", "sagemaker"),
    ("DATABRICKS_RUNTIME_VERSION", "databricks"),
    ("PAPERSPACE_NOTEBOOK_REPO_ID", "paperspace"),
    ("PAPERSPACE_FQDN", "paperspace"),
)
_SAGEMAKER_FILE = "/opt/ml/metadata/resource-metadata.json"  # notebook instances set no variable
_APPTAINER_VARIABLES = ("APPTAINER_CONTAINER", "APPTAINER_NAME", "SINGULARITY_CONTAINER", "SINGULARITY_NAME")
# Parts of a control group path that a container runtime leaves.
_CGROUP_MARKS = (
    ("kubepods", "kubernetes"),
    ("libpod", "podman"),
    ("docker", "docker"),
    ("lxc", "lxc"),
    ("containerd", "container"),
    ("garden", "container"),
)


def platform(host: Host) -> dict[str, Any]:
    """`os`, `machine`, `release` (of the kernel) and `libc` ("glibc 2.36"); empty where they cannot be told."""
    try:
        answer = host.observe("platform", "", _look_at_platform)
    except ProbeError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _look_at_platform() -> dict[str, Any]:
    """What the running kernel and C library say of themselves, which is the same for any interpreter here."""
    uname = os.uname()
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):  # musl, macOS
        libc = None
    return {
        "os": _OS_NAMES.get(sys.platform, sys.platform),
        "machine": uname.machine,
        "release": uname.release,
        "libc": libc,
    }


def container(host: Host) -> Fact[str]:
    """The container runtime. Apptainer and Kubernetes come first: they may run inside or on top of the others."""
    variable = next((v for v in _APPTAINER_VARIABLES if host.environ.get(v)), None)
    if variable:
        return known("apptainer", variable)
    if exists(host, "/.singularity.d"):
        return known("apptainer", "/.singularity.d")
    if host.environ.get("KUBERNETES_SERVICE_HOST"):
        return known("kubernetes", "KUBERNETES_SERVICE_HOST")
    for path, name in (("/run/.containerenv", "podman"), ("/.dockerenv", "docker")):
        if exists(host, path):
            return known(name, path)
    return _from_cgroup(host) or _from_variable(host) or absent("no trace of a container runtime")


def _from_cgroup(host: Host) -> Fact[str] | None:
    try:
        text = read_text(host, "/proc/1/cgroup", 65536)
    except ProbeError:  # hidden by hidepid; the other traces decide
        return None
    return next((known(name, "/proc/1/cgroup") for mark, name in _CGROUP_MARKS if mark in text), None)


def _from_variable(host: Host) -> Fact[str] | None:
    value = host.environ.get("container", "")  # set by systemd-nspawn, lxc, podman and buildah for what they start
    if not value:
        return None
    return known(value if value in ("docker", "podman", "lxc") else "container", "variable container")


def wsl(host: Host) -> Fact[bool]:
    """Whether this is the Windows Subsystem for Linux (its kernel names Microsoft)."""
    try:
        text = read_text(host, "/proc/version", 4096)
    except ProbeError as error:
        return known(True, "/dev/dxg") if exists(host, "/dev/dxg") else unknown(str(error))
    return known("microsoft" in text.lower(), "/proc/version")


def scheduler(host: Host) -> Fact[str]:
    """The batch system that started this process."""
    return _first_set(host, _SCHEDULERS) or absent("no variable of a batch scheduler is set")


def notebook(host: Host) -> Fact[str]:
    """The cloud notebook service."""
    if found := _first_set(host, _NOTEBOOKS):
        return found
    if exists(host, _SAGEMAKER_FILE):
        return known("sagemaker", _SAGEMAKER_FILE)
    return absent("no variable of a notebook service is set")


def _first_set(host: Host, table: tuple[tuple[str, str], ...]) -> Fact[str] | None:
    return next((known(name, variable) for variable, name in table if host.environ.get(variable)), None)
