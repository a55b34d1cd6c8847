"""The sources and the metadata inside a wheel or an sdist; parses them and never imports or runs them."""

from __future__ import annotations

import ast
import email
import functools
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


class Unreadable(Exception):
    """A wheel that does not look like any release we know how to read."""


class Wheel:
    """The Python sources and the metadata of one wheel, or of an sdist where a release has no wheel."""

    def __init__(self, path: Path) -> None:
        files = _zipped(path) if path.suffix == ".whl" else _tarred(path)
        metadata = next((n for n in files if n.endswith(".dist-info/METADATA") or n == "PKG-INFO"), None)
        if metadata is None:
            raise Unreadable(f"{path.name}: no METADATA")
        self._headers = email.message_from_string(files[metadata]().decode("utf-8", "replace"))
        self._files = {name: read for name, read in files.items() if name.endswith(".py")}
        self._trees: dict[str, ast.Module] = {}

    def tree(self, name: str) -> ast.Module:
        """The parsed source of one file; empty where the wheel has none of that name."""
        if name not in self._trees:
            self._trees[name] = ast.parse(self._files[name]() if name in self._files else b"")
        return self._trees[name]

    def nodes(self, kind: type[ast.AST], skip: tuple[str, ...] = ()) -> Iterator[Any]:
        """Every node of one kind in every source whose path does not hold one of `skip`."""
        for name in self._files:
            if not any(part in name for part in skip):
                yield from (node for node in ast.walk(self.tree(name)) if isinstance(node, kind))

    def strings(self) -> Iterator[str]:
        """Every string constant, f-string parts included."""
        return (n.value for n in self.nodes(ast.Constant) if isinstance(n.value, str))

    @property
    def version(self) -> str:
        """The release."""
        return str(self._headers["Version"])

    @property
    def python(self) -> str:
        """Requires-Python."""
        return str(self._headers["Requires-Python"] or "")

    def requires(self, name: str, extra: str | None = None) -> str | None:
        """The specifier asked of a distribution, of an extra where one is named; None where nothing is asked."""
        for line in self._headers.get_all("Requires-Dist") or []:
            requirement = Requirement(line)
            if requirement.name.replace("_", "-").lower() != name:
                continue
            marker = str(requirement.marker or "")
            if (extra is None and "extra" not in marker) or (extra is not None and f'extra == "{extra}"' in marker):
                return _ordered(str(requirement.specifier))
        return None


def _zipped(path: Path) -> dict[str, Callable[[], bytes]]:
    archive = zipfile.ZipFile(path)
    return {name: functools.partial(archive.read, name) for name in archive.namelist()}


def _tarred(path: Path) -> dict[str, Callable[[], bytes]]:
    """The files of an sdist, named as in a wheel: without its top folder and without `src/`. Tests are left out."""
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            name = member.name.partition("/")[2].removeprefix("src/")
            stream = archive.extractfile(member) if not name.startswith("tests/") else None
            if stream is not None:
                found[name] = stream.read()
    return {name: functools.partial(bytes, content) for name, content in found.items()}


def _ordered(specifier: str) -> str:
    """A specifier with its lower bound first: packaging prints its parts in no fixed order."""
    return ",".join(sorted(specifier.split(","), key=lambda part: (not part.startswith(">"), part)))
