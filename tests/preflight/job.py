"""Starts `kerneldoctor preflight` as several ranks of a job: under torchrun, or one by one as srun and mpirun do."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerneldoctor.environment import Environment
from tests.smoke.place import ROOT, Place

# What torchrun starts instead of us: chooses what is odd about a rank, passes signals on, and keeps the exit code.
_SCRIPT = """#!/bin/sh
trap 'kill -TERM $child' TERM
{python} -m kerneldoctor preflight $(cat options-$RANK) "$@" & child=$!
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
echo $code > code-$RANK
exit $code
"""
# An interpreter at whose start something happens to the process that started it; the meeting goes on beside.
_ODD_PYTHON = """#!/bin/sh
case "$1" in *meeting_child.py) exec {python} "$@";; esac
kill -{signal} $PPID
sleep 60
"""


@dataclass(frozen=True)
class Ended:
    """What came of one rank, or of torchrun."""

    code: int | None  # None: it did not end by itself
    out: str
    err: str


@dataclass
class Job:
    """A folder that the ranks share."""

    place: Place
    folder: Path
    size: int = 4

    def facts(self, rank: int, environment: Environment) -> None:
        """A rank on a machine with these facts."""
        path = self.folder / f"facts-{rank}.json"
        path.write_text(json.dumps(environment.to_json()), "utf-8")
        self._options(rank, "--env", str(path))

    def odd(self, rank: int, signal: str) -> None:
        """A rank that gets a signal while it looks at its machine."""
        path = self.folder / f"python-{signal}"
        path.write_text(_ODD_PYTHON.format(python=shlex.quote(sys.executable), signal=signal))
        path.chmod(0o755)
        self._options(rank, "--python", str(path))

    def _options(self, rank: int, *options: str) -> None:
        (self.folder / f"options-{rank}").write_text(shlex.join(options))

    def torchrun(self, *arguments: str) -> tuple[Ended, dict[int, int]]:
        """What torchrun printed, and the exit code of every rank that ended by itself."""
        script = self.folder / "rank.sh"
        script.write_text(_SCRIPT.format(python=shlex.quote(sys.executable)))
        script.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", str(self.size),
             str(script), *arguments],
            cwd=self.folder, env={**self.place.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        codes = {
            rank: int(path.read_text()) for rank in range(self.size) if (path := self.folder / f"code-{rank}").is_file()
        }
        return Ended(done.returncode, done.stdout, done.stderr), codes

    def ranks(
        self,
        started: Sequence[int],
        environ: Mapping[str, str],
        *arguments: str,
        stuck: Sequence[int] = (),
        own: Mapping[int, Mapping[str, str]] = {},
    ) -> dict[int, Ended]:
        """Start these ranks by themselves, and wait for those that end, but no longer for those that are stuck.

        `environ` may name {rank}, {size} and {port}; `own` adds to it for single ranks.
        """
        port = _free_port()
        processes = {rank: self._start(rank, port, {**environ, **own.get(rank, {})}, arguments) for rank in started}
        end, found = time.monotonic() + 60, {}
        for rank, process in sorted(processes.items(), key=lambda item: item[0] in stuck):
            try:
                out, err = process.communicate(timeout=0.5 if rank in stuck else max(0.1, end - time.monotonic()))
                found[rank] = Ended(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                process.kill()
                found[rank] = Ended(None, *process.communicate())
        return found

    def _start(
        self, rank: int, port: int, environ: Mapping[str, str], arguments: Sequence[str]
    ) -> subprocess.Popen[str]:
        own = {name: value.format(rank=rank, port=port, size=self.size) for name, value in environ.items()}
        path = self.folder / f"options-{rank}"
        options = shlex.split(path.read_text()) if path.is_file() else []
        return subprocess.Popen(
            [sys.executable, "-m", "kerneldoctor", "preflight", *options, *arguments], cwd=self.folder, text=True,
            env={**self.place.environ, **own, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
