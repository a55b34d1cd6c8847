"""Says which builds a given `kernels` release would take on a given machine, in which order, and why not the others.

Pure: no listing is fetched here, and nothing beyond folder names is judged (architectures, metadata and known
faults come later). Every answer has three values: a build whose fate hangs on an unknown fact is undetermined.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ..values import dataclass
from .acceptance import Missing, Problem, Reason, problems
from .eras import Feature, Rules, rules_of
from .system import SystemDescription
from .variant import Framework, Variant

Rank = tuple[int, ...]  # lower is preferred; equal ranks are taken in the order of the listing


@dataclass(frozen=True, slots=True)
class Rejected:
    """A build that would not be taken, with the first check that it fails."""

    variant: Variant
    reason: Reason


@dataclass(frozen=True, slots=True)
class Undetermined:
    """A build that fails no check, with the facts that the open ones need."""

    variant: Variant
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one `kernels` release would do with the listed builds on one machine."""

    rules: Rules
    accepted: tuple[Variant, ...]  # in the order of preference
    preferred: Variant | None  # None: nothing is accepted, or an undetermined build could come first
    tied: tuple[Variant, ...]  # builds as good as the preferred one: the library takes whichever is listed first
    undetermined: tuple[Undetermined, ...]
    rejected: tuple[Rejected, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """The facts, by path, that would settle every undetermined build."""
        return tuple(dict.fromkeys(gap.fact for item in self.undetermined for gap in item.missing))


def resolve(variants: Iterable[Variant], system: SystemDescription, kernels: str) -> Resolution:
    """Judge listed builds for a machine as the `kernels` release would.

    Raises UsageError when `kernels` is no release that is known here.
    """
    return _judge(system, kernels).resolve(variants)


class _Judge:
    """Remembers its verdict on each name: the builds of a whole index share few hundred names."""

    def __init__(self, system: SystemDescription, rules: Rules) -> None:
        self._system = system
        self._rules = rules
        self._seen: dict[str, tuple[Rank, Reason | tuple[Missing, ...]]] = {}

    def resolve(self, variants: Iterable[Variant]) -> Resolution:
        judged = [(*self._verdict(variant), variant) for variant in variants]
        judged.sort(key=lambda item: item[0])
        open_ranks = [rank for rank, outcome, _ in judged if isinstance(outcome, tuple) and outcome]
        accepted = [(rank, variant) for rank, outcome, variant in judged if outcome == ()]
        best = accepted[0][0] if accepted and not (open_ranks and open_ranks[0] <= accepted[0][0]) else None
        tied = tuple(variant for rank, variant in accepted if rank == best)
        return Resolution(
            rules=self._rules,
            accepted=tuple(variant for _, variant in accepted),
            preferred=tied[0] if tied else None,
            tied=tied[1:],
            undetermined=tuple(Undetermined(v, o) for _, o, v in judged if isinstance(o, tuple) and o),
            rejected=tuple(Rejected(v, o) for _, o, v in judged if isinstance(o, Reason)),
        )

    def _verdict(self, variant: Variant) -> tuple[Rank, Reason | tuple[Missing, ...]]:
        verdict = self._seen.get(variant.name)
        if verdict is None:
            verdict = _rank(variant, self._rules), _outcome(problems(variant, self._system, self._rules))
            self._seen[variant.name] = verdict
        return verdict


@functools.lru_cache(maxsize=16)
def _judge(system: SystemDescription, kernels: str) -> _Judge:
    return _Judge(system, rules_of(kernels))


def _outcome(found: Iterable[Problem]) -> Reason | tuple[Missing, ...]:
    """The first reason against, or else the missing facts; an empty tuple is acceptance."""
    missing: list[Missing] = []
    for problem in found:
        if isinstance(problem, Reason):
            return problem
        missing.append(problem)
    return tuple(dict.fromkeys(missing))


def _rank(variant: Variant, rules: Rules) -> Rank:
    """The library's own sort key (`_sort_variants`), with its oddities.

    From 0.15.1 on a name without ABI tag comes before one with, whatever their CUDA releases; and `torch-cuda`
    ranks with tvm-ffi builds of a CUDA x.0, so that between those two the listing's order decides.
    """
    universal = int(variant.backend == "universal")
    if not rules.has(Feature.READS_NAMES):
        return (1, universal) if variant.is_noarch else (0, 0)
    newest_first = -variant.backend_version[1] if variant.backend_version else 0
    if not rules.has(Feature.TAGLESS_FIRST):
        if variant.is_noarch:
            return 2, universal
        return int(variant.framework is Framework.TVM_FFI), newest_first
    if variant.is_noarch:
        return 2, 0, 0, universal
    if variant.framework is Framework.TORCH_STABLE_ABI:
        major, minor = variant.framework_version or (0, 0)
        return 0, -major, -minor, newest_first
    if variant.framework is Framework.TORCH:
        return 1, 0, int(variant.cxx11 is not None), newest_first
    return 2, 0, 0, newest_first
