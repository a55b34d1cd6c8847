"""The builds of a kernel on one machine, as JSON and in sentences: what loads, what is wrong with it, what to pin.

Reads an Answer and decides nothing; the page for a person is in variants_page.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..environment import Environment, Fact, Gpu
from ..hub.acceptance import Reason, ReasonCode
from ..hub.answer import Answer, Pin
from ..hub.candidates import Candidate, VersionCandidates
from .folding import merged
from .naming import to_json as meaning_json
from .platforms import platform_of
from .reasons import issue_text, missing_text, reason_text, unused_gpu_text, verdict_text, why, without_torch_text
from .text import listing

if TYPE_CHECKING:
    from ..hub.find_env import Option

SCHEMA = "kerneldoctor.variants/1"
_NOT_LISTED = {
    "live": "the Hub has no such revision",
    "index": "the index does not list this revision; the Hub may have it",
    "cache": "the cache does not hold this revision",
}
_FACTS = ("torch.version", "torch.cuda", "python.version", "system.os", "system.machine")


def to_json(answer: Answer) -> dict[str, Any]:
    """The published form. `reason` and `text` are for people, codes for programs."""
    from .loading import verdict_line  # it takes the words of this module

    candidates = answer.candidates
    return {
        "schema": SCHEMA,
        "reference": str(answer.meaning.reference),
        "repo": candidates.listing.repo,
        "asked": answer.asked or None,
        "by_default": answer.by_default,
        "usable": answer.usable,
        "through_transformers": answer.through_transformers,
        "headline": verdict_line(answer),
        "pin": _pin_json(answer, answer.pin) if answer.pin is not None else None,
        "source": candidates.listing.source,
        "as_of": candidates.listing.as_of or None,
        "notes": list(answer.notes),
        "kernels": {
            "release": candidates.rules.release,
            "installed": candidates.kernels_installed,
            "extrapolated": candidates.rules.extrapolated,
        },
        "environment": _environment_json(answer.environment),
        "meaning": meaning_json(answer.meaning),
        "versions": [_version_json(version, answer) for version in candidates.versions],
        "options": None if answer.options is None else [_option_json(option) for option in answer.options],
    }


def headline(answer: Answer) -> str:
    """What is said of the builds in one line; what else keeps them from being loaded is in loading.py."""
    repo = answer.candidates.listing.repo
    if answer.asked:
        if answer.version is None:
            return f"{asked_name(answer)}: {_NOT_LISTED[answer.candidates.listing.source]}"
        return f"{asked_name(answer)} {version_sentence(answer.version, answer.environment)}"
    usable = [v for v in answer.candidates.versions if v.usable]
    if usable:
        return f"{repo}: {loadable(usable)}{also_unused_gpu(answer)}"
    if not answer.candidates.versions:
        return f"{repo} has no versions"
    return f"{repo}: no version {'is known to be usable' if answer.usable is None else 'is usable'} here"


def asked_name(answer: Answer) -> str:
    """The version asked for, and by whom."""
    default = f" (asked for by transformers {answer.meaning.transformers})" if answer.by_default else ""
    return f"{answer.candidates.listing.repo}@{short(answer.asked)}{default or _branch(answer)}"


def _branch(answer: Answer) -> str:
    """The branch of a version that was asked for by its commit."""
    name = answer.version.version.name if answer.version is not None else ""
    return f" ({short(name)})" if name and not name.startswith(answer.asked) else ""


def loadable(versions: list[VersionCandidates]) -> str:
    """The versions that would load; those of which an error is on record apart, each with its rules."""
    faults: dict[str, list[str]] = {}
    for version in versions:
        issues = version.preferred.issues if version.preferred is not None else ()
        rules = ", ".join(issue.rule for issue in issues if issue.severity == "error")
        faults.setdefault(rules, []).append(short(version.version.name))
    clean = faults.pop("", [])
    parts = [f"{listing(clean)} would load here (untested)"] if clean else []
    would = "would load too" if clean else "would load here (untested)"
    return "; ".join(
        [*parts, *(f"{listing(names)} {would}, but with a known fault [{rules}]" for rules, names in faults.items())]
    )


def also_unused_gpu(answer: Answer) -> str:
    """What is to be added to the versions that would load where the GPU would be left alone."""
    text = unused_gpu_text(answer.environment)
    return f"; {text}" if text else ""


def version_sentence(version: VersionCandidates, environment: Environment) -> str:
    """What comes of one version here; reads on after its name."""
    chosen = version.preferred
    if chosen is None:
        return _without_build(version, environment)
    name, text = chosen.build.name, why(chosen)
    if version.usable is False:
        return f"would take {name}, which is of no use here: {text}"
    if version.usable is None:
        return f"would take {name}; {text}"
    unused = unused_gpu_text(environment)
    loads = f"would load {name} (untested)" + (f", {unused}" if unused else "")
    return loads + (f"{';' if unused else ','} but: {text}" if text else "")


def pin_lines(pin: Pin, repo: str) -> tuple[str, ...]:
    """What to type for a pin, in the forms that its kind of kernel is asked for."""
    comment = f"  # {pin.version}" if pin.is_commit else ""
    number = pin.version.removeprefix("v")
    where = f"version={number}" if not pin.is_commit and number.isdecimal() else f'revision="{pin.revision}"'
    where += f', trust_remote_code=["{repo}"]' if pin.trusted is False else ""
    allow = ", allow_all_kernels=True" if pin.consent == "allow" else ""
    call = f'get_kernel("{repo}", {where}){comment}'
    if pin.attention is False:
        return (call,)
    return f'attn_implementation="{repo}@{pin.revision}"{allow}{comment}', call


def option_text(option: Option) -> str:
    """The changes of an option in one line."""
    if not option.changes:
        return f"nothing needs to change: {option.version} has {option.build}"
    changes = [f"{c.package} {c.before} -> {c.after}" if c.before else f"add {c.package}" for c in option.changes]
    return f"{listing(changes)}: then {option.version} has {option.build}"


def machine_text(answer: Answer) -> str:
    """The machine that was judged, in one line."""
    environment = answer.environment
    facts = {path: environment.fact(path) for path in _FACTS}
    torch = facts["torch.version"]
    parts = [f"torch {torch.value or ('not installed' if torch.is_absent else 'unknown')}"]
    if facts["torch.cuda"].is_known and "+" not in str(torch.value):
        parts.append(f"CUDA {facts['torch.cuda'].value}")
    parts.append(f"{facts['system.os'].value or 'unknown system'} {facts['system.machine'].value or ''}".strip())
    parts.append(_gpu_text(environment))
    if answer.candidates.kernels_installed:
        parts.append(f"kernels {answer.candidates.rules.release}")
    return ", ".join(parts)


def source_text(answer: Answer) -> str:
    """Where the listing comes from, and of what day."""
    listed = answer.candidates.listing
    day = f" of {listed.as_of}" if listed.as_of else ""
    match listed.source:
        case "live":
            return f"the live Hub{day}"
        case "cache":
            return "the local cache, which holds only what was downloaded"
        case _ if listed.refreshed:
            return f"the index as refreshed from the Hub{day}"
        case _:
            return f"the bundled index{day}: the Hub may have moved on since"


def short(name: str) -> str:
    """A commit cut to ten digits, any other name whole."""
    return name[:10] if len(name) == 40 else name


def _without_build(version: VersionCandidates, environment: Environment) -> str:
    listed = version.version
    if not listed.builds and listed.complete:
        return f"has no build at all: {listed.note or 'its build folder is empty'}"
    if not listed.complete and listed.how != "cache":
        fits = [c.build.name for c in version.candidates if c.accepted]
        seen = f"; of those seen {listing(fits)} would fit" if fits else ""
        if listed.how == "live":
            return f"cannot be judged: {listed.note}"
        return f"cannot be judged: not all of its builds are known (seen {listed.as_of or 'at an unknown date'}){seen}"
    unsettled = [c for c in version.candidates if c.accepted is None]
    if unsettled:
        facts = dict.fromkeys(missing_text(m) for c in unsettled for m in c.missing)
        return f"cannot be judged: needs {listing(list(facts))}"
    return f"has no build for this machine: {nearest_miss(version, environment)}"


def nearest_miss(version: VersionCandidates, environment: Environment) -> str:
    """Why the builds that come nearest do not fit."""
    platform = platform_of(environment)
    refused = tuple(c for c in version.candidates if c.reason is not None)
    here = [c.reason for c in refused if c.reason is not None and not platform.is_foreign(c)]
    if here:
        return _common_reason(here)
    if not refused:
        return "none of its builds has a name that kernels reads"
    if platform.has_none_for(refused):
        return f"none of its builds is for {platform.tag}"
    near = [c.variant.backend for c in refused if c.variant is not None and not platform.has_none_for((c,))]
    found = f"here is {platform.backend or 'an unknown backend'}"
    if any(c.reason is not None and c.reason.without_torch for c in refused):
        found = without_torch_text(platform.backend)
    return f"its builds are for {listing(sorted(set(near)))}; {found}"


def _common_reason(reasons: list[Reason]) -> str:
    """What is said against the builds that pass the most checks: codes stand in the order of the checks."""
    code = max((reason.code for reason in reasons), key=list(ReasonCode).index)
    alike = merged([reason for reason in reasons if reason.code is code])
    if code is ReasonCode.TORCH_VERSION:
        here = "none is installed" if alike.found == "none" else f"here is {alike.found}"
        return f"its builds are for torch {alike.wanted}; {here}"
    text = reason_text(alike)
    return f"the nearest are {text}" if text.startswith("for ") else text


def _gpu_text(environment: Environment) -> str:
    gpus = environment.gpus
    if gpus.is_unknown:
        return "GPU unknown"
    visible = [gpu for gpu in gpus.value or () if gpu.visible.value is not False]
    named = Counter(f"{gpu.name.value or 'GPU'}{_capability_text(gpu)}" for gpu in visible)
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in named.items()) or "no GPU"


def _capability_text(gpu: Gpu) -> str:
    capability = gpu.compute_capability
    return "" if capability.is_absent else f" ({capability.value or 'capability unknown'})"


def _environment_json(environment: Environment) -> dict[str, Any]:
    facts = {path: environment.fact(path).value for path in (*_FACTS, "torch.backend")}
    return {**facts, "gpus": _gpu_text(environment)}


def _pin_json(answer: Answer, pin: Pin) -> dict[str, Any]:
    from .loading import typed

    works, others = typed(answer)
    lines = {"type": list(works), "not_here": [asdict(line) for line in others]}
    return {**asdict(pin), "is_commit": pin.is_commit, **lines, "tested": False}


def _version_json(version: VersionCandidates, answer: Answer) -> dict[str, Any]:
    from .loading import hindrance

    listed, found = version.version, hindrance(answer, version)
    return {
        "version": listed.name,
        "revision": listed.commit or None,
        "how": listed.how,
        "as_of": listed.as_of or None,
        "complete": listed.complete,
        "usable": version.usable,
        "loads": answer.loads(version),
        "hindrance": found.value if found is not None else None,
        "cached": version.cached,
        "loads_offline": version.loads_offline,
        "text": version_sentence(version, answer.environment),
        "note": listed.note or None,
        "variants": [_variant_json(candidate) for candidate in version.candidates],
    }


def _variant_json(candidate: Candidate) -> dict[str, Any]:
    reason, build = candidate.reason, candidate.build
    return {
        "name": build.name,
        "accepted": candidate.accepted,
        "preferred": candidate.preferred,
        "usable": candidate.usable,
        "reason": why(candidate) if candidate.accepted is False else None,
        "reason_code": "unreadable_name" if candidate.variant is None else reason.code.value if reason else None,
        "wanted": reason.wanted if reason else None,
        "found": reason.found if reason else None,
        "build_id": build.build_id or None,
        "build_id_seen": build.build_id_note or None,
        "cached": candidate.cached,
        "metadata": _metadata_json(build.metadata),
        "known_issues": [issue.rule for issue in candidate.issues],
        "issues": [
            {"rule": i.rule, "title": i.title, "severity": i.severity, "certainty": i.certainty,
             "missing": list(i.missing), "text": issue_text(i)}
            for i in candidate.issues
        ],
        "verdicts": [
            {**asdict(v), "code": v.code.value, "text": verdict_text(v)} for v in candidate.verdicts
        ],
        "missing": [asdict(m) for m in candidate.missing],
    }  # fmt: skip


def _metadata_json(fact: Fact[Any]) -> dict[str, Any]:
    """What the build says of itself; where it was not read, why."""
    if fact.value is None:
        return {"state": "absent" if fact.is_absent else "unknown", "source": fact.note}
    said: dict[str, Any] = asdict(fact.value)
    return {
        "state": "known",
        "source": fact.note,
        **{k: v for k, v in said.items() if k not in ("algorithm", "digest")},
    }


def _option_json(option: Option) -> dict[str, Any]:
    return {**asdict(option), "text": option_text(option)}
