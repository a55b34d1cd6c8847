"""A made-up machine for probe tests: what is not given is not there. It never touches the real one.

host = FakeHost(
    files={"/etc/os-release": 'PRETTY_NAME="Debian 12"', "/dev/nvidia0": None, "/opt/empty/": ""},
    commands={("nvcc", "--version"): "release 12.8"},
    environ={"CUDA_HOME": "/usr/local/cuda"},
)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from posixpath import dirname
from typing import Any

from kerneldoctor.errors import ProbeError
from kerneldoctor.host import READ_LIMIT, CommandResult, PathInfo


@dataclass
class FakeHost:
    """Implements `kerneldoctor.host.Host` from dicts. Folders follow from the files in them."""

    # Content of each file; None is a device or socket; a path that ends with "/" is a folder.
    files: Mapping[str, str | bytes | None] = field(default_factory=dict)
    # Links by path: what is below one is found below its target.
    links: Mapping[str, str] = field(default_factory=dict)
    # Whole argv -> its output, or the whole result. A program that is not named is missing.
    commands: Mapping[tuple[str, ...], str | CommandResult] = field(default_factory=dict)
    # Program name -> path that PATH picks.
    programs: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    # (kind, key) or kind -> the value, or a ProbeError to raise. Others raise ProbeError.
    observations: Mapping[str | tuple[str, str], Any] = field(default_factory=dict)
    # Paths (and all below) that this user may not look at.
    denied: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()  # paths (and all below)
    free: int = 10**12  # bytes
    time: float = 1_800_000_000.0
    asked: list[str] = field(default_factory=list)  # what was run or observed, in order

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        real = self._allowed(path)
        content = self.files.get(real)
        if content is None:
            raise ProbeError(f"{path} is no readable file")
        return (content.encode() if isinstance(content, str) else content)[:limit]

    def listdir(self, path: str) -> tuple[str, ...]:
        real = self._allowed(path)
        if real not in self._folders():
            raise ProbeError(f"{path}: No such file or directory")
        every = {*self._folders(), *(f.rstrip("/") for f in self.files), *self.links}
        return tuple(sorted(p.rsplit("/", 1)[1] for p in every if p != "/" and dirname(p) == real))

    def stat(self, path: str) -> PathInfo:
        real = self._allowed(path)
        if real in self._folders():
            return PathInfo("dir", 4096, real)
        if real not in self.files:
            return PathInfo("missing")
        content = self.files[real]
        return PathInfo("other", 0, real) if content is None else PathInfo("file", len(content), real)

    def writable(self, path: str) -> bool:
        return not any(_below(path, p) for p in self.read_only | self.denied)

    def free_bytes(self, path: str) -> int:
        return self.free

    def which(self, name: str) -> str | None:
        return self.programs.get(name)

    def run(self, argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
        self.asked.append(" ".join(argv))
        answer = self.commands.get(argv, CommandResult(None, "", "", "missing"))
        return CommandResult(0, answer, "") if isinstance(answer, str) else answer

    def observe(self, kind: str, key: str, look: Callable[[], Any]) -> Any:
        self.asked.append(f"{kind} {key}".strip())
        answer = self.observations.get((kind, key), self.observations.get(kind))
        if answer is None:
            raise ProbeError(f"no {kind} in this fake machine")
        if isinstance(answer, ProbeError):
            raise answer
        return answer

    def now(self) -> float:
        return self.time

    def _allowed(self, path: str) -> str:
        real = self._real(path)
        if any(_below(p, d) for p in (path, real) for d in self.denied):
            raise ProbeError(f"no permission to read {path}")
        return real

    def _real(self, path: str) -> str:
        for _ in range(8):
            link = next((link for link in self.links if _below(path, link)), None)
            if link is None:
                break
            path = self.links[link] + path[len(link) :]
        return path.rstrip("/") or "/"

    def _folders(self) -> set[str]:
        found = {"/"}
        for path in (*self.files, *self.links):
            folder = path.rstrip("/") if path.endswith("/") else dirname(path)
            while folder not in found:
                found.add(folder)
                folder = dirname(folder)
        return found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
