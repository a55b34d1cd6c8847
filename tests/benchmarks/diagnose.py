"""How often `diagnose` names the right fault, by class, how often it cries wolf, and how fast it is.

python -m tests.benchmarks.diagnose [--jobs N]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from kerneldoctor.diagnosis.batch import diagnose_files
from kerneldoctor.report.diagnosis_json import to_json
from tests.diagnosis.reports import Report, false_alarms, load, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    reports = load()
    print(f"{'class':<34} {'reports':>7} {'first':>6} {'any':>6}")
    for name, result in sorted(score(reports).items()):
        first, found = result.first / result.reports, result.found / result.reports
        print(f"{name:<34} {result.reports:>7} {first:>6.0%} {found:>6.0%}  {'; '.join(result.missed)}")
    alarms = false_alarms(reports)
    print(f"confirmed errors on {sum(not r.rules for r in reports)} healthy and near-miss reports: {alarms or 'none'}")
    speed(reports, jobs)


def speed(reports: list[Report], jobs: int, copies: int = 6) -> None:
    """Reports a second in a batch, the start of the processes included."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(copies):
            for place, report in enumerate(reports):
                path = Path(folder) / f"{number}-{place}.md"
                path.write_text(report.text, "utf-8")
                paths.append(str(path))
        start, worked = time.perf_counter(), processor_seconds()
        done = sum(1 for _ in diagnose_files(paths, jobs=jobs, render=to_json))
        took, worked = time.perf_counter() - start, processor_seconds() - worked
    print(f"{done} reports in {took:.1f} s with {jobs} processes: {done / took:.0f} a second;")
    print(f"{worked / done * 1000:.1f} ms of processor time each, so {jobs * done / worked:.0f} a second on free cores")


def processor_seconds() -> float:
    """What this process and its children have used."""
    return sum(time for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) for time in resource.getrusage(who)[:2])


if __name__ == "__main__":
    main()
