"""A trial of one kernel for people and programs: the verdict line, the cases, the pin, what rules say, what next.

Lays out and decides nothing; verdict, weights and pin come with the trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ..environment import encode
from ..smoke.protocol import TensorError
from ..smoke.trial import CaseReport, Note, Pin, Run, Trial
from .layout import Page
from .text import gib, plural

SCHEMA = "kerneldoctor.trial/1"
_STYLE = {
    "passed": "bold green",
    "partial": "bold yellow",
    "untested": "bold yellow",
    "loaded, no contract": "bold yellow",
}
_WIDE = 100  # columns from which on parameters stand beside the case
_SHOWN_PARAMS = ("dtype", "heads", "kv_heads", "head_dim", "causal", "window", "softcap")


def to_json(trial: Trial) -> dict[str, Any]:
    """The published form."""
    subject = trial.subject
    return {
        "schema": SCHEMA,
        "reference": subject.reference,
        "resolved": {
            "repo": subject.repo, "revision": subject.revision, "commit": subject.commit, "variant": subject.variant,
            "build_id": subject.build_id, "source": subject.source, "folder": subject.folder,
        },
        "device": _device_json(trial.runs[0]) if trial.runs else {},
        "devices": [_device_json(run) for run in trial.runs],
        "cases": [_case_json(run, report) for run in trial.runs for report in run.cases],
        "load": [_load_json(run) for run in trial.runs],
        "refusals": [encode(refusal) for refusal in trial.refusals],
        "verdict": {"kind": trial.verdict.kind, "text": trial.verdict.text},
        "pin": _pin_json(trial.pin),
        "findings": [_note_json(note) for note in trial.findings],
        "notes": list(trial.notes),
        "next": list(trial.next_steps),
        "exit_code": trial.exit_code,
    }  # fmt: skip


def render(trial: Trial, page: Page, verbose: bool = False) -> str:
    """The whole page: what was tried, cases, findings, then the verdict line and the pin."""
    _subject(trial, page)
    for run in trial.runs:
        _run(run, page, verbose, len(trial.runs) > 1)
    for note in trial.notes:
        page.paragraph("  note    ", note)
    _findings(trial.findings, page)
    page.line()
    page.line(trial.verdict.text, _STYLE.get(trial.verdict.kind, "bold red"))
    for refusal in trial.refusals if len(trial.refusals) > 1 else ():
        page.paragraph("  because ", f"{refusal.why} [{refusal.code}]")
    _pin(trial, page)
    for number, step in enumerate(trial.next_steps):
        _step("  next    " if number == 0 else "          ", step, page)
    return page.text()


def progress_text(device: str, number: int, of: int, case: str, stage: str, seconds: float) -> str:
    """One line on where a run is."""
    if not number:
        return f"{device}: {stage}, {seconds:.0f} s"
    return f"{device}: case {number} of {of}, {case}: {stage}, {seconds:.0f} s"


def _subject(trial: Trial, page: Page) -> None:
    subject = trial.subject
    name = f"{subject.repo}@{subject.revision}" if subject.repo else subject.reference
    page.line(f"{name}" + (f"  (asked for as {subject.reference})" if subject.reference != name else ""), "bold")
    for label, text in subject_lines(trial):
        page.paragraph(f"  {label:<7} ", text)


def subject_lines(trial: Trial) -> Iterator[tuple[str, str]]:
    """Label and text of what was resolved."""
    subject = trial.subject
    if subject.commit and subject.commit != subject.revision:
        yield "commit", subject.commit
    if subject.variant:
        identity = f", build {subject.build_id}" if subject.build_id else ""
        yield "build", f"{subject.variant}{identity} ({_source(subject.source)})"


def _source(source: str) -> str:
    return {"live": "from the Hub", "index": "from the cache; the Hub was not asked", "cache": "from the cache",
            "local": "from a folder", "module": "an installed package"}.get(source, "not fetched")  # fmt: skip


def _run(run: Run, page: Page, verbose: bool, several: bool) -> None:
    for label, text in run_lines(run):
        page.paragraph(f"  {label:<7} ", text)
    if run.loaded is not None and not run.loaded.contracts:
        names = ", ".join(run.loaded.exports[: None if verbose else 20])
        page.paragraph("  exports ", f"{names or 'nothing'}: no contract is known for these, so nothing was judged")
    if run.problem is not None:
        page.paragraph("  load    ", f"{run.problem.kind} in {run.problem.stage}: {run.problem.message}")
        if verbose and run.problem.said:
            _said(run.problem.said, page)
    if run.cases:
        page.line()
    if run.cases:
        _cases(run, page, verbose, f" on {run.device}" if several else "")
        page.line()
        page.paragraph("  time    ", _times(run))


def run_lines(run: Run) -> Iterator[tuple[str, str]]:
    """Label and text of where it ran and, through a library, of what really ran."""
    yield "ran on", where(run)
    yield from _through_lines(run)


def _through_lines(run: Run) -> Iterator[tuple[str, str]]:
    """Of a kernel that another library loaded: into what, under which name, and what it really is."""
    loaded = run.loaded
    seen = loaded.through if loaded is not None else {}
    if loaded is None or not seen:
        return
    heads = f", {seen['heads']}/{seen['kv_heads']} heads d{seen['head_dim']}" if seen.get("heads") else ""
    yield "model", f"{seen['model']}, {seen['layers']} layers{heads}, {seen['dtype']}, random weights"
    by = {"you": "as you asked", "package": f"for {seen['asked']}, because it is installed"}.get(
        str(seen["chosen_by"]), f"by transformers' own choice, for {seen['asked']}"
    )
    commit = f"@{loaded.commit}" if loaded.commit and "@" not in str(seen["runs"]) else ""
    yield "runs", f"{seen['runs']}{commit}, {by}"
    if loaded.file:
        build = f" (build {loaded.build_id})" if loaded.build_id else ""
        yield "file", f"{loaded.file}{build}"


def where(run: Run) -> str:
    """The device of a run, and what it ran with."""
    seen, through = run.versions, run.loaded is not None and bool(run.loaded.through)
    named = ("kernels", "triton", *(("transformers", "trl") if through else ()))
    name = str((seen.device if seen else {}).get("name") or run.device)
    parts = [f"{name} ({run.device})" if name != run.device else name]
    if seen is not None:
        parts.append(f"torch {seen.torch}")
    parts += [f"{package} {version}" for package, version in run.packages.items() if package in named]
    return ", ".join(parts)


def _cases(run: Run, page: Page, verbose: bool, device: str) -> None:
    """A line each; what several cases say in the same words is said once."""
    width = max((len(report.case.id) for report in run.cases), default=0)
    said: dict[str, str] = {}
    for report in run.cases:
        before = said.setdefault(report.detail, report.case.id)
        same = f"as {before}" if report.detail and before != report.case.id and not verbose else ""
        _case(report, page, verbose, f"{report.case.id:<{width}}{device}", same)


def _case(report: CaseReport, page: Page, verbose: bool, name: str, same: str) -> None:
    style = "" if report.outcome == "passed" else "bold red" if report.failed else "yellow"
    label = f"  {report.outcome:<12}"
    beside = f"  {_params(report.case.params)}" if page.width >= _WIDE else ""
    page.whole(f"{label}{name}  {report.seconds:4.1f} s{beside}".rstrip(), style)
    room = " " * len(label)
    if report.outcome != "passed" and report.detail:
        page.paragraph(room, same or report.detail)
    if verbose:
        for text in (*(_error(tensor, error) for tensor, error in report.errors.items()), *report.notes):
            page.paragraph(room, text)
        if report.said:
            _said(report.said, page)


def case_texts(report: CaseReport) -> tuple[str, ...]:
    """A case as the cells of a table: id, outcome, detail, inputs, time."""
    return report.case.id, report.outcome, report.detail, _params(report.case.params), f"{report.seconds:.1f} s"


def _params(params: Mapping[str, Any]) -> str:
    kinds = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
    parts = [str(kinds.get(str(params.get("dtype")), params.get("dtype") or ""))]
    if "heads" in params:
        parts.append(f"{params['heads']}/{params.get('kv_heads', params['heads'])} heads")
    if "head_dim" in params:
        parts.append(f"d{params['head_dim']}")
    parts += [f"{name} {params[name]}" for name in ("window", "softcap") if params.get(name)]
    parts += ["causal"] if params.get("causal") else []
    parts += ["forward only"] if params.get("backward") is False else []
    return " ".join(part for part in parts if part)


def _error(name: str, error: TensorError) -> str:
    if error.relative is None:
        return f"{name}: not finite"
    baseline = f", torch itself {error.baseline:.2g}" if error.baseline is not None else ""
    return f"{name}: off by {error.relative:.2g}{baseline}"


def _said(text: str, page: Page) -> None:
    for line in text.strip().splitlines()[-30:]:
        page.whole(f"              | {line}", "dim")


def _times(run: Run) -> str:
    parts = [f"{run.seconds:.1f} s in all"]
    parts += [f"{name} {seconds:.1f} s" for name, seconds in run.timings.items() if seconds >= 0.05]
    if run.children > 1:
        parts.append(f"{plural(run.children, 'process').replace('processs', 'processes')}, because some died")
    if run.peak_memory:
        parts.append(f"peak memory {gib(run.peak_memory)}")
    return ", ".join(parts)


def _findings(notes: Sequence[Note], page: Page) -> None:
    if not notes:
        return
    page.line()
    for note in notes:
        doubt = "" if note.standing != "disagrees" else "contradicted: "
        page.paragraph("  rule    ", f"{doubt}{note.title} [{note.rule}]: {note.text}")


def _pin(trial: Trial, page: Page) -> None:
    pin = trial.pin
    if pin is None:
        return
    only = ", for inference only" if pin.inference_only else ""
    branch = f"  # {pin.branch}{only}" if pin.branch else f"  #{only[1:]}" if only else ""
    for name, text in pin.forms().items():
        label = "  pin     " if name == next(iter(pin.forms())) else "          "
        page.whole(f"{label}{text}{'' if name == 'trl' else branch}", "bold")


def _step(label: str, step: str, page: Page) -> None:
    words, colon, command = step.partition(": ")
    if colon and len(label) + len(step) > page.width:
        page.paragraph(label, f"{words}:")
        page.whole(f"{' ' * len(label)}  {command}")
    else:
        page.whole(f"{label}{step}")


# --- JSON -------------------------------------------------------------------------------------------------------------


def _device_json(run: Run) -> dict[str, Any]:
    seen = run.versions
    return {
        "name": run.device, **({"gpu": dict(seen.device)} if seen is not None and seen.device else {}),
        "torch": seen.torch if seen else None, "cuda": seen.cuda if seen else None, "packages": dict(run.packages),
        "seconds": round(run.seconds, 3), "timings": dict(run.timings), "peak_memory": run.peak_memory,
        "processes": run.children,
    }  # fmt: skip


def _case_json(run: Run, report: CaseReport) -> dict[str, Any]:
    return {
        "id": report.case.id, "contract": report.case.contract, "params": dict(report.case.params),
        "seed": report.case.seed, "device": run.device, "outcome": report.outcome, "detail": report.detail,
        "stage": report.stage, "direction": report.direction,
        "forward_right": report.forward, "signal": report.signal or None,
        "errors": {name: asdict(error) for name, error in report.errors.items()},
        "seconds": round(report.seconds, 3), "timings": dict(report.timings), "notes": list(report.notes),
        "said": report.said,
    }  # fmt: skip


def _load_json(run: Run) -> dict[str, Any]:
    loaded = run.loaded
    return {
        "device": run.device,
        "problem": encode(run.problem) if run.problem is not None else None,
        "exports": list(loaded.exports) if loaded else [],
        "contracts": list(loaded.contracts) if loaded else [],
        "module": loaded.module if loaded else None,
        "file": loaded.file if loaded else None,
        **({"through": dict(loaded.through)} if loaded and loaded.through else {}),
    }


def _pin_json(pin: Pin | None) -> dict[str, Any] | None:
    if pin is None:
        return None
    return {
        "repo": pin.repo, "commit": pin.commit, "branch": pin.branch, "inference_only": pin.inference_only,
        **pin.forms(),
    }  # fmt: skip


def _note_json(note: Note) -> dict[str, Any]:
    return {**asdict(note), "remedies": [dict(advice) for advice in note.remedies]}
