"""How pip gets the installed torch again, and what is broken of it. Pure functions over facts."""

from __future__ import annotations

import re

from packaging.version import Version

from ...environment import Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import parse_version

_INDEX = "https://download.pytorch.org/whl"
# Labels of the wheels on PyTorch's own index; each has an index of its own: https://pytorch.org/get-started/previous-versions/
_LABEL = re.compile(r"cu\d{2,3}|rocm\d+(?:\.\d+)+|cpu|xpu")


@derived("torch.broken_libraries", tuple[str, ...])
def broken_libraries(case: Case) -> Fact[tuple[str, ...]]:
    """Torch's own libraries that are missing or not whole, "libtorch_cuda.so (missing)". Absent where all are whole."""
    if case.fact("deep.torch_imports").value is True:
        return absent("torch imports")
    found = case.fact("torch.unusable_libraries")
    if not found.is_known:
        return found
    return found if found.value else absent(found.note)


@derived("torch.pip_arguments", str)
def pip_arguments(case: Case) -> Fact[str]:
    """What follows `pip install` to get the installed torch: its version and, for a labelled wheel, the index.

    Absent for a torch that no index is known to have: a build of one's own or a vendor's, or one of conda.
    """
    version = case.fact("torch.version")
    if not version.is_known:
        return version
    if case.fact("torch.installer").value == "conda":
        return absent("torch was installed by conda")
    parsed = _as_listed(case) or parse_version(str(version.value))
    if parsed is None:
        return unknown(f"{version.value!r} is no version")
    if parsed.is_prerelease and not parsed.is_devrelease:
        return absent(f"torch {version.value} is on no index that is known here")
    return _from_index(parsed, version.note)


def _as_listed(case: Case) -> Version | None:
    """The version that the metadata tells: a wheel of PyPI has no label there, though torch itself names its CUDA."""
    said, listed = (parse_version(str(case.fact(path).value)) for path in ("torch.version", "packages.torch.version"))
    if said is None or listed is None or said.public != listed.public:
        return None
    return listed if listed.local or not said.local or said.local == _label_on_pypi(case, said) else None


def _label_on_pypi(case: Case, version: Version) -> str:
    """How torch names itself in the wheel of PyPI for this system, "cu130" or "cpu" (torch_releases)."""
    if case.fact("system.os").value == "windows":
        return "cpu"
    minor = [str(version.major), str(version.minor)]
    row = next((row for row in case.table("torch_releases") if row["torch"].split(".")[:2] == minor), None)
    if row is None:
        return ""
    cpu = case.fact("system.machine").value == "aarch64" and row["pypi_aarch64"] == "cpu"
    return "cpu" if cpu else "cu" + str(row["pypi_cuda"]).replace(".", "")


def _from_index(version: Version, source: str) -> Fact[str]:
    nightly = version.is_devrelease
    pin = f'{"--pre " if nightly else ""}"torch=={version}"'
    if version.local and _LABEL.fullmatch(version.local):
        return known(f"{pin} --index-url {_INDEX}/{'nightly/' if nightly else ''}{version.local}", source)
    if version.local or nightly:
        return absent(f"torch {version} is on no index that is known here")
    return known(pin, source)
