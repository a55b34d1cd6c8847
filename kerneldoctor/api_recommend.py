"""What `recommend` does, for Python programs: list, predict, try from the newest on, choose, and keep it in a lock.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .api_try import ALL_CASES, NOBODY, USUAL_BOUNDS, asked_workload, try_kernel
from .environment import Environment, known
from .errors import UndeterminedError, UsageError
from .lock import DEFAULT_PATH
from .recommendation.asked import Asked, Doing
from .recommendation.model import Candidate, Policy, Recommendation, Written
from .recommendation.walk import choose, exit_code, walk
from .smoke.wish import Bounds, Cases, Listener

if TYPE_CHECKING:
    from .engine.case import Workload
    from .hub.answer import Answer
    from .hub.candidates import VersionCandidates
    from .hub.find_env import Option
    from .hub.naming import Meaning
    from .hub.reference import Reference
    from .hub.whatif import Changes
    from .recommendation.model import Wheel
    from .smoke.trial import Trial

__all__ = ["DEFAULT_PATH", "Doing", "Recommendation", "Written", "check_lock", "recommend", "write"]
USUAL = "flash_attention_2"  # what is asked about where nothing was named
_HUB_AGAIN = 5.0  # seconds for a Hub that gave no answer before


USUALLY = Doing()


def recommend(
    reference: str | None = None,
    *,
    python: str | None = None,
    environment: Environment | None = None,
    changes: Changes | None = None,
    device: str = "auto",
    cases: Cases = ALL_CASES,
    trust_remote_code: Sequence[str] = (),
    bounds: Bounds = USUAL_BOUNDS,
    rules: Sequence[str | Path] = (),
    doing: Doing = USUALLY,
    listener: Listener = NOBODY,
) -> Recommendation:
    """The kernel build to pin here, with the evidence for and against each that there is.

    reference: owner/name[@revision], or flash_attention_2, which it is by default. The other options are those of
    try_kernel. environment: the facts of that interpreter, where they were looked at already. changes: what if; then
    nothing is run.

    Raises UsageError for what cannot be done as asked. What cannot be told is in the result: exit_code 3.
    """
    from .api_hub import look

    facts = environment or look(None, python)[0]
    if changes:
        doing = replace(doing, run=False)
    asked = Asked(reference or USUAL, python, device, cases, tuple(trust_remote_code), bounds, tuple(rules), listener)
    return _Search(asked, facts, changes, doing).recommendation()


def check_lock(path: str = DEFAULT_PATH) -> None:
    """Raises UsageError where `write` could keep nothing there, before anything is run for it."""
    from .lock import check_writable

    check_writable(path)


def write(recommendation: Recommendation, path: str = DEFAULT_PATH) -> Written:
    """Keep what was chosen in a lock file, if there is something to keep that was not measured better before.

    Raises UsageError where it cannot be written.
    """
    from . import __version__
    from .lock import find_locked, read_lock_if_there, write_lock
    from .recommendation.keeping import locked

    try:
        entry = locked(recommendation, datetime.date.today(), __version__)
    except OSError as error:
        raise UsageError(f"nothing was written to {path}: the build cannot be read again: {error}") from None
    if entry is None:
        return Written(path, None)
    before = find_locked(read_lock_if_there(path), entry.reference, entry.environment)
    if before is not None and before.is_measured and not entry.is_measured:
        return Written(path, before, kept=True)
    write_lock(path, [entry])
    return Written(path, entry)


class _Search:
    """One call of recommend."""

    def __init__(self, asked: Asked, facts: Environment, changes: Changes | None, doing: Doing) -> None:
        from .engine.loading import all_rules, shipped_tables
        from .hub.reference import Kind, parse_reference
        from .hub.whatif import apply

        self._asked, self._doing, self._tables = asked, doing, shipped_tables()
        self._parsed: Reference = parse_reference(asked.reference)
        if self._parsed.kind is Kind.BUILTIN:
            raise UsageError(f"{self._parsed.name} is attention that transformers and torch bring: nothing to choose")
        self._rules = all_rules(tuple(Path(folder) for folder in asked.folders))
        self._notes: list[str] = []
        if changes:
            facts, notes = apply(facts, changes, self._tables)
            self._notes += notes
        self._facts = facts
        self._environment = self._seen_by_a_child(facts)
        self._policy = Policy(not asked.cases.backward, doing.try_all, asked.trust)
        self._workload = asked_workload(asked.cases, self._python(), asked.listener)
        self._cases = replace(asked.cases, model=None, workload=self._workload)
        self._bounds = asked.bounds
        self._answer: Answer | None = None  # about the repository that was asked for
        self._sources: list[str] = []

    def recommendation(self) -> Recommendation:
        """Every step, from the names to the one that is chosen."""
        from .recommendation.listed import floor_candidate
        from .recommendation.pins import pin_forms

        found = self._walk(chain(self._package(), self._of_reference(self._asked.reference, False)))
        if not self._settled(found) and self._doing.alternatives and self._is_attention(found):
            found += self._alternatives()
        found += (floor_candidate(self._is_attention(found), self._environment),)
        chosen = choose(found, self._policy)
        good = chosen.kind != "floor"
        return Recommendation(
            reference=str(self._parsed),
            meaning=self._meaning(),
            chosen=chosen,
            pin=pin_forms(chosen, self._policy),
            candidates=found,
            environment=self._environment,
            policy=self._policy,
            workload={key: value for key, value in self._workload.items() if value is not None},
            device=self._asked.device,
            ran=self._doing.run,
            exit_code=exit_code(chosen, found, self._policy, self._doing.run),
            machine=self._machine(),
            sources=tuple(dict.fromkeys(self._sources)),
            wheel=None if good or not chosen.attention else self._wheel(),
            options=() if good else self._options(found),
            notes=tuple(dict.fromkeys((*self._parsed.notes, *self._notes))),
        )

    # --- candidates -------------------------------------------------------------------------------------------------

    def _walk(self, candidates: Iterator[Candidate]) -> tuple[Candidate, ...]:
        return walk(candidates, self._attempt, self._policy) if self._doing.run else tuple(candidates)

    def _settled(self, found: Sequence[Candidate]) -> bool:
        """Whether there is one to recommend: it passed, or where nothing could be run, it should."""
        if any(candidate.passes(self._policy.inference) for candidate in found):
            return True
        nothing_run = all(candidate.trial is None for candidate in found)
        return nothing_run and any(c.basis == "predicted" and not c.rules for c in found)

    def _package(self) -> Iterator[Candidate]:
        """The installed package, where the name means it."""
        from .recommendation.listed import package_candidate

        generation = self._parsed.generation
        if generation is not None and self._meaning().source == "package":
            yield package_candidate(self._parsed.name, generation, self._facts, self._tables, self._rules)

    def _of_reference(self, reference: str, alternative: bool) -> Iterator[Candidate]:
        """The versions of a repository: that which was asked for by name first, then from the newest on."""
        from .recommendation.listed import kernel_candidate, listed_versions, missing_version
        from .report.variants import version_sentence

        named = bool(self._parsed.revision) and not alternative
        try:
            answer = self._variants(reference, "auto")
        except UndeterminedError as error:
            yield Candidate("kernel", self._parsed.repo or reference, why=str(error), alternative=alternative)
            return
        self._answer = self._answer if alternative else answer
        self._remember(answer)
        repo = answer.candidates.listing.repo
        trust = repo in self._asked.trust or answer.candidates.listing.trusted.value is False
        on_disk = self._on_disk(answer, reference)
        if not alternative:
            yield from missing_version(answer, on_disk)
        for version in listed_versions(answer, on_disk, named):
            why = version_sentence(version, self._environment)
            yield kernel_candidate(version, repo, self._tables, why, trust, alternative)

    def _on_disk(self, answer: Answer, reference: str) -> Sequence[VersionCandidates]:
        """What the cache has where the Hub gave no answer: it may be newer than the index, and can be run."""
        if answer.candidates.listing.source != "index":
            return ()
        try:
            return self._variants(reference, "cache").candidates.versions
        except UndeterminedError:
            return ()

    def _alternatives(self) -> tuple[Candidate, ...]:
        """Versions of other repositories, one repository after the other until one passes."""
        from .recommendation.alternatives import other_repositories

        found: tuple[Candidate, ...] = ()
        asked = self._answer.candidates.listing.repo if self._answer is not None else self._parsed.repo or ""
        for repo in other_repositories(self._environment, self._tables, asked):
            found += self._walk(self._of_reference(repo, True))
            if self._settled(found):
                break
        return found

    def _is_attention(self, found: Sequence[Candidate]) -> bool:
        return all(candidate.attention for candidate in found)

    # --- running ----------------------------------------------------------------------------------------------------

    def _attempt(self, candidate: Candidate) -> Trial:
        from .recommendation.listed import PACKAGES

        module = PACKAGES[self._parsed.generation or 2] if candidate.kind == "package" else None
        self._asked.listener.step(f"trying {candidate.name}")
        return try_kernel(
            None if module else candidate.reference, module=module, python=self._asked.python,
            device=self._asked.device, cases=self._cases, trust_remote_code=self._asked.trust, bounds=self._bounds,
            rules=self._asked.folders, listener=self._asked.listener, environment=self._facts,
        )  # fmt: skip

    def _seen_by_a_child(self, facts: Environment) -> Environment:
        from .engine.case import Case
        from .smoke.devices import facts_on, find_devices

        try:
            return facts_on(find_devices(self._asked.device, Case(facts, self._tables)), facts)
        except UndeterminedError:  # said of each candidate that is to be run
            return facts

    def _python(self) -> str:
        """The interpreter whose transformers is asked for a model."""
        import sys

        if self._asked.cases.model is None or self._asked.python is None:
            return sys.executable
        from .host import RealHost
        from .probes.interpreter import find_target

        return find_target(RealHost(), self._asked.python).executable

    # --- asking -----------------------------------------------------------------------------------------------------

    def _variants(self, reference: str, source: Any) -> Answer:
        from .api_hub import Asking, variants

        asking = Asking(source, self._bounds.hub, self._asked.listener.step)
        return variants(
            reference, environment=self._environment, asking=asking, rules=self._asked.folders,
            workload=self._facts_of_workload(),
        )  # fmt: skip

    def _facts_of_workload(self) -> Workload:
        from .smoke.weigh import workload_facts

        facts = workload_facts(self._workload, not self._policy.inference)
        return replace(facts, backward=known(not self._policy.inference, "option"))

    def _remember(self, answer: Answer) -> None:
        from .hub.naming import StepCode
        from .report.naming import step_text
        from .report.variants import source_text

        listing = answer.candidates.listing
        self._sources.append(f"{listing.repo}: {source_text(answer)}")
        self._notes += answer.notes
        if listing.source != "live":
            self._bounds = replace(self._bounds, hub=min(self._bounds.hub, _HUB_AGAIN))
        refused = (StepCode.KERNELS_REFUSED, StepCode.IMPORT_FAILS)
        self._notes += [step_text(step) for step in answer.meaning.steps if step.code in refused]

    def _meaning(self) -> Meaning:
        from .hub.naming import meaning

        return meaning(self._parsed, self._environment, self._tables)

    def _machine(self) -> str:
        from .report.variants import machine_text

        return machine_text(self._answer) if self._answer is not None else ""

    def _wheel(self) -> Wheel | None:
        from .recommendation.alternatives import fitting_wheel

        return fitting_wheel(self._environment, self._tables)

    def _options(self, found: Sequence[Candidate]) -> tuple[Option, ...]:
        from .recommendation.alternatives import other_environments

        if self._answer is None:
            return ()
        listing = self._answer.candidates.listing
        failed = [c for c in found if c.repo == listing.repo and c.basis == "measured"]
        return other_environments(
            listing, self._environment, self._tables, self._rules, self._facts_of_workload(), failed
        )  # fmt: skip
