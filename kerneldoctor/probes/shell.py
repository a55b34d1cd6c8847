"""Finds out how a shell reaches the environment that is looked at: which pip, which python, what comes before it.

It looks at names on PATH and at paths; it starts nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from ..address import Address, quoted
from ..environment import Environment
from ..errors import ProbeError
from ..host import Host
from .scene import Target

_OWN = ("site-packages", "dist-packages")


def find_address(host: Host, target: Target, environment: Environment) -> Address:
    """How to name the environment of `target` in commands; as usual where that cannot be told."""
    pip_missing = environment.packages.get("pip").version.is_absent
    try:
        # One observation: a recording tells of the shell in which it was made.
        found = host.observe("shell", "", lambda: _look(host, target, pip_missing))
    except ProbeError:
        return Address()
    return _address(found)


def _look(host: Host, target: Target, pip_missing: bool) -> dict[str, Any]:
    python = target.executable
    return {
        "python": "" if _is_beside(host, "python", python) else python,
        "pip": "" if _is_beside(host, "pip", python) and not pip_missing else python,
        "uv": pip_missing and host.which("uv") is not None,
        "no_pip": pip_missing and host.which("uv") is None,
        "program": _program(host),
        "other": "" if target.is_self else python,
        "conda": _conda(host, target),
        "first": _before_own_packages(host, target),
    }


def _address(found: object) -> Address:
    """Checks the answer, which may come from a file."""
    if not isinstance(found, Mapping):
        return Address()
    texts = {name: found.get(name) for name in ("python", "pip", "program", "other", "conda")}
    first = found.get("first")
    return Address(
        **{name: text for name, text in texts.items() if isinstance(text, str)},
        uv=found.get("uv") is True,
        no_pip=found.get("no_pip") is True,
        first={str(folder): str(why) for folder, why in first.items()} if isinstance(first, Mapping) else {},
    )


def _is_beside(host: Host, name: str, python: str) -> bool:
    """Whether the program that PATH picks lies in the interpreter's own folder."""
    found = host.which(name)
    return found is not None and os.path.dirname(found) == os.path.dirname(python)


def _program(host: Host) -> str:
    """How kerneldoctor was called, where its plain name would not find it."""
    script = sys.argv[0] if sys.argv else ""
    found = host.which("kerneldoctor")
    if os.path.basename(script) == "kerneldoctor":
        same = found is not None and _real(found) == _real(script)
        return "" if same or not os.path.dirname(script) else quoted(script)
    if os.path.basename(script) == "__main__.py" and not _is_beside(host, "kerneldoctor", sys.executable):
        return f"{quoted(sys.executable)} -m kerneldoctor"
    return ""


def _conda(host: Host, target: Target) -> str:
    active = host.environ.get("CONDA_PREFIX", "")
    is_conda = host.stat(os.path.join(target.prefix, "conda-meta")).kind == "dir"
    return target.prefix if is_conda and (not active or _real(active) != _real(target.prefix)) else ""


def _before_own_packages(host: Host, target: Target) -> dict[str, str]:
    """Folders that an import meets before those into which pip installs, each with the reason."""
    own = next((p for p in target.sys_path if os.path.basename(p) in _OWN and _inside(p, target.prefix)), None)
    if own is None:
        return {}
    named = {_real(p) for p in host.environ.get("PYTHONPATH", "").split(os.pathsep) if p}
    before: dict[str, str] = {}
    for path in target.sys_path[: target.sys_path.index(own)]:
        if _real(path) in named:
            before[os.path.normpath(path)] = "PYTHONPATH comes first"
        elif _inside(path, target.prefix) or _inside(path, target.base_prefix):
            continue  # the standard library
        elif os.path.basename(path) not in _OWN:
            before[os.path.normpath(path)] = "it comes first on the path"
        elif host.writable(own):  # else pip, too, installs for the user alone
            before[os.path.normpath(path)] = "the user's own packages come first"
    return before


def _inside(path: str, folder: str) -> bool:
    return os.path.normpath(path).startswith(os.path.normpath(folder) + os.sep)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a relative path in a folder that is gone
        return path
