"""How a shell reaches the environment that was looked at, and commands written so that they reach it.

`pip install` mends whatever environment the shell has active, which need not be the sick one. Values and text only:
`probes.shell` finds out, and nothing here runs a command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field

from .values import dataclass

# Patterns are compiled when they are first used: most scans need none.
_COMMAND = r"""
        (?P<before>^|&&|\|\||[;|(])                                             # where a shell expects a program
        (?P<settings>\s*(?:[A-Za-z_]\w*=(?:"[^"]*"|'[^']*'|[^\s"'])*\s+)*)      # MAX_JOBS=4
        (?P<word>pip3?|python3?|kerneldoctor|conda)(?P<rest>\s+(?P<sub>[a-z]+)|(?=\s))"""
_LOOKING = ("scan", "variants", "resolve", "try", "recommend")  # our commands that take --python
_PLAIN = r"[\w@%+=:,./~-]+"


@dataclass(frozen=True, slots=True)
class Address:
    """What to write in the place of the usual words; "" where the usual word reaches the environment."""

    python: str = ""  # its interpreter, for `python`
    pip: str = ""  # its interpreter, for `pip`
    uv: bool = False  # it has no pip of its own, and there is uv
    no_pip: bool = False  # it has no pip of its own, and there is no uv
    program: str = ""  # how kerneldoctor is called, for `kerneldoctor`
    other: str = ""  # its interpreter where that is not the one that runs kerneldoctor
    conda: str = ""  # its folder where conda has another environment active
    first: Mapping[str, str] = field(default_factory=dict)  # folders that come before its own packages, and why

    def commands(self, text: str) -> str:
        """Lines for a shell with every command in them addressed to the environment."""
        return re.sub(_COMMAND, self._addressed, text, flags=re.MULTILINE | re.VERBOSE)

    def _addressed(self, match: re.Match[str]) -> str:
        write = _WRITERS[match["word"].rstrip("3")]
        return match["before"] + match["settings"] + write(self, match)


def _pip(address: Address, match: re.Match[str]) -> str:
    rest = match["rest"] or ""
    if not address.pip:
        return match["word"] + rest
    if address.uv:
        return f"uv pip{rest} --python {quoted(address.pip)}"
    return f"{quoted(address.pip)} -m pip{rest}"


def _python(address: Address, match: re.Match[str]) -> str:
    return (quoted(address.python) if address.python else match["word"]) + (match["rest"] or "")


def _kerneldoctor(address: Address, match: re.Match[str]) -> str:
    asked = f" --python {quoted(address.other)}" if address.other and match["sub"] in _LOOKING else ""
    return (address.program or match["word"]) + (match["rest"] or "") + asked


def _conda(address: Address, match: re.Match[str]) -> str:
    where = f" -p {quoted(address.conda)}" if address.conda and match["sub"] else ""
    return match["word"] + (match["rest"] or "") + where


_WRITERS: Mapping[str, Callable[[Address, re.Match[str]], str]] = {
    "pip": _pip, "python": _python, "kerneldoctor": _kerneldoctor, "conda": _conda,
}  # fmt: skip


def quoted(path: str) -> str:
    """A path as one word for a shell. Not in quotes: within these no `~` would be the home folder."""
    return path if re.fullmatch(_PLAIN, path) else re.sub(r"([^\w@%+=:,./~-])", r"\\\1", path)
