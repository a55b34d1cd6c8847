"""Reads values of keys about the system: distribution, kernel, C library, machine, container. See readers.py."""

from __future__ import annotations

import re

from . import values
from .entry import Entry


def os(entry: Entry) -> bool:
    """The distribution, the kind of system and, in brackets, the machine."""
    text = entry.value.split(" (x86_64)")[0].split(" (aarch64)")[0].strip().rstrip(".,;")
    if values.platform(entry.value):
        return platform(entry)
    kind = values.system(text)
    if kind is None:
        return False
    entry.add("system.os", kind)
    if kind == "linux" and not re.fullmatch(r"(?i)linux(?:[ /-]x?(?:86_)?64)?|wsl ?2?", text) and len(text) < 80:
        entry.add("system.distribution", re.sub(r"\s\((?:x86_64|aarch64|arm64|ARM64)[^)]{0,20}\)", "", text))
    elif kind != "linux" and len(text) < 80:
        entry.add("system.distribution", text)
    if re.search(r"\bWSL", entry.value):
        entry.add("system.wsl", True)
    return machine(entry) or True


def machine(entry: Entry) -> bool:
    """x86_64 or aarch64."""
    found = values.machine(entry.value)
    if found:
        entry.add("system.machine", found)
    return found is not None


def platform(entry: Entry) -> bool:
    """What platform.platform() printed."""
    facts = values.platform(entry.value)
    for path, value in facts.items():
        entry.add(path, value)
    return bool(facts) or (os(entry) if values.system(entry.value) and "-" not in entry.value else False)


def kernel(entry: Entry) -> bool:
    """The Linux kernel's release. A Hub kernel stands under the same word."""
    found = re.match(r"(\d\.\d{1,2}[\w.+-]{0,80})", entry.value)
    if found is None:
        return False
    entry.add("system.kernel", found[1].split()[0])
    entry.add("system.os", "linux")
    entry.add("system.wsl", "microsoft" in entry.value.lower())
    return True


def libc(entry: Entry) -> bool:
    """glibc-2.35."""
    found = values.libc(entry.value)
    number = re.match(r"v?(\d\.\d{1,3})", entry.value)
    if found is None and number is None:
        return False
    entry.add("system.libc", found[0] if found else "glibc")
    entry.add("system.libc_version", found[1] if found else str(number and number[1]))
    return True


def gcc(entry: Entry) -> bool:
    """ "(Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0"."""
    found = values.versions(entry.value.rpartition(")")[2]) or values.versions(entry.value)
    if found:
        entry.add("python.c_compiler_version", found[-1])
    return bool(found)


def ram(entry: Entry) -> bool:
    """Memory of the machine, "251.54 GB" (GB of 2^30 bytes in accelerate)."""
    found = re.match(r"(\d{1,6}(?:\.\d{1,4})?) ?GB", entry.value)
    if found:
        entry.add("system.memory_bytes", int(float(found[1]) * 2**30))
    return found is not None


def image(entry: Entry) -> bool:
    """A container image was used."""
    if re.search(r"[\w.-]+/[\w./-]+:[\w.-]+|docker|podman|apptainer|singularity", entry.value, re.IGNORECASE):
        low = entry.value.lower()
        entry.add("system.container", "apptainer" if "apptainer" in low or "singularity" in low else "docker")
        return True
    return False


def environment_kind(entry: Entry) -> bool:
    """conda or venv."""
    low = entry.value.lower()
    if "conda" in low:
        entry.add("python.environment_kind", "conda")
    elif "venv" in low:
        entry.add("python.environment_kind", "venv")
    return False
