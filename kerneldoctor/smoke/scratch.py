"""The folder for temporary files of one run, and the end of those whose owner was killed before it could remove them.

Parent side. It removes nothing but folders of this name that this user owns and whose owner surely lives no more.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PREFIX = "kerneldoctor-"
_OWNER = "owner.json"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder, gone on leaving; what is left of processes that were killed goes first."""
    with contextlib.suppress(OSError):
        _remove_stale(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        (folder / _OWNER).write_text(json.dumps(_owner(os.getpid())), "utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owner(pid: int) -> dict[str, Any]:
    return {"pid": pid, "start": _start_of(pid), "where": _where()}


def _where() -> list[str]:
    """What a process id is counted in: a machine since its start, and a container's own numbering."""
    seen = [platform.node()]
    with contextlib.suppress(OSError):
        seen.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        seen.append(os.readlink("/proc/self/ns/pid"))
    return seen


def _start_of(pid: int) -> str:
    """When a process started, in the system's own ticks; "" where that cannot be told."""
    try:
        # The name in parentheses may hold anything; the 22nd field is the 20th behind it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _remove_stale(temporary: Path) -> None:
    for folder in temporary.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            info = folder.lstat()
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.geteuid():
                continue
            if _is_dead(json.loads(_read(folder / _OWNER))):
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        return os.read(handle, 4096)
    finally:
        os.close(handle)


def _is_dead(owner: Any) -> bool:
    match owner:
        case {"pid": int(pid), "start": str(start), "where": list(where)} if where == _where() and 0 < pid < 2**31:
            if start:
                return _start_of(pid) != start
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
    return False
