"""What every probe is given: the Host, the interpreter whose environment is looked at, and its distributions."""

from __future__ import annotations

import dataclasses
import threading
from dataclasses import field

from ..host import Host
from ..values import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The interpreter whose environment is looked at: ours, or the one of `--python PATH`."""

    executable: str
    version: str  # "3.11.7"
    implementation: str  # cpython | pypy
    free_threaded: bool
    abi_tag: str  # cp311, cp313t
    prefix: str
    base_prefix: str
    include: str  # where Python.h would be
    sys_path: tuple[str, ...]  # in import order, without the script's folder
    is_self: bool


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution, from its metadata folder on `sys_path`."""

    name: str  # normalised, "flash-attn"
    version: str
    root: str  # the sys_path entry that holds it
    metadata: str  # the .dist-info or .egg-info folder (or file)


@dataclasses.dataclass(slots=True)
class Scene:
    """One look at a machine. Probes share it, so that what two of them need is read once."""

    host: Host
    target: Target
    _distributions: tuple[Distribution, ...] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def distributions(self) -> tuple[Distribution, ...]:
        """Every distribution on the target's path, in import order (the first of a name is the one in force).

        Raises ProbeError when no folder of the path can be listed.
        """
        from .distributions import list_distributions

        with self._lock:
            if self._distributions is None:
                self._distributions = list_distributions(self.host, self.target.sys_path)
            return self._distributions

    def distribution(self, name: str) -> Distribution | None:
        """The distribution in force under a normalised name."""
        return next((d for d in self.distributions if d.name == name), None)
