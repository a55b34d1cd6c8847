"""Times of the hub room: the whole index for one environment, the search for another, and `variants` offline.

python -m tests.benchmarks.hub prints the best of several rounds in milliseconds, beside what each may cost.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from kerneldoctor.hub.candidates import Judge
from kerneldoctor.hub.find_env import find_environments
from kerneldoctor.hub.index import index_listing, repositories
from tests.hub.machines import FLASH, RULES, TABLES, machine

ROUNDS = 15


def best(what: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        what()
        times.append(time.perf_counter() - began)
    return min(times) * 1000


def whole_index(rules: bool) -> Callable[[], object]:
    listings = [found for repo in repositories() if (found := index_listing(repo)) is not None]

    def judge() -> object:
        judge = Judge(machine(), TABLES, RULES if rules else ())
        return [judge.judge(listing) for listing in listings]

    return judge


def search() -> object:
    listing = index_listing(FLASH)
    assert listing is not None
    return find_environments(listing, machine("2.9.1+cu128", transformers="5.21.1"), TABLES, RULES)


def offline() -> object:
    # HF_HUB_OFFLINE would be a fact of this machine, and the answer that the cache does not hold the kernel.
    what_if = ["--torch", "2.13", "--gpu", "H100", "--source", "index"]
    command = [sys.executable, "-m", "kerneldoctor", "variants", f"{FLASH}@v3", *what_if]
    return subprocess.run(command, capture_output=True, check=True, env={**os.environ, "HF_HUB_OFFLINE": "0"})


if __name__ == "__main__":
    print(f"the whole index, resolved            {best(whole_index(False)):7.1f} ms  (50)")
    print(f"the whole index, with known faults   {best(whole_index(True)):7.1f} ms")
    print(f"find-env                             {best(search, 3):7.1f} ms")
    print(f"variants REF, offline, whole process {best(offline, 7):7.1f} ms  (400)")
