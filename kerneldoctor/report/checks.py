"""The checks of a run as one list, from which every format for CI and for pasting is rendered.

Here they are made from a Report; trial_checks makes them from a Trial, other commands make their own. It counts and
sorts; it lays out and judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from ..engine.model import SEVERITIES, Advice, Finding, Rule, Severity
from ..environment import NOT_LOOKED
from ..values import dataclass
from .doubt import missing_text, reason
from .explain import blanks, rule_page
from .facts import all_facts
from .machine import machine_lines
from .model import FailOn, Ignore, Report, exit_code
from .text import fact_text, value_text
from .verdict import counts_line, headline, knowledge_line

Status = Literal["passed", "failed", "undetermined", "skipped", "ignored"]
STATUSES: tuple[Status, ...] = ("failed", "undetermined", "ignored", "skipped", "passed")  # as a reader wants them


@dataclass(frozen=True, slots=True)
class Check:
    """One question with its answer."""

    id: str  # the same in every run: "KD5001", "kernel:kernels-community/flash-attn2@v3/resolves"
    group: str  # the suite: "scan", "try kernels-community/flash-attn2@v3", "rank 3"
    title: str
    status: Status
    severity: Severity = "error"
    detail: str = ""
    remedies: tuple[tuple[str, str], ...] = ()  # what to do in words, and the command or ""
    rule: str = ""  # KD id
    kind: str = ""  # of checks without a rule: "pin-moved"; what SARIF calls the rule
    url: str = ""  # where to read on
    file: str = ""  # a place in the repository of the user
    line: int = 0  # from 1; 0 for none
    seconds: float = 0.0
    decisive: bool = True  # the exit code rests on it: failed ones make it 1, undetermined ones 3
    seen: tuple[tuple[str, str], ...] = ()  # facts that decided it, with their values
    name: str = ""  # short, and the same whatever the answer; the id alone is one too
    tabled: bool = False  # a page for people has it in its headline or in a table already


@dataclass(frozen=True, slots=True)
class RuleText:
    """What SARIF tells of a rule."""

    id: str
    name: str
    title: str
    description: str
    severity: Severity
    text: str  # the page
    markdown: str
    url: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page for people: words, a table, lines to copy, a figure; any of them."""

    title: str
    paragraphs: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    code: str = ""
    figure: str = ""  # an SVG element of our own making
    folded: bool = False  # long: shown when it is asked for


@dataclass(frozen=True, slots=True)
class Counts:
    """The three counts of every report, and what stands aside."""

    findings: int
    fine: int
    undetermined: int
    ignored: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Checks:
    """Everything that a format needs."""

    title: str  # "kerneldoctor scan"
    headline: str  # the verdict in a line
    checks: tuple[Check, ...]
    exit_code: int
    date: str  # ISO
    version: str  # of kerneldoctor
    counts: Counts
    facts: tuple[tuple[str, str], ...] = ()  # the machine, label and text
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    rules: tuple[RuleText, ...] = ()
    place: str = "pyproject.toml"  # the file that checks without one of their own are shown at
    foot: tuple[str, ...] = ()  # what judged
    fine: str = "fine"  # what is said of the checks that passed, after their number

    def sorted(self) -> tuple[Check, ...]:
        """Worst first: by status, then by severity; what the exit code rests on before the rest."""
        return tuple(sorted(self.checks, key=_badness))


def _badness(check: Check) -> tuple[int, bool, int]:
    return STATUSES.index(check.status), not check.decisive, SEVERITIES.index(check.severity)


def count(checks: Iterable[Check]) -> Counts:
    """The counts that follow from the checks alone."""
    by_status = [check.status for check in checks]
    return Counts(*(by_status.count(s) for s in ("failed", "passed", "undetermined", "ignored", "skipped")))


def code_of(checks: Iterable[Check]) -> int:
    """The exit code that follows from the checks alone: 1 before 3 before 0."""
    decisive = {check.status for check in checks if check.decisive}
    return 1 if "failed" in decisive else 3 if "undetermined" in decisive else 0


def undetermined(title: str, why: str, version: str, date: str) -> Checks:
    """Of a command that could not get to its answer."""
    check = Check(title, title, why, "undetermined", kind="not-determined")
    return Checks(title, why, (check,), 3, date, version, count((check,)), foot=(f"kerneldoctor {version}",))


def of_report(
    report: Report,
    fail_on: FailOn = "error",
    rules: Iterable[Rule] = (),
    sections: tuple[Section, ...] = (),
    kernels: Iterable[Check] = (),
) -> Checks:
    """The checks of a scan: one a finding and a rule. `rules` gives SARIF their pages, `sections` come with a page."""
    summary = report.summary
    failing = () if fail_on == "never" else SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    checks = (
        *(_finding(finding, report, failing) for finding in report.findings),
        *kernels,
        *(_blind(fact, report, fail_on) for fact in summary.required_unknown),
        *(_open(rule, report) for rule in report.undetermined),
        *(_fine(rule, report) for rule in report.fine),
    )
    facts = tuple(row for row in all_facts(report.environment) if row[1] != fact_text(NOT_LOOKED))
    found = summary.error + summary.warning + summary.info
    return Checks(
        title="kerneldoctor scan",
        headline=headline(report),
        checks=checks,
        exit_code=int(exit_code(summary, fail_on)),
        date=report.date,
        version=report.knowledge.version,
        counts=Counts(found, summary.fine, summary.not_determined, summary.ignored),
        facts=tuple(machine_lines(report.environment)),
        notes=tuple(_unheld(report)),
        sections=(
            *sections,
            Section("Every fact that was looked at", head=("fact", "value", "source"), rows=facts, folded=True),
        ),
        rules=rule_texts(rules, checks),
        fine="looked for and not there",
        foot=(counts_line(report), knowledge_line(report)),
    )


def rule_texts(rules: Iterable[Rule], checks: Iterable[Check]) -> tuple[RuleText, ...]:
    """Of the rules that the checks are instances of, what SARIF tells."""
    told = {check.rule for check in checks if check.status != "passed"}
    return tuple(_rule_text(rule) for rule in rules if rule.id in told)


def _rule_text(rule: Rule) -> RuleText:
    """A rule without the facts of any machine."""
    url = next((evidence.url for evidence in rule.evidence), "")
    return RuleText(
        rule.id, rule.name, blanks(rule.title), blanks(rule.diagnosis), rule.severity, rule_page(rule), rule.body, url,
        (rule.component, rule.confidence),
    )  # fmt: skip


def _finding(finding: Finding, report: Report, failing: tuple[Severity, ...]) -> Check:
    ignore = report.ignored(finding)
    sure = finding.certainty == "confirmed"
    status: Status = "ignored" if ignore else "failed" if sure else "undetermined"
    return Check(
        id=f"{finding.rule}:{finding.subject}" if finding.subject else finding.rule,
        group="scan",
        title=finding.title if finding.subject in finding.title else f"{finding.title} ({finding.subject})",
        status=status,
        severity=finding.severity,
        detail=" ".join(_why(finding, report, ignore)),
        remedies=tuple(step for advice in finding.remedies for step in steps(advice)),
        rule=finding.rule,
        url=next(iter(finding.references), ""),
        decisive=status == "failed" and finding.severity in failing,
        seen=tuple((used.fact, value_text(used.value)) for used in finding.facts),
        name=finding.name.replace("-", " "),
    )


def _why(finding: Finding, report: Report, ignore: Ignore | None) -> Iterator[str]:
    yield finding.diagnosis
    if finding.explained_by:
        yield f"It follows from {finding.explained_by}."
    if finding.certainty == "possible":
        yield f"Not certain: needs {'; '.join(missing_text(report, finding.missing))}."
    if ignore is not None:
        yield f"Ignored: {ignore.reason}" + (f" (until {ignore.until})." if ignore.until else ".")


def steps(advice: Advice) -> Iterator[tuple[str, str]]:
    """A remedy as words and commands: to do it, to check it, to take it back."""
    doubt = "" if advice.certain else " (if it applies here)"
    effect = "" if advice.effect == "safe" else f" ({advice.effect})"
    yield f"{advice.title}{doubt}{effect}", advice.command
    if advice.note:
        yield advice.note, ""
    if advice.snippet:
        yield "In the code", advice.snippet
    if advice.pin and advice.pin not in advice.command + advice.snippet:
        yield "Pin", advice.pin
    for words, command in (("Then", advice.verify), ("Undo", advice.undo)):
        if command:
            yield words, command


def _blind(fact: str, report: Report, fail_on: FailOn) -> Check:
    return Check(
        f"fact:{fact}", "scan", f"{fact} is not known", "undetermined", "error", reason(report, fact),
        kind="fact-unknown", decisive=fail_on != "never",
    )  # fmt: skip


def _open(rule: str, report: Report) -> Check:
    needs = "; ".join(missing_text(report, report.undetermined[rule]))
    title = report.titles.get(rule, rule)
    return Check(rule, "scan", title, "undetermined", "info", f"Needs {needs}", rule=rule, decisive=False, name=title)


def _fine(rule: str, report: Report) -> Check:
    title = report.titles.get(rule, rule)
    return Check(rule, "scan", title, "passed", "info", rule=rule, decisive=False, name=title)


def _unheld(report: Report) -> Iterator[str]:
    """Ignore entries that hide nothing."""
    words = {"unused": "matches nothing", "expired": "is past its date: it counts again"}
    for use in report.ignores:
        if use.state != "used":
            yield f"The ignore entry for {use.ignore.rule} ({use.ignore.reason}) {words[use.state]}"
