"""Reads how this process was started beside others: torchrun, accelerate, srun, MPI, or variables set by hand.

Environment variables only; asks nobody and opens no connection.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import UsageError

# Below the ports that systems give away by themselves, so that a derived one is most likely free.
_FIRST_PORT, _PORTS = 20000, 12000
_NO_STEP = 0xFFFFFF00  # Slurm numbers the batch script and other steps that no srun started from here on
_VARIABLES = (
    # what, rank, size, local rank, local size, node
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    ("srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "", "SLURM_NODEID"),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""),
)  # fmt: skip
_JOB_NAMES = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "PMI_ID_PREFIX", "HYDI_CONTROL_FD",
              "PBS_JOBID", "LSB_JOBID")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """This process among the ranks of a job."""

    how: str  # who started it: "torchrun", "srun", "Open MPI", …
    rank: int
    size: int
    local_rank: int | None  # None: the launcher does not say
    node: str  # the launcher's name of this machine, "" where it gives none
    host: str  # where the ranks meet
    port: int
    serves: bool  # this rank opens the meeting place; otherwise somebody else's is joined
    session: str  # one attempt of one job: keeps what it says apart from other things at the same place

    @property
    def leads(self) -> bool:
        """Whether it is the one that reports for all."""
        return self.rank == 0

    @property
    def fetches(self) -> bool:
        """Whether it is the one of its machine that asks the Hub."""
        return not self.local_rank


def find_launch(environ: Mapping[str, str]) -> Launch | None:
    """How this process was started, or None where it is alone.

    Raises UsageError for variables that contradict each other, or that do not say where the ranks can meet.
    """
    for how, rank_name, size_name, local_name, local_size_name, node_name in _VARIABLES:
        if rank_name not in environ or size_name not in environ or not _is_step(how, environ):
            continue
        rank, size = _number(environ, rank_name), _number(environ, size_name)
        if not 0 <= rank < size:
            raise UsageError(f"{rank_name}={rank} and {size_name}={size} contradict each other: ranks count from 0")
        if size == 1:
            return None
        local_rank = _number(environ, local_name) if environ.get(local_name) else None
        one_machine = bool(environ.get(local_size_name)) and _number(environ, local_size_name) == size
        host, port = _place(how, environ, one_machine)
        shared = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        attempt = [environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
        return Launch(
            how, rank, size, local_rank, environ.get(node_name, ""), host, port,
            rank == 0 and not shared, "/".join(attempt),
        )  # fmt: skip
    return None


def _is_step(how: str, environ: Mapping[str, str]) -> bool:
    """A batch script has SLURM_PROCID as well, but there are no others beside it."""
    if how != "srun":
        return True
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < _NO_STEP


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name].strip()
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise UsageError(f"{name}={text[:40]!r} is no number: unset it, or start through torchrun, srun or mpirun")
    return int(text)


def _place(how: str, environ: Mapping[str, str], one_machine: bool) -> tuple[str, int]:
    """Where the ranks meet: as they are told, else at the first node of the job and a port that its name gives."""
    host = environ.get("MASTER_ADDR") or ("127.0.0.1" if one_machine else _first_node(environ))
    if not host:
        raise UsageError(
            f"{how} does not say on which machine rank 0 is: set MASTER_ADDR (and MASTER_PORT) for every rank"
        )
    if environ.get("MASTER_PORT"):
        port = _number(environ, "MASTER_PORT")
        if not 0 < port < 65536:
            raise UsageError(f"MASTER_PORT={port} is no port: give one from 1 to 65535")
        return host, port
    job = "/".join(environ[name] for name in _JOB_NAMES if environ.get(name))
    if not job:
        raise UsageError(f"{how} gives neither MASTER_PORT nor a job to derive it from: set MASTER_PORT for every rank")
    return host, _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def _first_node(environ: Mapping[str, str]) -> str:
    """The first machine of a Slurm step: "gpu[007-012,020],login1" starts with gpu007."""
    text = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST", "")
    found = re.match(r"([^\[\],\s]+)(?:\[(\d+)[^\]]*\]([^,\s\[]*))?", text)
    return f"{found[1]}{found[2] or ''}{found[3] or ''}" if found else ""
