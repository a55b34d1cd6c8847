"""A place to run `kerneldoctor try` in: a loopback Hub, a cache of its own, and a look at what is left afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kerneldoctor
from kerneldoctor.smoke.process import MARK
from tests.hub.server import Hub

ROOT = Path(kerneldoctor.__file__).parents[1]


def left_processes(temporary: Path) -> list[str]:
    """The command lines of children of smoke runs with this folder for temporary files that are still there."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes()
            if f"{MARK}=".encode() in variables and f"TMPDIR={temporary}".encode() in variables:
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


@dataclass
class Place:
    """A Hub, a cache, a folder for temporary files, and a device."""

    hub: Hub
    folder: Path
    environ: dict[str, str]
    device: str

    @classmethod
    def make(cls, hub: Hub, folder: Path, device: str) -> Place:
        (folder / "tmp").mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "KERNELS_", "LOCAL_KERNELS", "XDG_"))}
        environ = {
            **kept, **hub.environment(), "HF_HOME": str(folder / "hf"), "TMPDIR": str(folder / "tmp"),
            "XDG_CACHE_HOME": str(folder / "cache"), "NO_COLOR": "1",
        }  # fmt: skip
        return cls(hub, folder, environ, device)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kerneldoctor", *arguments], cwd=ROOT, env=self.environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and error output; nothing may be left."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=900)
        self.nothing_is_left()
        return process.returncode, out, err

    def attempt(self, *arguments: str) -> dict[str, Any]:
        """The JSON of a try on this place's device."""
        code, out, err = self.run("try", *arguments, "--format", "json", "--device", self.device)
        assert out, err
        found: dict[str, Any] = json.loads(out)
        assert found["exit_code"] == code
        return found

    def nothing_is_left(self) -> None:
        assert left_processes(self.folder / "tmp") == []
        assert list((self.folder / "tmp").iterdir()) == []


def of_kind(found: Mapping[str, Any], outcome: str) -> list[dict[str, Any]]:
    """The cases with an outcome."""
    return [case for case in found["cases"] if case["outcome"] == outcome]
