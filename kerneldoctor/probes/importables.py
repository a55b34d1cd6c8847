"""Finds what an `import` of the target interpreter would find, from folder listings. It imports nothing.

Import hooks (editable installs of setuptools, zip files) are not modelled; who asks must say "unknown" where
`distributions.editable` tells of one.
"""

from __future__ import annotations

import ast
import posixpath
from typing import Any, Literal

from ..environment import Fact, absent, unknown
from ..errors import ProbeError
from ..host import Host, read_text
from ..values import dataclass
from .scene import Scene

SOURCE_LIMIT = 256 * 1024  # bytes of a Python file; torch/version.py has 600


@dataclass(frozen=True, slots=True)
class Importable:
    """One place where a name can be imported from."""

    root: str  # the sys_path entry
    path: str
    kind: Literal["package", "module", "namespace"]  # a folder with __init__, a file, a folder without


class ImportPath:
    """The folders of the target's `sys_path` in import order, each listed once."""

    def __init__(self, scene: Scene) -> None:
        self._host = scene.host
        self._roots: list[tuple[str, tuple[str, ...]]] = []
        self._by_stem: list[dict[str, list[str]]] = []  # of each root: "torch" -> ["torch", "torch.libs"]
        self._refused: list[str] = []
        seen: set[str] = set()
        for root in scene.target.sys_path:
            try:
                info = self._host.stat(root)
                if info.kind == "dir" and info.real not in seen:  # lib64 is often a link to lib
                    seen.add(info.real)
                    self._add(root, self._host.listdir(root))
            except ProbeError as error:
                self._refused.append(str(error))

    def _add(self, root: str, names: tuple[str, ...]) -> None:
        by_stem: dict[str, list[str]] = {}
        for name in names:
            by_stem.setdefault(name.partition(".")[0], []).append(name)
        self._roots.append((root, names))
        self._by_stem.append(by_stem)

    @property
    def gap(self) -> str:
        """Why a folder of the path could not be listed; "" when all could. What is not found is then not absent."""
        return self._refused[0] if self._refused else ""

    def names(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each folder with the names in it."""
        return self._roots

    def find(self, name: str) -> tuple[Importable, ...]:
        """Every place of a top-level name; `import` takes the first that is no namespace, else all namespaces."""
        return tuple(
            found
            for (root, _), stems in zip(self._roots, self._by_stem, strict=True)
            if name in stems and (found := _in_folder(self._host, root, stems[name], name)) is not None
        )

    def first(self, name: str) -> Importable | None:
        """What `import name` takes."""
        found = self.find(name)
        return next((f for f in found if f.kind != "namespace"), found[0] if found else None)

    def nothing(self, what: str) -> Fact[Any]:
        """The fact for a thing that was not found: absent, or unknown where a folder could not be listed."""
        return unknown(self.gap) if self.gap else absent(f"no {what} on the path of this Python")


def assigned(host: Host, file: str) -> dict[str, str | bool]:
    """Texts and truth values that a Python file assigns to names at its top level, read without running it.

    Raises ProbeError when it cannot be read or is no Python source.
    """
    try:
        tree = ast.parse(read_text(host, file, SOURCE_LIMIT))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ProbeError(f"{file} is no Python source") from None
    values: dict[str, str | bool] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str | bool):
            values[target.id] = value.value
    return values


def _in_folder(host: Host, root: str, names: list[str], name: str) -> Importable | None:
    path = posixpath.join(root, name)
    is_folder = name in names and host.stat(path).kind == "dir"
    if is_folder and any(entry.startswith("__init__.") for entry in _names(host, path)):
        return Importable(root, path, "package")
    file = next((n for n in names if n != name and n.endswith((".py", ".so", ".pyc", ".pyd"))), None)
    if file is not None:
        return Importable(root, posixpath.join(root, file), "module")
    return Importable(root, path, "namespace") if is_folder else None


def _names(host: Host, folder: str) -> tuple[str, ...]:
    try:
        return host.listdir(folder)
    except ProbeError:
        return ("__init__.",)  # may not be listed: taken for a package, so that nobody calls it a leftover
