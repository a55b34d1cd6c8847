"""What `try` does, for Python programs: resolve, fetch, look before the import, run in a child, weigh.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .environment import Environment, Fact, unknown
from .errors import UndeterminedError, UsageError
from .smoke.wish import Bounds, Cases, Listener, What, Wish

if TYPE_CHECKING:
    from .engine.case import Kernel, Row
    from .hub.answer import Answer
    from .hub.metadata import Metadata
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

    what = What(reference, local, module)
    if sum(value is not None for value in (reference, local, module)) != 1:
        raise UsageError("name one thing to try: a reference, a folder (--local) or a package (--module)")
    if verify and module is not None:
        raise UsageError("--verify: an installed package carries no signature of its own; leave it out")
    host = RealHost()
    target = find_target(host, python)
    facts = environment or run_probes(host, target)
    wish = Wish(what, device, cases, tuple(trust_remote_code), verify, bounds, tuple(rules), listener, through)
    return _Attempt(wish, target.executable, facts).go()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A build that may be imported, or why not: then `fetched` is None."""

    subject: Subject
    fetched: Fetched | None
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


def prepare_kernel(wish: Wish, python: str, environment: Environment) -> Prepared:
    """Resolve, fetch and look, as `try_kernel` does before it runs anything, and raise as it does."""
    return _Attempt(wish, python, environment).prepare()


class _Attempt:
    """One call of try_kernel."""

    def __init__(self, wish: Wish, python: str, environment: Environment) -> None:
        from .engine.case import Case
        from .engine.loading import all_rules, shipped_tables
        from .hub.candidates import kernels_release, release_row
        from .smoke.devices import facts_on, find_devices

        self._devices = find_devices(wish.device, Case(environment, shipped_tables()))
        environment = facts_on(self._devices, environment)
        self._what, self._python, self._environment, self._through = wish.what, python, environment, wish.through
        self._cases, self._trust, self._verify = wish.cases, wish.trust, wish.verify
        self._bounds, self._folders, self._listener = wish.bounds, wish.folders, wish.listener
        self._rules = all_rules(tuple(Path(folder) for folder in wish.folders))
        self._tables = shipped_tables()
        self._case = Case(environment, self._tables)
        self._release: Row = release_row(self._tables, kernels_release(self._case)[0])
        self._trusted: Fact[bool] = unknown("nobody was asked")
        self._notes: list[str] = []

    def go(self) -> Trial:
        """Every step; the first refusal ends it."""
        from .smoke.weigh import workload_facts

        workload = asked_workload(self._cases, self._python, self._listener)
        if self._through is not None:
            self._check_through(self._through)
        fetched = self._fetch(workload)
        if not isinstance(fetched, _Ready):
            self._hear_library(*fetched)
            return self._refused(fetched[0], fetched[1])
        knowledge = self._knowledge(fetched.kernel)
        issues = knowledge.issues(workload_facts(workload, self._cases.backward))
        self._listener.known(issues)
        runs = tuple(self._run(fetched.fetched, device, workload) for device in self._devices)
        return self._weigh(fetched, knowledge, workload, runs)

    def prepare(self) -> Prepared:
        """Every step before the run."""
        found = self._fetch({})
        if isinstance(found, _Ready):
            return Prepared(found.fetched.subject, found.fetched, (), tuple(dict.fromkeys(self._notes)))
        return Prepared(found[0], None, tuple(found[1]), tuple(dict.fromkeys(self._notes)))

    # --- which build ------------------------------------------------------------------------------------------------

    def _fetch(self, workload: Mapping[str, Any]) -> _Ready | tuple[Subject, list[Refusal]]:
        """The build that is to be run, looked at; or why not."""
        from .smoke.fetch import take_local, take_module

        self._needs_kernels()
        if self._what.module is not None:
            return _Ready(take_module(self._what.module, self._what.module))
        if self._what.local is not None:
            release = str(self._release["version"])
            local = take_local(self._what.local, self._what.local, self._environment, release)
            if local.folder is None:
                return local.subject, [_no_variant(local.notes[0])]
            return self._look(local, from_hub=False)
        return self._from_reference(str(self._what.reference), workload)

    def _from_reference(self, reference: str, workload: Mapping[str, Any]) -> _Ready | tuple[Subject, list[Refusal]]:
        from .smoke.fetch import chosen_version, fetch_from_hub, local_override, take_local, take_module
        from .smoke.precheck import check_publisher

        package = self._package(reference)
        if package:
            self._notes.append(f"{reference} is the installed package {package} here, and no Hub kernel")
            fetched = take_module(package, reference)
            return (fetched.subject, [_unsigned(package)]) if self._verify else _Ready(fetched)
        answer = self._ask(reference, workload)
        repo = answer.candidates.listing.repo
        trust = repo in self._trust
        path = local_override(repo, self._environment)
        if path:
            self._notes.append(f"LOCAL_KERNELS names {path} for {repo}: that is what is tried")
            local = take_local(path, reference, self._environment, str(self._release["version"]), repo)
            return self._look(local, False) if local.folder else (local.subject, [_no_variant(local.notes[0])])
        version = chosen_version(answer)
        subject = _subject(answer, reference, version.version.name, version.version.commit, trust)
        if version.preferred is None:
            return subject, [self._no_build(answer, version)]
        asks = answer.candidates.listing.source == "live"
        self._trusted, refusal = check_publisher(repo, self._release, self._trust, asks, self._bounds.hub)
        if refusal is not None:
            return replace(subject, variant=version.preferred.build.name), [refusal]
        fetched = fetch_from_hub(answer, version, self._environment, trust, self._patience())
        return self._look(replace(fetched, subject=replace(fetched.subject, reference=reference)), from_hub=True)

    def _package(self, reference: str) -> str:
        """The importable package that a name stands for in this environment, or ""."""
        from .hub.naming import meaning
        from .hub.reference import Kind, parse_reference

        parsed = parse_reference(reference)
        if (
            parsed.kind is not Kind.FLASH_ATTENTION
            or meaning(parsed, self._environment, self._tables).source != "package"
        ):
            return ""
        return {2: "flash_attn", 3: "flash_attn_interface", 4: "flash_attn.cute"}[parsed.generation or 2]

    def _ask(self, reference: str, workload: Mapping[str, Any]) -> Answer:
        from .hub.sources import cached_snapshots

        self._listener.step(f"resolving {reference}")
        answer = self._variants(reference, workload, "auto")
        if answer.candidates.listing.source == "index" and answer.asked and answer.version is None:
            # What is on disk may be newer than the index, and can be tried without the Hub.
            repo = answer.candidates.listing.repo
            if any(answer.asked in (s.commit, *s.branches) for s in cached_snapshots(repo, self._environment)):
                return self._variants(reference, workload, "cache")
        return answer

    def _variants(self, reference: str, workload: Mapping[str, Any], source: Literal["auto", "cache"]) -> Answer:
        from .api_hub import Asking, variants
        from .smoke.weigh import workload_facts

        return variants(
            reference,
            environment=self._environment,
            asking=Asking(source, self._bounds.hub, self._listener.step),
            rules=self._folders,
            workload=workload_facts(workload, self._cases.backward),
        )

    def _look(self, fetched: Fetched, from_hub: bool) -> _Ready | tuple[Subject, list[Refusal]]:
        """Everything that is checked before anything of the build is imported."""
        from .smoke.build_facts import build_id_of, kernel_of
        from .smoke.precheck import check_build, check_needs
        from .smoke.signature import check_signature

        assert fetched.folder is not None
        self._notes += fetched.notes
        self._listener.step("checking the files of the build")
        checked = check_build(fetched.folder, self._release)
        self._notes += checked.notes
        if checked.metadata is not None and checked.metadata.kernel_depends:
            others = ", ".join(checked.metadata.kernel_depends)
            self._notes.append(f"it loads other kernels in turn, which were not checked beforehand: {others}")
        refusals = list(checked.refusals)
        if self._verify and not refusals:
            signature = check_signature(fetched.folder, self._python)
            refusals += [signature] if signature is not None else []
        subject = replace(fetched.subject, build_id=build_id_of(fetched.folder, checked.metadata))
        kernel = kernel_of(subject, checked.metadata, self._trusted)
        for device in self._devices[:1]:
            more, notes = check_needs(kernel, self._case, self._release, device, from_hub)
            refusals += more
            self._notes += notes
        if refusals:
            return subject, refusals
        return _Ready(replace(fetched, subject=subject), kernel, checked.metadata)

    def _needs_kernels(self) -> None:
        if self._what.module is not None:
            return
        version = self._case.fact("packages.kernels.version")
        if version.is_absent:
            fits = self._case.fact("transformers.kernels_in_range").value
            install = f'pip install "kernels=={fits}"' if fits else "pip install kernels"
            raise UndeterminedError(f"kernels is not installed for {self._python}: {install}")

    def _no_build(self, answer: Answer, version: Any) -> Refusal:
        """Why no build fits, and the nearest that would."""
        from .hub.find_env import find_environments
        from .report.variants import headline, option_text
        from .smoke.fetch import newest_fitting

        if version.usable is None:
            raise UndeterminedError(f"which build is to be tried cannot be told: {headline(answer)}")
        repo, other = answer.candidates.listing.repo, newest_fitting(answer, version)
        if other is not None and other.preferred is not None:
            name = other.version.name
            return _no_variant(
                headline(answer), f"{name} has {other.preferred.build.name}: kerneldoctor try {repo}@{name}"
            )
        options = find_environments(
            answer.candidates.listing, self._environment, self._tables, self._rules, None, version.version.name
        )
        nearest = f"nearest: {option_text(options[0])}" if options else "no small change is known that would help"
        return _no_variant(headline(answer), nearest)

    def _patience(self) -> Any:
        from .smoke.fetch import Patience

        return Patience(self._bounds.fetch, self._listener.step)

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
        if check_publisher(subject.repo, self._release, self._trust, asks, self._bounds.hub)[1] is not None:
            return
        self._listener.step(f"asking {self._through.library}")
        run = self._child(only_asked(self._through, subject, subject.repo in self._trust), self._devices[0], ())
        said = "loads it nevertheless" if run.problem is None else f"says: {run.problem.message}"
        self._notes.append(f"{self._through.library} {run.packages.get(self._through.library, '')} {said}")

    def _limits(self) -> Limits:
        from .smoke.runner import Limits

        return Limits(self._bounds.case, self._bounds.load, self._bounds.total, self._bounds.memory)

    def _all_found(self, run: Run, selection: Any) -> None:
        """Raises UsageError for a case id that the kernel has no case of."""
        from .smoke.cases import choose

        assert run.loaded is not None
        there = {report.case.id for report in run.cases}
        for wanted in self._cases.only:
            if wanted not in there:
                names = [c.id for c in choose(run.loaded.exports, replace(selection, set="full", only=()), run.device)]
                near = difflib.get_close_matches(wanted, names, 3, 0.4) or names[:3]
                raise UsageError(f"no case is called {wanted!r} for this kernel; the nearest are {', '.join(near)}")

    def _knowledge(self, kernel: Kernel | None) -> Knowledge:
        from .smoke.weigh import Knowledge

        return Knowledge(self._rules, self._tables, self._environment, kernel)

    def _weigh(self, ready: _Ready, knowledge: Knowledge, workload: Mapping[str, Any], runs: tuple[Run, ...]) -> Trial:
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
            next_steps=tuple(dict.fromkeys((*steps, *next_steps(subject, runs, findings, bool(self._cases.only))))),
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


@dataclass(frozen=True, slots=True)
class _Ready:
    """A build that may be imported."""

    fetched: Fetched
    kernel: Kernel | None = None  # None: an installed package, of which no build is known
    metadata: Metadata | None = None


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


def list_contracts() -> tuple[Contract, ...]:
    """Every contract that kernels can be held to, by name."""
    from .smoke.contracts import contracts

    return contracts()


def _unsigned(package: str) -> Refusal:
    from .smoke.trial import Refusal

    return Refusal("signature", f"the installed package {package} carries no signature", "leave out --verify")


def _no_variant(why: str, remedy: str = "") -> Refusal:
    from .smoke.trial import Refusal

    return Refusal("no-variant", why, remedy)


def _subject(answer: Answer, reference: str, revision: str, commit: str, trust: bool) -> Subject:
    from .smoke.trial import Subject

    listing = answer.candidates.listing
    return Subject(reference, listing.repo, revision, commit, source=listing.source, trusted_by_name=trust)
