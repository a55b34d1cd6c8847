"""The sentence at the top of a report and the counts at its foot, in the words that every format shares."""

from __future__ import annotations

from ..environment import Environment
from .model import Report
from .text import listing, plural

_REQUIRED = {"gpus": "which GPUs there are", "torch.version": "which torch is installed", "packages": "the packages"}


def headline(report: Report) -> str:
    """The verdict in a line. It says "nothing wrong found" only where the machine was looked at."""
    summary = report.summary
    faults = [plural(n, noun) for n, noun in ((summary.error, "error"), (summary.warning, "warning")) if n]
    if summary.kernels_failing:
        faults.append(f"{plural(summary.kernels_failing, 'named kernel')} would not load")
    blind = listing([f"{_REQUIRED[p]} ({report.why_unknown(p)})" for p in summary.required_unknown])
    if faults:
        rest = f"; {plural(summary.not_determined, 'check')} not determined" if summary.not_determined else ""
        return ", ".join(faults) + _folded(report) + rest + (f". Could not see {blind}" if blind else "")
    if blind:
        return f"Could not determine {blind}"
    if not summary.fine and not summary.info:
        return "No verdict: no check could be decided"
    notes = f", {plural(summary.info, 'note')}" if summary.info else ""
    counts = f"{plural(summary.fine, 'check')} fine{notes}, {summary.not_determined} not determined"
    return f"{_so_far(report)}: {counts}{_lacking(report.environment)}"


def sure(report: Report) -> bool:
    """Whether enough was looked at for a clean result to mean something."""
    summary = report.summary
    open_ones = summary.required_unknown or summary.kernels_undetermined or summary.kernels_failing
    enough = summary.fine and summary.fine >= summary.not_determined and not open_ones
    return bool(enough) and not _perhaps(report)


def _perhaps(report: Report) -> set[str]:
    return {f.rule for f in report.active if f.certainty == "possible" and f.severity != "info"}


def _so_far(report: Report) -> str:
    """No fault was seen; how much that is worth depends on what was not."""
    summary = report.summary
    perhaps = _perhaps(report)
    if summary.kernels_undetermined:
        named = plural(summary.kernels_undetermined, "named kernel")
        return f"Nothing certainly wrong, but whether {named} would load cannot be told"
    if perhaps:
        return f"Nothing certainly wrong, but {plural(len(perhaps), 'fault')} may be there"
    if summary.not_determined > summary.fine:
        return "Nothing wrong found in the little that could be checked"
    return "Nothing wrong found"


def _lacking(environment: Environment) -> str:
    """Health is not fitness: a machine without GPU or torch is well and runs no kernel."""
    lacks = ["no GPU was found"] if environment.gpus.is_absent or environment.gpus.value == () else []
    lacks += ["torch is not installed"] if environment.torch.version.is_absent else []
    lacks += ["torch is a CPU build"] if environment.torch.backend.value == "cpu" else []
    return f". But {listing(lacks)}, so no GPU kernel runs here" if lacks else ""


def _folded(report: Report) -> str:
    shown = [f for f in report.active if f.certainty == "confirmed" and f.severity != "info"]
    rules = {f.rule for f in shown}
    follow = sum(f.explained_by in rules for f in shown)
    return f" ({follow} of them {'follows' if follow == 1 else 'follow'} from another)" if follow else ""


def counts_line(report: Report) -> str:
    """The three counts of every report."""
    summary = report.summary
    found = summary.error + summary.warning + summary.info
    ignored = f", {summary.ignored} ignored" if summary.ignored else ""
    fine = f"{plural(summary.fine, 'check')} decided and fine"
    return f"{plural(found, 'finding')}{ignored} | {fine} | {summary.not_determined} not determined"


def knowledge_line(report: Report) -> str:
    """What judged, and how old it is."""
    knowledge = report.knowledge
    newest = f", the newest of {knowledge.newest}" if knowledge.newest else ""
    other = len(report.out_of_scope)
    aside = f"; {plural(other, 'rule')} about a kernel or workload that was not named" if other else ""
    return f"kerneldoctor {knowledge.version}, {plural(knowledge.rules, 'rule')}{newest}{aside}"
