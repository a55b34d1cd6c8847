"""What `try` does, for Python programs: have the build prepared, run it in a child, weigh.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .api_prepare import Preparation, Ready
from .environment import Environment
from .errors import UsageError
from .smoke.wish import Bounds, Cases, Listener, What, Wish

if TYPE_CHECKING:
    from .engine.case import Kernel
    from .smoke.contracts import Contract
    from .smoke.fetch import Fetched
    from .smoke.protocol import Case as SmokeCase
    from .smoke.runner import Limits
    from .smoke.through.order import Through
    from .smoke.trial import Refusal, Run, Subject, Trial
    from .smoke.weigh import Knowledge

__all__ = ["Bounds", "Cases", "Listener", "asked_workload", "list_contracts", "try_kernel"]
ALL_CASES, USUAL_BOUNDS, NOBODY = Cases(), Bounds(), Listener()


def try_kernel(
    reference: str | None = None,
    *,
    local: str | None = None,
    module: str | None = None,
    python: str | None = None,
    device: str = "auto",
    cases: Cases = ALL_CASES,
    through: Through | None = None,
    trust_remote_code: Sequence[str] = (),
    verify: bool = False,
    bounds: Bounds = USUAL_BOUNDS,
    rules: Sequence[str | Path] = (),
    listener: Listener = NOBODY,
    environment: Environment | None = None,
) -> Trial:
    """Run a kernel forward and backward in a process that may die, and say what came of it.

    Exactly one of: reference (owner/name@revision, flash_attention_2), local (a folder in Hub layout), module (an
    importable package). python: the interpreter that owns torch; ours by default. device: auto, cpu, cuda, a number,
    or all. through: let transformers or TRL load it, into a small random model, instead of calling its functions.
    trust_remote_code: repositories whose publisher need not be trusted by the Hub. verify: demand a signature.
    rules: folders of more rules. environment: the facts of that interpreter, where they were looked at already.

    Raises UsageError for what cannot be done as asked, UndeterminedError where the question cannot be answered here:
    no torch, no GPU, the Hub not reachable and nothing in the cache.
    """
    from .host import RealHost
    from .probes.interpreter import find_target
    from .probes.runner import run_probes
    from .smoke.advice import options_of

    what = What(reference, local, module)
    if sum(value is not None for value in (reference, local, module)) != 1:
        raise UsageError("name one thing to try: a reference, a folder (--local) or a package (--module)")
    if verify and module is not None:
        raise UsageError("--verify: an installed package carries no signature of its own; leave it out")
    host = RealHost()
    target = find_target(host, python)
    facts = environment or run_probes(host, target)
    wish = Wish(what, device, cases, tuple(trust_remote_code), verify, bounds, tuple(rules), listener, through)
    return _Attempt(wish, target.executable, facts, options_of(python, device, cases, trust_remote_code)).go()


class _Attempt:
    """One call of try_kernel."""

    def __init__(self, wish: Wish, python: str, environment: Environment, options: tuple[str, ...]) -> None:
        self._before, self._options = Preparation(wish, python, environment), options
        self._what, self._python, self._through = wish.what, python, wish.through
        self._cases, self._trust, self._bounds, self._listener = wish.cases, wish.trust, wish.bounds, wish.listener
        self._devices, self._case, self._notes = self._before.devices, self._before.case, self._before.notes

    def go(self) -> Trial:
        """Every step; the first refusal ends it."""
        from .smoke.weigh import workload_facts

        workload = asked_workload(self._cases, self._python, self._listener)
        single = [f"{name} {value}" for name, value in self._cases.workload.items() if value is not None]
        if self._cases.model is not None and single:
            self._notes.append(f"what was given by itself went before the model's config: {', '.join(single)}")
        if self._through is not None:
            self._check_through(self._through)
        fetched = self._before.build(workload)
        if not isinstance(fetched, Ready):
            self._hear_library(*fetched)
            return self._refused(fetched[0], fetched[1])
        knowledge = self._knowledge(fetched.kernel)
        issues = knowledge.issues(workload_facts(workload, self._cases.backward))
        self._listener.known(issues)
        runs = tuple(self._run(fetched.fetched, device, workload) for device in self._devices)
        return self._weigh(fetched, knowledge, workload, runs)

    # --- running and weighing ---------------------------------------------------------------------------------------

    def _run(self, fetched: Fetched, device: str, workload: Mapping[str, Any]) -> Run:
        from .smoke.protocol import Selection
        from .smoke.runner import Order, run_cases

        if self._through is not None:
            return self._run_through(self._through, fetched, device, workload)
        selection = Selection(
            set=self._cases.set or ("workload" if workload else "quick"),
            backward=self._cases.backward,
            only=self._cases.only,
            seed=self._cases.seed,
            workload={key: value for key, value in workload.items() if key != "model_type"} or None,
        )
        order = Order(fetched.request, device, self._python, selection, environ=fetched.environ)
        run = run_cases(order, self._limits(), self._listener.progress)
        if self._cases.only and run.loaded is not None:
            self._all_found(run, selection)
        return run

    def _check_through(self, through: Through) -> None:
        from .smoke.through.order import check_packages, check_wish

        check_wish(through, self._what.module, self._cases)
        check_packages(through, self._case, self._python)

    def _run_through(self, through: Through, fetched: Fetched, device: str, workload: Mapping[str, Any]) -> Run:
        """The cases of a model that another library builds with the kernel."""
        from .smoke.through.order import cases_of, check_run, request_of

        cases = cases_of(through, self._cases, workload)
        run = self._child(request_of(through, fetched, self._cases, workload), device, cases)
        check_run(run, self._cases)
        return run

    def _child(self, fetched: Fetched, device: str, cases: tuple[SmokeCase, ...]) -> Run:
        from .smoke.runner import Order, run_cases

        order = Order(fetched.request, device, self._python, cases=cases, environ=fetched.environ)
        return run_cases(order, self._limits(), self._listener.progress)

    def _hear_library(self, subject: Subject, refusals: Sequence[Refusal]) -> None:
        """Of a kernel without a build: what the library makes of it. Nobody's code is run that is not trusted."""
        from .smoke.precheck import check_publisher
        from .smoke.through.order import only_asked

        if self._through is None or not subject.repo or any(refusal.code != "no-variant" for refusal in refusals):
            return
        asks = subject.source == "live" or not subject.source
        if check_publisher(subject.repo, self._before.release, self._trust, asks, self._bounds.hub)[1] is not None:
            return
        self._listener.step(f"asking {self._through.library}")
        run = self._child(only_asked(self._through, subject, subject.repo in self._trust), self._devices[0], ())
        said = "loads it nevertheless" if run.problem is None else f"says: {run.problem.message}"
        self._notes.append(f"{self._through.library} {run.packages.get(self._through.library, '')} {said}")

    def _limits(self) -> Limits:
        from .smoke.runner import Limits

        return Limits(self._bounds.case, self._bounds.load, self._bounds.total, self._bounds.memory)

    def _all_found(self, run: Run, selection: Any) -> None:
        """Raises UsageError for a case id that the kernel has no case of; one without a contract has none at all."""
        from .smoke.cases import choose

        assert run.loaded is not None
        if not run.loaded.contracts:
            return
        there = {report.case.id for report in run.cases}
        for wanted in self._cases.only:
            if wanted not in there:
                names = [c.id for c in choose(run.loaded.exports, replace(selection, set="full", only=()), run.device)]
                near = _nearest(wanted, names)
                raise UsageError(f"no case is called {wanted!r} for this kernel; the nearest are {', '.join(near)}")

    def _knowledge(self, kernel: Kernel | None) -> Knowledge:
        from .smoke.weigh import Knowledge

        return Knowledge(self._before.rules, self._before.tables, self._before.environment, kernel)

    def _weigh(self, ready: Ready, knowledge: Knowledge, workload: Mapping[str, Any], runs: tuple[Run, ...]) -> Trial:
        from .smoke.advice import next_steps
        from .smoke.trial import Trial
        from .smoke.verdict import find_pin, judge_runs
        from .smoke.weigh import weigh, workload_facts

        subject = self._as_loaded(ready.fetched.subject, runs)
        verdict = judge_runs((), runs)
        steps: tuple[str, ...] = ()
        if self._through is not None:
            from .smoke.through.order import in_words, notes_of, range_step

            verdict = in_words(verdict, self._through, runs)
            self._notes += notes_of(runs, subject)
            steps = range_step(self._case)
        findings = weigh(knowledge, workload_facts(workload, self._cases.backward), runs)
        after = next_steps(subject, runs, findings, bool(self._cases.only), self._options)
        return Trial(
            subject=subject,
            runs=runs,
            refusals=(),
            verdict=verdict,
            pin=find_pin(verdict, subject, runs, not self._cases.backward),
            findings=findings,
            notes=tuple(
                dict.fromkeys((*self._notes, *self._left_out(runs, workload), *(n for run in runs for n in run.notes)))
            ),
            next_steps=tuple(dict.fromkeys((*steps, *after))),
        )

    def _left_out(self, runs: Sequence[Run], workload: Mapping[str, Any]) -> tuple[str, ...]:
        """What the kernel exports beyond the cases of the quick set, so that a pass does not seem to cover it."""
        from .smoke.verdict import untried

        if self._cases.only or workload:
            return ()  # then it was chosen what to try
        names = dict.fromkeys(name for run in runs if run.cases for name in untried(run))
        return (f"not tried: {', '.join(names)} (--cases full tries everything)",) if names else ()

    def _as_loaded(self, subject: Subject, runs: Sequence[Run]) -> Subject:
        """What the child says that it loaded, where the parent did not know, or expected something else."""
        loaded = next((run.loaded for run in runs if run.loaded is not None), None)
        if loaded is None:
            return subject
        if subject.variant and loaded.variant and loaded.variant != subject.variant:
            self._notes.append(f"kernels loaded {loaded.variant}, and not {subject.variant}, whose files were checked")
        return replace(
            subject,
            variant=loaded.variant or subject.variant,
            build_id=subject.build_id or loaded.build_id or "",
            commit=subject.commit or (loaded.commit or "" if subject.source not in ("local", "module") else ""),
        )

    def _refused(self, subject: Subject, refusals: list[Refusal]) -> Trial:
        from .smoke.trial import Trial
        from .smoke.verdict import judge_runs

        steps = tuple(dict.fromkeys(refusal.remedy for refusal in refusals if refusal.remedy))
        return Trial(
            subject, (), tuple(refusals), judge_runs(refusals, ()), None, (), tuple(dict.fromkeys(self._notes)), steps
        )


def _nearest(wanted: str, names: Sequence[str]) -> Sequence[str]:
    """What was probably meant: what begins so, else what looks alike, else anything."""
    begins = [name for name in names if name.startswith(wanted)]
    return begins[:3] or difflib.get_close_matches(wanted, names, 3, 0.4) or names[:3]


def asked_workload(cases: Cases, python: str, listener: Listener = NOBODY) -> dict[str, Any]:
    """What a kernel is wanted for, whole: of the model, of single options, or {} where nothing was said.

    python: the interpreter whose transformers is asked for a model of the Hub. Raises UsageError for what makes no
    sense, UndeterminedError where a model gave no config.
    """
    from .smoke.cases import read_workload
    from .smoke.protocol import ProtocolError

    found: dict[str, Any] = {}
    if cases.model is not None:
        from .smoke.model_config import workload_of_model

        listener.step(f"reading the config of {cases.model}")
        found = workload_of_model(cases.model, python)
    found |= {key: value for key, value in cases.workload.items() if value is not None}
    if not found:
        return {}
    if "heads" not in found:
        raise UsageError("a workload needs its number of heads: --heads, or --model")
    whole = {"kv_heads": found["heads"], "head_dim": 128, "dtype": "bfloat16", **found}
    try:
        read_workload(whole)
    except ProtocolError as error:
        raise UsageError(str(error)) from None
    return whole


def list_contracts(name: str | None = None) -> tuple[Contract, ...]:
    """Every contract that kernels can be held to, by name; or those of this name, or that export it.

    Raises UsageError where there is none.
    """
    from .smoke.contracts import contracts

    known = contracts()
    if name is None:
        return known
    found = tuple(one for one in known if one.name == name) or tuple(one for one in known if name in one.exports)
    if not found:
        near = _nearest(name, [one.name for one in known])
        raise UsageError(f"no contract is called {name!r}, and none asks for it; the nearest are {', '.join(near)}")
    return found
