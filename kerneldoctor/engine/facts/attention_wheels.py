"""Which flash-attn wheel exists for this machine, and which packages accept the installed one; downloads nothing.

Rows come from the tables `flash_attn_wheels`, `flash_attn_community_wheels` and `flash_attn_gates`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ...archs import supports_gpu
from ...environment import Fact, absent, known, unknown
from ..case import Case, Row, derived
from ..conditions import in_range, parse_version
from .attention import minor
from .driver import gpu_capability, visible_nvidia_gpus

_RELEASES = "https://github.com/Dao-AILab/flash-attention/releases/download"
_NEEDED = ("system.os", "system.machine", "python.abi_tag", "torch.version", "torch.cuda")


@derived("flash_attn.best_wheel", str)
def best_wheel(case: Case) -> Fact[Any]:
    """File name of the newest official flash-attn wheel for this torch, CUDA, Python, C++ ABI, C library and GPUs.

    Absent where the table has none. GPUs that are unknown, or none at all, do not narrow the choice.
    """
    row = _official(case)
    return row if isinstance(row, Fact) else known(_file_name(case, row), str(row["source"]))


@derived("flash_attn.best_wheel_url", str)
def best_wheel_url(case: Case) -> Fact[Any]:
    """Where `flash_attn.best_wheel` is downloaded from."""
    row = _official(case)
    return row if isinstance(row, Fact) else known(f"{_RELEASES}/{row['tag']}/{_file_name(case, row)}", "table")


@derived("flash_attn.community_wheel", str)
def community_wheel(case: Case) -> Fact[Any]:
    """flash-attn version that an unofficial builder lists for this torch, CUDA, Python and platform.

    The list is a union over its files, so a file for exactly this combination is likely, not certain.
    """
    wanted = _target(case)
    if isinstance(wanted, Fact):
        return wanted
    for row in case.table("flash_attn_community_wheels"):
        if (
            row["os"] == wanted["os"]
            and row["machine"] == wanted["machine"]
            and wanted["torch"] in row["torch"]
            and minor(wanted["cuda"]) in row["cuda"]
            and wanted["python"] in row["python"]
        ):
            return known(str(row["version"]), str(row["source"]))
    return absent("not in the list of the unofficial builder")


def _target(case: Case) -> dict[str, str] | Fact[Any]:
    facts = {path: case.fact(path) for path in _NEEDED}
    if facts["python.abi_tag"].is_unknown:
        facts["python.abi_tag"] = _usual_tag(case)
    for path, fact in facts.items():
        if fact.is_unknown:
            return unknown(f"{path}: {fact.note}")
    if gone := next((path for path, fact in facts.items() if fact.is_absent), None):
        return absent(f"no wheel without {gone}")
    os, machine, python, torch, cuda = (str(fact.value) for fact in facts.values())
    parsed = parse_version(torch)
    if parsed is None or parsed.is_prerelease:
        return absent(f"no wheels are built for torch {torch}")
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(machine, machine)
    return {"os": os, "machine": machine, "python": python, "torch": minor(torch), "cuda": cuda}


def _usual_tag(case: Case) -> Fact[Any]:
    """The tag of the usual CPython of a version: of a pasted report nobody says more."""
    version, free = case.fact("python.version"), case.fact("python.free_threaded")
    parsed = parse_version(str(version.value)) if version.is_known else None
    if parsed is None:
        return case.fact("python.abi_tag") if version.is_known else version
    return known(f"cp{parsed.major}{parsed.minor}{'t' if free.value else ''}", version.note)


def _official(case: Case) -> Row | Fact[Any]:
    wanted = _target(case)
    if isinstance(wanted, Fact):
        return wanted
    abi = _abi(case)
    if abi is None:
        return unknown(f"torch.cxx11_abi: {case.fact('torch.cxx11_abi').note}")
    for row in case.table("flash_attn_wheels"):
        if (
            wanted["os"] == "linux"
            and wanted["torch"] in row["torch"]
            and wanted["cuda"].partition(".")[0] == row["cuda_major"]
            and wanted["python"] in row["python"]
            and wanted["machine"] in row["machine"]
            and abi in row["abi"]
            and _runs_on_libc(case, str(row["glibc"]))
            and _runs_on_gpus(case, tuple(row["archs"]))
        ):
            return row
    return absent("no official wheel fits this torch, CUDA, Python, C++ ABI, C library and GPU")


def _abi(case: Case) -> str | None:
    abi = case.fact("torch.cxx11_abi")
    if abi.is_known:
        return "TRUE" if abi.value else "FALSE"
    usual = usual_abi(str(case.fact("torch.version").value), case.table("torch_abi"))
    return None if usual is None else "TRUE" if usual[0] else "FALSE"


def usual_abi(torch: str, rows: Iterable[Row]) -> tuple[bool, str] | None:
    """Whether the wheels of a torch have the new C++ string ABI, with the source (table torch_abi); None: not known."""
    label = torch.partition("+")[2].lower()
    for row in rows:
        if in_range(torch, str(row["versions"])) and (not row["labels"] or label in row["labels"]):
            return row["abi"] == "new", str(row["source"])
    return None


def _runs_on_libc(case: Case, needed: str) -> bool:
    libc, version = case.fact("system.libc"), case.fact("system.libc_version")
    if libc.is_known and libc.value != "glibc":
        return False
    has = str(version.value) if version.is_known else _glibc_of(case)
    return not has or in_range(has, f">={needed}") is not False


def _glibc_of(case: Case) -> str:
    """The C library that the distribution came with (table distribution_glibc), or ""."""
    name = str(case.fact("system.distribution").value or "").lower()
    number = re.search(r"\d{1,4}(?:\.\d{1,2})?", name)
    for row in case.table("distribution_glibc") if number else ():
        begins = any(name.startswith(known_name.lower()) for known_name in row["names"])
        if begins and number and f"{number[0]}.".startswith(f"{row['release']}."):
            return str(row["glibc"])
    return ""


def _runs_on_gpus(case: Case, archs: tuple[str, ...]) -> bool:
    capabilities = [gpu_capability(gpu, case) for gpu in visible_nvidia_gpus(case).value or ()]
    # Jetson has a torch of its own, and code for 8.0 was reported to fail on Orin.
    if "tegra" in str(case.fact("system.kernel").value) or any(c.value == "8.7" for c in capabilities):
        return False
    return all(supports_gpu(archs, str(c.value)) is not False for c in capabilities if c.is_known)


def _file_name(case: Case, row: Row) -> str:
    wanted = _target(case)
    if isinstance(wanted, Fact):  # _official asked for it first, so this is only for the type checker
        return ""
    label = f"{row['label_cuda']}torch{wanted['torch']}cxx11abi{_abi(case)}"
    return f"flash_attn-{row['version']}+{label}-{wanted['python']}-{wanted['python']}-linux_{wanted['machine']}.whl"


@derived("xformers.flash_attn_range", str)
def xformers_range(case: Case) -> Fact[Any]:
    """The flash-attn versions that the installed xformers accepts at import (table flash_attn_gates)."""
    return _gate(case, "xformers")


@derived("xformers.flash_attn_ok", bool)
def xformers_accepts(case: Case) -> Fact[Any]:
    """Whether the installed xformers accepts the installed flash-attn; it raises at import otherwise."""
    return _accepted(case, "xformers.flash_attn_range")


@derived("transformer_engine.flash_attn_range", str)
def transformer_engine_range(case: Case) -> Fact[Any]:
    """The flash-attn versions that the installed Transformer Engine uses (table flash_attn_gates)."""
    return _gate(case, "transformer-engine")


@derived("transformer_engine.flash_attn_ok", bool)
def transformer_engine_accepts(case: Case) -> Fact[Any]:
    """Whether the installed Transformer Engine accepts the installed flash-attn."""
    return _accepted(case, "transformer_engine.flash_attn_range")


def _gate(case: Case, package: str) -> Fact[Any]:
    version = case.fact(f"packages.{package}.version")
    if not version.is_known:
        return version
    for row in case.table("flash_attn_gates"):
        if row["package"] == package and in_range(version.value, str(row["versions"])):
            return known(str(row["flash_attn"]), str(row["source"]))
    return unknown(f"the range of {package} {version.value} is not in the table flash_attn_gates")


def _accepted(case: Case, range_path: str) -> Fact[Any]:
    accepted, version = case.fact(range_path), case.fact("flash_attn.version")
    if not version.is_known or not accepted.is_known:
        return version if not version.is_known else accepted
    answer = in_range(version.value, str(accepted.value))
    if answer is None:
        return unknown(f"{version.value} is no version")
    return known(answer, accepted.note)
