"""Lists the GPU code inside a compiled library, from the headers of its fat binaries. It never reads the code.

The layout is not published; it was checked against `cuobjdump --list-elf --list-ptx` on what nvcc 11.8 to 13.0 wrote
(torch 2.12.0+cu130, xformers 0.0.35, bitsandbytes 0.50.2, fa3-fwd 0.0.3), and the test-suite checks it against the
nvcc of the machine. A section holds fat binaries one behind the other; each is a header and then entries, each with
a header of its own that names the architecture even where the code behind it is compressed.
libtorch_cuda.so of torch 2.12.0 has 448 of them with 2,813 entries: 9 ms with a warm disk.
"""

from __future__ import annotations

import re
import struct
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from ..errors import ProbeError
from .elf import ElfFile

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
TIME_LIMIT = 1.0  # seconds; on a cold network disk the thousands of small reads would take the whole scan's time
_MAGIC = 0xBA55ED50
_ENTRY_HEADER = 48  # bytes of an entry's header that are of interest; it has 64 and more
_PTX, _CUBIN = 1, 2  # kinds of entries that a GPU can run; others are intermediate code of link-time optimisation
_SPECIFIC, _FAMILY = 0x100000, 0x200000  # flags: sm_90a, sm_100f
_PADDING_LIMIT = 4096  # bytes between two fat binaries


def read_architectures(elf: ElfFile) -> Counter[str]:
    """How many pieces of GPU code each architecture has ("8.0", "9.0a", "12.0+PTX"); empty without any.

    Raises ProbeError when the file is damaged, its layout is not known, or reading takes too long.
    """
    if not elf.sections:
        raise ProbeError(f"{elf.path} has no section headers")
    deadline = time.monotonic() + TIME_LIMIT
    found: Counter[str] = Counter()
    for name in SECTIONS:
        section = elf.sections.get(name)
        if section is not None:
            found.update(_walk(elf, section.offset, section.offset + section.size, deadline))
    return found


def _walk(elf: ElfFile, at: int, end: int, deadline: float) -> Iterator[str]:
    padding = 0
    while at + 16 <= end:
        magic, _, header, size = struct.unpack("<IHHQ", elf.read(at, 16))
        if magic != _MAGIC:
            padding += 8
            if padding > _PADDING_LIMIT:
                raise ProbeError(f"{elf.path}: its GPU code has a layout that is not known")
            at += 8
            continue
        if time.monotonic() > deadline:
            raise ProbeError(f"{elf.path}: reading the list of GPU code took more than {TIME_LIMIT:g} s")
        if at + header + size > end:
            raise ProbeError(f"{elf.path} is damaged: its GPU code does not fit into its section")
        padding = 0
        yield from _entries(elf, at + header, at + header + size)
        at += max(16, header + size)


def _entries(elf: ElfFile, at: int, end: int) -> Iterator[str]:
    while at + _ENTRY_HEADER <= end:
        kind, _, header, size, arch, flags = struct.unpack("<HHIQ12xI8xQ", elf.read(at, _ENTRY_HEADER))
        if header < _ENTRY_HEADER or at + header + size > end:
            raise ProbeError(f"{elf.path}: its GPU code has a layout that is not known")
        if kind in (_PTX, _CUBIN):
            suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
            yield f"{arch // 10}.{arch % 10}{suffix}" + ("+PTX" if kind == _PTX else "")
        at += header + size


def from_flag(flag: str) -> str | None:
    """An architecture as nvcc and `torch.cuda.get_arch_list` name it, in our notation.

    "sm_90a" is "9.0a", "compute_120" is "12.0+PTX"; what is no CUDA architecture ("gfx942") is None.
    """
    match = re.fullmatch(r"(sm|compute|lto)_(\d+)(\d)([af]?)", flag.strip())
    if match is None or match[1] == "lto":
        return None
    return f"{match[2]}.{match[3]}{match[4]}" + ("+PTX" if match[1] == "compute" else "")


def in_order(archs: Iterable[str]) -> tuple[str, ...]:
    """Sorted by capability, plain before specific, code before PTX."""
    return tuple(sorted(set(archs), key=_rank))


def _rank(arch: str) -> tuple[int, str, bool]:
    base = arch.removesuffix("+PTX")
    major, _, minor = base.rstrip("af").partition(".")
    return int(major) * 100 + int(minor), base, arch != base
