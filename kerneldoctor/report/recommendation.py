"""A recommendation for people and programs: the pin, each candidate with its evidence, what else there is, what next.

Lays out and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..lock import fingerprint
from ..recommendation.model import Candidate, Recommendation, Written
from .layout import Page
from .reasons import unused_gpu_text
from .text import listing
from .trial import to_json as trial_json
from .variants import option_text, short

SCHEMA = "kerneldoctor.recommendation/1"
_STYLES = {0: "bold green", 1: "bold red", 3: "bold yellow"}
_LABELS = {"kernels_lock": "lock"}


def to_json(found: Recommendation, lock: Written | None = None) -> dict[str, Any]:
    """The published form. `text`, `why` and `next` are for people, the other fields for programs.

    `candidates` stand in the order in which they were considered, the floor last; `basis` is one of measured,
    predicted, ruled out, not determined, always there; `trial` is what `kerneldoctor try` prints, or null where the
    candidate was not run. `pin.tested` says whether the chosen one was. `lock` is the file that was written, or null.
    `ran` says whether any kernel was run.
    """
    return {
        "schema": SCHEMA,
        "reference": found.reference,
        "text": headline(found),
        "exit_code": found.exit_code,
        "chosen": _candidate_name(found.chosen),
        "pin": {**asdict(found.pin), "kernels_lock": list(found.pin.kernels_lock)},
        "ran": any(candidate.trial is not None and candidate.trial.runs for candidate in found.candidates),
        "inference": found.policy.inference,
        "workload": dict(found.workload),
        "environment": dict(fingerprint(found.environment)),
        "candidates": [_candidate_json(candidate, found) for candidate in found.candidates],
        "wheel": asdict(found.wheel) if found.wheel is not None else None,
        "options": [{**asdict(option), "text": option_text(option)} for option in found.options],
        "notes": list(found.notes),
        "next": [f"{words}: {command}" for words, command in next_steps(found, lock)],
        "sources": list(found.sources),
        "lock": None if lock is None or lock.kept or lock.entry is None else lock.path,
    }


def render(found: Recommendation, page: Page, lock: Written | None = None, verbose: bool = False) -> str:
    """The whole page."""
    page.line(headline(found), _STYLES[found.exit_code])
    _pin(found, page)
    if found.machine:
        page.paragraph("  here    ", found.machine)
    page.paragraph("  for     ", workload_text(found))
    if obstacle := common_obstacle(found):
        page.paragraph("  not run ", obstacle)
    _candidates(found, page, verbose)
    _instead(found, page)
    page.line()
    for note in found.notes:
        page.paragraph("  note    ", note)
    if lock is not None:
        page.paragraph("  lock    ", lock_text(lock))
    for number, (words, command) in enumerate(next_steps(found, lock)):
        page.paragraph("  next    " if number == 0 else "          ", f"{words}:")
        page.whole(f"            {command}")
    for source in found.sources if verbose else found.sources[:1]:
        page.paragraph("  listing ", source)
    return page.text()


def lock_text(lock: Written) -> str:
    """What became of the lock file."""
    entry = lock.entry
    if entry is None:
        return f"nothing was written to {lock.path}: this is no build of a Hub kernel with a commit"
    if not lock.kept:
        return f"written to {lock.path}"
    was = f"{short(entry.revision or entry.commit)} of {entry.date}, {entry.verdict.text}"
    return f"{lock.path} was left as it is: it has {was}, and what was not run does not take the place of that"


def headline(found: Recommendation) -> str:
    """The answer in one line."""
    chosen, inference = found.chosen, found.policy.inference
    name = _brief(chosen, found) if chosen.kind == "kernel" else chosen.name
    unused = f", {text}" if (text := unused_gpu_text(found.environment)) else ""
    if chosen.passes(inference):
        assert chosen.trial is not None
        only = " for inference" if inference else ""
        return f"{found.reference}: {name} is right here{only}{unused}: {chosen.trial.verdict.text}"
    if chosen.basis == "predicted":
        faults = f", but for some uses it has a known fault [{', '.join(chosen.rules)}]" if chosen.rules else ""
        return f"{found.reference}: {name} should load here{unused}{faults}; untested"
    if chosen.basis == "not determined":
        return f"{found.reference}: nothing can be chosen here: {chosen.why}"
    if found.exit_code == 3:
        return f"{found.reference}: nothing can be said for certain of it here; {name} is always there"
    return f"{found.reference}: nothing that fits here is right; what remains is {name}"


def common_obstacle(found: Recommendation) -> str:
    """Why nothing could be run, where that is the same for all; else ""."""
    obstacles = {candidate.obstacle for candidate in found.candidates if candidate.obstacle}
    run = any(candidate.trial is not None for candidate in found.candidates)
    return obstacles.pop() if len(obstacles) == 1 and not run else ""


def workload_text(found: Recommendation) -> str:
    """What it is wanted for."""
    kind = "inference" if found.policy.inference else "training"
    asked = found.workload
    if not asked:
        return f"{kind}, the usual cases"
    heads = f"{asked['heads']} query and {asked['kv_heads']} key/value heads of {asked['head_dim']}"
    more = [f"{name} {asked[name]}" for name in ("window", "softcap") if asked.get(name)]
    return ", ".join([kind, heads, str(asked["dtype"]), *more])


def next_steps(found: Recommendation, lock: Written | None = None) -> Iterator[tuple[str, str]]:
    """What to do with the answer, or to get a better one: words and a command."""
    options = _options(found)
    again = f"kerneldoctor recommend {found.reference}{options}"
    partial = [c for c in found.candidates if c.infers and not c.passes(found.policy.inference)]
    if partial:
        yield f"{_names(partial)} is right for inference", f"{again} --inference"
    ruled = [c for c in found.candidates if c.predicted is False and c.build and c.rules and c.trial is None]
    ruled = [c for c in ruled if not c.alternative]
    if ruled and found.ran and not found.policy.try_all:
        yield f"{_names(ruled)} was not run, because a rule rules it out; this runs it", f"{again} --try-all"
    yield from _remedies(found)
    failed = [c for c in found.candidates if c.trial is not None and c.trial.verdict.kind in ("failed", "partial")]
    if failed:
        what = failed[0].reference if failed[0].kind == "kernel" else failed[0].name_to_type
        yield "see what failed", f"kerneldoctor try {what}{options}"
    if not found.ran and found.chosen.rules and not found.workload:
        yield "say what it is for", f"kerneldoctor recommend {found.reference} --heads N --kv-heads N"
    if not found.ran and found.chosen.kind != "floor":
        yield "measure it on the machine that will run it", again
    if found.ran and lock is None and found.chosen.kind == "kernel" and found.pin.is_commit:
        yield "nothing was written; this keeps the answer in kerneldoctor.lock", f"{again} --write"


def _options(found: Recommendation) -> str:
    """The options of `recommend` and `try` alike that ask for the same once more."""
    asked = found.workload
    parts = [f"--device {found.device}"] if found.device != "auto" else []
    parts += ["--inference"] if found.policy.inference else []
    names = {"heads": "--heads", "kv_heads": "--kv-heads", "head_dim": "--head-dim", "dtype": "--dtype"}
    parts += [f"{option} {asked[name]}" for name, option in names.items() if name in asked]
    parts += [f"--trust-remote-code {repo}" for repo in found.policy.trusted]
    return "".join(f" {part}" for part in parts)


def _remedies(found: Recommendation) -> Iterator[tuple[str, str]]:
    """How to get past refusals that one option or package settles, each once."""
    said: set[str] = set()
    for candidate in found.candidates:
        for refusal in candidate.trial.refusals if candidate.trial is not None else ():
            words, colon, option = refusal.remedy.rpartition(": ")
            if not refusal.remedy or refusal.remedy in said:
                continue
            said.add(refusal.remedy)
            if option.startswith("--"):
                yield words, f"kerneldoctor recommend {found.reference}{_options(found)} {option}"
            elif refusal.remedy.startswith("pip "):
                yield f"{candidate.name}: {refusal.why}", refusal.remedy
            elif colon:
                yield words, option


def _pin(found: Recommendation, page: Page) -> None:
    comment = f"  # {found.pin.comment}" if found.pin.comment else ""
    label = "  pin     "
    for name, text in found.pin.forms.items():
        page.whole(f"{label}{text}{'' if name == 'trl' else comment}", "bold")
        label = "          "
    if found.chosen.kind == "kernel" and not found.pin.is_commit:
        page.paragraph(label, "a branch, which can move: no commit of it is known here")
    if found.pin.kernels_lock:
        page.whole(f"  project {found.pin.kernels_lock[0]}")
        for line in found.pin.kernels_lock[1:]:
            page.whole(f"          {line}  # kernels lock takes the commit that the branch has by then")


def _candidates(found: Recommendation, page: Page, verbose: bool) -> None:
    page.line()
    names = [_brief(candidate, found) for candidate in found.candidates]
    width = max(map(len, names))
    said: dict[str, str] = {}
    for name, candidate in zip(names, found.candidates, strict=True):
        text = evidence(candidate, found)
        before = said.setdefault(text, name)
        mark = "*" if candidate is found.chosen else " "
        text = f"as {before}" if before != name and not verbose else text
        page.paragraph(f"{mark} {name:<{width}}  {candidate.basis:<14}  ", text)
        if verbose and candidate.trial is not None:
            _failures(candidate, page)


def evidence(candidate: Candidate, found: Recommendation) -> str:
    """What is known of a candidate, and how."""
    trial = candidate.trial
    if trial is not None and candidate.basis == "measured":
        against = [note.rule for note in trial.findings if note.basis == "build" and note.standing == "disagrees"]
        more = f"; rule {listing(against)} says otherwise, and the measurement counts" if against else ""
        return f"{trial.subject.variant or candidate.name}: {trial.verdict.text}{more}"
    if trial is not None and trial.verdict.kind == "refused":
        return trial.verdict.text
    if candidate.obstacle and candidate.obstacle != common_obstacle(found):
        return f"{candidate.why}; a run said nothing: {candidate.obstacle}"
    if candidate.obstacle:
        return candidate.why
    if candidate.basis == "predicted" and found.ran and candidate.kind != "floor":
        return f"{candidate.why}; not run, because {_brief(found.chosen, found)} passed"
    return candidate.why


def _failures(candidate: Candidate, page: Page) -> None:
    reports = [report for run in candidate.trial.runs for report in run.cases] if candidate.trial is not None else []
    for report in reports:
        if report.failed:
            page.paragraph("      ", f"{report.outcome} {report.case.id}: {report.detail}")


def _instead(found: Recommendation, page: Page) -> None:
    if found.wheel is not None:
        page.line()
        page.line("A flash-attn wheel was published for this torch, CUDA and Python", "bold")
        page.whole(f"  {found.wheel.command}")
        page.paragraph("  ", 'then attn_implementation="flash_attention_2" uses it')
    if found.options:
        page.line()
        page.line("What would give a build from the Hub, the smallest change first", "bold")
    for number, option in enumerate(found.options, 1):
        doubt = "" if option.usable else f" (not determined: {', '.join(option.missing)})"
        page.paragraph(f"  {number}. ", f"{option_text(option)}{doubt}")
        for command in option.commands:
            page.whole(f"     {command}")
        if option.rebuild:
            page.paragraph("     ", f"to be installed again for that torch: {', '.join(option.rebuild)}")


def _brief(candidate: Candidate, found: Recommendation) -> str:
    """A candidate's name beside others: the version alone where the repository is the one that was asked for."""
    if candidate.kind != "kernel" or not candidate.version:
        return candidate.name
    version = short(candidate.version)
    return f"{candidate.repo.partition('/')[2]}@{version}" if candidate.alternative else version


def _names(candidates: Sequence[Candidate]) -> str:
    return listing([short(candidate.version) or candidate.name for candidate in candidates])


def _candidate_name(candidate: Candidate) -> dict[str, Any]:
    return {"kind": candidate.kind, "name": candidate.name, "reference": candidate.reference, "basis": candidate.basis}


def _candidate_json(candidate: Candidate, found: Recommendation) -> dict[str, Any]:
    optional: Mapping[str, str] = {
        name: getattr(candidate, name) for name in ("version", "commit", "build", "build_id", "obstacle")
    }
    return {
        **_candidate_name(candidate),
        "repo": candidate.repo if candidate.kind == "kernel" else None,
        **{name: text or None for name, text in optional.items()},
        "predicted": candidate.predicted,
        "rules": list(candidate.rules),
        "alternative": candidate.alternative,
        "why": candidate.why,
        "text": evidence(candidate, found),
        "trial": trial_json(candidate.trial) if candidate.trial is not None else None,
    }
