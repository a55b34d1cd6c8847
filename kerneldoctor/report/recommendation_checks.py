"""The checks of a recommendation, for the formats of CI and for pasting. Lays out and judges nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..engine.model import Rule, Severity
from ..recommendation.model import Candidate, Recommendation, Written
from .checks import Check, Checks, Section, Status, count, rule_texts
from .recommendation import common_obstacle, evidence, headline, next_steps, workload_text
from .variants import option_text


def of_recommendation(
    found: Recommendation,
    version: str,
    date: str,
    rules: Iterable[Rule] = (),
    lock: Written | None = None,
    addressed: Callable[[str], str] = lambda text: text,
) -> Checks:
    """The checks of a recommendation: the answer, on which the exit code rests, and one a candidate.

    addressed: writes a command so that it reaches the environment that was looked at.
    """
    steps = tuple((words, addressed(command)) for words, command in next_steps(found, lock))
    checks = (_answer(found, steps), *(_candidate(c, found) for c in found.candidates if c.kind != "floor"))
    obstacle = common_obstacle(found)
    return Checks(
        title=f"kerneldoctor recommend {found.reference}",
        headline=headline(found),
        checks=checks,
        exit_code=found.exit_code,
        date=date,
        version=version,
        counts=count(checks[1:]),
        facts=(
            *((("here", found.machine),) if found.machine else ()),
            ("for", workload_text(found)),
            *((("not run", addressed(obstacle)),) if obstacle else ()),
            *(("listing", source) for source in found.sources),
        ),
        notes=found.notes,
        sections=tuple(_sections(found, steps, addressed)),
        rules=rule_texts(rules, checks),
        foot=(f"kerneldoctor {version}",),
    )


def _answer(found: Recommendation, steps: tuple[tuple[str, str], ...]) -> Check:
    status: Status = {0: "passed", 1: "failed"}.get(found.exit_code, "undetermined")  # type: ignore[assignment]
    return Check(
        f"recommend:{found.reference}", f"recommend {found.reference}", headline(found), status,
        detail=workload_text(found), remedies=() if status == "passed" else steps, kind="recommendation", tabled=True,
    )  # fmt: skip


def _candidate(candidate: Candidate, found: Recommendation) -> Check:
    """One candidate. That an older or newer one is wrong fails nothing: the answer is what counts."""
    status, severity = _standing(candidate, found)
    name = candidate.name
    return Check(
        f"recommend:{found.reference}/{name}", f"recommend {found.reference}", f"{name}: {candidate.basis}", status,
        severity, evidence(candidate, found), kind="candidate", decisive=False, name=name, tabled=True,
    )  # fmt: skip


def _standing(candidate: Candidate, found: Recommendation) -> tuple[Status, Severity]:
    if candidate.passes(found.policy.inference):
        return "passed", "info"
    match candidate.basis:
        case "measured":
            return "failed", "warning"
        case "not determined":
            return "undetermined", "info"
        case _:
            return "skipped", "info"


def _sections(
    found: Recommendation, steps: tuple[tuple[str, str], ...], addressed: Callable[[str], str]
) -> Iterator[Section]:
    comment = f"  # {found.pin.comment}" if found.pin.comment else ""
    forms = [f"{text}{'' if name == 'trl' else comment}" for name, text in found.pin.forms.items()]
    if forms:
        yield Section("Pin", code="\n".join(forms))
    rows = tuple((c.name, c.basis, evidence(c, found)) for c in found.candidates)
    yield Section("Candidates", head=("candidate", "basis", "evidence"), rows=rows)
    if found.wheel is not None:
        yield Section("A flash-attn wheel for this torch, CUDA and Python", code=addressed(found.wheel.command))
    for option in found.options:
        yield Section(option_text(option), code="\n".join(map(addressed, option.commands)), folded=True)
    if steps:
        yield Section("Next", paragraphs=tuple(f"{words}: {command}" for words, command in steps))
