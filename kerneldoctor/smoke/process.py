"""One child process that runs somebody else's native code: start it, hear it, end it with all that it started.

Parent side. Knows nothing of kernels or cases.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .surroundings import from_here, wherever

MARK = "KERNELDOCTOR_RUN"  # environment variable by which a descendant that left the process group is found again
OUTPUT_LIMIT = 64 * 1024  # bytes of what the child prints that are kept: the last ones
GRACE = 1.0  # seconds between SIGTERM and SIGKILL
DEATH = 10.0  # seconds that a process may take to die of SIGKILL: a GPU driver first takes its context down
_CHUNK = 64 * 1024
_START = 30.0  # seconds that the start of a Python without torch may take
_KEEPER = Path(__file__).with_name("keeper.py")


class Child:
    """A running child in a session of its own. Its output is drained by `listen`, never trusted, and capped.

    A keeper (keeper.py) stands between: whoever kills its parent or its group does not reach us. folder: for its
    temporary files; it stands in a new one inside, where it can neither find nor leave the user's.
    """

    def __init__(self, argv: Sequence[str], nonce: str, environ: Mapping[str, str], folder: Path) -> None:
        """Raises OSError where the program cannot be run."""
        self._nonce = nonce
        self._tail = b""
        self._code: int | None = None
        self._over = False
        self._status = b""
        self._pid: int | None = None  # of the program; its group has the same
        self.lost_parent = False  # its keeper was killed, which nobody but the child would do
        stand = folder / "cwd"
        stand.mkdir(exist_ok=True)
        self._heard, told = os.pipe()
        keeper = (sys.executable or argv[0], "-I", "-S", str(_KEEPER), str(told), str(os.getpid()))
        try:
            self._keeper = subprocess.Popen(
                [*keeper, from_here(argv[0]), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Compilers that are killed leave temporary files: here they are removed with the folder.
                env={**wherever(environ), MARK: nonce, "TMPDIR": str(folder), "PWD": str(stand)},
                cwd=stand,
                start_new_session=True,
                pass_fds=(told,),
            )
        except OSError:
            os.close(self._heard)
            raise
        finally:
            os.close(told)
        assert self._keeper.stdout is not None
        self._out = self._keeper.stdout
        os.set_blocking(self._out.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._out.fileno(), select.POLLIN)
        self._open = True
        self._pid = self._started()

    def _started(self) -> int | None:
        """The id of the program, None when the keeper died before it said so."""
        os.set_blocking(self._heard, False)
        poll, end = select.poll(), time.monotonic() + _START
        poll.register(self._heard, select.POLLIN)
        while b"\n" not in self._status and not self.exited() and time.monotonic() < end:
            poll.poll(100)
            self._hear_keeper()
        self._hear_keeper()
        word, _, number = self._status.partition(b"\n")[0].partition(b" ")
        if word == b"pid":
            return int(number)
        self.end(0.0)
        if word == b"error":
            raise OSError(int(number), os.strerror(int(number)))
        return None

    def _hear_keeper(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._status += os.read(self._heard, 256)

    @property
    def last_words(self) -> str:
        """The end of what it printed."""
        return self._tail.decode("utf-8", "replace")

    def listen(self, seconds: float) -> None:
        """Wait for output at most so long, and keep the end of it."""
        if not self._open:
            time.sleep(seconds)
            return
        if self._poll.poll(seconds * 1000):
            self._drain()

    def exited(self) -> bool:
        """Whether it has ended. It is not reaped, so that its group id cannot be given away before `end`."""
        if self._over:
            return True
        with contextlib.suppress(ChildProcessError):
            seen = os.waitid(os.P_PID, self._keeper.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return seen is not None
        return True

    def resident_bytes(self) -> int:
        """Memory that it holds now; 0 where that cannot be told."""
        try:
            pages = Path(f"/proc/{self._pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def end(self, grace: float = GRACE) -> int | None:
        """End it and everything that it started. Its exit code (negative: signal), None when it does not die."""
        if self._over:
            return self._code
        if not self.exited():
            self._signal(signal.SIGTERM)
            self._wait(grace)
        # What it started must not outlive it; after a proper exit its keeper has seen to that.
        if self._said_exit() is None:
            self._signal(signal.SIGKILL)
        self._wait(DEATH)
        died = self.exited()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        self._keeper.wait()
        self._code = self._exit_code() if died else None
        self._over = True
        sweep(self._nonce)
        self._drain()
        self._out.close()
        os.close(self._heard)
        self._open = False
        return self._code

    def _exit_code(self) -> int:
        said = self._said_exit()
        self.lost_parent = said is None
        return self._keeper.returncode if said is None else said

    def _said_exit(self) -> int | None:
        self._hear_keeper()
        words = self._status.decode("ascii", "replace").split()
        return int(words[words.index("exit") + 1]) if "exit" in words else None

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.exited() and time.monotonic() < end:
            self.listen(0.02)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid if self._pid is not None else self._keeper.pid, number)

    def _drain(self) -> None:
        if not self._open:
            return
        # A child that prints without end must not keep us from looking at the clock.
        for _ in range(64):
            try:
                data = os.read(self._out.fileno(), _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._poll.unregister(self._out.fileno())
                self._open = False
                return
            self._tail = (self._tail + data)[-OUTPUT_LIMIT:]


def sweep(nonce: str) -> None:
    """End every process of ours that still carries the mark of a run: daemons that left its group and session."""
    for _ in range(3):  # one may start another while we look
        found = list(_marked(nonce))
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _marked(nonce: str) -> Iterator[int]:
    wanted = f"{MARK}={nonce}".encode()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        # Processes of other users, and those that end while we look.
        with contextlib.suppress(OSError):
            if wanted in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                yield int(name)


def signal_name(code: int) -> str:
    """The name of the signal that a negative exit code stands for, or ""."""
    if code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
