"""Brings one kernel into a cache: how much it is, whether there is room, the bytes, and whether they are right."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..engine.case import Row
from ..errors import HubError, UndeterminedError
from ..hub.snapshot import SnapshotAddress, fetch_snapshot, file_sizes, missing_bytes
from ..smoke.digest import digests_of
from ..smoke.precheck import check_build
from .model import Item, Patience

SPARE = 64 * 2**20  # bytes that stay free


@dataclass(frozen=True, slots=True)
class Order:
    """One build of one commit, and what must be true of it."""

    item: Item  # reference, repo, revision, commit, build
    cache: str
    release: Row  # what the kernels release in question does
    digests: Mapping[str, str]  # of a lock: file to "sha256:…"; empty where none is demanded


def bring(order: Order, patience: Patience) -> tuple[Item, tuple[str, ...]]:
    """What came of it, and the kernels that it loads in turn."""
    item = order.item
    address = SnapshotAddress(item.repo, item.commit, item.revision, order.cache, "" if item.whole else item.build)
    try:
        sizes = file_sizes(address, patience.hub)
        item = replace(item, size=sum(sizes.values()), files=len(sizes), fetched=missing_bytes(address, sizes))
        room = free_bytes(order.cache)
        if item.fetched and room < item.fetched + SPARE:
            text = f"{_mib(item.fetched)} are to be fetched, {_mib(room)} are free in {order.cache}"
            return replace(item, state="no-room", text=text), ()
        snapshot = fetch_snapshot(address, patience.fetch, _telling(item, patience))
    except (HubError, UndeterminedError) as error:
        return replace(item, state="unreachable", text=f"{error}; what has arrived is kept"), ()
    return _checked(order, replace(item, folder=str(snapshot / "build" / item.build)))


def free_bytes(folder: str) -> int:
    """What is free where a folder is, or will be."""
    path = Path(folder).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def _checked(order: Order, item: Item) -> tuple[Item, tuple[str, ...]]:
    folder = Path(item.folder)
    checked = check_build(folder, order.release)
    if checked.refusals:
        return replace(item, state="damaged", text="; ".join(f"{r.why} ({r.remedy})" for r in checked.refusals)), ()
    differing = sorted(name for name, found in _locked_pairs(order, folder) if found != order.digests.get(name))
    if differing:
        more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
        text = f"{differing[0]}{more} differ from what the lock recorded"
        return replace(item, state="damaged", text=text), ()
    against = "metadata.json" if checked.metadata is not None and checked.metadata.digest is not None else "the Hub"
    checks = [f"{_count(folder)} files, against {against}"]
    checks += ["the lock's digests"] if order.digests else []
    needs = checked.metadata.kernel_depends if checked.metadata is not None else ()
    return replace(item, state="unsettled", checks=tuple(checks), notes=checked.notes), needs


def _locked_pairs(order: Order, folder: Path) -> list[tuple[str, str]]:
    if not order.digests:
        return []
    found = digests_of(folder)
    return [(name, found.get(name, "")) for name in {*found, *order.digests}]


def _count(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def _telling(item: Item, patience: Patience) -> Callable[[int], None]:
    start = time.monotonic()

    def tell(size: int) -> None:
        seconds = time.monotonic() - start
        there = f"{_mib(size)} in the cache after {seconds:.0f} s"
        patience.progress(f"fetching {item.repo}: {there}, {_mib(item.fetched)} to fetch")

    return tell


def _mib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
