"""Build hook: compiles the rules and tables to `rules/bundle.jsonl` before the wheel is made.

Runs in the build's own environment, where kerneldoctor is not installed: it loads the one module it needs by path.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BundleHook(BuildHookInterface):  # type: ignore[type-arg]
    """hatchling's custom build hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the bundle; hatchling calls this before it collects files."""
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from kerneldoctor.engine.loading import write_bundle
        finally:
            sys.path.remove(str(root))
        write_bundle(root / "rules")
        build_data.setdefault("artifacts", []).append("rules/bundle.jsonl")
