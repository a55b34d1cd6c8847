"""Knows which symbols an extension takes from torch's C++ libraries, and looks whether those define them.

Whether a missing one matters is for the rules.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from ..errors import ProbeError
from ..host import Host
from .elf import ElfFile

# Itanium mangling: special tables (TV, TI, …), guards, qualifiers of the object, then a namespace of torch.
_CPLUSPLUS = re.compile(r"_Z(?:T[VTISWH]|GV|GR|T[hv]n?\d+_(?:n?\d+_)?)?N[rVK]*[RO]?(?:3c10|4c10d|2at|5torch|6caffe2)")
# THP…: torch's Python bindings. aoti_torch_ and torch_: the stable C ABI (torch/csrc/stable/c/shim.h).
_PLAIN = re.compile(r"_Z\d+THP[A-Z]|THP[A-Z]|aoti_torch_|torch_[a-z]")
_NEW_STRING = "NSt7__cxx1112basic_string"
# std::string of the old ABI. The same two letters in a plain name do not count: those follow their length, which is
# any number but the ones in C2 (a constructor), S2_ (a repetition), T0_ (a parameter) and Li4E (a value).
_OLD_STRING = "Ss"
_LENGTH = re.compile(r"[CDST]\d+|L[a-z]n?\d+E|(\d+)")

LIBRARY = re.compile(r"lib(?:c10|torch)(?:_(?!global_deps)[a-z0-9_]+)?\.so")
CORE = ("libc10.so", "libtorch_cpu.so")  # without them no answer is possible
# Most symbols are found in the first ones, and the rest is then not asked.
_ORDER = ("libtorch_cpu.so", "libc10.so", "libtorch_python.so", "libtorch_cuda.so", "libc10_cuda.so")

# One function of each library whose signature holds a std::string, as (new ABI, old ABI).
ABI_MARKERS = (
    (
        "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "_ZN3c105ErrorC2ENS_14SourceLocationESs",
    ),
    (
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
    ),
)


def is_torch_symbol(name: str) -> bool:
    """Whether a mangled name belongs to torch."""
    return bool(_CPLUSPLUS.match(name) or _PLAIN.match(name))


def uses_new_string(symbols: Iterable[str]) -> bool | None:
    """The C++ ABI that mangled names speak of: True for the one of GCC 5, None when none has a std::string."""
    old = False
    for name in symbols:
        if _NEW_STRING in name:
            return True
        old = old or _OLD_STRING in _without_identifiers(name)
    return False if old else None


def _without_identifiers(name: str) -> str:
    """A mangled name without the plain names in it, each of which follows its own length."""
    kept, at = [], 0
    while match := _LENGTH.search(name, at):
        kept.append(name[at : match.start()])
        at = match.end() + (int(match[1][:5]) if match[1] else 0)
    return "|".join([*kept, name[at:]])


def libraries(host: Host, torch: str) -> tuple[str, ...]:
    """Torch's C++ libraries below its package folder. Raises ProbeError when the core ones are not there."""
    folder = posixpath.join(torch, "lib")
    names = [name for name in host.listdir(folder) if LIBRARY.fullmatch(name)]
    for name in CORE:
        if name not in names:
            raise ProbeError(f"no {name} in {folder}")
    names.sort(key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return tuple(posixpath.join(folder, name) for name in names)


def new_abi(libc10: str) -> bool | None:
    """Whether a libc10 has the new C++ ABI; None when it exports none of the functions that tell. Raises ProbeError."""
    with ElfFile(libc10) as elf:
        if elf.problem(None):
            raise ProbeError(f"{libc10} is {elf.problem(None)}")
        for new, old in ABI_MARKERS:
            found = elf.exports(new), elf.exports(old)
            if found[0] != found[1]:
                return found[0]
    return None


def missing_symbols(symbols: Sequence[str], torch_libraries: Sequence[str], others: Sequence[str]) -> list[str]:
    """Symbols that none of the libraries defines. Raises ProbeError when a library of torch cannot be read.

    `others` are libraries that come with the extension; what is wrong with them is passed over.
    """
    with ExitStack() as stack:
        for path in torch_libraries:
            if not symbols:
                break
            elf = stack.enter_context(ElfFile(path))
            if elf.problem(None):
                raise ProbeError(f"{path} is {elf.problem(None)}")
            symbols = [name for name in symbols if not elf.exports(name)]
        for path in others if symbols else ():
            symbols = _not_in_sibling(symbols, path)
    return list(symbols)


def _not_in_sibling(symbols: Sequence[str], path: str) -> Sequence[str]:
    try:
        with ElfFile(path) as elf:
            return symbols if elf.problem(None) else [name for name in symbols if not elf.exports(name)]
    except ProbeError:
        return symbols
