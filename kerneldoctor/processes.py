"""Starts other programs and ends them: each with a time limit and in a session of its own, and none outlives us.

What a program says is handed on as it is; nothing here knows which programs there are.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import IO, Literal

from .values import dataclass

OUTPUT_LIMIT = 1024 * 1024  # bytes of a command's output that are kept

# What a script for `python -c` starts with. Python puts the current folder first on the path of such a script, and a
# json.py that somebody left there would run. `-I` would leave out PYTHONPATH and the user's site-packages, which are
# part of what is looked at; `-P` is understood since Python 3.11 only. `sys` is built in: nothing is read for it.
NOT_FROM_HERE = """
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
"""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command answered. `trouble` says why there is no exit code."""

    code: int | None
    stdout: str
    stderr: str
    trouble: Literal["", "missing", "denied", "timeout"] = ""

    @property
    def ok(self) -> bool:
        """Whether it ran and exited with 0."""
        return self.code == 0


def run_command(argv: tuple[str, ...], timeout: float, env: Mapping[str, str] | None = None) -> CommandResult:
    """Run a program without a shell, for at most `timeout` seconds; `env` adds to the environment."""
    return _Command(argv, {**os.environ, "LC_ALL": "C", **(env or {})}).result(timeout)


def end_commands(for_good: bool = False) -> None:
    """Kill every program that still runs, with what it started. `for_good`: start no other one either."""
    _RUNNING.end(for_good)


class _Running:
    """The programs that run now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._starting = 0
        self._closed = False
        self._owner = os.getpid()

    def start(self, argv: tuple[str, ...], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a program in its own session, so that it dies with its children. Raises OSError, ValueError."""
        with self._changed:
            if self._closed:
                raise OSError("kerneldoctor is ending")
            self._starting += 1
        process = None
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                start_new_session=True,
            )
            return process
        finally:
            with self._changed:
                self._starting -= 1
                if process is not None:
                    self._processes.add(process)
                    if self._closed:
                        kill_group(process)
                self._changed.notify_all()

    def ended(self, process: subprocess.Popen[bytes]) -> None:
        """Kill what the program left behind in its session, and forget it."""
        kill_group(process)
        with self._changed:
            self._processes.discard(process)

    def end(self, for_good: bool) -> None:
        """See end_commands."""
        if os.getpid() != self._owner:
            return  # forked from the process whose programs these are
        with self._changed:
            self._closed = self._closed or for_good
            # One that is being started now is waited for, but not one whose file system hangs.
            self._changed.wait_for(lambda: not self._starting, 0.5)
            running = tuple(self._processes)
        for process in running:
            self.ended(process)


_RUNNING = _Running()
atexit.register(end_commands, for_good=True)


class _Command:
    """One program from its start to its end."""

    def __init__(self, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        self._argv, self._env = argv, env
        self._kept = {"out": bytearray(), "err": bytearray()}
        self._process: subprocess.Popen[bytes] | None = None
        self._refused: CommandResult | None = None
        self._readers: list[threading.Thread] = []
        self._abandoned = False
        # A thread, for signals reach the main thread only: none comes between the start and the note that there is
        # a process. And Popen.wait(timeout) sleeps up to 50 ms between its looks, where a thread waits for real.
        self._life = threading.Thread(target=self._live, daemon=True)

    def result(self, timeout: float) -> CommandResult:
        """Read both pipes to their limits, then stop waiting: a process stuck in the kernel cannot even be killed."""
        end = time.monotonic() + timeout
        self._life.start()
        self._life.join(timeout)
        if self._refused is not None:
            return self._refused
        if self._process is None:
            self._abandoned = True
        process = self._process  # once more: it may have started in between
        if process is None:
            return CommandResult(None, "", "", "timeout")
        code = process.returncode
        _RUNNING.ended(process)
        for reader in self._readers:
            reader.join(0.1 if code is None else max(0.1, end - time.monotonic()))
        out, err = (bytes(data).decode("utf-8", "replace") for data in self._kept.values())
        return CommandResult(code, out, err, "timeout" if code is None else "")

    def _live(self) -> None:
        try:
            process = self._process = _RUNNING.start(self._argv, self._env)
        except FileNotFoundError:
            self._refused = CommandResult(None, "", "", "missing")
            return
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self._refused = CommandResult(None, "", f"{self._argv[0]}: {why}", "denied")
            return
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            reader = threading.Thread(target=self._drain, args=(name, pipe), daemon=True)
            reader.start()
            self._readers.append(reader)
        if self._abandoned:
            _RUNNING.ended(process)
        process.wait()

    def _drain(self, name: str, pipe: IO[bytes]) -> None:
        # Reads on past the limit, so that the program does not block on a full pipe.
        with pipe:
            for chunk in iter(lambda: pipe.read1(65536), b""):  # type: ignore[attr-defined]
                room = OUTPUT_LIMIT - len(self._kept[name])
                self._kept[name] += chunk[: max(room, 0)]


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads a session, with all that is in it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return
