"""Says which files of a code base are looked into: not what git ignores, what others wrote, or what is no source.

Walks folders and asks git; reads no file.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import UsageError
from ..processes import OUTPUT_LIMIT, run_command

GIT_SECONDS = 20.0
MOST = 200_000  # files of one search
_OTHERS = frozenset(
    {
        ".git", ".hg", ".svn", "node_modules", "site-packages", "dist-packages", ".venv", "venv", ".tox", ".nox",
        "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".eggs", "third_party",
        "3rdparty", "vendor", "vendored", "_vendor",
    }
)  # fmt: skip
_READ = re.compile(
    r".*\.(?:py|pyi|ipynb|ya?ml|json|jsonc|toml|cfg|ini|conf|env|sh|bash|zsh|sbatch|slurm|mk|dockerfile)"
    r"|(?:Dockerfile|Containerfile|Makefile)(?:\..*)?|kernels\.lock|kerneldoctor\.lock|\.env",
    re.IGNORECASE | re.DOTALL,  # a name may hold a line break
)
# `git ls-files` needs no program that a repository's own settings could name, but git asks a file watcher if told to.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")


@dataclass(slots=True)
class Walk:
    """The files below some paths; what was passed over is counted meanwhile."""

    skipped: Counter[str] = field(default_factory=Counter)

    def files(self, paths: Sequence[str]) -> Iterator[str]:
        """Each file once. One that is named is always among them. Raises UsageError for a path that is not there."""
        seen: set[str] = set()
        for path in paths:
            for file in self._below(path):
                if file not in seen:
                    seen.add(file)
                    yield file
                if len(seen) >= MOST:
                    raise UsageError(f"more than {MOST:,} files: name the folders that hold your code")

    def _below(self, path: str) -> Iterator[str]:
        if not os.path.exists(path):
            raise UsageError(f"{path}: no such file or folder")
        if not os.path.isdir(path):
            yield path
            return
        ignored = _ignored_by_git(path)
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if self._enters(folder, name, ignored))
            for name in sorted(names):
                file = os.path.normpath(os.path.join(folder, name))
                if self._takes(file, name, ignored):
                    yield file

    def _enters(self, folder: str, name: str, ignored: frozenset[str]) -> bool:
        path = os.path.join(folder, name)
        if name in _OTHERS or name.endswith((".egg-info", ".dist-info")) or _is_of_others(path):
            self.skipped["folders that others wrote or a tool made"] += name not in (".git", "__pycache__")
            return False
        if os.path.normpath(path) in ignored:
            self.skipped["ignored by git"] += 1
            return False
        return True

    def _takes(self, file: str, name: str, ignored: frozenset[str]) -> bool:
        if not _READ.fullmatch(name):
            return False
        if file in ignored:
            self.skipped["ignored by git"] += 1
            return False
        if os.path.islink(file):
            self.skipped["links"] += 1
            return False
        return True


def _is_of_others(folder: str) -> bool:
    """A virtual environment, or a repository within the repository."""
    return os.path.exists(os.path.join(folder, "pyvenv.cfg")) or os.path.lexists(os.path.join(folder, ".git"))


def _ignored_by_git(folder: str) -> frozenset[str]:
    """What git ignores below a folder, whole folders as one; empty where git cannot say."""
    command = (*_GIT, "-C", folder, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    result = run_command(command, GIT_SECONDS)
    if not result.ok:
        return frozenset()
    names = result.stdout.split("\0")[:-1]
    if len(result.stdout) >= OUTPUT_LIMIT - 8:
        names = names[:-1]
    return frozenset(os.path.normpath(os.path.join(folder, name)) for name in names if name not in ("./", ""))
