"""Brings one build of a kernel into the cache, and asks whom the Hub trusts; imports nothing of what it fetches.

Every question ends within its time limit: huggingface_hub retries and waits on its own, so it works in a thread that
is left behind when the time is up.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .. import __version__
from ..errors import HubError, UsageError
from ..values import dataclass
from .live import endpoint

# As kernels does (`_BYTECODE_IGNORE_PATTERNS` of https://pypi.org/project/kernels/0.17.2/).
NOT_FETCHED = ("*.pyc", "**/__pycache__/**")
_COMMIT = re.compile(r"[0-9a-f]{40}")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BuildAddress:
    """One build folder of one commit, and the cache that it belongs into."""

    repo: str
    commit: str
    build: str  # "torch-stable-abi210-cu130-x86_64-linux"
    cache: str  # the folder in force for the kernels library
    repo_type: str = "kernel"

    def path_of(self, name: str) -> str:
        """A file of the build within the repository."""
        return f"build/{self.build}/{name}"

    @property
    def folder(self) -> Path:
        """Where the build lies in the cache, whether it is there or not."""
        name = f"{self.repo_type}s--{self.repo.replace('/', '--')}"
        return Path(self.cache, name, "snapshots", self.commit, "build", self.build)


class FileMissingError(UsageError):
    """The Hub answered, and the build has no such file."""


def publisher_is_trusted(repo: str, timeout: float) -> bool:
    """Whether the Hub marks the publisher of a repository as trusted, as kernels asks from 0.14.1 on.

    An organisation that it does not know is none. Raises HubError when it gives no answer; kernels then refuses to
    load as well.
    """
    publisher = repo.split("/")[0]

    def ask() -> bool:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError

        try:
            overview = HfApi(library_name="kerneldoctor", library_version=__version__).get_organization_overview(
                publisher
            )
        except HfHubHTTPError as error:
            if getattr(error.response, "status_code", None) == 404:
                return False
            raise
        # No typed field in huggingface_hub 2.4: the data class keeps keys that it does not know.
        return bool(getattr(overview, "trustedKernelPublisher", False))

    return within(timeout, ask, f"whether {publisher} is a trusted publisher")


def fetch_build(address: BuildAddress, timeout: float, progress: Callable[[str], None] = lambda text: None) -> Path:
    """The folder of the build, fetched unless it is there.

    Raises HubError when the Hub does not give it within the time.
    """
    progress(f"fetching {address.repo} {address.build}")

    def ask() -> str:
        from huggingface_hub import snapshot_download

        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        return str(
            snapshot_download(
                address.repo,
                repo_type=address.repo_type,
                revision=address.commit,
                allow_patterns=[address.path_of("*")],
                ignore_patterns=list(NOT_FETCHED),
                cache_dir=address.cache,
                library_name="kerneldoctor",
                library_version=__version__,
            )
        )

    within(timeout, ask, f"{address.repo} at {address.commit[:12]}")
    return address.folder


def fetch_file(address: BuildAddress, name: str, timeout: float) -> bytes:
    """The content of one small file of a build, kept in the cache that the address names, if that can be written.

    Raises FileMissingError on the Hub's word, HubError when it gives none within the time.
    """

    def ask() -> bytes | None:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        # What it logs of its own new attempts would go to the terminal; how it ends is told by us.
        logging.getLogger("huggingface_hub.file_download").setLevel(logging.CRITICAL)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            path, revision = address.path_of(name), address.commit
            cache = address.cache if _is_writable(address.cache) else scratch
            try:
                found = hf_hub_download(
                    address.repo, path, repo_type=address.repo_type, revision=revision, cache_dir=cache,
                    library_name="kerneldoctor", library_version=__version__,
                )  # fmt: skip
            except LocalEntryNotFoundError as error:  # an EntryNotFoundError by kind, but of a Hub that gave no answer
                raise error.__cause__ if isinstance(error.__cause__, Exception) else error from None
            except EntryNotFoundError:
                return None
            return Path(found).read_bytes()

    content = within(timeout, ask, f"{name} of {address.build}")
    if content is None:
        raise FileMissingError(f"{address.repo}@{address.commit[:10]} has no {address.path_of(name)}")
    return content


def _is_writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_commit(text: str) -> bool:
    """Whether a revision is a full commit."""
    return _COMMIT.fullmatch(text) is not None


def within(
    timeout: float, ask: Callable[[], T], what: str, explain: Callable[[Exception], Exception] | None = None
) -> T:
    """The answer of `ask`, in a thread that is left behind when the time is up.

    Raises HubError, or what `explain` makes of what `ask` raised.
    """
    box: list[T] = []
    trouble: list[Exception] = []

    def work() -> None:
        try:
            box.append(ask())
        except Exception as error:  # noqa: BLE001 - carried over to the asking thread, which words it
            trouble.append(error)

    thread = threading.Thread(target=work, name="hub-download", daemon=True)
    thread.start()
    thread.join(timeout)
    if box:
        return box[0]
    if not trouble:
        raise HubError(f"{endpoint()} did not give {what} within {timeout:.3g} s")
    if explain is not None:
        raise explain(trouble[0])
    text = (str(trouble[0]).strip().splitlines() or [""])[0][:200]
    raise HubError(f"{endpoint()} did not give {what}: {type(trouble[0]).__name__}: {text}")
