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
    "values": set(),
    "archs": set(),
    "files": {"errors"},
    "address": set(),
    "terminal": {"errors", "files", "report"},
    "processes": set(),
    "environment": {"errors"},
    "host": {"errors", "processes"},
    "probes": {"errors", "environment", "host", "processes", "address", "build_label"},
    "engine": {"errors", "environment", "archs", "files"},
    "hub": {"errors", "environment", "engine", "archs", "files"},
    # Of the hub only how names of builds are read: one grammar for listings and for pasted text.
    "intake": {"errors", "environment", "engine", "archs", "hub", "build_label"},
    "build_label": set(),
    "recommendation": {"errors", "environment", "engine", "hub", "smoke", "lock"},
    "api_recommend": {
        "errors",
        "environment",
        "host",
        "probes",
        "engine",
        "hub",
        "report",
        "smoke",
        "lock",
        "api_hub",
        "api_try",
        "recommendation",
    },
    "cli_recommend": {
        "errors",
        "address",
        "hub",
        "report",
        "smoke",
        "api_hub",
        "api_try",
        "api_recommend",
        "recommendation",
        "lock",
        "cli_hub",
        "cli_try",
        "cli_reports",
        "api",
        "terminal",
    },
    "lock": {"errors", "environment", "engine", "files"},
    # Sits on top: it asks the other commands' interfaces for what they know.
    "preflight": {
        "errors",
        "address",
        "environment",
        "engine",
        "hub",
        "smoke",
        "report",
        "files",
        "lock",
        "api",
        "api_hub",
        "api_try",
    },
    "api_preflight": {"errors", "lock", "report", "preflight", "api"},
    "cli_preflight": {
        "cli_numbers",
        "errors",
        "report",
        "preflight",
        "api",
        "api_preflight",
        "cli_reports",
        "terminal",
    },
    "diagnosis": {"errors", "environment", "engine", "intake", "files"},
    # Its parent side; for the child see below.
    "smoke": {"errors", "environment", "engine", "hub", "archs", "processes"},
    "report": {
        "errors",
        "address",
        "environment",
        "engine",
        "hub",
        "smoke",
        "diagnosis",
        "intake",
        "diff",
        "compare",
        "pins",
        "prefetch",
        "recommendation",
        "lock",
    },
    "compare": {"errors", "environment", "smoke"},
    "api_compare": {"errors", "environment", "host", "probes", "engine", "smoke", "api_try", "api_prepare", "compare"},
    "cli_compare": {
        "cli_numbers",
        "errors",
        "files",
        "smoke",
        "compare",
        "report",
        "api_hub",
        "api_compare",
        "cli_try",
        "cli_reports",
        "terminal",
    },
    "api": {"errors", "address", "environment", "host", "probes", "engine", "hub", "report", "files", "processes"},
    "api_hub": {"errors", "address", "environment", "host", "probes", "engine", "hub", "report", "api"},
    "api_prepare": {"errors", "environment", "engine", "hub", "report", "smoke", "api_hub"},
    "api_try": {"errors", "environment", "host", "probes", "engine", "hub", "report", "smoke", "api_prepare"},
    "api_diagnose": {"errors", "environment", "engine", "intake", "diagnosis", "report", "api"},
    "cli_diagnose": {"errors", "report", "diagnosis", "api", "api_diagnose", "terminal"},
    "pins": {"errors", "files", "hub", "lock", "processes"},
    "api_pins": {"errors", "environment", "engine", "hub", "pins", "report", "api_hub"},
    "cli_pins": {"cli_numbers", "api", "api_hub", "api_pins", "cli_hub", "cli_reports", "pins", "report", "terminal"},
    "cli_reports": {"api", "errors", "files", "host", "report", "terminal"},
    "prefetch": {"errors", "environment", "host", "probes", "engine", "hub", "processes", "smoke"},
    "api_prefetch": {"errors", "environment", "engine", "hub", "lock", "prefetch", "report", "smoke", "api_hub"},
    "cli_prefetch": {"cli_numbers", "api_hub", "api_prefetch", "cli_hub", "report", "terminal"},
    "diff": {"environment", "engine", "report"},
    "api_diff": {"errors", "environment", "engine", "hub", "report", "diff", "api", "api_hub"},
    "cli_diff": {"api_diff", "report", "terminal"},
    "examples": {"errors"},
    "cli_example": {"examples", "report", "terminal"},
    "cli": {
        "cli_reports",
        "errors",
        "environment",
        "host",
        "engine",
        "hub",
        "report",
        "api",
        "api_hub",
        "cli_hub",
        "cli_compare",
        "cli_diff",
        "cli_example",
        "cli_pins",
        "cli_prefetch",
        "cli_preflight",
        "cli_try",
        "cli_recommend",
        "cli_diagnose",
        "terminal",
        "processes",
    },
    "cli_try": {
        "cli_numbers",
        "cli_reports",
        "errors",
        "hub",
        "report",
        "smoke",
        "api",
        "api_hub",
        "api_try",
        "terminal",
    },
    "cli_hub": {
        "cli_numbers",
        "errors",
        "address",
        "environment",
        "host",
        "engine",
        "hub",
        "report",
        "api",
        "api_hub",
        "terminal",
    },
    "__main__": {"cli"},
    "cli_numbers": set(),
    "__init__": {
        "api",
        "api_compare",
        "compare",
        "api_try",
        "api_diagnose",
        "api_preflight",
        "api_recommend",
        "diagnosis",
        "environment",
        "preflight",
        "errors",
        "recommendation",
        "report",
        "smoke",
    },
    "_build": {"engine"},
}
HEAVY = {"torch", "transformers", "trl", "datasets", "kernels", "flash_attn", "triton", "numpy"}
# The room that runs somebody else's binary code lives in a process of its own and may import these.
MAY_IMPORT_HEAVY = {
    "probes/deep_child.py",
    "prefetch/offline_child.py",
    "preflight/meeting_child.py",
    *(
        f"smoke/{name}.py"
        for name in (
            "again",
            "attention",
            "bench",
            "device_memory",
            "fences",
            "integrity",
            "loading",
            "numerics",
            "torch_math",
            "worker",
        )
    ),
}
HEAVY_FOLDERS = ("smoke/contracts/", "smoke/measure/", "smoke/through/")
# Run by path under another interpreter, where kerneldoctor need not be installed: these know their siblings alone.
CHILD = (
    "again", "attention", "bench", "cases", "contracts", "device_memory", "fences", "integrity", "loading", "measure",
    "numerics", "protocol", "through", "torch_math", "worker",
)  # fmt: skip

PARENT_OF_CHILD = ("smoke/through/order.py",)


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
            # `values` is how classes are made, which is no knowledge of anybody.
            assert parts[1] in {room, "values", *ALLOWED[room]}, f"{name} imports {imported}"
        may_be_heavy = name in MAY_IMPORT_HEAVY or name.startswith(HEAVY_FOLDERS)
        assert parts[0] not in HEAVY or may_be_heavy, f"{name} imports {imported}"
        if parts[0] == "huggingface_hub":
            assert room == "hub", f"{name} imports {imported}"


@pytest.mark.parametrize(
    ("name", "tree"), [pytest.param(name, tree, id=name) for name, room, tree in modules() if room == "smoke"]
)
def test_the_child_of_a_smoke_run_needs_nothing_but_its_siblings(name: str, tree: ast.Module) -> None:
    if name.split("/")[1].removesuffix(".py") not in CHILD or name in PARENT_OF_CHILD:
        return
    for imported in imports(tree, name):
        if imported.startswith("kerneldoctor."):
            assert imported.split(".")[1] == "smoke", f"{name} imports {imported}"
            assert imported.split(".")[2] in CHILD, f"{name} imports {imported}, which is not for the child"
