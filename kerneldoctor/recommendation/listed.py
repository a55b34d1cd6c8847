"""Makes candidates of what was listed for one environment: which versions count, in which order. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.case import Case, Tables
from ..engine.matching import judge_certain
from ..engine.model import Rule
from ..environment import Environment
from ..hub.answer import Answer
from ..hub.candidates import VersionCandidates
from ..hub.kernel_facts import kernel_row
from .model import Candidate

#: The import name of each generation of FlashAttention as a package, and its section of an Environment.
PACKAGES = {2: "flash_attn", 3: "flash_attn_interface", 4: "flash_attn.cute"}
_SECTIONS = {2: "flash_attn", 3: "flash_attn_3", 4: "flash_attn_4"}


def listed_versions(answer: Answer, on_disk: Sequence[VersionCandidates], named: bool) -> list[VersionCandidates]:
    """The versions that count: the one that was `named` first, then the numbered ones from the newest on.

    A commit without a branch counts only where there is nothing else. on_disk: the same repository as the cache has
    it; of one branch that goes before what an index says of it, because it can be run.
    """
    listed = answer.candidates.versions
    by_name = {v.version.name: v for v in listed if v.version.number is not None}
    by_name = by_name or {v.version.name: v for v in listed}
    commits = {v.version.commit for v in by_name.values()}
    by_name |= {v.version.name: v for v in on_disk if v.version.commit not in commits}
    wanted = answer.version if named else None
    if wanted is not None and not any(wanted.version.commit == v.version.commit for v in on_disk):
        by_name[wanted.version.name] = wanted
    numbers = {name: -1 if v.version.number is None else v.version.number for name, v in by_name.items()}
    first = wanted.version.name if wanted is not None else ""
    names = sorted(by_name, key=lambda name: (name != first, -numbers[name], name))
    return [by_name[name] for name in names]


def kernel_candidate(
    version: VersionCandidates, repo: str, tables: Tables, why: str, trust: bool, alternative: bool
) -> Candidate:
    """One version with what is known of it without running it, in words: `why`."""
    listed, build = version.version, version.preferred
    row = kernel_row(repo, listed.number, tables)
    issues = build.issues if build is not None else ()
    return Candidate(
        "kernel",
        repo,
        listed.name,
        listed.commit,
        build=build.build.name if build is not None else "",
        build_id=build.build.build_id if build is not None else "",
        predicted=version.usable,
        why=why,
        rules=tuple(issue.rule for issue in issues if issue.severity == "error"),
        alternative=alternative,
        attention=row is None or row["contract"] == "attention",
        trust=trust,
    )


def missing_version(answer: Answer, on_disk: Sequence[VersionCandidates]) -> tuple[Candidate, ...]:
    """The version that is not there although it is what was asked for, or what transformers makes of such a name."""
    listing, name = answer.candidates.listing, answer.meaning.reference
    means = answer.by_default and name.generation is not None
    held = {version.version.commit for version in on_disk}
    if not (name.revision or means) or not answer.asked or answer.version is not None or answer.asked in held:
        return ()
    live = listing.source == "live"
    why = f"the {'Hub' if live else listing.source} does not list this revision"
    if means:
        why = f"what {name} means for transformers {answer.meaning.transformers}; {why}"
    return (Candidate("kernel", listing.repo, answer.asked, predicted=False if live else None, why=why),)


def package_candidate(
    name: str, generation: int, environment: Environment, tables: Tables, rules: Sequence[Rule]
) -> Candidate:
    """The installed package that a name means, with the errors that rules see in it."""
    section = _SECTIONS[generation]
    errors = [f for f in judge_certain(rules, Case(environment, tables)) if f.severity == "error"]
    about = [f for f in errors if any(used.fact.startswith(f"{section}.") for used in f.facts)]
    distribution = environment.fact(f"{section}.distribution").value or section
    version = environment.fact(f"{section}.version").value or ""
    return Candidate(
        "package",
        f"{distribution} {version}".strip(),
        predicted=not about,
        why=about[0].title if about else "installed, and what the name means here",
        rules=tuple(finding.rule for finding in about),
        name_to_type=name,
    )


def floor_candidate(attention: bool, environment: Environment) -> Candidate:
    """What is there without any kernel; nothing where there is no torch."""
    if environment.torch.version.is_absent:
        return Candidate("floor", "nothing", why="no torch is installed, which a kernel and sdpa need alike")
    if attention:
        return Candidate("floor", "sdpa", predicted=True, why="what torch brings itself", name_to_type="sdpa")
    return Candidate("floor", "no kernel", predicted=True, why="the layer as the model brings it", attention=False)
