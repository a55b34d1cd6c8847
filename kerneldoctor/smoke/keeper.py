"""Stands between us and a process that runs somebody else's code, so that what ends its parent does not end us.

Run by path, standard library only: `python -I -S keeper.py FD PARENT PROGRAM ARGUMENT…`. It starts the program in a
session of its own, writes `pid N` to FD, and `exit CODE` (negative: signal) when it has ended, with all that is left of
its group. `error N` says why there is no program. It judges nothing, and dies with its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

_TO_DIE_WITH_PARENT = 1  # linux/prctl.h


def main(arguments: list[str]) -> int:
    """Start the program, wait for it, and tell."""
    status, parent, argv = int(arguments[0]), int(arguments[1]), arguments[2:]
    os.set_inheritable(status, False)
    _die_with(parent)
    # Handlers, because what is ignored is ignored by a program that is started as well.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda number, frame: None)
    try:
        pid = _start(argv)
    except OSError as error:
        os.write(status, f"error {error.errno}\n".encode())
        return 1
    os.write(status, f"pid {pid}\n".encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    # As long as nobody took it off the table its id cannot be that of another group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    os.write(status, f"exit {code}\n".encode())
    os.waitpid(pid, 0)
    return 0


def _die_with(parent: int) -> None:
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_TO_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


def _start(argv: list[str]) -> int:
    """The id of the running program. Raises OSError where it cannot be run."""
    heard, told = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, other programs do not
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(told, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(told)
    why = os.read(heard, 16)
    os.close(heard)
    if why:
        os.waitpid(pid, 0)
        raise OSError(int(why), os.strerror(int(why)))
    return pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
