"""A preflight for people and programs: the verdict, what fails and why, what each kernel and rank came to.

Lays out and decides nothing; the checks come with their answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from .checks import Check, Checks, Section, code_of, count
from .layout import Page
from .text import listing, plural

SCHEMA = "kerneldoctor.preflight/1"
_STYLES = {0: "bold green", 1: "bold red", 3: "bold yellow"}
_MARKS = {"passed": "ok", "failed": "FAILED", "undetermined": "unknown", "skipped": "skipped", "ignored": "ignored"}
_PUBLISHED = (
    "id", "group", "title", "status", "severity", "detail", "rule", "kind", "url", "file", "line", "seconds", "decisive"
)  # fmt: skip
_NAMED = 3  # failing checks in the headline


def assemble(
    base: Checks | None, checks: Sequence[Check], about: Mapping[str, Any], notes: Iterable[str], version: str
) -> Checks:
    """The checks of a whole preflight, on the facts of the machine that reports."""
    found = base or Checks("", "", (), 0, "", version, count(()))
    policy = about["policy"]
    return replace(
        found,
        title="kerneldoctor preflight",
        headline=_headline(checks, policy),
        checks=tuple(checks),
        exit_code=code_of(checks),
        counts=count(checks),
        facts=(("policy", _policy_text(policy)), *_launch_lines(about), *found.facts),
        notes=tuple(notes),  # those of the scan are checks of their own here
        sections=(*_sections(about), *found.sections),
        place=policy["file"] or found.place,
        foot=(counts_line(checks), *found.foot[1:]),
    )


def to_json(checks: Checks, about: Mapping[str, Any]) -> dict[str, Any]:
    """The published form. `decisive`: the exit code rests on this check."""
    return {
        "schema": SCHEMA,
        "date": checks.date,
        "kerneldoctor": checks.version,
        "text": checks.headline,
        "exit_code": checks.exit_code,
        "counts": asdict(checks.counts),
        **about,
        "checks": [_check_json(check) for check in checks.sorted()],
        "notes": list(checks.notes),
    }


def render(checks: Checks, page: Page, verbose: bool = False) -> str:
    """The whole page."""
    page.line(checks.headline, _STYLES.get(checks.exit_code, "bold red"))
    page.line()
    for label, text in checks.facts:
        page.paragraph(f"  {label:<10}  ", text)
    for section in checks.sections if verbose else ():
        _table(section, page)
    for check in checks.sorted():
        if check.status == "failed" or (check.status == "undetermined" and check.decisive):
            _trouble(check, page)
    _lines([check for check in checks.checks if _in_short(check, verbose)], page)
    page.line()
    for note in checks.notes:
        page.paragraph("  note  ", note)
    for line in checks.foot:
        page.line(line)
    return page.text()


def counts_line(checks: Iterable[Check]) -> str:
    """The three counts of every report."""
    counts = count(checks)
    aside = "".join(f", {n} {word}" for n, word in ((counts.ignored, "ignored"), (counts.skipped, "skipped")) if n)
    return f"{plural(counts.findings, 'finding')}{aside} | {counts.fine} fine | {counts.undetermined} not determined"


def _headline(checks: Sequence[Check], policy: Mapping[str, Any]) -> str:
    decisive = [check for check in checks if check.decisive]
    failed = [check for check in decisive if check.status == "failed"]
    open_checks = [check for check in decisive if check.status == "undetermined"]
    asides = sum(check.status == "failed" and check.severity != "info" for check in checks) - len(failed)
    aside = f"; {plural(asides, 'warning')}" if asides > 0 else ""
    if failed:
        return f"not ready: {_titles(failed)}"
    if open_checks:
        return f"could not be determined: {_titles(open_checks)}"
    fine = sum(check.status == "passed" for check in checks)
    unknown = sum(check.status == "undetermined" for check in checks)
    named = "no kernel was looked at" if policy["kernels"] else "no kernel was named"
    ready = f"nothing against it, but {named}" if policy["run"] == "scan" or not policy["kernels"] else "ready"
    return f"{ready}: {plural(fine, 'check')} fine, {unknown} not determined{aside}"


def _titles(checks: Sequence[Check]) -> str:
    names = [check.title for check in sorted(checks, key=lambda check: check.severity != "error")]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return listing([*names[:_NAMED], *more])


def _policy_text(policy: Mapping[str, Any]) -> str:
    source = policy["file"] or "none was found (kerneldoctor.toml, or [tool.kerneldoctor] in pyproject.toml)"
    kernels = listing(policy["kernels"])
    what = {
        "scan": "the scan alone", "variants": f"{kernels}: resolved, not run", "smoke": f"{kernels}: resolved and run",
    }[policy["run"]]  # fmt: skip
    hint = "; name a kernel with --kernel" if not policy["kernels"] else ""
    return f"{source}; {what if kernels else 'the scan alone'}{hint}"


def _launch_lines(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    launch = about.get("launch")
    if not launch:
        return []
    machines = plural(launch["machines"], "machine")
    heard = launch["size"] - len(about.get("missing", ()))
    return [("ranks", f"{heard} of {launch['size']} heard, on {machines} ({launch['how']}); below: rank 0")]


def _sections(about: Mapping[str, Any]) -> list[Section]:
    ranks = about.get("ranks", ())
    kernels = dict.fromkeys(name for rank in ranks for name in rank["kernels"])
    if not about.get("launch"):
        builds = tuple((name, str(ranks[0]["kernels"][name])) for name in kernels)
        return [Section("Kernels", head=("kernel", "build"), rows=builds)] if builds else []
    rows = tuple(
        (str(rank["rank"]), rank["machine"], rank["device"], rank["environment"].get("gpu", ""),
         rank["environment"].get("driver", ""), rank["environment"].get("torch", ""), f"{rank['seconds']:.1f} s")
        for rank in ranks
    )  # fmt: skip
    absent = tuple((str(m["rank"]), m["how"], *[""] * 5) for m in about.get("missing", ()))
    head = ("rank", "machine", "device", "GPU", "driver", "torch", "took")
    return [Section("Ranks", head=head, rows=(*rows, *absent), folded=len(rows) > 16)]


def _table(section: Section, page: Page) -> None:
    if section.folded or not section.rows:
        return
    page.line()
    page.line(section.title, "bold")
    for row in section.rows:
        page.paragraph("  ", "  ".join(filter(None, row)))


def _trouble(check: Check, page: Page) -> None:
    page.line()
    word = check.severity.upper() if check.status == "failed" else "NOT DETERMINED"
    style = "bold red" if check.decisive and check.status == "failed" else "bold yellow"
    page.paragraph(f"{word}  ", f"{check.title} [{check.rule or check.id}]", style)
    if check.detail:
        page.paragraph("        ", check.detail)
    for words, command in check.remedies:
        page.paragraph("        ", f"{words}:" if command else words)
        for line in command.splitlines():
            page.whole(f"            {line}")


def _in_short(check: Check, verbose: bool) -> bool:
    """What fits into a line: the answers to the policy; of the scan only where everything is asked for."""
    trouble = check.status == "failed" or (check.status == "undetermined" and check.decisive)
    return not trouble and (verbose or check.group != "scan")


def _lines(checks: Sequence[Check], page: Page) -> None:
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            page.line()
            page.line(group, "bold")
        detail = f": {check.detail}" if check.detail else ""
        kernel = group.removeprefix("kernel ")
        title = check.title.removeprefix(f"{kernel} ").removeprefix(f"{kernel}: ")
        page.paragraph(f"  {_MARKS[check.status]:<9}", f"{title}{detail}")


def _check_json(check: Check) -> dict[str, Any]:
    return {
        **{key: getattr(check, key) for key in _PUBLISHED},
        "remedies": [{"title": words, "command": command} for words, command in check.remedies],
        "seen": dict(check.seen),
    }
