"""Looks at the interpreter of an environment and at what compiling for it needs. It must not import packages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from ..environment import Fact, Python, absent, known, unknown
from ..errors import ProbeError
from ..host import CommandResult, Host
from .distributions import conda_names, installer
from .packages import INTERESTING, in_force
from .scene import Scene, Target

_COMPILER_LIMIT = 2.0  # seconds
_VERSION = re.compile(r"\b(\d+\.\d+(?:\.\d+)?)\b")


def probe(scene: Scene) -> Mapping[str, object]:
    """The `python` part."""
    host, target = scene.host, scene.target
    compiler = _c_compiler(host)
    source = target.executable
    return {
        "python": Python(
            version=known(target.version, source),
            implementation=known(target.implementation, source),
            free_threaded=known(target.free_threaded, source),
            executable=known(target.executable, source),
            environment_kind=_environment_kind(host, target),
            abi_tag=known(target.abi_tag, source),
            site_packages=_site_packages(host, target),
            pip_and_conda_mixed=_pip_and_conda_mixed(scene),
            headers=_headers(host, target),
            c_compiler=compiler,
            c_compiler_version=_c_compiler_version(host, compiler),
        )
    }


def _is_folder(host: Host, path: str) -> bool:
    return host.stat(path).kind == "dir"


def _environment_kind(host: Host, target: Target) -> Fact[str]:
    try:
        if _is_folder(host, posixpath.join(target.prefix, "conda-meta")):
            return known("conda", posixpath.join(target.prefix, "conda-meta"))
    except ProbeError as error:
        return unknown(str(error))
    return known("venv" if target.prefix != target.base_prefix else "system", "sys.prefix and sys.base_prefix")


def _site_packages(host: Host, target: Target) -> Fact[tuple[str, ...]]:
    named = [p for p in target.sys_path if posixpath.basename(p) in ("site-packages", "dist-packages")]
    try:
        return known(tuple(p for p in named if _is_folder(host, p)), "sys.path")
    except ProbeError as error:
        return unknown(str(error))


def _pip_and_conda_mixed(scene: Scene) -> Fact[bool]:
    """Whether pip wrote over a package that conda lists as its own: files of both then lie in one folder."""
    host, prefix = scene.host, scene.target.prefix
    records = posixpath.join(prefix, "conda-meta")
    try:
        if not _is_folder(host, records):
            return known(False, "no conda-meta")
        ours = {name: which.first for name, which in in_force(scene.distributions).items() if name in INTERESTING}
        both = sorted(name for name in conda_names(host, prefix) & set(ours) if _by_pip(installer(host, ours[name])))
    except ProbeError as error:
        return unknown(str(error))
    return known(bool(both), f"{records} and INSTALLER of {', '.join(both)}" if both else records)


def _by_pip(who: Fact[str]) -> bool:
    return who.is_known and who.value != "conda"


def _headers(host: Host, target: Target) -> Fact[bool]:
    header = posixpath.join(target.include, "Python.h")
    try:
        return known(host.stat(header).kind == "file", header)
    except ProbeError as error:
        return unknown(str(error))


def _c_compiler(host: Host) -> Fact[str]:
    """The compiler that Triton would call: $CC as it stands, else gcc, else clang; it does not try cc.

    See https://github.com/triton-lang/triton/blob/main/python/triton/runtime/build.py
    """
    try:
        wanted = host.environ.get("CC")
        if wanted is not None:
            found = wanted.strip() and host.which(wanted)
            return known(wanted, "CC") if found else absent(f'CC is "{wanted}", which is no program')
        for name in ("gcc", "clang"):
            path = host.which(name)
            if path:
                return known(path, f"{name} on PATH")
    except ProbeError as error:
        return unknown(str(error))
    return absent("CC, gcc and clang")


def _c_compiler_version(host: Host, compiler: Fact[str]) -> Fact[str]:
    if not compiler.is_known or compiler.value is None:
        return compiler
    argv = (compiler.value, "--version")
    try:
        result = host.run(argv, _COMPILER_LIMIT)
    except ProbeError as error:
        return unknown(str(error))
    return _read_version(result, " ".join(argv))


def _read_version(result: CommandResult, command: str) -> Fact[str]:
    if result.trouble == "missing":
        return absent(command)
    if not result.ok:
        why = {"timeout": f"no answer within {_COMPILER_LIMIT:g} s", "denied": "not allowed"}.get(result.trouble)
        return unknown(f"{command}: {why or f'exit code {result.code}'}")
    # "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0": the packager's own version stands in brackets.
    first = re.sub(r"\([^)]*\)", "", result.stdout.partition("\n")[0])
    version = _VERSION.search(first)
    return known(version[1], command) if version else unknown(f"{command}: no version in its answer")
