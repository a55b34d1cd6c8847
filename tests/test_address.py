"""Commands that reach the environment that was looked at, whatever the shell has active."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from kerneldoctor import cli_hub
from kerneldoctor.address import Address, quoted
from kerneldoctor.report.redact import Identity

OTHER = Address(python="/v/bin/python", pip="/v/bin/python", other="/v/bin/python")
UV = Address(pip="/v/bin/python", uv=True)


@pytest.mark.parametrize(
    ("command", "addressed"),
    [
        ("pip install kernels==0.16.2", "/v/bin/python -m pip install kernels==0.16.2"),
        ('A=1 B="x y" pip3 install z', 'A=1 B="x y" /v/bin/python -m pip install z'),
        ("pip list && M=4 pip install b", "/v/bin/python -m pip list && M=4 /v/bin/python -m pip install b"),
        ("pip show -f torch | head -3", "/v/bin/python -m pip show -f torch | head -3"),
        ('cd / && python -c "import x; python"', 'cd / && /v/bin/python -c "import x; python"'),
        ("python3 -m bitsandbytes", "/v/bin/python -m bitsandbytes"),
        ("kerneldoctor scan --deep", "kerneldoctor scan --python /v/bin/python --deep"),
        ("kerneldoctor try a/b@v1", "kerneldoctor try --python /v/bin/python a/b@v1"),
        ("kerneldoctor explain KD1001", "kerneldoctor explain KD1001"),
        ("unset LD_LIBRARY_PATH\npip install x", "unset LD_LIBRARY_PATH\n/v/bin/python -m pip install x"),
        ("echo pip install x", "echo pip install x"),
        ("conda install -c conda-forge x", "conda install -c conda-forge x"),
        ("pipx install x", "pipx install x"),
        ("", ""),
    ],
)  # fmt: skip
def test_commands_name_the_environment(command: str, addressed: str) -> None:
    assert OTHER.commands(command) == addressed
    assert Address().commands(command) == command


def test_an_environment_without_pip_is_mended_by_uv() -> None:
    assert UV.commands("pip install --no-deps x") == "uv pip install --python /v/bin/python --no-deps x"


def test_conda_names_the_environment_that_is_not_active() -> None:
    conda = Address(conda="/opt/envs/x")
    assert conda.commands("conda install -c conda-forge y") == "conda install -p /opt/envs/x -c conda-forge y"


def test_kerneldoctor_is_called_as_it_was_called() -> None:
    assert Address(program=".venv/bin/kerneldoctor").commands("kerneldoctor scan") == ".venv/bin/kerneldoctor scan"


@pytest.mark.parametrize("path", ["/a b/bin/python", "/a'b/$x/\"(c)/p", "/plain/é"])
def test_a_path_stays_one_word(path: str) -> None:
    assert shlex.split(quoted(path)) == [path]
    assert (
        subprocess.run(["sh", "-c", f"printf %s {quoted(path)}"], capture_output=True, text=True, check=True).stdout
        == path
    )


def test_the_home_folder_may_become_a_tilde(tmp_path: Path) -> None:
    command = f"printf %s {quoted(str(tmp_path / 'my env'))}".replace(str(tmp_path), "~")
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)}
    )
    assert done.stdout == str(tmp_path / "my env")


def test_pages_about_kernels_address_their_commands_before_they_are_redacted() -> None:
    address, identity = Address(pip="/home/alice/v/bin/python"), Identity(homes=("/home/alice",))
    said = cli_hub.said_of({"no_redact": False}, identity, address)
    assert said("     pip install x") == "     ~/v/bin/python -m pip install x"
    plain = cli_hub.said_of({"no_redact": True}, identity, address)
    assert plain("pip install x") == "/home/alice/v/bin/python -m pip install x"
