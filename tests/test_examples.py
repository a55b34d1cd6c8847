"""The examples that we hand out: each parses as what it is, and each command of ours is one that the program takes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from kerneldoctor.cli import cli
from kerneldoctor.errors import UsageError
from kerneldoctor.examples import EXAMPLES, Example, find_example
from kerneldoctor.pins.search import search
from kerneldoctor.preflight.reading import read_policy

ROOT = Path(__file__).parent.parent


def text_of(name: str) -> str:
    return find_example(name).text


def commands(text: str) -> Iterator[list[str]]:
    """Every call of ours: a line that goes on is joined, and what follows a shell's operator is another command."""
    joined = re.sub(r"\\\n\s*", " ", text)
    joined = re.sub(r">-\n((?:\s{10}\S.*\n)+)", lambda m: " ".join(m[1].split()) + "\n", joined)
    for line in joined.splitlines():
        if re.match(r"\s*- name:", line) or (line.startswith("#") and not re.match(r"#\s+kerneldoctor ", line)):
            continue
        for found in re.finditer(r"(?<![\w.-])(?:[\w./]+/)?kerneldoctor ([a-z][^&|;]*)", line.replace('\\"', '"')):
            yield shlex.split(re.sub(r'"?\$\(which python\)"?', sys.executable, found[1]))


def calls(example: Example) -> Iterator[list[str]]:
    """The commands of an example; of a hook with the arguments and a file that it gives."""
    if example.name == "pre-commit":
        (hook,) = yaml.safe_load(example.text)["repos"][0]["hooks"]
        yield [*hook["entry"].split()[1:], *hook["args"], "a.py"]
        yield from (call for call in commands(example.text) if call[0] != "pins")
        return
    yield from commands(example.text)


CALLS = sorted({(e.name, tuple(c)) for e in EXAMPLES for c in calls(e)})


def test_the_commands_are_found() -> None:
    by_example = {name: {call[0] for other, call in CALLS if other == name} for name, _ in CALLS}
    assert by_example == {
        "github-actions": {"pins", "scan", "variants", "preflight"},
        "gitlab": {"pins", "scan", "variants", "preflight"},
        "slurm": {"prefetch", "preflight"},
        "docker": {"variants", "prefetch", "preflight"},
        "pre-commit": {"pins", "scan"},
    }


@pytest.mark.parametrize(("name", "call"), [pytest.param(*c, id=f"{c[0]}-{c[1][0]}") for c in CALLS])
def test_a_command_is_one_that_the_program_takes(
    name: str, call: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ci").mkdir()
    command = cli.get_command(click.Context(cli), call[0])
    assert command is not None, f"there is no command {call[0]}"
    command.make_context(call[0], list(call[1:]))


@pytest.mark.parametrize("name", ["github-actions", "gitlab", "pre-commit"])
def test_yaml_is_read_as_what_it_is(name: str) -> None:
    document: dict[Any, Any] = yaml.safe_load(text_of(name))
    if name == "github-actions":
        assert set(document["jobs"]) == {"predict", "smoke"}
        assert document["permissions"] == {"contents": "read"}
        uses = [step["uses"] for job in document["jobs"].values() for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", use) for use in uses)
        assert all(("run" in step) != ("uses" in step) for job in document["jobs"].values() for step in job["steps"])
        assert all("timeout-minutes" in job for job in document["jobs"].values())
    elif name == "gitlab":
        jobs = {key: job for key, job in document.items() if ":" in key}
        assert {job["stage"] for job in jobs.values()} == set(document["stages"])
        assert all(isinstance(line, str) for job in jobs.values() for line in (*job["before_script"], *job["script"]))
    else:
        (hook,) = document["repos"][0]["hooks"]
        ours = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))[0]
        assert (hook["id"], hook["entry"], hook["require_serial"]) == (ours["id"], ours["entry"], True)


def test_shell_is_read_by_bash() -> None:
    done = subprocess.run(["bash", "-n"], input=text_of("slurm"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_entry_point_of_the_image_hands_on_its_command(tmp_path: Path) -> None:
    line = next(line for line in text_of("docker").splitlines() if line.startswith("ENTRYPOINT "))
    shell, flag, script, zero = json.loads(line.removeprefix("ENTRYPOINT "))
    for code, expected in (("0", "trained it\n"), ("1", "")):
        doctor = tmp_path / "kerneldoctor"
        doctor.write_text(f"#!/bin/sh\nexit {code}\n")
        doctor.chmod(0o755)
        here = script.replace("/opt/doctor/bin/kerneldoctor", str(doctor))
        done = subprocess.run(
            [shell, flag, here, zero, "echo", "trained", "it"], capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (int(code), expected)


def test_the_policy_is_read_without_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "kerneldoctor.toml"
    path.write_text(text_of("policy"), "utf-8")
    policy = read_policy(str(path))
    assert [kernel.reference for kernel in policy.kernels] == ["kernels-community/flash-attn2@v3"]
    assert (policy.workload.kv_heads, policy.workload.training, policy.run) == (8, True, "smoke")


def test_the_hook_looks_at_what_it_is_given(tmp_path: Path) -> None:
    pattern = re.compile(yaml.safe_load(text_of("pre-commit"))["repos"][0]["hooks"][0]["files"])
    for name in ("a.py", "b.ipynb", "c.yml", "Dockerfile", "kernels.lock"):
        assert pattern.search(name)
        (tmp_path / name).write_text('attn_implementation: "me/k@v1"\n')
    assert search([str(tmp_path)]).files == 5


def test_an_example_is_printed_as_it_is_and_the_list_names_all() -> None:
    result = CliRunner().invoke(cli, ["example", "slurm"], standalone_mode=False)
    assert (result.return_value, result.stdout) == (0, text_of("slurm"))
    listed = CliRunner().invoke(cli, ["example"], standalone_mode=False).stdout
    assert [line.split()[0] for line in listed.splitlines() if not line.startswith(" ")] == [e.name for e in EXAMPLES]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "kerneldoctor.toml"
    first = CliRunner().invoke(cli, ["example", "policy", "-o", str(path)], standalone_mode=False)
    path.write_text("# mine\n", "utf-8")
    again = CliRunner().invoke(cli, ["example", "policy", "-o", str(path)], standalone_mode=False)
    assert (first.return_value, path.read_text("utf-8")) == (0, "# mine\n")
    assert isinstance(again.exception, UsageError)
    assert "is there already" in str(again.exception)
    CliRunner().invoke(cli, ["example", "policy", "-o", str(path), "--force"], standalone_mode=False)
    assert path.read_text("utf-8") == text_of("policy")


def test_a_name_that_is_none_is_wrong_use_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="the nearest is github-actions"):
        find_example("github")
