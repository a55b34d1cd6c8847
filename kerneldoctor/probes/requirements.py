"""Checks whether the distributions that matter meet each other's declared requirements.

It holds only what the packages say of themselves against what is installed; ranges that a package enforces at run
time without declaring them are the rules' business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..environment import Conflict, Fact, Requirements, known, unknown
from ..host import Host
from .distributions import metadata, normalise, unreadable_folders
from .packages import INTERESTING, InForce, in_force
from .scene import Scene, Target

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SOURCE = "Requires-Dist of the installed distributions"


def probe(scene: Scene) -> Mapping[str, object]:
    """The `requirements` part. Raises ProbeError when no folder of the path could be listed."""
    installed = in_force(scene.distributions)
    gaps = unreadable_folders(scene.host, scene.target.sys_path)
    return {"requirements": Requirements(_conflicts(scene, installed, gaps), _duplicates(installed, gaps))}


def _duplicates(installed: Mapping[str, InForce], gaps: tuple[str, ...]) -> Fact[tuple[str, ...]]:
    """Names with two versions in one folder. The same version twice (conda's egg-info beside dist-info) is harmless."""
    found: list[str] = []
    for name, which in sorted(installed.items()):
        versions = dict.fromkeys(d.version for d in (which.first, *which.beside) if d.version)
        if len(versions) > 1:
            found.append(f"{name} {', '.join(sorted(versions))}")
    return known(tuple(found), "metadata folders") if found or not gaps else unknown("; ".join(gaps))


def _conflicts(scene: Scene, installed: Mapping[str, InForce], gaps: tuple[str, ...]) -> Fact[tuple[Conflict, ...]]:
    conflicts: list[Conflict] = []
    unread: list[str] = []
    versions = _Versions(scene.host, installed)
    environment = _marker_environment(scene.host, scene.target)
    for name in sorted(INTERESTING & set(installed)):
        read = metadata(scene.host, installed[name].first)
        if read.problem:
            unread.append(f"{name}: {read.problem}")
        conflicts += _python_conflict(name, read.requires_python, scene.target)
        for line in read.requires:
            requirement = _applicable(line, environment)
            if isinstance(requirement, str):
                unread.append(f"{name}: {requirement}")
            elif requirement is not None:
                conflicts += versions.unmet(name, requirement)
    if gaps:  # what looks missing may be in there
        conflicts = [c for c in conflicts if c.found]
    missing = "; ".join((*unread[:3], *(f"{len(unread) - 3} more" for _ in unread[3:4]), *gaps))
    if missing and not conflicts:
        return unknown(missing)
    return known(tuple(conflicts), f"{_SOURCE}; not read: {missing}" if missing else _SOURCE)


class _Versions:
    """The installed versions, parsed once each."""

    def __init__(self, host: Host, installed: Mapping[str, InForce]) -> None:
        self._host = host
        self._installed = installed
        self._texts: dict[str, tuple[str, ...]] = {}

    def unmet(self, distribution: str, requirement: Requirement) -> Iterator[Conflict]:
        """The conflict that an applicable requirement makes, if it does."""
        wanted = f"{requirement.name}{requirement.specifier}"
        found = self._of(normalise(requirement.name))
        if found is None:
            yield Conflict(distribution, wanted, "")
        elif found and not any(requirement.specifier.contains(text, prereleases=True) for text in found):
            yield Conflict(distribution, wanted, found[0])

    def _of(self, name: str) -> tuple[str, ...] | None:
        """Versions that may be in force (several metadata folders), those that PEP 440 can compare; None: missing."""
        from packaging.version import InvalidVersion, Version

        which = self._installed.get(name)
        if which is None:
            return None
        if name not in self._texts:
            texts = [d.version for d in (which.first, *which.beside)]
            if name in INTERESTING:
                texts = [metadata(self._host, which.first).version or texts[0], *texts[1:]]
            good = []
            for text in texts:
                try:
                    good.append(str(Version(text)))
                except InvalidVersion:
                    continue
            self._texts[name] = tuple(good)
        return self._texts[name]


def _applicable(line: str, environment: Mapping[str, str]) -> Requirement | str | None:
    """The requirement, when it holds for this interpreter without extras; a reason when it cannot be read."""
    from packaging.requirements import InvalidRequirement, Requirement

    marker = line.partition(";")[2]
    if "extra" in marker and " or " not in marker:  # most lines of a large package; parsing them costs 20 ms
        return None
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return f"a requirement that is not understood: {line[:80]}"
    if requirement.marker is None or requirement.marker.evaluate(dict(environment)):
        return requirement
    return None


def _python_conflict(name: str, wanted: str, target: Target) -> Iterator[Conflict]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        version = Version(target.version).base_version  # as pip does: 3.15.0rc1 passes for 3.15
        if wanted and not SpecifierSet(wanted).contains(version):
            yield Conflict(name, f"python{SpecifierSet(wanted)}", target.version)
    except (InvalidSpecifier, InvalidVersion):
        return


def _marker_environment(host: Host, target: Target) -> dict[str, str]:
    """Marker values for the target: its own where interpreters differ, this machine's for the rest."""
    from packaging.markers import default_environment

    # Observed, so that a recording is judged for the machine that it was made on.
    here: dict[str, Any] = host.observe("markers", "", lambda: dict(default_environment()))
    return {
        **{str(key): str(value) for key, value in here.items()},
        "python_version": ".".join(target.version.split(".")[:2]),
        "python_full_version": target.version,
        "implementation_name": target.implementation,
        "implementation_version": target.version,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(
            target.implementation, target.implementation
        ),
        "extra": "",
    }
