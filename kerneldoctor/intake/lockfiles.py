"""Reads poetry.lock and uv.lock: what is to be installed, package by package. It says nothing of what is installed."""

from __future__ import annotations

import re

from .labels import torch_facts
from .model import Source
from .names import normalise
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_NAME = re.compile(r"\s*name = \"([A-Za-z0-9][\w.-]{0,80})\"\s*$")
_VERSION = re.compile(r"\s*version = \"v?(\d[\w.!+-]{0,80})\"\s*$")
_KIND = "lock file"


def read(line: Line, notebook: Notebook) -> bool:
    """Read the head of an entry; its name and version stand on the next two lines."""
    if line.text.strip() != "[[package]]":
        return False
    notebook.saw(_KIND)
    notebook.block = _name
    return True


def _name(line: Line, notebook: Notebook) -> bool:
    found = _NAME.match(line.text)
    notebook.context["locked"] = found[1] if found else ""
    notebook.block = _version if found else None
    return found is not None


def _version(line: Line, notebook: Notebook) -> bool:
    notebook.block = None
    found = _VERSION.match(line.text)
    if found is None:
        return False
    name = normalise(notebook.context["locked"])
    notebook.add(f"packages.{name}.version", found[1], line, _KIND, Source.ASKED)
    if name == "torch":
        for path, value in torch_facts(found[1]):
            notebook.add(path, value, line, _KIND, Source.ASKED)
    return True


RECOGNISER = Recogniser(_KIND, ("[[package]]",), read, exclusive=True)
