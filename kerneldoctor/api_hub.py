"""What the commands about Hub kernels do, for Python programs: facts, listing, judgement, one answer.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .api import usual_kernels
from .environment import Environment
from .errors import HubError, UndeterminedError, UsageError
from .hub.answer import Answer, find_pin
from .hub.listing import Listing
from .hub.naming import Meaning, meaning
from .hub.reference import Kind, Reference, parse_reference
from .hub.sources import Prefer
from .hub.whatif import Changes, apply
from .values import dataclass

if TYPE_CHECKING:
    from .engine.case import Tables, Workload
    from .report.redact import Identity

Progress = Callable[[str], None]
NO_CHANGES = Changes()
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
    changes: Changes = NO_CHANGES,
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
    from .hub.candidates import candidates

    parsed = parse_reference(reference)
    if parsed.kind is Kind.BUILTIN:
        raise UsageError(f"{parsed.name} is attention that transformers and torch bring themselves: it has no builds")
    tables = shipped_tables()
    environment, notes = apply(environment, changes, tables)
    known_rules = all_rules(tuple(Path(folder) for folder in rules))
    meant = meaning(parsed, environment, tables)
    repo, asked = _subject(parsed, meant)
    listing = _listing(repo, asked, environment, tables, asking)
    judged = candidates(listing, environment, tables, known_rules, workload)
    options = None
    if find_env:
        from .hub.find_env import find_environments

        version = asked if parsed.revision or parsed.kind is Kind.FLASH_ATTENTION else ""
        options = find_environments(listing, environment, tables, known_rules, workload, version)
        if not options and not parsed.revision:
            options = find_environments(listing, environment, tables, known_rules, workload)
    return Answer(
        meaning=meant,
        candidates=judged,
        environment=environment,
        asked=asked,
        by_default=bool(asked) and parsed.revision is None,
        pin=find_pin(judged, tables, asked if parsed.revision else ""),
        options=options,
        notes=(*notes, *listing.notes),
    )


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A kernel of which nothing can be said, and why."""

    reference: str
    why: str


def kernels_of_scan(
    names: Sequence[str], environment: Environment, rules: Sequence[str | Path] = ()
) -> tuple[Answer | Unanswered, ...]:
    """What a scan says of the kernels named, and of flash_attention_2 where transformers would ask for one.

    Nobody is asked: only the index and the local cache. Raises UsageError for a name that is none.
    """
    for name in names:
        parse_reference(name)
    found: list[Answer | Unanswered] = []
    for name in dict.fromkeys((*names, *usual_kernels(environment))):
        try:
            found.append(variants(name, environment=environment, asking=Asking("index"), rules=rules))
        except UndeterminedError as error:
            found.append(Unanswered(name, str(error)))
    return tuple(found)


def resolve(
    reference: str, *, environment: Environment, changes: Changes = NO_CHANGES
) -> tuple[Meaning, tuple[str, ...]]:
    """What a name means for the installed transformers, or the one of `changes`; and notes on the changes."""
    from .engine.loading import shipped_tables

    parsed = parse_reference(reference)
    environment, notes = apply(environment, changes, shipped_tables())
    return meaning(parsed, environment, shipped_tables()), notes


def look(env: str | None = None, python: str | None = None) -> tuple[Environment, Identity]:
    """The facts to judge: saved ones (a path, or "-"), or those of this machine and an interpreter on it."""
    from .report.redact import Identity

    if env is not None:
        from .api import load_environment

        if python is not None:
            raise UsageError("--env judges saved facts: it cannot be combined with --python")
        return load_environment(env), Identity()
    from .api import find_identity
    from .host import RealHost
    from .probes.interpreter import find_target
    from .probes.runner import run_probes

    host = RealHost()
    return run_probes(host, find_target(host, python)), find_identity(host)


def refresh_index(repo: str, asking: Asking = USUAL_ASKING, today: datetime.date | None = None) -> tuple[Listing, Path]:
    """Write an entry of the user's index from the live Hub. Raises UsageError or HubError, then nothing is written."""
    from .hub.index import replace_entries
    from .hub.live import Question, live_listing
    from .hub.sources import offline

    parsed = parse_reference(repo)
    if parsed.repo is None or parsed.revision:
        raise UsageError(f"index refresh takes repositories, as in kernels-community/flash-attn2, and no {repo[:60]!r}")
    if offline():
        raise HubError("the Hub cannot be asked: HF_HUB_OFFLINE is set")
    listing = live_listing(Question(parsed.repo, "", asking.timeout, asking.progress))
    return listing, replace_entries(parsed.repo, listing.versions, today or datetime.date.today())


def _subject(reference: Reference, meant: Meaning) -> tuple[str, str]:
    """Repository and revision that the question is about; "" for any revision."""
    if reference.kind is Kind.KERNEL:
        return reference.name, reference.revision or meant.revision
    if meant.repo:
        return meant.repo, meant.revision
    if meant.source in ("unknown", "none") and meant.transformers == "":
        return _USUAL[reference.generation or 2], ""
    raise UndeterminedError(
        f"{reference.name} is no Hub kernel for transformers {meant.transformers}: see kerneldoctor resolve"
    )


def _listing(repo: str, asked: str, environment: Environment, tables: Tables, asking: Asking) -> Listing:
    from dataclasses import replace

    from .engine.case import Case
    from .hub.live import Question
    from .hub.sources import find_listing

    prefer: Prefer = asking.source
    notes: tuple[str, ...] = ()
    repo_type = Case(environment, tables).fact("kernels.repo_type").value or "kernel"
    if repo_type == "model" and prefer in ("auto", "live"):
        release = environment.fact("packages.kernels.version").value
        prefer = "index"
        notes = (f"the Hub was not asked: kernels {release} reads repositories of type model, which it no longer has",)
    question = Question(repo, _other_revision(asked), asking.timeout, asking.progress)
    found = find_listing(question, environment, prefer, str(repo_type))
    return replace(found, notes=(*notes, *found.notes)) if notes else found


def _other_revision(asked: str) -> str:
    """A revision that must be asked for by name: every v<N> is listed anyway."""
    number = asked[1:] if asked.startswith("v") else ""
    return "" if number.isdecimal() else asked


def index_listings(repos: Sequence[str] = ()) -> tuple[Path, tuple[Listing, ...]]:
    """The index in force and what it knows of the repositories (all by default). Raises UndeterminedError."""
    from .hub.index import index_listing, index_path, repositories

    listings = []
    for repo in repos or repositories():
        found = index_listing(repo) or index_listing(repo, repo_type="model")
        if found is None:
            raise UndeterminedError(f"the index does not know {repo[:60]!r}")
        listings.append(found)
    return index_path(), tuple(listings)
