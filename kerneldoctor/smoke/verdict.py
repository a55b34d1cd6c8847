"""From what happened to the cases to one verdict, its line, and the pin that goes with a pass. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..hub.download import is_commit
from .contracts import contracts
from .protocol import Case
from .trial import FAILURES, CaseReport, LoadProblem, Pin, Refusal, Run, Subject, Verdict

# What lies with the machine or the request: nothing was learnt about the kernel.
_MACHINE = frozenset(
    {"no-torch", "no-kernels", "no-transformers", "no-trl", "no-model", "no-attention", "no-device", "hub-unreachable"}
)
_ATTENTION = ("flash_attn", "transformers", "trl")
_BASIC = ("flash_attn_func", "flash_attn_varlen_func")
_USUAL_HEAD_DIMS = (64, 96, 128)
_OPTIONS = ("window", "softcap", "deterministic", "lse")


def judge_runs(refusals: Sequence[Refusal], runs: Sequence[Run]) -> Verdict:
    """The verdict over every device: of several the worst."""
    if refusals:
        return Verdict("refused", f"refused ({'; '.join(refusal.why for refusal in refusals)})")
    verdicts = [judge_run(run) for run in runs]
    worst = max(verdicts, key=_badness, default=Verdict("untested", "untested", True))
    if len(runs) < 2:
        return worst
    return Verdict(worst.kind, f"{worst.text} on {_devices(runs, verdicts, worst)}", worst.undetermined)


def judge_run(run: Run) -> Verdict:
    """The verdict on one device."""
    if run.problem is not None:
        return _not_loaded(run.problem)
    if not run.cases:
        return _no_cases(run)
    passed = [case for case in run.cases if case.outcome == "passed"]
    skipped = [case for case in run.cases if case.outcome == "skipped"]
    unsupported = [case for case in run.cases if case.outcome == "unsupported"]
    bad = [case for case in run.cases if case.failed]
    without = _without_backward(run.cases)
    partial = _partial(run, bad, without) if bad or without else None
    if partial is not None:
        return partial
    if bad:
        return _failed(bad, passed)
    if skipped:
        text = f"untested ({len(passed)} passed, {len(skipped)} not run: {skipped[0].detail})"
        return Verdict("untested", text, True)
    if not passed:
        return Verdict("untested", f"untested (not supported by the kernel: {unsupported[0].detail})", True)
    dtypes = {case.case.params.get("dtype") for case in passed}  # a kernel may be for one of them only
    if lacking := [c for c in unsupported if _is_basic(c.case) and c.case.params.get("dtype") in dtypes]:
        return _lacking(lacking, passed)
    only = "" if trains(run.cases) else ", forward only"
    rest = f", {len(unsupported)} not supported by the kernel" if unsupported else ""
    return Verdict("passed", f"passed ({len(passed)} of {len(passed)}){only}{rest}")


def trains(cases: Iterable[CaseReport]) -> bool:
    """Whether a backward was run and right."""
    return any(case.outcome == "passed" and case.case.params.get("backward") for case in cases)


def _is_basic(case: Case) -> bool:
    """Whether it asks for plain attention: any grouping of heads, a usual head size, causal or not, and no option."""
    params = case.params
    usual = int(params.get("head_dim") or 0) in _USUAL_HEAD_DIMS and 0 not in (params.get("seqlens_q") or ())
    return case.contract in _BASIC and usual and not any(params.get(option) for option in _OPTIONS)


def _lacking(lacking: Sequence[CaseReport], passed: Sequence[CaseReport]) -> Verdict:
    """A kernel may have no softcap and still be right; without plain attention of some kind it is not simply right."""
    kinds = ", ".join(dict.fromkeys(_plainly(case.case) for case in lacking))
    if all(case.direction == "backward" and _forward_is_right(case) for case in lacking):
        return Verdict(
            "partial", f"partial (inference fine, training not: no backward for {kinds}: {lacking[0].detail})"
        )
    return Verdict("failed", f"failed (the kernel does not support {kinds}: {lacking[0].detail}; {len(passed)} passed)")


def _plainly(case: Case) -> str:
    heads, shared = int(case.params.get("heads") or 1), int(case.params.get("kv_heads") or 1)
    grouping = "multi-head" if heads == shared else "multi-query" if shared == 1 else "grouped-query"
    return f"{grouping} attention in {case.contract}"


def _failed(bad: Sequence[CaseReport], passed: Sequence[CaseReport]) -> Verdict:
    more = f"; {len(passed)} of {len(passed) + len(bad)} passed" if passed else ""
    return Verdict("failed", f"failed ({_kinds(bad)}{more})")


def _partial(run: Run, bad: Sequence[CaseReport], without: Mapping[str, str]) -> Verdict | None:
    """Where every forward that inference needs was compared and is right; None where that cannot be said.

    Each case has to vouch for its own forward: another one that passed says nothing about it. A kind without a right
    forward is named, whether the kernel refused it or no case was about it.
    """
    needed = [case for case in run.cases if not _training_only(case.case.contract)]
    right = {kind_of(case.case) for case in needed if _forward_is_right(case)}
    if not right or not all(_forward_is_right(case) or _refused_forward(case) for case in needed):
        return None
    refused = {kind_of(case.case) for case in needed} - right
    lacking = [f"{kind} (not supported by the kernel)" for kind in sorted(refused)]
    lacking += [f"{kind} (not tried)" for kind in untried(run, training=False)]
    but = f" but for {', '.join(lacking)}" if lacking else ""
    why = "; ".join([*([_kinds(bad)] if bad else []), *_no_backward(without, run.cases)])
    return Verdict("partial", f"partial (inference fine{but}, training not: {why})")


def _forward_is_right(case: CaseReport) -> bool:
    return case.outcome == "passed" or case.forward is True


def _refused_forward(case: CaseReport) -> bool:
    return case.outcome == "unsupported" and case.direction != "backward"


def _without_backward(cases: Iterable[CaseReport]) -> dict[str, str]:
    """The kinds whose every backward the kernel refused, each with its words."""
    refused: dict[str, str] = {}
    for case in cases:
        if case.outcome == "unsupported" and case.direction == "backward" and not _training_only(case.case.contract):
            refused.setdefault(kind_of(case.case), case.detail)
    ran = _with_backward(cases)
    return {kind: why for kind, why in refused.items() if kind not in ran}


def _with_backward(cases: Iterable[CaseReport]) -> set[str]:
    """The kinds of which a backward was run, whatever came of it."""
    return {
        kind_of(case.case)
        for case in cases
        if (case.outcome == "passed" and case.case.params.get("backward"))
        or (case.failed and case.direction == "backward")
    }


def _no_backward(without: Mapping[str, str], cases: Iterable[CaseReport]) -> list[str]:
    """Who has none: the kernel, where no backward was run at all; else the kinds by name."""
    if not without:
        return []
    who = f"{', '.join(sorted(without))} {'has' if len(without) == 1 else 'have'}"
    return [f"{who if _with_backward(cases) else 'the kernel has'} no backward: {next(iter(without.values()))}"]


def kind_of(case: Case) -> str:
    """What a case is about: one function or layer of a contract with several, else the contract."""
    return str(case.params.get("function", case.contract))


def untried(run: Run, training: bool = True) -> tuple[str, ...]:
    """Kinds that the kernel exports and that no case of this run was about; `training`: dropout and its like too."""
    if run.loaded is None:
        return ()
    names = {name.removeprefix("layers.") for name in run.loaded.exports}
    kinds: dict[str, None] = {}
    for one in contracts():
        if one.name in run.loaded.contracts and (training or not one.training_only):
            kinds |= dict.fromkeys([name for name in one.exports if name in names] if one.any_export else [one.name])
    tried = {kind_of(case.case) for case in run.cases}
    return tuple(kind for kind in kinds if kind not in tried)


def _training_only(name: str) -> bool:
    return any(one.training_only for one in contracts() if one.name == name)


def _kinds(bad: Sequence[CaseReport]) -> str:
    """Which kinds of failure, and how often: "2 crashed, 1 wrong"."""
    counts = Counter(case.outcome for case in bad)
    return ", ".join(f"{counts[kind]} {_WORDS.get(kind, kind)}" for kind in FAILURES if counts[kind])


_WORDS = {"oom": "out of memory"}


def _not_loaded(problem: LoadProblem) -> Verdict:
    if problem.kind == "refused":
        undetermined = problem.reason in _MACHINE
        kind = "untested" if undetermined else "refused"
        return Verdict(kind, f"{kind} ({problem.reason}: {problem.message})", undetermined)  # type: ignore[arg-type]
    if problem.stage in ("start", "import-torch"):
        return Verdict("untested", f"untested (torch itself: {problem.message})", True)
    return Verdict("failed", f"failed ({problem.kind} while loading: {problem.message})")


def _no_cases(run: Run) -> Verdict:
    if run.loaded is not None and not run.loaded.contracts:
        return Verdict("loaded, no contract", "loaded, no contract", True)
    return Verdict("untested", "untested (no case was asked for)", True)


def _badness(verdict: Verdict) -> int:
    order = ("passed", "loaded, no contract", "untested", "partial", "refused", "failed")
    return order.index(verdict.kind)


def _devices(runs: Sequence[Run], verdicts: Sequence[Verdict], worst: Verdict) -> str:
    names = [run.device for run, verdict in zip(runs, verdicts, strict=True) if verdict.kind == worst.kind]
    return ", ".join(names)


def find_pin(verdict: Verdict, subject: Subject, runs: Sequence[Run], inference: bool) -> Pin | None:
    """The pin of a build that passed here; of one that passed in inference only, so marked."""
    if verdict.kind not in ("passed", "partial") or not subject.repo or not is_commit(subject.commit):
        return None
    tried = {case.case.contract for run in runs for case in run.cases}
    forward_only = not all(trains(run.cases) for run in runs)
    return Pin(
        repo=subject.repo,
        commit=subject.commit,
        branch=subject.revision if subject.revision != subject.commit else "",
        attention=any(name.startswith(_ATTENTION) for name in tried),
        inference_only=inference or verdict.kind == "partial" or forward_only,
        trust=subject.trusted_by_name,
    )
