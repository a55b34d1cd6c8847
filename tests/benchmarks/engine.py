"""Times what a scan is made of, and the rule engine by itself.

    python tests/benchmarks/engine.py [--python PATH] [--runs N]

`--python` names the interpreter whose environment is scanned (default: this one). Every figure comes from fresh
processes, because what a user waits for is mostly imports. Printed are the medians: processor milliseconds, which other
work on the machine disturbs little, and wall milliseconds. A checkout whose bundle is missing or older than a rule is
compiled anew by every process; write the bundle first:

    python -c "from kerneldoctor.engine import loading as l; l.write_bundle(l.rules_folder())"
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

RULES = 1000  # for one Environment, budget 20 ms
LOADED = 300  # from a bundle, budget 15 ms
Laps = dict[str, tuple[float, float]]  # name of a stage: processor and wall seconds


class Clock:
    """Takes the time since the last lap."""

    def __init__(self) -> None:
        self.laps: Laps = {}
        self._last = (time.process_time(), time.perf_counter())

    def lap(self, name: str) -> None:
        now = (time.process_time(), time.perf_counter())
        self.laps[name] = (now[0] - self._last[0], now[1] - self._last[1])
        self._last = (time.process_time(), time.perf_counter())


def scan_stages(python: str | None) -> Laps:
    """A scan in the order of `kerneldoctor.api.scan`, one lap for each of its parts."""
    clock = Clock()
    import kerneldoctor.cli

    clock.lap("import the command line")
    from kerneldoctor import api, api_hub, cli_hub

    clock.lap("import the API and the Hub room")
    from kerneldoctor.engine.loading import shipped_rules, shipped_tables

    rules = shipped_rules()
    clock.lap("load the shipped rules")
    from kerneldoctor.host import RealHost
    from kerneldoctor.probes.interpreter import find_target
    from kerneldoctor.probes.runner import run_probes

    host = RealHost()
    identity = api.find_identity(host)
    target = find_target(host, python)
    clock.lap("find the interpreter")
    environment = run_probes(host, target)
    clock.lap("probe")
    from kerneldoctor.engine import facts
    from kerneldoctor.engine.case import Case
    from kerneldoctor.engine.matching import judge

    assert facts
    judgement = judge(rules, Case(environment, shipped_tables()))
    clock.lap("judge")
    from kerneldoctor.report.model import build_report
    from kerneldoctor.report.redact import redact_value

    report = redact_value(build_report(environment, judgement, rules, [], "0", "2026-12-01"), identity)
    clock.lap("build and redact the report")
    answers = api_hub.kernels_of_scan((), environment)
    clock.lap("kernels of the Hub")
    from kerneldoctor.report.console import Style, render

    text = render(report, Style(80, False, False, False))
    text += cli_hub.kernels_text(answers, kerneldoctor.cli._page(False))
    clock.lap("render")
    return clock.laps


def rule_engine(python: str | None) -> Laps:
    """Many rules from a bundle, and over the Environment of this machine."""
    from kerneldoctor.engine import facts, loading
    from kerneldoctor.engine.case import Case
    from kerneldoctor.engine.matching import judge
    from kerneldoctor.host import RealHost
    from kerneldoctor.probes.interpreter import find_target
    from kerneldoctor.probes.runner import run_probes

    assert facts
    environment = run_probes(RealHost(), find_target(RealHost(), python))
    text, tables = many_rules(LOADED), loading.shipped_tables()
    shipped = [rule for rule in loading.shipped_rules() if rule.when is not None]
    rules = [replace(rule, id=f"KD{n:04}") for n, rule in zip(range(RULES), itertools.cycle(shipped), strict=False)]
    dict(tables)  # tables are parsed at the first question
    clock = Clock()
    loading.parse_bundle(text)
    clock.lap(f"{LOADED} rules from a bundle")
    judge(rules, Case(environment, tables))
    clock.lap(f"{RULES} rules over one Environment")
    judge(rules, Case(environment, tables))
    clock.lap(f"{RULES} rules over one Environment, again")
    return clock.laps


def many_rules(count: int) -> str:
    """A bundle of as many rules: the shipped ones over and over."""
    from kerneldoctor.engine import loading

    first, *rest = loading.compile_bundle(loading.rules_folder()).split("\n")
    index = json.loads(first)
    number = len(index["rules"])
    heads = [{**index["rules"][n % number], "id": f"KD{n:04}"} for n in range(count)]
    details = [rest[n % number] for n in range(count)]
    return "\n".join([json.dumps({**index, "rules": heads}), *details, *rest[number:]])


def process(*arguments: str) -> tuple[float, float]:
    """Processor and wall seconds of one `kerneldoctor` process with its children."""
    command = [sys.executable, "-m", "kerneldoctor", *arguments]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def in_fresh_process(part: str, python: str | None) -> Laps:
    """The laps that this script measures in a process of its own."""
    command = [sys.executable, __file__, "--part", part, *(["--python", python] if python else [])]
    laps: Laps = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return laps


def repeat(runs: int, measure: Callable[[], Laps]) -> None:
    """Print the median of every lap."""
    found = [measure() for _ in range(runs)]
    for name in found[0]:
        cpu, wall = (statistics.median(laps[name][n] * 1000 for laps in found) for n in (0, 1))
        print(f"  {name:42} {cpu:9.1f} {wall:9.1f}")


def main() -> None:
    """Measure everything, or one part for another process of this script."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--part", choices=["scan", "engine"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    parts: dict[str, Callable[[str | None], Any]] = {"scan": scan_stages, "engine": rule_engine}
    if given.part:
        print(json.dumps(parts[given.part](given.python)))
        return
    python = str(Path(given.python).absolute()) if given.python else None
    target = ["--python", python] if python else []
    print(f"{'medians, ms':44} {'processor':>9} {'wall':>9}")
    print("whole processes")
    commands = {"--version": ["--version"], "explain": ["explain", "KD1001"], "scan": ["scan", *target]}
    repeat(given.runs, lambda: {name: process(*words) for name, words in commands.items()})
    print("a scan, part by part")
    repeat(given.runs, lambda: in_fresh_process("scan", python))
    print("the rule engine")
    repeat(given.runs, lambda: in_fresh_process("engine", python))


if __name__ == "__main__":
    main()
