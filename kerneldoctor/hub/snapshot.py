"""Brings a commit of a kernel repository into a cache, whole or one build of it; imports nothing of what it fetches.

huggingface_hub goes on where an earlier attempt ended, and writes the name of the branch that was asked for beside the
snapshot: without it a job that names the branch finds nothing offline (tried with huggingface_hub 1.10 to 2.4).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .. import __version__
from ..errors import HubError
from ..values import dataclass
from .download import NOT_FETCHED, within
from .listing import Question
from .live import explain, patiently

_LOOK = 0.5  # seconds between two looks at how much has arrived
Progress = Callable[[int], None]  # bytes that lie in the cache


@dataclass(frozen=True, slots=True)
class SnapshotAddress:
    """One commit, or one build of it, and the cache that it belongs into."""

    repo: str
    commit: str
    revision: str  # as a job asks for it: branch, tag or the commit
    cache: str
    build: str = ""  # only this build; "" for the whole snapshot

    @property
    def home(self) -> Path:
        """The repository's folder in the cache."""
        return Path(self.cache, f"kernels--{self.repo.replace('/', '--')}")

    @property
    def folder(self) -> Path:
        """Where the snapshot lies, whether it is there or not."""
        return self.home / "snapshots" / self.commit

    @property
    def ref(self) -> Path:
        """Where the cache keeps the commit of the revision."""
        return self.home / "refs" / self.revision


def file_sizes(address: SnapshotAddress, timeout: float) -> Mapping[str, int]:
    """The files that belong to it, in bytes. Raises HubError, RepositoryMissingError or RevisionMissingError."""
    import time

    question = Question(address.repo, address.commit, timeout)
    folder = f"build/{address.build}" if address.build else None

    def ask() -> dict[str, int]:
        from huggingface_hub import HfApi

        api = HfApi(library_name="kerneldoctor", library_version=__version__)
        entries = patiently(
            lambda: list(
                api.list_repo_tree(address.repo, folder, recursive=True, revision=address.commit, repo_type="kernel")
            ),
            time.monotonic() + timeout,
            question,
        )
        return {entry.path: entry.size for entry in entries if hasattr(entry, "size") and _is_fetched(entry.path)}

    return within(timeout, ask, f"the files of {address.repo}", lambda error: explain(error, question))


def missing_bytes(address: SnapshotAddress, sizes: Mapping[str, int]) -> int:
    """How much of it is not in the cache yet. Files that other commits share count as missing."""
    return sum(size for path, size in sizes.items() if not (address.folder / path).is_file())


def fetch_snapshot(address: SnapshotAddress, timeout: float, progress: Progress = lambda size: None) -> Path:
    """The folder of the snapshot, fetched unless it is there.

    Raises HubError when the Hub does not give it within the time, or its branch has moved meanwhile.
    """
    question = Question(address.repo, address.revision, timeout)

    def ask() -> str:
        from huggingface_hub import snapshot_download

        # What it logs of its own new attempts would go to the terminal; how it ends is told by us.
        logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
        return str(
            snapshot_download(
                address.repo,
                repo_type="kernel",
                revision=address.revision,
                allow_patterns=[f"build/{address.build}/*"] if address.build else None,
                ignore_patterns=list(NOT_FETCHED),
                cache_dir=address.cache,
                library_name="kerneldoctor",
                library_version=__version__,
            )
        )

    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with _watched(address.home, progress):
        found = within(timeout, ask, f"{address.repo}", lambda error: explain(_reason(error), question))
    if Path(found).name != address.commit:
        raise HubError(f"{address.repo}@{address.revision} moved while it was fetched: run the same command again")
    return Path(found)


def _reason(error: Exception) -> Exception:
    """huggingface_hub calls every file that did not come "not found locally"; what happened stands behind it."""
    cause = error.__cause__
    return cause if type(error).__name__ == "LocalEntryNotFoundError" and isinstance(cause, Exception) else error


def _is_fetched(path: str) -> bool:
    return not path.endswith(".pyc") and "__pycache__" not in path.split("/")


@contextmanager
def _watched(home: Path, progress: Progress) -> Iterator[None]:
    """Tells how many bytes lie in the cache, from time to time."""
    done = threading.Event()

    def look() -> None:
        while not done.wait(_LOOK):
            progress(_size(home / "blobs"))

    thread = threading.Thread(target=look, name="fetch-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(1)


def _size(folder: Path) -> int:
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                total += entry.stat(follow_symlinks=False).st_size
    except OSError:  # not there yet, or a file that was renamed meanwhile
        return total
    return total
