"""What is to be brought and what came of it, as values; and the lines that a job needs to find it offline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal[
    "loads",  # it was looked at: it loads offline
    "unsettled",  # it is there and whole as far as was asked, but whether it loads offline cannot be told
    "refused",  # it is there, and does not load offline
    "damaged",  # files are not what they should be
    "no-build",  # there is nothing to bring for this machine
    "no-room",  # the disk is too full
    "missing",  # the Hub says that there is no such repository or revision
    "unreachable",  # the Hub did not answer, or not in time
]
_CODES: dict[State, int] = {
    "loads": 0, "unsettled": 3, "refused": 1, "damaged": 1, "no-build": 1, "no-room": 1, "missing": 2, "unreachable": 3,
}  # fmt: skip
_WORST = (2, 1, 3, 0)  # of exit codes, worst first


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take (seconds), and who is told of them."""

    hub: float = 20.0  # a question
    fetch: float = 3600.0  # all of the bytes of one kernel
    progress: Callable[[str], None] = lambda text: None


@dataclass(frozen=True, slots=True)
class Item:
    """One kernel and what came of it."""

    reference: str  # as asked for
    state: State
    text: str = ""  # why, where it is not "loads"
    repo: str = ""
    revision: str = ""  # the name under which it loads offline: a branch, or the commit
    commit: str = ""
    build: str = ""
    folder: str = ""  # of the build
    whole: bool = False  # the whole snapshot was brought
    size: int = 0  # bytes of what belongs to it
    fetched: int = 0  # bytes that were not there before
    files: int = 0
    needed_by: str = ""  # the kernel that loads this one in turn
    through_path: bool = False  # found through LOCAL_KERNELS only
    checks: tuple[str, ...] = ()  # what was looked at
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cargo:
    """The result of `kerneldoctor prefetch`."""

    items: tuple[Item, ...]
    cache: str  # the folder that was filled
    machine: str  # what it is for, in a line
    date: str  # ISO
    version: str  # of kerneldoctor

    @property
    def exit_code(self) -> int:
        """The worst of the items."""
        codes = {_CODES[item.state] for item in self.items}
        return next(code for code in _WORST if code in codes or code == 0)

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """What the job's environment must say, name and value; nothing where nothing was brought."""
        there = [item for item in self.items if item.state in ("loads", "unsettled")]
        if not there:
            return ()
        paths = [f"{item.repo}={_snapshot(item)}" for item in there if item.through_path]
        local = (("LOCAL_KERNELS", ":".join(paths)),) if paths else ()
        return (("HF_HUB_OFFLINE", "1"), ("KERNELS_CACHE", self.cache), *local)


def _snapshot(item: Item) -> str:
    return item.folder.removesuffix(f"/build/{item.build}")
