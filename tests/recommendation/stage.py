"""A stage for recommendations without children: a listing of flash-attn2 as it really is, and a try that is scripted.

Everything but the run itself is real: the index on disk, rules, tables, resolution, the choice.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kerneldoctor.environment import Environment
from kerneldoctor.errors import UndeterminedError
from kerneldoctor.hub.index import keep_listing
from kerneldoctor.hub.listing import Build, Listing, Version
from kerneldoctor.smoke.trial import Refusal, Subject, Trial, Verdict
from kerneldoctor.smoke.wish import Cases
from tests.hub.machines import FLASH, STABLE

FA3 = "kernels-community/flash-attn3"
DAY = "2026-12-01"
GOOD, STALE = "4eec01c", "48628c8"  # build ids of v3: mended, and with the fault of KD3101
COMMITS = {name: number * 40 for name, number in (("v1", "1"), ("v2", "2"), ("v3", "3"), ("v4", "4"))}

Verdicts = Callable[[str, Environment, Cases], Verdict | Refusal | str]
PASSED = Verdict("passed", "passed (16 of 16)")
PARTIAL = Verdict("partial", "partial (inference fine, training not: 4 raised)")
FAILED = Verdict("failed", "failed (1 wrong; 15 of 16 passed)")


def version(name: str, *builds: Build) -> Version:
    return Version(name, COMMITS[name], builds, "live", DAY, True)


def real_matrix() -> Listing:
    """Builds of four versions: v4 for CUDA 13.0, v3 stale for CUDA 12, v2 and v1 for single torch releases."""
    return Listing(FLASH, "live", DAY, (
        version("v4", Build("torch-stable-abi211-cu130-x86_64-linux", "9f3a1c2")),
        version("v3", Build(STABLE.format(126), STALE), Build(STABLE.format(128), STALE),
                Build(STABLE.format(130), GOOD)),
        version("v2", Build("torch211-cxx11-cu128-x86_64-linux", "8a730d9"),
                Build("torch212-cxx11-cu130-x86_64-linux", "8a730d9")),
        version("v1", Build("torch210-cxx11-cu128-x86_64-linux", "f12afc9")),
    ))  # fmt: skip


def flash_attn_3() -> Listing:
    builds = Build("torch-stable-abi29-cu128-x86_64-linux", "47281f5"), Build("torch-stable-abi29-cu130-x86_64-linux")
    return Listing(FA3, "live", DAY, (Version("v1", "a" * 40, builds, "live", DAY, True),))


def keep(*listings: Listing) -> None:
    """As if `index refresh` had been run on that day."""
    for listing in listings:
        keep_listing(listing, datetime.date.fromisoformat(DAY))


def as_it_is(name: str, environment: Environment, cases: Cases) -> Verdict | Refusal | str:
    """What a run of the real builds comes to: v3 of CUDA 12 raises in the backward of grouped queries."""
    if not name.startswith(f"{FLASH}@{COMMITS['v3']}") or environment.torch.cuda.value == "13.0":
        return PASSED
    asked = cases.workload
    alike = asked and asked["heads"] == asked["kv_heads"]
    return PASSED if alike or not cases.backward else PARTIAL


def each(answers: Mapping[str, Verdict | Refusal | str], usual: Verdict | Refusal | str = FAILED) -> Verdicts:
    """An answer by version or name of the package, one for all others."""
    by_reference = {f"{FLASH}@{COMMITS[name]}" if name in COMMITS else name: said for name, said in answers.items()}
    return lambda name, environment, cases: by_reference.get(name, usual)


@dataclass
class Stage:
    """Stands in for try_kernel; keeps what was asked."""

    verdicts: Verdicts = as_it_is
    asked: list[str] = field(default_factory=list)

    def __call__(self, reference: str | None = None, **options: Any) -> Trial:
        name = str(reference or options["module"])
        self.asked.append(name)
        said = self.verdicts(name, options["environment"], options["cases"])
        if isinstance(said, str):
            raise UndeterminedError(said)
        repo, _, commit = name.partition("@")
        subject = Subject(name, repo, commit, commit, "torch-x", source="live")
        if isinstance(said, Refusal):
            return Trial(subject, (), (said,), Verdict("refused", f"refused ({said.why})"), None, ())
        return Trial(subject, (), (), said, None, ())

    @property
    def versions(self) -> list[str]:
        """The versions of flash-attn2 that were run, and anything else by its name."""
        short = {f"{FLASH}@{commit}": name for name, commit in COMMITS.items()}
        return [short.get(name, name) for name in self.asked]
