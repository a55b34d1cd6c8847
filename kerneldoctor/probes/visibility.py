"""Reads CUDA_VISIBLE_DEVICES as the CUDA runtime reads it. It only says what a CUDA program would see.

The rules, from https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html and from
PyTorch's parser, which was compared with driver 525.60 (https://github.com/pytorch/pytorch/pull/92315):
not set means all GPUs, empty means none; entries are indices or UUIDs (a prefix will do, if it fits one GPU only);
reading stops at the first invalid entry and what precedes it counts; an index is read like strtoul, so that "1gpu2"
is 1; a repeated entry leaves no GPU at all; UUIDs count only in a list that begins with one.
MIG: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (one compute instance for each GPU instance since
driver 570, one for the whole process before).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..values import dataclass

_STRTOUL = re.compile(r"[ \t\n\v\f\r]*([+-]?)([0-9]+)")  # ASCII digits only, as in C
_HIDING = ("", "-1", "NoDevFiles")  # customary ways to hide every GPU on purpose


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One compute instance of a GPU in MIG mode."""

    uuid: str
    gpu_instance: int


@dataclass(frozen=True, slots=True)
class CudaGpu:
    """What the reading needs to know of one NVIDIA GPU, in NVML's order. An unknown UUID is ""."""

    uuid: str = ""
    name: str = ""
    mig: bool = False
    mig_devices: tuple[MigDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """What CUDA_VISIBLE_DEVICES leaves visible.

    `count` and `visible` (places in the list of GPUs) are None where they cannot be told; `doubt` says why.
    """

    count: int | None
    visible: frozenset[int] | None
    problem: str = ""  # see Visibility.problem
    ignored: str = ""
    uses_uuid: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _Entries:
    """The list up to where reading stops."""

    indices: tuple[int, ...] = ()
    uuids: tuple[str, ...] = ()
    problem: str = ""
    ignored: str = ""


def read_visible_devices(
    raw: str | None, gpus: Sequence[CudaGpu] | None, driver_major: int | None = None, by_pci_bus: bool = False
) -> Selection:
    """What a CUDA program sees for the variable's value (None: not set) on a machine with these GPUs (None: unknown).

    `driver_major` decides between the MIG rules; `by_pci_bus` says that CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """
    if raw is None:
        return _everything(gpus, driver_major)
    if raw.strip() in _HIDING:
        return Selection(0, frozenset(), "empty")
    if gpus and all(g.mig and not g.mig_devices for g in gpus):  # nothing is there that an entry could mean
        return Selection(0, frozenset(), uses_uuid=raw.startswith(("GPU-", "MIG-")))
    if raw.startswith(("GPU-", "MIG-")):
        return _by_uuid(_read_uuids(raw.split(",")), gpus, driver_major)
    return _by_index(_read_indices(raw.split(",")), gpus, by_pci_bus)


def _everything(gpus: Sequence[CudaGpu] | None, driver_major: int | None) -> Selection:
    if gpus is None:
        return Selection(None, None, doubt="the GPUs are not known")
    with_mig = [g for g in gpus if g.mig_devices]
    plain = sum(not g.mig for g in gpus)
    visible = frozenset(i for i, g in enumerate(gpus) if not g.mig or g.mig_devices)
    if not with_mig:
        return Selection(plain, visible)
    if driver_major is None:
        return Selection(None, None, doubt="how many MIG devices CUDA lists depends on the driver, which is not known")
    if driver_major >= 570:
        return Selection(plain + sum(len({d.gpu_instance for d in g.mig_devices}) for g in with_mig), visible)
    return Selection(1, frozenset({gpus.index(with_mig[0])}))


def _read_indices(entries: Sequence[str]) -> _Entries:
    indices: list[int] = []
    trailing = ""
    for place, entry in enumerate(entries):
        if place and _ends_here(entries[place:]):
            break
        match = _STRTOUL.match(entry)
        if match is None or (match[1] == "-" and int(match[2]) > 0):
            problem = "mig_mixed" if entry.strip().startswith("MIG-") else "invalid_entry"
            return _Entries(tuple(indices), (), problem, ",".join(entries[place:]))
        if int(match[2]) in indices:
            return _Entries((), (), "duplicate", ",".join(entries[place:]))
        indices.append(int(match[2]))
        trailing = trailing or entry[match.end() :].strip()
    return _Entries(tuple(indices), (), "trailing_text" if trailing else "", trailing)


def _read_uuids(entries: Sequence[str]) -> _Entries:
    kind = entries[0][:4]
    uuids: list[str] = []
    for place, entry in enumerate(entries):
        if place and _ends_here(entries[place:]):
            break
        if entry in uuids:
            return _Entries((), (), "duplicate", ",".join(entries[place:]))
        if not entry.startswith(kind):
            problem = "mig_mixed" if "MIG-" in (kind, entry.strip()[:4]) else "invalid_entry"
            return _Entries((), tuple(uuids), problem, ",".join(entries[place:]))
        uuids.append(entry)
    return _Entries((), tuple(uuids))


def _ends_here(rest: Sequence[str]) -> bool:
    """Whether only commas follow ("0,"): reading stops there, and nothing that was meant is lost."""
    return not any(entry.strip() for entry in rest)


def _by_index(read: _Entries, gpus: Sequence[CudaGpu] | None, by_pci_bus: bool) -> Selection:
    if not read.indices:
        return Selection(0, frozenset(), read.problem, read.ignored)
    if gpus is None:
        return Selection(None, None, read.problem, read.ignored, doubt="the GPUs are not known")
    indices, problem, ignored = read.indices, read.problem, read.ignored
    outside = next((place for place, index in enumerate(indices) if index >= len(gpus)), None)
    if outside is not None:
        problem, ignored = "out_of_range", ",".join(str(i) for i in indices[outside:])
        indices = indices[:outside]
    if indices and any(g.mig for g in gpus):
        return Selection(None, None, problem, ignored, doubt="what an index means in MIG mode is not documented")
    # CUDA numbers the fastest GPU first unless told otherwise, NVML by PCI address: they agree for sure only when
    # all are of one model.
    one_order = by_pci_bus or len({g.name for g in gpus}) <= 1 or len(indices) in (0, len(gpus))
    return Selection(
        len(indices),
        frozenset(indices) if one_order else None,
        problem,
        ignored,
        doubt="" if one_order else "CUDA orders GPUs of several models by speed (CUDA_DEVICE_ORDER is not PCI_BUS_ID)",
    )


def _by_uuid(read: _Entries, gpus: Sequence[CudaGpu] | None, driver_major: int | None) -> Selection:
    if not read.uuids:
        return Selection(0, frozenset(), read.problem, read.ignored, uses_uuid=True)
    if gpus is None or any(not g.uuid for g in gpus):
        return Selection(None, None, read.problem, read.ignored, True, "the UUIDs of the GPUs are not known")
    if read.problem == "mig_mixed" and (driver_major or 570) >= 570:
        return Selection(None, None, read.problem, read.ignored, True, "a list of GPU and MIG UUIDs is not documented")
    if read.uuids[0].startswith("MIG-"):
        return _by_mig(read, gpus, driver_major)
    chosen: list[int] = []
    for place, uuid in enumerate(read.uuids):
        matches = [i for i, g in enumerate(gpus) if g.uuid.startswith(uuid)]
        if len(matches) != 1:
            return _chosen_gpus(chosen, gpus, "invalid_entry", ",".join(read.uuids[place:]))
        if matches[0] in chosen:
            return Selection(0, frozenset(), "duplicate", ",".join(read.uuids[place:]), True)
        chosen += matches
    return _chosen_gpus(chosen, gpus, read.problem, read.ignored)


def _chosen_gpus(chosen: Sequence[int], gpus: Sequence[CudaGpu], problem: str, ignored: str) -> Selection:
    if any(gpus[i].mig for i in chosen):
        doubt = "what the UUID of a whole GPU means in MIG mode is not documented"
        return Selection(None, frozenset(chosen), problem, ignored, True, doubt)
    return Selection(len(chosen), frozenset(chosen), problem, ignored, True)


def _by_mig(read: _Entries, gpus: Sequence[CudaGpu], driver_major: int | None) -> Selection:
    if any("/" in uuid for uuid in read.uuids):  # MIG-GPU-<uuid>/<instance>/<instance>, of drivers before 470
        return Selection(None, None, read.problem, read.ignored, True, "a MIG name of the old form")
    every = [(place, device) for place, gpu in enumerate(gpus) for device in gpu.mig_devices]
    chosen: list[tuple[int, MigDevice]] = []
    problem, ignored = read.problem, read.ignored
    for place, uuid in enumerate(read.uuids):
        matches = [pair for pair in every if pair[1].uuid.startswith(uuid)]
        if len(matches) != 1:
            problem, ignored = "invalid_entry", ",".join(read.uuids[place:])
            break
        chosen += matches
    if len(chosen) > 1 and driver_major is None:
        return Selection(None, None, problem, ignored, True, "the driver, which decides the MIG rules, is not known")
    if driver_major is not None and driver_major < 570:
        chosen = chosen[:1]
    instances = {(place, device.gpu_instance) for place, device in chosen}
    return Selection(len(instances), frozenset(place for place, _ in chosen), problem, ignored, True)
