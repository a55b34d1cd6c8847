"""Finds the interpreter whose environment is looked at: ours, or the one behind `--python PATH`.

Ours is described in process; another one is run once, for a few milliseconds, with the standard library only. It
must not look at any package: that is the work of the probes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ..errors import ProbeError, UsageError
from ..host import CommandResult, Host
from ..processes import NOT_FROM_HERE
from .scene import Target

TIME_LIMIT = 5.0  # seconds; a cold interpreter on a network file system takes one or two
_MARK = "kerneldoctor-interpreter "  # sitecustomize and .pth files may print lines of their own

# Runs under any Python, 2.7 included, so that an old one is named instead of failing with a syntax error.
# Debian's default scheme points to /usr/local, where no headers are; Triton corrects it in the same way:
# https://github.com/triton-lang/triton/blob/main/python/triton/runtime/build.py
# What PYTHONPATH puts on the path counts as an answer; but nothing of ours is imported from the current folder, which
# is there as well where somebody wrote PYTHONPATH=$PYTHONPATH:/more while it was empty.
_SCRIPT = f"""{NOT_FROM_HERE}
path = list(sys.path)
try:
    from posix import getcwd
    here = getcwd()
except Exception:
    here = ""
sys.path[:] = [p for p in path if p not in ("", ".", here)]
import json
try:
    import sysconfig
    scheme = getattr(sysconfig, "get_default_scheme", getattr(sysconfig, "_get_default_scheme", None))()
    scheme = "posix_prefix" if scheme == "posix_local" else scheme
    more = dict(
        implementation=sys.implementation.name,
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        soabi=sysconfig.get_config_var("SOABI") or "",
        include=sysconfig.get_path("include", scheme),
        base_prefix=sys.base_prefix,
        abiflags=getattr(sys, "abiflags", ""),
    )
except Exception:
    more = dict()
sys.stdout.write("\\n{_MARK}" + json.dumps(dict(
    more,
    executable=sys.executable,
    version=list(sys.version_info),
    prefix=sys.prefix,
    sys_path=[p for p in path if p],
)) + "\\n")
"""


def find_target(host: Host, python: str | None) -> Target:
    """The interpreter to look at: ours for None, else the program (or the environment's folder) at `python`.

    Raises UsageError, in one line, when `python` is no Python 3 that answers within 5 seconds.
    """
    # One key whatever was asked for: a recording is about one interpreter and is replayed on another machine.
    try:
        answer = host.observe("interpreter", "", lambda: _describe(host, python))
    except ProbeError as error:
        raise UsageError(f"cannot tell which Python to look at: {error}") from None
    return _target(answer, python or "the recorded interpreter")


def _describe(host: Host, python: str | None) -> dict[str, Any]:
    return _describe_self() if python is None else _describe_other(host, _program(host, python), python)


def _describe_self() -> dict[str, Any]:
    import sysconfig

    scheme = sysconfig.get_default_scheme()
    return {
        "executable": sys.executable,
        "version": list(sys.version_info),
        "implementation": sys.implementation.name,
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "soabi": sysconfig.get_config_var("SOABI") or "",
        "abiflags": getattr(sys, "abiflags", ""),
        "include": sysconfig.get_path("include", "posix_prefix" if scheme == "posix_local" else scheme),
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "sys_path": _own_path(sys.path, sys.argv[0] if sys.argv else "", sys.flags.safe_path or _cleaned()),
        "is_self": True,
    }


def _cleaned() -> bool:
    """Whether `python -m kerneldoctor` runs, which has taken the current folder off the path already."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == f"{__name__.partition('.')[0]}.__main__"


def _own_path(path: Sequence[str], script: str, safe: bool) -> list[str]:
    """`sys.path` without the entry that Python puts first for the running script, `-m` or `-c`."""
    if path and not path[0] and not safe:  # -c; an empty entry further on is one of PYTHONPATH
        return [p for p in path if p]
    entries = [p for p in path if p]
    if entries and not safe and _real(entries[0]) in {os.path.dirname(_real(script)), _here()}:
        return entries[1:]
    return entries


def _real(path: str) -> str:
    """The path without links; as it is where the current folder is gone, which a relative one hangs on."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        return path


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # the folder is gone
        return ""


def _program(host: Host, python: str) -> str:
    """The program that `python` names: a path, a name on PATH, or the folder of an environment."""
    if not python.strip():
        raise UsageError("--python is empty: give the path of a Python interpreter")
    path = python
    if os.sep not in python and _kind(host, python) == "missing":
        path = host.which(python) or python
    kind = _kind(host, path)
    if kind == "missing":
        raise UsageError(f"--python {python}: no such file; give the path of a Python interpreter")
    if kind == "file":
        return _absolute(path)
    if kind == "other":
        raise UsageError(f"--python {python}: no regular file; give the path of a Python interpreter")
    for inside in ("bin/python", "bin/python3", "Scripts/python.exe"):
        candidate = os.path.join(path, inside)
        if _kind(host, candidate) == "file":
            return _absolute(candidate)
    raise UsageError(f"--python {python}: a folder without bin/python; give the path of a Python interpreter")


def _absolute(path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(_here(), path)


def _kind(host: Host, path: str) -> str:
    try:
        return host.stat(path).kind
    except ProbeError as error:
        raise UsageError(f"--python {path}: {error}") from None


def _describe_other(host: Host, program: str, asked: str) -> dict[str, Any]:
    # -B: looking must not leave compiled files behind. No -I: PYTHONPATH and the user's site-packages count.
    result = host.run((program, "-B", "-c", _SCRIPT), TIME_LIMIT)
    line = next((text for text in reversed(result.stdout.splitlines()) if text.startswith(_MARK)), None)
    if line is None:
        raise UsageError(f"--python {asked}: {_why_no_answer(result)}")
    try:
        found = json.loads(line[len(_MARK) :])
    except ValueError:
        raise UsageError(f"--python {asked}: its answer is cut off") from None
    return {**found, "is_self": False} if isinstance(found, dict) else {}


def _why_no_answer(result: CommandResult) -> str:
    if result.trouble == "timeout":
        return f"no answer within {TIME_LIMIT:g} s; does it start by hand?"
    if result.trouble:
        return "cannot be run; is it a Python interpreter, and executable?"
    said = (result.stderr.strip() or result.stdout.strip()).splitlines()
    said = [] if said and "import json" in said[-1] else said  # it echoed our script
    return "is no Python interpreter that works" + (f" (it says: {said[-1].strip()[:120]})" if said else "")


def _target(answer: object, asked: str) -> Target:
    """Checks the answer: it comes from a program that the user named, or from a file."""
    if not isinstance(answer, Mapping):
        _refuse(asked, "its answer is not understood")
    version = answer.get("version")
    if not isinstance(version, list) or len(version) < 3 or not all(isinstance(n, int) for n in version[:3]):
        _refuse(asked, "its answer names no version")
    if version[0] != 3:
        _refuse(asked, f"is Python {version[0]}.{version[1]}; kerneldoctor looks at Python 3 environments")
    texts = ("executable", "implementation", "soabi", "abiflags", "include", "prefix", "base_prefix")
    paths = answer.get("sys_path")
    if any(not isinstance(answer.get(name), str) for name in texts) or not isinstance(paths, list):
        _refuse(asked, "its answer is not complete; is its standard library there?")
    return Target(
        executable=answer["executable"],
        version=_version_text(version),
        implementation=answer["implementation"],
        free_threaded=bool(answer.get("free_threaded")),
        abi_tag=_abi_tag(answer, version),
        prefix=answer["prefix"],
        base_prefix=answer["base_prefix"],
        include=answer["include"],
        sys_path=tuple(str(p) for p in paths),
        is_self=bool(answer.get("is_self")),
    )


def _refuse(asked: str, why: str) -> NoReturn:
    raise UsageError(f"--python {asked}: {why}")


def _version_text(version: list[Any]) -> str:
    """ "3.15.0rc1", as a version that PEP 440 understands."""
    text = ".".join(str(n) for n in version[:3])
    level = {"alpha": "a", "beta": "b", "candidate": "rc"}.get(version[3]) if len(version) > 4 else None
    return f"{text}{level}{version[4]}" if level else text


def _abi_tag(answer: Mapping[str, Any], version: list[Any]) -> str:
    if answer["implementation"] == "cpython":
        return f"cp{version[0]}{version[1]}{answer['abiflags']}"
    return "_".join(answer["soabi"].split("-")[:2])  # "pypy310-pp73-x86_64-linux-gnu"
