"""The walls between the rooms: who may import whom, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldoctor

PACKAGE = Path(kerneldoctor.__file__).parent

# A room may import the rooms named here, and itself. What is not listed may import nothing of ours.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "archs": set(),
    "environment": {"errors"},
    "host": {"errors"},
    "probes": {"errors", "environment", "host"},
    "engine": {"errors", "environment", "archs"},
    "hub": {"errors", "environment", "engine", "archs"},
    "smoke": {"errors"},
    "report": {"errors", "environment", "engine", "hub"},
    "api": {"errors", "environment", "host", "probes", "engine", "hub", "report"},
    "api_hub": {"errors", "environment", "host", "probes", "engine", "hub", "report", "api"},
    "cli": {"errors", "environment", "host", "engine", "hub", "report", "api", "api_hub", "cli_hub"},
    "cli_hub": {"errors", "environment", "host", "engine", "hub", "report", "api", "api_hub"},
    "__main__": {"cli"},
    "__init__": {"api", "environment", "errors", "report"},
    "_build": {"engine"},
}
HEAVY = {"torch", "transformers", "kernels", "flash_attn", "triton", "numpy"}
# The room that runs somebody else's binary code lives in a process of its own and may import these.
MAY_IMPORT_HEAVY = {"probes/deep_child.py", "smoke/worker.py", "smoke/loading.py", "smoke/numerics.py"}
HEAVY_FOLDERS = ("smoke/contracts/", "smoke/numerics/")


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield name, name.split("/")[0].removesuffix(".py"), ast.parse(path.read_text("utf-8"))


def imports(tree: ast.Module, name: str) -> Iterator[str]:
    """Dotted names that a module imports; relative ones resolved."""
    here = ["kerneldoctor", *name.removesuffix(".py").split("/")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level]
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("name", "room", "tree"), [pytest.param(*m, id=m[0]) for m in modules()])
def test_no_module_reaches_into_a_room_it_may_not_know(name: str, room: str, tree: ast.Module) -> None:
    assert room in ALLOWED, f"{room} is a new room: say in ALLOWED whom it may import"
    for imported in imports(tree, name):
        parts = imported.split(".")
        if (
            parts[0] == "kerneldoctor"
            and len(parts) > 1
            and (PACKAGE / f"{parts[1]}.py").exists() | (PACKAGE / parts[1]).is_dir()
        ):
            assert parts[1] == room or parts[1] in ALLOWED[room], f"{name} imports {imported}"
        may_be_heavy = name in MAY_IMPORT_HEAVY or name.startswith(HEAVY_FOLDERS)
        assert parts[0] not in HEAVY or may_be_heavy, f"{name} imports {imported}"
        if parts[0] == "huggingface_hub":
            assert room == "hub", f"{name} imports {imported}"
