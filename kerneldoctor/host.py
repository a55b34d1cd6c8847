"""The only door between the probes and the machine: files, commands, environment variables, NVML, the clock.

`RealHost` looks at this machine; `RecordedHost` answers from a capture, so that a machine somebody met once can
be probed again in a test. `RecordingHost` wraps a host and writes down every answer. Nothing here judges.

Every look answers with a value or raises `ProbeError` whose text is the reason ("no permission to read …").
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, cast

from .errors import EnvironmentFileError, ProbeError
from .processes import OUTPUT_LIMIT as OUTPUT_LIMIT
from .processes import CommandResult as CommandResult
from .processes import run_command
from .values import dataclass

CAPTURE_SCHEMA = "kerneldoctor.capture/1"
READ_LIMIT = 4 * 1024 * 1024  # bytes; metadata and version files are far smaller, a hostile one is not read whole


@dataclass(frozen=True, slots=True)
class PathInfo:
    """What `stat` says of a path. `kind` is "missing" where nothing is there."""

    kind: Literal["file", "dir", "other", "missing"]
    size: int = 0
    real: str = ""  # the path with every link followed


class Host(Protocol):
    """What a probe may ask of a machine."""

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment variables of the process."""

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """At most `limit` bytes from the start of a file. Raises ProbeError."""

    def listdir(self, path: str) -> tuple[str, ...]:
        """Names in a folder, sorted. Raises ProbeError."""

    def stat(self, path: str) -> PathInfo:
        """What is at a path. Raises ProbeError when that cannot be told."""

    def writable(self, path: str) -> bool:
        """Whether this user may write to an existing path."""

    def free_bytes(self, path: str) -> int:
        """Free bytes of the file system that holds the path. Raises ProbeError."""

    def which(self, name: str) -> str | None:
        """The program that PATH picks."""

    def run(self, argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
        """Run a program without a shell, for at most `timeout` seconds; `env` adds to the environment."""

    def observe(self, kind: str, key: str, look: Callable[[], Any]) -> Any:
        """The JSON value that `look` makes, for looks that are none of the above (NVML, a large binary).

        A recording stores the value under `kind` and `key` and replays it without calling `look`.
        `look` may raise ProbeError, which is recorded too.
        """

    def now(self) -> float:
        """Seconds since the epoch."""


def read_text(host: Host, path: str, limit: int = READ_LIMIT) -> str:
    """A text file; bytes that are no UTF-8 become U+FFFD. Raises ProbeError."""
    return host.read(path, limit).decode("utf-8", "replace")


def exists(host: Host, path: str) -> bool:
    """Whether anything is at the path; False also where the folder above may not be searched."""
    try:
        return host.stat(path).kind != "missing"
    except ProbeError:
        return False


class RealHost:
    """This machine."""

    @property
    def environ(self) -> Mapping[str, str]:
        """Environment variables of this process."""
        return os.environ

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """See Host."""
        try:
            # A FIFO or a device would block for ever; what is read here is always a regular file or /proc.
            if not os.path.isfile(path):
                raise ProbeError(f"{path} is no readable file")
            with open(path, "rb") as file:
                return file.read(limit)
        except OSError as error:
            raise ProbeError(_reason(error, path)) from None

    def listdir(self, path: str) -> tuple[str, ...]:
        """See Host."""
        try:
            return tuple(sorted(os.listdir(path)))
        except OSError as error:
            raise ProbeError(_reason(error, path)) from None

    def stat(self, path: str) -> PathInfo:
        """See Host."""
        try:
            info = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return PathInfo("missing")
        except (OSError, ValueError) as error:
            raise ProbeError(_reason(error, path)) from None
        kind: Literal["file", "dir", "other"] = "other"
        if os.path.isfile(path):
            kind = "file"
        elif os.path.isdir(path):
            kind = "dir"
        return PathInfo(kind, info.st_size, os.path.realpath(path))

    def writable(self, path: str) -> bool:
        """See Host."""
        return os.access(path, os.W_OK)

    def free_bytes(self, path: str) -> int:
        """See Host."""
        try:
            return shutil.disk_usage(path).free
        except OSError as error:
            raise ProbeError(_reason(error, path)) from None

    def which(self, name: str) -> str | None:
        """See Host."""
        return shutil.which(name)

    def run(self, argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
        """See Host. The program gets its own session, so that a hanging one dies with its children."""
        return run_command(argv, timeout, env)

    def observe(self, kind: str, key: str, look: Callable[[], Any]) -> Any:
        """See Host."""
        return look()

    def now(self) -> float:
        """See Host."""
        return time.time()


def _reason(error: Exception, path: str) -> str:
    if isinstance(error, PermissionError):
        return f"no permission to read {path}"
    if isinstance(error, OSError) and error.strerror:
        return f"{path}: {error.strerror}"
    return f"{path}: {error}"


class RecordingHost:
    """Passes every question on to another host and keeps the answers."""

    def __init__(self, inner: Host) -> None:
        self._inner = inner
        self._answers: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def environ(self) -> Mapping[str, str]:
        """See Host."""
        return self._inner.environ

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """See Host. Bytes are kept as Latin-1 text, which is lossless."""
        text = self._keep(f"read {limit} {path}", lambda: self._inner.read(path, limit).decode("latin-1"))
        return cast(str, text).encode("latin-1")

    def listdir(self, path: str) -> tuple[str, ...]:
        """See Host."""
        return tuple(self._keep(f"listdir {path}", lambda: list(self._inner.listdir(path))))

    def stat(self, path: str) -> PathInfo:
        """See Host."""
        return PathInfo(*self._keep(f"stat {path}", lambda: _as_list(self._inner.stat(path))))

    def writable(self, path: str) -> bool:
        """See Host."""
        return bool(self._keep(f"writable {path}", lambda: self._inner.writable(path)))

    def free_bytes(self, path: str) -> int:
        """See Host."""
        return int(self._keep(f"free {path}", lambda: self._inner.free_bytes(path)))

    def which(self, name: str) -> str | None:
        """See Host."""
        return cast("str | None", self._keep(f"which {name}", lambda: self._inner.which(name)))

    def run(self, argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
        """See Host."""
        key = f"run {json.dumps(argv)}"

        def look() -> list[Any]:
            result = self._inner.run(argv, timeout, env)
            return [result.code, result.stdout, result.stderr, result.trouble]

        return CommandResult(*self._keep(key, look))

    def observe(self, kind: str, key: str, look: Callable[[], Any]) -> Any:
        """See Host."""
        return self._keep(f"observe {kind} {key}", lambda: self._inner.observe(kind, key, look))

    def now(self) -> float:
        """See Host."""
        return float(self._keep("now", self._inner.now))

    def capture(self, keep_variable: Callable[[str], bool]) -> dict[str, Any]:
        """Everything asked so far as JSON. Only variables that `keep_variable` accepts go in."""
        with self._lock:
            answers = dict(self._answers)
        variables = {k: v for k, v in sorted(self.environ.items()) if keep_variable(k)}
        return {"schema": CAPTURE_SCHEMA, "environ": variables, "answers": answers}

    def _keep(self, key: str, look: Callable[[], Any]) -> Any:
        try:
            value, failure = look(), None
        except ProbeError as error:
            value, failure = None, error
        with self._lock:
            self._answers[key] = {"trouble": str(failure)} if failure else {"is": value}
        if failure:
            raise failure
        return value


class RecordedHost:
    """A machine that was recorded. A question that was not asked then is answered "not in the recording"."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not isinstance(document, Mapping) or document.get("schema") != CAPTURE_SCHEMA:
            raise EnvironmentFileError(f'not a capture of this version: expected "schema": "{CAPTURE_SCHEMA}"')
        self._environ: dict[str, str] = dict(document.get("environ", {}))
        self._answers: dict[str, Any] = dict(document.get("answers", {}))

    @property
    def environ(self) -> Mapping[str, str]:
        """See Host."""
        return self._environ

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """See Host."""
        return cast(str, self._answer(f"read {limit} {path}")).encode("latin-1")

    def listdir(self, path: str) -> tuple[str, ...]:
        """See Host."""
        return tuple(self._answer(f"listdir {path}"))

    def stat(self, path: str) -> PathInfo:
        """See Host."""
        return PathInfo(*self._answer(f"stat {path}"))

    def writable(self, path: str) -> bool:
        """See Host."""
        return bool(self._answer(f"writable {path}"))

    def free_bytes(self, path: str) -> int:
        """See Host."""
        return int(self._answer(f"free {path}"))

    def which(self, name: str) -> str | None:
        """See Host."""
        return cast("str | None", self._answer(f"which {name}"))

    def run(self, argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
        """See Host."""
        return CommandResult(*self._answer(f"run {json.dumps(argv)}"))

    def observe(self, kind: str, key: str, look: Callable[[], Any]) -> Any:
        """See Host."""
        return self._answer(f"observe {kind} {key}")

    def now(self) -> float:
        """See Host."""
        return float(self._answer("now"))

    def _answer(self, key: str) -> Any:
        entry = self._answers.get(key)
        if entry is None:
            raise ProbeError(f"not in the recording: {key}")
        if "trouble" in entry:
            raise ProbeError(entry["trouble"])
        return entry["is"]


def _as_list(info: PathInfo) -> list[Any]:
    return [info.kind, info.size, info.real]
