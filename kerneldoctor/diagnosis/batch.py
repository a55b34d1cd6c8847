"""Many reports on all cores, in the order asked for: no bad file and no dead process stops the rest."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import read_file
from ..values import dataclass
from .answer import Diagnosis, diagnose_text, knowledge

LIMIT = 256 * 1024 * 1024  # bytes of one report
_TOGETHER = 8  # reports that are handed to a process at once
_FEW = 24  # reports for which a second process does not pay
Render = Callable[[Diagnosis], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file: a result, or the reason that there is none."""

    path: str
    result: Any
    error: str = ""


def reports_in(path: str) -> list[str]:
    """What stands below a folder by name, pipes and broken links too; hidden ones and links are left out."""
    found: list[str] = []
    for root, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        places = (Path(root) / name for name in sorted(names) if not name.startswith("."))
        found += [str(place) for place in places if not place.is_symlink() or not place.exists()]
    return found


def diagnose_file(path: str, folders: tuple[str, ...] = ()) -> Diagnosis:
    """Diagnose one file, "-" for standard input. Raises UsageError where it cannot be read, RuleError for rules."""
    return diagnose_text(read_file(path, "a report", LIMIT), path, knowledge(folders))


def diagnose_files(
    paths: Sequence[str], *, jobs: int = 0, folders: tuple[str, ...] = (), render: Render | None = None
) -> Iterator[Outcome]:
    """The outcome of every file, in order. jobs: processes, one a core by default.

    render: what is made of a Diagnosis before it leaves its process; a function of a module, so that it can be sent.
    Raises RuleError where a folder of rules cannot be used.
    """
    knowledge(folders)  # before the processes fork, so that they share it; and so that bad rules end it here
    jobs = jobs or _cores()
    if jobs == 1 or len(paths) <= _FEW:
        yield from _some(paths, folders, render)
        return
    groups = [tuple(paths[at : at + _TOGETHER]) for at in range(0, len(paths), _TOGETHER)]
    for group, outcomes in _on_processes(groups, jobs, folders, render):
        yield from outcomes if outcomes is not None else _one_by_one(group, folders, render)


def _on_processes(
    groups: Sequence[tuple[str, ...]], jobs: int, folders: tuple[str, ...], render: Render | None
) -> Iterator[tuple[tuple[str, ...], list[Outcome] | None]]:
    """Each group with its outcomes; None where its process died. A dead process takes the pool along: it is renewed."""
    todo = list(groups)
    while todo:
        with ProcessPoolExecutor(jobs, mp_context=_context()) as pool:
            running = _Window(pool, todo, folders, render, jobs * 4)
            try:
                for group, future in running:
                    yield group, future.result()
                    todo.pop(0)
            except BrokenProcessPool:
                yield todo.pop(0), None
            finally:
                pool.shutdown(cancel_futures=True)


class _Window:
    """Groups in order with their futures; a bounded number is under way, so that results do not pile up."""

    def __init__(
        self,
        pool: ProcessPoolExecutor,
        groups: Iterable[tuple[str, ...]],
        folders: tuple[str, ...],
        render: Render | None,
        width: int,
    ) -> None:
        self._pool, self._folders, self._render = pool, folders, render
        self._waiting = iter(list(groups))
        self._width = width

    def __iter__(self) -> Iterator[tuple[tuple[str, ...], Future[list[Outcome]]]]:
        under_way = [self._submit(group) for group in itertools.islice(self._waiting, self._width)]
        while under_way:
            yield under_way.pop(0)
            under_way += [self._submit(group) for group in itertools.islice(self._waiting, 1)]

    def _submit(self, group: tuple[str, ...]) -> tuple[tuple[str, ...], Future[list[Outcome]]]:
        return group, self._pool.submit(_some_list, group, self._folders, self._render)


def _one_by_one(paths: Iterable[str], folders: tuple[str, ...], render: Render | None) -> Iterator[Outcome]:
    """Each file in a process of its own, to find the one that a process dies of."""
    for path in paths:
        with ProcessPoolExecutor(1, mp_context=_context()) as pool:
            try:
                yield from pool.submit(_some_list, (path,), folders, render).result()
            except BrokenProcessPool:
                yield Outcome(path, None, f"{path}: the process died of it (out of memory?)")


def _some_list(paths: tuple[str, ...], folders: tuple[str, ...], render: Render | None) -> list[Outcome]:
    return list(_some(paths, folders, render))


def _some(paths: Iterable[str], folders: tuple[str, ...], render: Render | None) -> Iterator[Outcome]:
    for path in paths:
        try:
            found = diagnose_file(path, folders)
            yield Outcome(path, render(found) if render else found)
        except (UsageError, MemoryError) as error:
            yield Outcome(path, None, str(error) or f"{path}: not enough memory")


def _cores() -> int:
    """The cores that we may use; those of the machine where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _context() -> Any:
    """Forked processes share the rules and start at once; where there is no fork, Python's own choice."""
    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
