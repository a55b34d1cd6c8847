"""How much of made-up pastes is read right, per format and fact, and how fast: `python tests/benchmarks/intake.py`.

Run from the repository root. Machines are drawn with a fixed seed, printed in every format and every wrapping of
tests/intake/printers.py, and read back.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import NonInteractiveExampleWarning

from kerneldoctor.intake import read
from tests.intake.printers import PRINTERS, WRAPS, Machine, differences, machines, reader


def draw(count: int) -> list[Machine]:
    """The same machines in every run."""
    drawn: list[Machine] = []

    @seed(20261201)
    @given(machines())
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def collect(machine: Machine) -> None:
        drawn.append(machine)

    collect()
    return drawn


def accuracy(count: int) -> None:
    """Facts read right of facts printed, per format."""
    right: dict[tuple[str, str], int] = defaultdict(int)
    total: dict[tuple[str, str], int] = defaultdict(int)
    wrong: dict[str, str] = {}
    for machine in draw(count):
        for form, printer in PRINTERS.items():
            text, facts = printer(machine)
            for wrap, surround in WRAPS.items():
                look = reader(read(surround(text)).environment)
                failed = {line.partition(":")[0]: line for line in differences(look, facts.items())}
                for path in facts:
                    total[form, path] += 1
                    right[form, path] += path not in failed
                    if path in failed:
                        wrong.setdefault(f"{form} {path}", f"[{wrap}] {failed[path]}")
    for form in PRINTERS:
        paths = [path for shown, path in total if shown == form]
        parts = [
            f"{path} {right[form, path]}/{total[form, path]}" for path in paths if right[form, path] < total[form, path]
        ]
        good, all_of_them = sum(right[form, p] for p in paths), sum(total[form, p] for p in paths)
        print(f"{form:18} {good:6}/{all_of_them:<6} {'; '.join(parts)}")
    print(f"all {sum(right.values())}/{sum(total.values())}")
    for example in list(wrong.items())[:40]:
        print("  wrong:", *example)


def speed() -> None:
    """Reports a second, and megabytes a second of a training log with a fault in its last lines."""
    machine = draw(5)[-1]
    reports = [
        surround(printer(machine)[0]) for printer in PRINTERS.values() for surround in (WRAPS["fence"], WRAPS["quote"])
    ]
    for report in reports:
        read(report)
    began = time.process_time()
    for report in reports:
        read(report)
    spent = time.process_time() - began
    size = sum(map(len, reports)) / len(reports)
    each = 1000 * spent / len(reports)
    print(f"{len(reports) / spent:.0f} reports a second and core, {size:.0f} characters each ({each:.1f} ms)")
    draws = random.Random(1)
    log = "".join(
        f"2026-01-01T00:{i // 60 % 60:02d}:{i % 60:02d}.123Z [rank{i % 8}]: step {i} loss {draws.random():.4f} "
        f"grad_norm {draws.random():.3f} tokens/s {draws.randint(1, 9999)}\n"
        for i in range(400_000)
    )
    log += "ImportError: /x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cudaEa\n"
    began = time.process_time()
    pasted = read(log)
    spent = time.process_time() - began
    size, found = len(log) / 1e6, pasted.error_text[-1]
    print(f"{size / spent:.1f} MB/s over {size:.0f} MB; the fault in the block from line {found.first_line}")


if __name__ == "__main__":
    warnings.simplefilter("ignore", NonInteractiveExampleWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=10)
    options = parser.parse_args()
    accuracy(options.machines)
    speed()
