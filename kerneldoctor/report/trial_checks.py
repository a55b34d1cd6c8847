"""The checks of a try, for the formats of CI and for pasting. Lays out and judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..engine.model import SEVERITIES, Rule, Severity
from ..smoke.trial import CaseReport, Note, Run, Trial
from .checks import Check, Checks, Section, Status, count, rule_texts
from .text import plural, value_text
from .trial import case_texts, run_lines, subject_lines


def of_trial(trial: Trial, version: str, date: str, rules: Iterable[Rule] = ()) -> Checks:
    """The checks of a try: one a case, one a refusal, one a rule that speaks of it, and the verdict."""
    subject = trial.subject
    name = f"{subject.repo}@{subject.revision}" if subject.repo and subject.revision else subject.reference
    checks = (_verdict(trial, name), *_parts(trial, name))
    pin = tuple(trial.pin.forms().items()) if trial.pin is not None else ()
    return Checks(
        title=f"kerneldoctor try {name}",
        headline=trial.verdict.text,
        checks=checks,
        exit_code=trial.exit_code,
        date=date,
        version=version,
        counts=count(checks[1:]),
        facts=(*subject_lines(trial), *(line for run in trial.runs for line in run_lines(run))),
        notes=trial.notes,
        sections=(
            *((Section("Pin", code="\n".join(text for _, text in pin)),) if pin else ()),
            *((Section("Next", paragraphs=trial.next_steps),) if trial.next_steps else ()),
            *(_cases_section(run) for run in trial.runs if run.cases),
        ),
        rules=rule_texts(rules, checks),
        foot=(f"kerneldoctor {version}",),
    )


def _verdict(trial: Trial, name: str) -> Check:
    status: Status = "passed" if trial.exit_code == 0 else "undetermined" if trial.exit_code == 3 else "failed"
    return Check(
        f"try:{name}", f"try {name}", trial.verdict.text, status, "error", kind="try-verdict", tabled=True,
    )  # fmt: skip


def _parts(trial: Trial, name: str) -> Iterator[Check]:
    base, group = f"try:{name}", f"try {name}"
    # What the verdict leaves open is no failure of the kernel, whatever a part says.
    open_question = trial.verdict.undetermined
    for refusal in trial.refusals:
        status: Status = "undetermined" if open_question else "failed"
        remedy = ((refusal.remedy, ""),) if refusal.remedy else ()
        yield Check(
            f"{base}/refused-{refusal.code}", group, f"refused: {refusal.code}", status, "error", refusal.why, remedy,
            kind="try-refused",
        )  # fmt: skip
    for run in trial.runs:
        several = f"@{run.device}" if len(trial.runs) > 1 else ""
        if run.problem is not None:
            status = "undetermined" if open_question else "failed"
            yield Check(
                f"{base}/load{several}", group, f"{run.problem.kind} in {run.problem.stage}", status, "error",
                run.problem.message, kind="try-load", seconds=run.seconds,
            )  # fmt: skip
        yield from (_case(f"{base}/{{}}{several}", f"{group}{several}", case, trial) for case in run.cases)
    yield from (_note(note, f"{base}/{note.rule}", group) for note in trial.findings)


def _case(identity: str, group: str, report: CaseReport, trial: Trial) -> Check:
    """A case. One that only the whole verdict judges (not run, not supported) decides nothing by itself."""
    status: Status = "passed" if report.outcome == "passed" else "failed" if report.failed else "skipped"
    title = report.case.id if status == "passed" else f"{report.case.id}: {report.outcome}"
    return Check(
        identity.format(report.case.id), group, title, status, "error", report.detail,
        kind="try-case", seconds=report.seconds, decisive=status == "failed" and trial.exit_code == 1, tabled=True,
        seen=tuple((key, value_text(value)) for key, value in report.case.params.items()),
    )  # fmt: skip


def _note(note: Note, identity: str, group: str) -> Check:
    """A rule about this build. The measurement decides: what it contradicts is not held against the kernel."""
    status: Status = {"agrees": "failed", "disagrees": "passed", "open": "undetermined"}[note.standing]  # type: ignore[assignment]
    title = f"{note.title}: not seen here" if status == "passed" else note.title
    remedies = tuple((str(advice.get("title", "")), str(advice.get("command", ""))) for advice in note.remedies)
    severity: Severity = next((known for known in SEVERITIES if known == note.severity), "warning")
    return Check(identity, group, title, status, severity, note.text, remedies, rule=note.rule, decisive=False)


def _cases_section(run: Run) -> Section:
    rows = tuple(case_texts(case) for case in run.cases)
    title = f"{plural(len(rows), 'case')} on {run.device}"
    return Section(title, head=("case", "outcome", "detail", "inputs", "time"), rows=rows, folded=len(rows) > 12)
