"""Times `kerneldoctor scan` beside the other tools that look at a machine, as whole processes on one machine.

    python tests/benchmarks/scan.py [--python PATH] [--runs N]

`--python` names the interpreter whose environment has torch, transformers and the other tools (default: this one).
Prints the median and the range of the wall time and the largest resident set of each command. Quote the ratios: one
machine's seconds are not another's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path


def commands(python: str) -> dict[str, list[str]]:
    """Every command that is installed beside the interpreter."""
    folder = Path(python).parent
    ours = [sys.executable, "-m", "kerneldoctor", "scan", "--python", python]
    found = {
        "kerneldoctor scan": ours,
        "kerneldoctor scan --format json": [*ours, "--format", "json"],
        "python -m torch.utils.collect_env": [python, "-m", "torch.utils.collect_env"],
    }
    for name, words in (
        ("transformers", ["env"]),
        ("env-doctor", ["check"]),
        ("cuda-doctor", ["diagnose"]),
    ):
        program = folder / name
        if program.exists() or shutil.which(name):
            found[" ".join([name, *words])] = [str(program if program.exists() else name), *words]
    return found


def measure(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak resident MiB of one run (of the process itself, not of its children)."""
    with open(os.devnull, "w") as nothing:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing, stdin=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        return time.perf_counter() - began, usage.ru_maxrss / 1024


def main() -> None:
    """Run every command in turn, so that a machine whose speed drifts is unfair to none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    chosen = commands(arguments.python)
    for command in chosen.values():
        measure(command)  # warms the page cache
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    for _ in range(arguments.runs):
        for name, command in chosen.items():
            figures[name].append(measure(command))
    print(f"{'command':36} {'median s':>9} {'min':>7} {'max':>7} {'MiB':>7}")
    for name, runs in figures.items():
        seconds = [run[0] for run in runs]
        print(
            f"{name:36} {statistics.median(seconds):9.3f} {min(seconds):7.3f} {max(seconds):7.3f} "
            f"{max(run[1] for run in runs):7.1f}"
        )


if __name__ == "__main__":
    main()
