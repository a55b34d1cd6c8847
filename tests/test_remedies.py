"""What rules tell people to type: our own commands parse as written, and what changes an environment says so."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from kerneldoctor.cli import cli
from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.model import Remedy, Rule

REMEDIES = [(rule, remedy) for rule in shipped_rules() for remedy in rule.remedies]
CHANGES = re.compile(
    r"\b(pip|conda|apt-get|uv pip) (install|uninstall|remove)\b|\bsudo (systemctl|modprobe|rmmod|nvidia-smi -)"
)


def ours() -> Iterator[tuple[Rule, str]]:
    """Every call of kerneldoctor in a command, a check or a way back."""
    for rule, remedy in REMEDIES:
        for text in (remedy.command, remedy.verify, remedy.undo):
            filled = re.sub(r"\{[\w.-]+\}", "v3", text.replace("{remedy.pin}", remedy.pin))
            for call in re.findall(r"(?:^|[;&|]\s*)(kerneldoctor\b[^;&|\n]*)", filled):
                yield rule, call


def test_rules_speak_of_our_commands() -> None:
    assert {shlex.split(call)[1] for _, call in ours()} >= {"scan", "variants", "try"}


@pytest.mark.parametrize("call", sorted({call for _, call in ours()}))
def test_our_commands_parse_as_they_are_written(call: str) -> None:
    name, *arguments = shlex.split(call)[1:]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no command {name}"
    command.make_context(name, arguments)


def named(pair: tuple[Rule, Remedy]) -> str:
    return f"{pair[0].id}: {pair[1].title}"


def test_a_title_stands_alone_whatever_comes_before_it() -> None:
    assert [named(pair) for pair in REMEDIES if re.match(r"(Or|And|Then|Else|Also)\b", pair[1].title)] == []


def test_what_changes_an_environment_is_no_safe_remedy() -> None:
    assert [named(pair) for pair in REMEDIES if CHANGES.search(pair[1].command) and pair[1].effect == "safe"] == []


def test_another_release_of_what_is_installed_comes_with_the_way_back() -> None:
    leaps = re.compile(
        r"pip install .*(torch==|torch_for_triton|transformers==|transformers\.\w*set\}|kernels==|numpy<)"
    )
    again = re.compile(r"--force-reinstall|--upgrade|torch\.pip_arguments\}$")
    without = [p for p in REMEDIES if leaps.search(p[1].command) and not again.search(p[1].command) and not p[1].undo]
    assert [named(pair) for pair in without] == []


def test_a_wheel_of_pytorchs_index_is_always_asked_for_with_that_index() -> None:
    texts = [(rule.id, text) for rule, r in REMEDIES for text in (r.command, r.undo) if "torch==" in text]
    labelled = [(rule, text) for rule, text in texts if re.search(r"torch==\S*(\+|torch\.version)", text)]
    assert [(rule, text) for rule, text in labelled if "--index-url" not in text] == []
