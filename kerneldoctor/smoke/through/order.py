"""What a run through another library needs on the parent's side: the job, its cases, and what came of it in words.

Parent side: imports no torch. It must not judge cases; verdict.py does.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...engine.case import Case as Question
from ...errors import UndeterminedError, UsageError
from ..fetch import Fetched
from ..protocol import Case, KernelRequest
from ..trial import Run, Subject, Verdict
from ..wish import Cases
from .plan import DEFAULT_SHAPE, Library, plan

_LOCAL_NAME = "kerneldoctor-local/kernel"  # under which transformers is given a folder
_KEPT = ("heads", "kv_heads", "head_dim", "dtype")


@dataclass(frozen=True, slots=True)
class Through:
    """Which library loads the kernel, and what else was asked: "compile"."""

    library: Library
    flags: frozenset[str] = field(default_factory=frozenset)


def check_wish(through: Through, module: str | None, cases: Cases) -> None:
    """Raises UsageError for what does not go together."""
    if module is not None:
        name = "an installed flash-attn is asked for as flash_attention_2"
        raise UsageError(f"--module {module}: {through.library} takes names of attention; {name}")
    if cases.set is not None:
        raise UsageError("--cases: through a library there is one set of cases; leave it out")
    if "compile" in through.flags and cases.only and "compile" not in cases.only:
        raise UsageError("--compile adds a case of that name, which --case leaves out: add --case compile")
    if through.library == "trl" and not cases.backward:
        raise UsageError("--inference: TRL trains; try it with --through transformers")
    if cases.workload.get("softcap") and cases.model is None:
        raise UsageError("softcap: the default model has none; name one that has it with --model")


def check_packages(through: Through, question: Question, python: str) -> None:
    """Raises UndeterminedError where the library is not installed."""
    for name in ("transformers", *(("trl",) if through.library == "trl" else ())):
        if question.fact(f"packages.{name}.version").is_absent:
            raise UndeterminedError(f"{name} is not installed for {python}: pip install {name}")


def cases_of(through: Through, cases: Cases, workload: Mapping[str, Any]) -> tuple[Case, ...]:
    """The cases to run. Raises UsageError for an id that is none."""
    shape = {name: (workload or DEFAULT_SHAPE)[name] for name in _KEPT}
    if cases.model is None and shape["head_dim"] % 2:
        raise UsageError(
            f"--head-dim {shape['head_dim']}: the default model needs an even one, for its rotary embedding"
        )
    planned = plan(through.library, shape, cases.backward, _flags(through, cases), cases.seed)
    names = [case.id for case in planned]
    for wanted in cases.only:
        if wanted not in names:
            near = difflib.get_close_matches(wanted, names, 3, 0.4) or names[:3]
            raise UsageError(
                f"no case through {through.library} is called {wanted!r}; the nearest are {', '.join(near)}"
            )
    return tuple(case for case in planned if not cases.only or case.id in cases.only)


def _flags(through: Through, cases: Cases) -> frozenset[str]:
    return through.flags | ({"compile"} if "compile" in cases.only else set())


def request_of(through: Through, fetched: Fetched, cases: Cases, workload: Mapping[str, Any]) -> Fetched:
    """The build, to be loaded by the library under the name that a user gives it."""
    name, environ = fetched.subject.reference, dict(fetched.environ)
    if fetched.request.mode == "local" and not fetched.subject.repo:
        before = environ.get("LOCAL_KERNELS") or os.environ.get("LOCAL_KERNELS")
        name = _LOCAL_NAME
        environ["LOCAL_KERNELS"] = ":".join([f"{name}={fetched.request.path}", *([before] if before else [])])
    asked = workload or DEFAULT_SHAPE
    if cases.model is not None:
        # Of a model only what differs from its config: the child reads the rest there.
        asked = {**{k: v for k, v in cases.workload.items() if v is not None}, "dtype": workload["dtype"]}
    request = replace(
        fetched.request,
        through=through.library,
        attention=name,
        model=_from_anywhere(cases.model),
        workload=dict(asked),
    )
    return replace(fetched, request=request, environ=environ)


def _from_anywhere(model: str | None) -> str | None:
    """The child does not stand where the user does; a name on the Hub is no path."""
    path = Path(model).expanduser() if model is not None else None
    return str(path.absolute()) if path is not None and path.exists() else model


def only_asked(through: Through, subject: Subject, trust: bool) -> Fetched:
    """A request for a kernel that has no build here, to hear what the library says of it."""
    request = KernelRequest(
        "hub", repo=subject.repo or None, trust_remote_code=trust, through=through.library,
        attention=subject.reference, workload=dict(DEFAULT_SHAPE),
    )  # fmt: skip
    return Fetched(subject, request, None)


def check_run(run: Run, cases: Cases) -> None:
    """Raises where the question was not one, or cannot be answered here: in one line instead of a report."""
    if run.problem is None or run.problem.kind != "refused":
        return
    if run.problem.reason == "no-model":
        raise UsageError(f"--model {cases.model}: {run.problem.message}")
    if run.problem.reason in ("no-transformers", "no-trl", "no-attention"):
        raise UndeterminedError(run.problem.message)


def in_words(verdict: Verdict, through: Through, runs: Sequence[Run]) -> Verdict:
    """The verdict with the library and its release in its line."""
    version = next((run.packages[through.library] for run in runs if through.library in run.packages), "")
    name = f"{through.library} {version}".strip()
    head, bracket, rest = verdict.text.partition(" (")
    return replace(verdict, text=f"{head} through {name}{bracket}{rest}")


def notes_of(runs: Iterable[Run], subject: Subject) -> Iterator[str]:
    """What is to be known of what really ran."""
    for run in runs:
        loaded = run.loaded
        if loaded is None or not loaded.through:
            continue
        if loaded.commit and subject.commit and loaded.commit != subject.commit:
            yield f"commit {loaded.commit} was loaded, and not {subject.commit}, whose files were checked"
        seen = loaded.through
        if seen.get("left_out"):
            yield f"the kernel has no parameter for {', '.join(seen['left_out'])}: transformers leaves it out silently"
        if seen.get("chosen_by") == "transformers":
            yield f"{seen['asked']} was asked for; transformers took {seen['runs']} in its place"
            yield from (f"transformers warned: {text}" for text in seen.get("warnings", ()))


def range_step(question: Question) -> tuple[str, ...]:
    """How to mend a kernels release that the installed transformers does not take."""
    if question.fact("transformers.accepts_kernels").value is not False:
        return ()
    fits = question.fact("transformers.kernels_in_range").value
    return (f"install a kernels release that transformers takes: pip install kernels=={fits}",) if fits else ()
