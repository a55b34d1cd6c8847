"""Compiled extensions against the torch, Python and C libraries they find here; reads no file and no machine.

A missing answer is never "fine": what was not looked at stays unknown, what an extension does not need is fine by name.
"""

from __future__ import annotations

import re
from typing import Any

from ...environment import Extension, Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import major_of, parse_version

_CUDART = re.compile(r"libcudart\.so\.(\d+)")


@derived("extension.public_version", str)
def public_version(case: Case) -> Fact[Any]:
    """The version of the extension's distribution without its local label: what an index knows it by."""
    version = case.fact("extension.version")
    return known(str(version.value).partition("+")[0], version.note) if version.is_known else version


_FAULTS = {
    "empty": "it is empty",
    "truncated": "it was cut off",
    "not_elf": "it is another kind of file",
    "wrong_machine": "it is for another kind of machine",
    "dangling_link": "it is a link whose target is gone",
    "no_file": "it is no regular file",
}


@derived("extension.fault", str)
def fault(case: Case) -> Fact[Any]:
    """`extension.problem` as words of a sentence."""
    problem = case.fact("extension.problem")
    return known(_FAULTS.get(str(problem.value), str(problem.value)), problem.note) if problem.is_known else problem


@derived("extension.torch_symbols_ok", bool)
def torch_symbols_ok(case: Case) -> Fact[Any]:
    """Whether every C++ symbol that the extension takes from torch exists in the torch that is installed."""
    missing = case.fact("extension.missing_torch_symbols")
    if not missing.is_known:
        return missing
    return known(not missing.value, missing.note)


@derived("extension.cxx11_abi_matches", bool)
def cxx11_abi_matches(case: Case) -> Fact[Any]:
    """Whether extension and torch were built with the same C++ string ABI (old `Ss`, new `__cxx11`).

    True where every symbol resolves, whatever the ABI of either.
    https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html
    """
    missing = case.fact("extension.missing_torch_symbols")
    if missing.is_known and not missing.value:
        return known(True, "every torch symbol resolves")
    return _compared(case, "extension.cxx11_abi", "torch.cxx11_abi")


@derived("extension.cudart_major_ok", bool)
def cudart_major_ok(case: Case) -> Fact[Any]:
    """Whether the CUDA runtime that the extension links is loaded by torch or found on the library path.

    Each CUDA major has its own libcudart.so.N, and torch's wheels bring one. A distribution that carries a file per
    CUDA (bitsandbytes) picks the one that fits, so a fitting sibling makes the others fine.
    """
    needed, cuda = case.fact("extension.cudart_major"), case.fact("torch.cuda")
    if needed.is_absent:
        return known(True, "links no libcudart")
    if needed.is_unknown or cuda.is_unknown:
        return needed if needed.is_unknown else cuda
    if cuda.is_absent:
        return absent("torch brings no CUDA runtime")
    if major_of(needed.value) is None or major_of(cuda.value) is None:
        return unknown(f"{needed.value!r} or {cuda.value!r} is no CUDA release")
    if _major(cuda.value) == needed.value:
        return known(True, f"libcudart.so.{needed.value} comes with torch")
    if any(item.cudart_major.value == _major(cuda.value) for item in _siblings(case)):
        return known(True, "another file of the same distribution fits and is chosen at run time")
    elsewhere = case.fact("toolkit.cudart")
    if elsewhere.is_unknown:
        return unknown(f"a libcudart.so.{needed.value} outside of torch may be on the library path: {elsewhere.note}")
    found = _CUDART.search(elsewhere.value or "")
    if found and found[1] == needed.value:
        return known(True, str(elsewhere.value))
    return known(False, f"libcudart.so.{needed.value} is wanted, torch brings libcudart.so.{_major(cuda.value)}")


@derived("extension.glibc_ok", bool)
def glibc_ok(case: Case) -> Fact[Any]:
    """Whether the C library is at least as new as the extension needs. False on musl, which has no glibc versions."""
    libc = case.fact("system.libc")
    if libc.is_known and libc.value != "glibc" and case.fact("extension.glibc_needed").is_known:
        return known(False, f"the C library is {libc.value}")
    return _at_least(case, "extension.glibc_needed", "system.libc_version")


@derived("extension.glibcxx_ok", bool)
def glibcxx_ok(case: Case) -> Fact[Any]:
    """Whether the libstdc++ in force offers the newest GLIBCXX version that the extension needs."""
    return _at_least(case, "extension.glibcxx_needed", "system.glibcxx")


@derived("extension.abi_tag_ok", bool)
def abi_tag_ok(case: Case) -> Fact[Any]:
    """Whether this Python can load a file with the extension's tag.

    A version tag must be the interpreter's own; `abi3` loads everywhere but on free-threaded builds before 3.15.
    https://docs.python.org/3/howto/free-threading-extensions.html#limited-c-api-and-stable-abi
    """
    tag, python = case.fact("extension.abi_tag"), case.fact("python.abi_tag")
    if tag.is_absent:
        return known(True, "the file name carries no tag")
    if tag.is_unknown or python.is_unknown:
        return tag if tag.is_unknown else python
    if python.is_absent:
        return absent("no CPython")
    if any(item.abi_tag.value == python.value for item in _siblings(case) if item.module == _module(case)):
        return known(True, "a file for this Python lies beside it")
    if tag.value == "abi3":
        return known(not str(python.value).endswith("t"), f"abi3 on {python.value}")
    return known(tag.value == python.value, f"built for {tag.value}, running {python.value}")


def _module(case: Case) -> Any:
    return case.fact("extension.module").value


def _siblings(case: Case) -> list[Extension]:
    """Every extension of the same distribution, the one in question included."""
    own = case.fact("extension.distribution")
    listed: tuple[Extension, ...] = case.fact("extensions").value or ()
    return [item for item in listed if own.is_known and item.distribution.value == own.value]


def _at_least(case: Case, needed_path: str, offered_path: str) -> Fact[Any]:
    needed, offered = case.fact(needed_path), case.fact(offered_path)
    if needed.is_absent:
        return known(True, "needs no particular version")
    if needed.is_unknown or offered.is_unknown:
        return needed if needed.is_unknown else offered
    if offered.is_absent:
        return absent(offered.note)
    wanted, there = parse_version(str(needed.value)), parse_version(str(offered.value))
    if wanted is None or there is None:
        return unknown(f"cannot compare {needed.value} with {offered.value}")
    return known(there >= wanted, f"needs {needed.value}, finds {offered.value}")


def _compared(case: Case, one_path: str, other_path: str) -> Fact[Any]:
    one, other = case.fact(one_path), case.fact(other_path)
    for fact in (one, other):
        if not fact.is_known:
            return fact
    return known(one.value == other.value, f"{one.note}; {other.note}")


def _major(version: Any) -> str:
    return str(version).partition(".")[0]
