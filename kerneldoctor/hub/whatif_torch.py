"""The torch of a what-if: how its releases and backends are written, and the facts that follow from them.

Every fact has the option as its source; which wheels exist is what the tables say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from packaging.version import Version

from ..engine.case import Row, Tables
from ..engine.conditions import in_range
from ..environment import Fact, Torch, absent, known, unknown
from ..errors import UsageError

_CUDA = re.compile(r"(?:cu|cuda)? ?(\d{2})(?:\.?(\d)(?:\.\d{1,3})?)?", re.ASCII)
# Wheels have the new C++ ABI since 2.7, that of cu126 since 2.6: https://github.com/pytorch/pytorch/issues/152790
_NEW_ABI = ">=2.7.dev0"


def backend_of(text: str, row: Row | None) -> tuple[str, str]:
    """ "cu128", "12.8", "cpu", "rocm6.4", "xpu" or "xpu2025.3" as backend and release. Raises UsageError.

    "13" is the CUDA 13 that torch has wheels for: that of PyPI, else the newest.
    """
    text = text.strip().lower()
    if text in ("cpu", "none"):
        return "cpu", ""
    if found := re.fullmatch(r"rocm(\d{1,2}\.\d{1,2})", text, re.ASCII):
        return "rocm", found[1]
    if found := re.fullmatch(r"xpu(?:(\d{4})\.(\d))?", text, re.ASCII):  # of a build of 2025.3 torch says 20250302
        return "xpu", f"{found[1]}0{found[2]}00" if found[1] else ""
    if found := _CUDA.fullmatch(text):
        minor = found[2] or _cuda_minor(found[1], row)
        if minor:
            return "cuda", f"{found[1]}.{minor}"
    raise UsageError(f"--cuda {text[:40]!r}: write a release as in 12.8 or cu128, or cpu, rocm6.4, xpu2025.3")


def _cuda_minor(major: str, row: Row | None) -> str:
    offered = [f"{wheel[2:-1]}.{wheel[-1]}" for wheel in row["wheels"]] if row is not None else []
    fitting = [cuda.partition(".")[2] for cuda in offered if cuda.startswith(f"{major}.")]
    usual = str(row["pypi_cuda"]).partition(".") if row is not None else ("", "", "")
    return usual[2] if usual[0] == major else max(fitting, default="")


def newest_minor(tables: Tables, major: str) -> str:
    """The newest minor release that is known of a major one. Raises UsageError where none is."""
    releases = [Version(row["torch"]) for row in tables.get("torch_releases", ())]
    newest = max((release for release in releases if str(release.major) == major), default=None)
    if newest is None:
        raise UsageError(f"--torch {major}: no torch {major} is known here; write a release as in 2.13")
    return f"{newest.major}.{newest.minor}"


def torch_facts(source: str, version: str, backend: str, number: str, minor: str) -> Torch:
    """A torch from pip of that version, built for that backend and its release ("" where none is named)."""
    other = absent(f"what if: {source}: torch is built for {backend}")
    stated = what_if(source, number) if number else unknown(f"what if: {source} names no release")
    abi = what_if(source, in_range(minor, _NEW_ABI) is True or (minor, number) == ("2.6", "12.6"))
    none = absent(f"what if: {source}")
    return Torch(
        version=what_if(source, version),
        backend=what_if(source, backend),
        cuda=stated if backend == "cuda" else other,
        hip=stated if backend == "rocm" else other,
        xpu=stated if backend == "xpu" else other,
        cxx11_abi=abi,
        debug=what_if(source, False),
        installer=what_if(source, "pip"),
        package_missing=what_if(source, False),
        metadata_missing=what_if(source, False),
        source_shadowed=what_if(source, False),
        duplicate_companions=none,
        missing_companions=none,
        unusable_libraries=none,
    )


def beyond_tables(name: str, release: str, known_here: Sequence[str]) -> str:
    """What to say of a release that no table holds."""
    versions = sorted(map(Version, known_here))
    if not versions:
        return f"{name} {release} is not known here: taken as it stands"
    if Version(release) < versions[0]:
        return (
            f"{name} {release} is older than what is known here ({versions[0]} to {versions[-1]}): taken as it stands"
        )
    return f"{name} {release} is no release that is known here (the newest is {versions[-1]}): taken as it stands"


def release_row(tables: Tables, minor: str) -> Row | None:
    """The row of torch_releases for a minor release such as "2.13", or None."""
    rows = tables.get("torch_releases", ())
    return next((row for row in rows if row["torch"].split(".")[:2] == minor.split(".")), None)


def newest_patch(row: Row | None) -> str:
    """The patch number of the newest release of a minor one."""
    return row["torch"].split(".")[2] if row is not None else "0"


def local_label(backend: str, version: str) -> str:
    """What a wheel for that backend has behind the + of its version."""
    if backend == "cuda":
        return f"cu{version.replace('.', '')}" if version else ""
    return f"rocm{version}" if backend == "rocm" else backend


def what_if(option: str, value: Any) -> Fact[Any]:
    """A fact that an option states."""
    return known(value, f"what if: {option}")
