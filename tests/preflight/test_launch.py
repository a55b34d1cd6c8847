"""How a process was started, from nothing but its environment variables."""

from __future__ import annotations

import pytest

from kerneldoctor.errors import UsageError
from kerneldoctor.preflight.launch import Launch, find_launch

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500",
}  # fmt: skip
SRUN = {
    "SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "1234", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu-a[007-009,012],login1",
}  # fmt: skip
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "prterun-1",
}  # fmt: skip


def launched(environ: dict[str, str], **changes: str) -> Launch:
    found = find_launch({**environ, **changes})
    assert found is not None
    return found


def test_alone_without_a_launcher_and_as_the_only_rank() -> None:
    assert find_launch({}) is None
    assert find_launch({**TORCHRUN, "RANK": "0", "WORLD_SIZE": "1"}) is None


def test_torchrun_hosts_the_meeting_itself_when_it_says_so() -> None:
    found = launched(TORCHRUN, RANK="0", TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RUN_ID="a")
    assert (found.rank, found.size, found.local_rank, found.node) == (0, 8, 1, "1")
    assert (found.host, found.port, found.serves) == ("10.0.0.7", 29500, False)
    assert "a" in found.session


def test_otherwise_rank_0_opens_the_meeting_and_nobody_else() -> None:
    assert launched(TORCHRUN, RANK="0").serves
    assert not launched(TORCHRUN).serves


def test_only_the_first_rank_of_a_machine_asks_the_hub() -> None:
    assert not launched(TORCHRUN).fetches
    assert launched(TORCHRUN, LOCAL_RANK="0").fetches
    unsaid = {name: value for name, value in TORCHRUN.items() if name != "LOCAL_RANK"}
    assert launched(unsaid).fetches


def test_srun_meets_at_the_first_node_of_the_step_at_a_port_of_the_job() -> None:
    found = launched(SRUN)
    assert (found.how, found.rank, found.size, found.local_rank, found.node) == ("srun", 9, 16, 1, "1")
    assert found.host == "gpu-a007"
    assert 20000 <= found.port < 32000
    assert found.port == launched(SRUN, SLURM_PROCID="0").port != launched(SRUN, SLURM_JOB_ID="1235").port


@pytest.mark.parametrize(
    ("nodes", "first"), [("n1", "n1"), ("n1,n2", "n1"), ("n[3-4]", "n3"), ("r[1-2]-ib,x", "r1-ib"), ("a-[08]", "a-08")]
)
def test_the_first_node_of_a_list(nodes: str, first: str) -> None:
    assert launched(SRUN, SLURM_STEP_NODELIST=nodes).host == first


@pytest.mark.parametrize("step", ["", "4294967291"])
def test_a_batch_script_is_no_rank(step: str) -> None:
    """It has SLURM_PROCID=0 and the size of the job, and would wait for others that nobody started."""
    assert find_launch({**SRUN, "SLURM_PROCID": "0", "SLURM_STEP_ID": step}) is None


def test_mpi_on_one_machine_needs_no_address() -> None:
    found = launched(OPEN_MPI)
    assert (found.how, found.rank, found.host) == ("Open MPI", 1, "127.0.0.1")


@pytest.mark.parametrize(
    ("environ", "changes", "word"),
    [
        (TORCHRUN, {"RANK": "x"}, "RANK='x'"),
        (TORCHRUN, {"RANK": "8"}, "contradict"),
        (TORCHRUN, {"MASTER_PORT": "0"}, "MASTER_PORT"),
        (TORCHRUN, {"MASTER_PORT": ""}, "MASTER_PORT"),
        (OPEN_MPI, {"OMPI_COMM_WORLD_SIZE": "16"}, "MASTER_ADDR"),
    ],
)
def test_what_makes_no_sense_is_one_line_that_names_the_variable(
    environ: dict[str, str], changes: dict[str, str], word: str
) -> None:
    with pytest.raises(UsageError) as caught:
        find_launch({**environ, **changes})
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)
