"""The README stays true: what it shows can be typed, and what it names is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import kerneldoctor
from kerneldoctor.cli import cli
from kerneldoctor.engine.loading import all_rules

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
PROMPT = re.compile(r"^\$ (.*kerneldoctor.*)$", re.MULTILINE)
INLINE = re.compile(r"`((?:\.venv/bin/)?kerneldoctor [^`]+)`")


def words(text: str) -> list[str]:
    """As a shell splits a line, operators as words of their own, remarks left out."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    return list(lexer)


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every call of ours in a block of shell or between backticks."""
    lines = [line for block in SHELL.findall(README) for line in block.splitlines()]
    for text in [*lines, *PROMPT.findall(README), *INLINE.findall(README)]:
        found: list[str] | None = None
        for word in [*words(text), ";"]:
            if word in ("&&", "||", "|", ";"):
                yield from [tuple(found)] if found else []
                found = None
            elif found is not None:
                found.append(word)
            elif word == "kerneldoctor" or word.endswith("/kerneldoctor"):
                found = []


COMMANDS = sorted(set(commands()))


def test_the_readme_speaks_of_every_command() -> None:
    assert set(cli.commands) == {name for name, *_ in COMMANDS}


@pytest.mark.parametrize("call", [pytest.param(call, id=" ".join(call)) for call in COMMANDS])
def test_a_command_parses_as_it_is_shown(call: tuple[str, ...]) -> None:
    name, *arguments = call
    command: click.Command = cli.commands[name]
    if isinstance(command, click.Group) and arguments:
        command = command.commands[arguments.pop(0)]
    command.make_context(name, [word for word in arguments if word != "…"])


def test_the_rules_it_names_are_there() -> None:
    assert set(re.findall(r"KD\d{4}", README)) <= {rule.id for rule in all_rules(())}


def test_what_it_calls_from_python_is_public() -> None:
    assert set(re.findall(r"kerneldoctor\.([a-z_]+)\(", README)) <= set(kerneldoctor.__all__)


def test_the_files_it_names_are_there() -> None:
    named = set(re.findall(r"`((?:kerneldoctor|tests|rules)/[\w./-]+)`", README))
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
