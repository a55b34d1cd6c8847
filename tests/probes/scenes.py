"""A scene around a host, for probes that look at machines rather than at environments."""

from __future__ import annotations

from typing import Any

from kerneldoctor.host import Host
from kerneldoctor.probes.scene import Scene, Target


def scene(host: Host, **target: Any) -> Scene:
    values: dict[str, Any] = {
        "executable": "/venv/bin/python",
        "version": "3.12.3",
        "implementation": "cpython",
        "free_threaded": False,
        "abi_tag": "cp312",
        "prefix": "/venv",
        "base_prefix": "/usr",
        "include": "/usr/include/python3.12",
        "sys_path": (),
        "is_self": False,
    }
    return Scene(host, Target(**(values | target)))
