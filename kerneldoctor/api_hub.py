"""What the commands about Hub kernels do, for Python programs: facts, listing, judgement, one answer.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .api import usual_kernels
from .environment import Environment
from .errors import HubError, UndeterminedError, UsageError
from .hub.answer import Answer, find_pin
from .hub.details import Wanted, search_for, unjudged_notes, unread_notes, with_details
from .hub.listing import Listing
from .hub.naming import Meaning, meaning
from .hub.reference import Kind, Reference, parse_reference
from .hub.sources import Prefer
from .hub.surroundings import surroundings
from .values import dataclass

if TYPE_CHECKING:
    from .address import Address
    from .engine.case import Tables, Workload
    from .engine.model import Rule
    from .hub.candidates import Candidates
    from .hub.find_env import Option
    from .hub.index import Contents
    from .hub.live import RevisionMissingError
    from .hub.whatif import Changes
    from .report.model import Report
    from .report.redact import Identity

Progress = Callable[[str], None]
# What a bare flash_attention_N is about where transformers cannot be asked.
_USUAL = {
    2: "kernels-community/flash-attn2",
    3: "kernels-community/vllm-flash-attn3",
    4: "kernels-community/flash-attn4",
}


@dataclass(frozen=True, slots=True)
class Asking:
    """Where and how long to ask for a listing."""

    source: Prefer = "auto"
    timeout: float = 20.0  # seconds
    progress: Progress = lambda text: None


USUAL_ASKING = Asking()


def variants(
    reference: str,
    *,
    environment: Environment,
    changes: Changes | None = None,
    asking: Asking = USUAL_ASKING,
    find_env: bool = False,
    rules: Sequence[str | Path] = (),
    workload: Workload | None = None,
) -> Answer:
    """Which builds of a kernel exist, which would load in an Environment, and why not the others.

    changes: what if. find_env: also look for the smallest changes that would give a usable build. rules: folders of
    more rules. workload: what the kernel is for, which settles the known faults that depend on it.

    Raises UsageError for a name that is none, or that the Hub does not know; UndeterminedError where nobody could say.
    """
    from .engine.loading import all_rules, shipped_tables

    parsed = parse_reference(reference)
    if parsed.kind is Kind.BUILTIN:
        raise UsageError(f"{parsed.name} is attention that transformers and torch bring themselves: it has no builds")
    tables = shipped_tables()
    environment, notes = changed(environment, changes, tables)
    known_rules = all_rules(tuple(Path(folder) for folder in rules))
    return _Inquiry(environment, tables, known_rules, workload, asking).answer(parsed, find_env, notes)


class _Inquiry:
    """One call of `variants`, for one Environment."""

    def __init__(
        self, environment: Environment, tables: Tables, rules: tuple[Rule, ...], workload: Workload | None,
        asking: Asking,
    ) -> None:  # fmt: skip
        from .hub.candidates import Judge

        self._environment, self._tables, self._rules = environment, tables, rules
        self._workload, self._asking = workload, asking
        self._judge = Judge(environment, tables, rules, workload)
        self._end = time.monotonic() + asking.timeout

    def answer(self, parsed: Reference, find_env: bool, notes: tuple[str, ...]) -> Answer:
        """The listing, judged twice: by its names first, then with what the builds to be loaded say of themselves."""
        meant = meaning(parsed, self._environment, self._tables)
        repo, asked = _subject(parsed, meant, self._tables)
        listing = _listing(repo, asked, self._environment, self._tables, self._asking)
        if listing.source == "live" and parsed.revision and listing.version(asked) is None:
            raise _no_such_version(listing, asked)
        judged = self._judge.judge(listing)
        told = self._told(listing, _to_be_loaded(judged, asked))
        if told is not listing:
            judged = self._judge.judge(told)
        options = None
        if find_env:
            version = asked if parsed.revision or parsed.kind is Kind.FLASH_ATTENTION else ""
            options = self._options(told, version) or (() if parsed.revision else self._options(told, ""))
        around = surroundings(judged, self._environment, self._tables)
        return Answer(
            meaning=meant,
            candidates=judged,
            environment=self._environment,
            asked=asked,
            by_default=bool(asked) and parsed.revision is None,
            pin=find_pin(judged, self._tables, asked if parsed.revision else "", around),
            options=options,
            notes=(*notes, *listing.notes, *unread_notes(judged), *unjudged_notes(judged)),
            around=around,
        )

    def _told(self, listing: Listing, wanted: Iterable[Wanted]) -> Listing:
        """The listing with what the wanted builds say of themselves; asks the Hub where the listing came from there."""
        search = search_for(self._environment, repo_type_of(self._environment, self._tables))
        if listing.source == "live":
            seconds = self._end - time.monotonic()
            search = replace(search, asks=True, seconds=seconds, progress=self._asking.progress)
        return with_details(listing, wanted, search)

    def _options(self, listing: Listing, version: str) -> tuple[Option, ...]:
        """What would help. Builds that are in doubt are asked what they are before they are offered."""
        from .hub.find_env import find_environments

        def find(found: Listing) -> tuple[Option, ...]:
            return find_environments(found, self._environment, self._tables, self._rules, self._workload, version)

        options = find(listing)
        doubtful = [(option.version, option.build) for option in options if not option.usable]
        told = self._told(listing, doubtful)
        return options if told is listing else find(told)


def _to_be_loaded(judged: Candidates, asked: str) -> list[Wanted]:
    """The build that each version would load, that of the version asked for first."""
    first = judged.version(asked) if asked else None
    versions = sorted(judged.versions, key=lambda version: version is not first)
    return [(v.version.name, v.preferred.build.name) for v in versions if v.preferred is not None]


def workload_of(
    training: bool | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    dtype: str | None = None,
) -> Workload:
    """What a kernel is wanted for, as rules read it; None leaves a thing open. kv_heads: else as many as heads.

    Raises UsageError for heads that do not go together.
    """
    from .engine.case import Workload
    from .environment import known

    kv_heads = heads if kv_heads is None else kv_heads
    if heads is not None and kv_heads is not None and heads % kv_heads:
        raise UsageError(f"{heads} query heads cannot share {kv_heads} key and value heads evenly")
    values = {"backward": training, "q_heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "dtype": dtype}
    facts: dict[str, Any] = {name: known(value, "option") for name, value in values.items() if value is not None}
    return Workload(**facts)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A kernel of which nothing can be said, and why."""

    reference: str
    why: str
    loads: bool | None = None  # True: it is no kernel, and needs none


def kernels_of_scan(
    names: Sequence[str], environment: Environment, rules: Sequence[str | Path] = ()
) -> tuple[Answer | Unanswered, ...]:
    """What a scan says of the kernels named; where none is, of flash_attention_2 if transformers would ask for one.

    Nobody is asked: only the index and the local cache. Raises UsageError for a name that is none.
    """
    builtin = {name for name in names if parse_reference(name).kind is Kind.BUILTIN}
    found: list[Answer | Unanswered] = []
    for name in dict.fromkeys(names or usual_kernels(environment)):
        try:
            found.append(variants(name, environment=environment, asking=Asking("index"), rules=rules))
        # The names are right: a kernels release that nothing is known of must not cost the whole report.
        except (UndeterminedError, UsageError) as error:
            found.append(Unanswered(name, str(error), True if name in builtin else None))
    return tuple(found)


def would_load(kernel: Answer | Unanswered) -> bool | None:
    """Whether what a name means would load: the installed flash-attn counts for flash_attention_2."""
    if isinstance(kernel, Unanswered):
        return kernel.loads
    return True if kernel.meaning.source == "package" else kernel.usable


def identity_here() -> Identity:
    """Who runs this, for taking it out of what is said."""
    from .api import find_identity
    from .host import RealHost

    return find_identity(RealHost())


def with_kernels(report: Report, kernels: Sequence[Answer | Unanswered]) -> Report:
    """The report of a scan in which the kernels that were named count."""
    usable = [would_load(kernel) for kernel in kernels]
    counted = replace(
        report.summary, kernels_named=len(usable), kernels_failing=usable.count(False),
        kernels_undetermined=usable.count(None),
    )  # fmt: skip
    return replace(report, summary=counted)


def resolve(
    reference: str, *, environment: Environment, changes: Changes | None = None
) -> tuple[Meaning, tuple[str, ...]]:
    """What a name means for the installed transformers, or the one of `changes`; and notes on the changes."""
    from .engine.loading import shipped_tables

    parsed = parse_reference(reference)
    environment, notes = changed(environment, changes, shipped_tables())
    return meaning(parsed, environment, shipped_tables()), notes


def look(env: str | None = None, python: str | None = None) -> tuple[Environment, Identity]:
    """The facts to judge: saved ones (a path, or "-"), or those of this machine and an interpreter on it."""
    return look_from_shell(env, python)[:2]


def look_from_shell(env: str | None = None, python: str | None = None) -> tuple[Environment, Identity, Address]:
    """The same, with how commands reach the environment that was looked at."""
    from .address import Address
    from .report.redact import Identity

    if env is not None:
        from .api import load_environment

        if python is not None:
            raise UsageError("--env judges saved facts: it cannot be combined with --python")
        return load_environment(env), Identity(), Address()
    from .api import find_identity
    from .host import RealHost
    from .probes.interpreter import find_target
    from .probes.runner import run_probes
    from .probes.shell import find_address

    host = RealHost()
    target = find_target(host, python)
    environment = run_probes(host, target)
    return environment, find_identity(host), find_address(host, target, environment)


def refresh_index(repo: str, asking: Asking = USUAL_ASKING, today: datetime.date | None = None) -> tuple[Listing, Path]:
    """Write an entry of the user's index from the live Hub. Raises UsageError or HubError, then nothing is written."""
    from .hub.index import keep_listing
    from .hub.listing import Question
    from .hub.live import live_listing
    from .hub.sources import offline_switch

    parsed = parse_reference(repo)
    if parsed.repo is None or parsed.revision:
        raise UsageError(f"index refresh takes repositories, as in kernels-community/flash-attn2, and no {repo[:60]!r}")
    if switch := offline_switch():
        raise HubError(f"the Hub cannot be asked: {switch} is set")
    listing = live_listing(Question(parsed.repo, "", asking.timeout, asking.progress, whole=True))
    if not listing.versions:
        raise UsageError(f"{parsed.repo} has no branches on the Hub: there is nothing to keep")
    return listing, keep_listing(listing, today or datetime.date.today())


def changed(environment: Environment, changes: Changes | None, tables: Tables) -> tuple[Environment, tuple[str, ...]]:
    """The Environment as it would be, and notes. Raises UsageError for a change that cannot be read."""
    if not changes:
        return environment, ()
    from .hub.whatif import apply

    return apply(environment, changes, tables)


def _subject(reference: Reference, meant: Meaning, tables: Tables) -> tuple[str, str]:
    """Repository and revision that the question is about; "" for any revision."""
    if reference.kind is Kind.KERNEL:
        kinds = {row["contract"] for row in tables.get("hub_kernels", ()) if row["repo"] == reference.name}
        # Only attention is loaded by a bare name; for any other kernel the caller names the version.
        default = meant.revision if not kinds or "attention" in kinds else ""
        return reference.name, reference.revision or default
    if meant.repo:
        return meant.repo, meant.revision
    if meant.source in ("unknown", "none") and meant.transformers == "":
        return _USUAL[reference.generation or 2], ""
    raise UndeterminedError(
        f"{reference.name} is no Hub kernel for transformers {meant.transformers}: see kerneldoctor resolve"
    )


def _listing(repo: str, asked: str, environment: Environment, tables: Tables, asking: Asking) -> Listing:
    from .hub.listing import Question
    from .hub.sources import find_listing

    prefer: Prefer = asking.source
    notes: tuple[str, ...] = ()
    repo_type = repo_type_of(environment, tables)
    if repo_type == "model" and prefer in ("auto", "live"):
        release = environment.fact("packages.kernels.version").value
        prefer = "index"
        notes = (f"the Hub was not asked: kernels {release} reads repositories of type model, which it no longer has",)
    question = Question(repo, _other_revision(asked), asking.timeout, asking.progress, first=asked)
    return find_listing(question, environment, prefer, repo_type, notes)


def _no_such_version(listing: Listing, asked: str) -> RevisionMissingError:
    from .hub.live import RevisionMissingError

    names = [version.name for version in listing.versions if version.number is not None]
    there = f": it has {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""
    return RevisionMissingError(f"{listing.repo} has no revision {asked!r} on the Hub{there}")


def repo_type_of(environment: Environment, tables: Tables) -> str:
    """Which type of repository the installed kernels release reads."""
    from .engine.case import Case

    return str(Case(environment, tables).fact("kernels.repo_type").value or "kernel")


def _other_revision(asked: str) -> str:
    """A revision that must be asked for by name: every v<N> is listed anyway."""
    number = asked[1:] if asked.startswith("v") else ""
    return "" if number.isdecimal() else asked


def read_index(repos: Sequence[str] = ()) -> Contents:
    """The index in force, for all repositories by default. Raises UsageError, UndeterminedError."""
    from .hub.index import Contents, index_listing, index_path, own_index_path, repositories
    from .hub.sources import nearest

    names = [_repository(repo) for repo in repos] or repositories()
    listings = []
    for repo in dict.fromkeys(names):
        found = index_listing(repo) or index_listing(repo, repo_type="model")
        if found is None and repos:
            raise UndeterminedError(f"the index does not know {repo[:100]}{nearest(repo)}")
        listings += [found] if found is not None else []
    return Contents(index_path(), own_index_path(), tuple(listings))


def _repository(name: str) -> str:
    parsed = parse_reference(name)
    if parsed.repo is None:
        raise UsageError(f"{parsed.name} is no repository on the Hub: kerneldoctor resolve says what it means")
    return parsed.repo
