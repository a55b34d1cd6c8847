"""What comes before the run of a kernel, for Python programs: resolve, fetch, look before the import. Runs nothing.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .environment import Environment, Fact, unknown
from .errors import UndeterminedError
from .smoke.wish import Wish

if TYPE_CHECKING:
    from .engine.case import Kernel, Row
    from .hub.answer import Answer
    from .hub.metadata import Metadata
    from .smoke.fetch import Fetched
    from .smoke.trial import Refusal, Subject

__all__ = ["Preparation", "Prepared", "Ready", "prepare_kernel"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A build that may be imported, or why not: then `fetched` is None."""

    subject: Subject
    fetched: Fetched | None
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """A build that may be imported."""

    fetched: Fetched
    kernel: Kernel | None = None  # None: an installed package, of which no build is known
    metadata: Metadata | None = None


def prepare_kernel(wish: Wish, python: str, environment: Environment) -> Prepared:
    """Resolve, fetch and look, as `try_kernel` does before it runs anything, and raise as it does."""
    return Preparation(wish, python, environment).prepared()


class Preparation:
    """Everything before the run of one kernel. What it makes of the machine is there at once, `notes` as it goes on."""

    def __init__(self, wish: Wish, python: str, environment: Environment) -> None:
        from .engine.case import Case
        from .engine.loading import all_rules, shipped_tables
        from .hub.candidates import kernels_release, release_row
        from .smoke.devices import facts_on, find_devices

        self.tables = shipped_tables()
        self.devices = find_devices(wish.device, Case(environment, self.tables))
        self.environment = facts_on(self.devices, environment)
        self.rules = all_rules(tuple(Path(folder) for folder in wish.folders))
        self.case = Case(self.environment, self.tables)
        self.release: Row = release_row(self.tables, kernels_release(self.case)[0])
        self.notes: list[str] = []
        self._wish, self._python = wish, python
        self._trusted: Fact[bool] = unknown("nobody was asked")

    def prepared(self) -> Prepared:
        """The build, or why there is none that may be imported."""
        found = self.build({})
        notes = tuple(dict.fromkeys(self.notes))
        if isinstance(found, Ready):
            return Prepared(found.fetched.subject, found.fetched, (), notes)
        return Prepared(found[0], None, tuple(found[1]), notes)

    def build(self, workload: Mapping[str, Any]) -> Ready | tuple[Subject, list[Refusal]]:
        """The build that is to be run, looked at; or why not."""
        from .smoke.fetch import take_local, take_module

        self._needs_kernels()
        if self._wish.what.module is not None:
            return Ready(take_module(self._wish.what.module, self._wish.what.module))
        if self._wish.what.local is not None:
            release = str(self.release["version"])
            local = take_local(self._wish.what.local, self._wish.what.local, self.environment, release)
            if local.folder is None:
                return local.subject, [_no_variant(local.notes[0])]
            return self._look(local, from_hub=False)
        return self._from_reference(str(self._wish.what.reference), workload)

    def _from_reference(self, reference: str, workload: Mapping[str, Any]) -> Ready | tuple[Subject, list[Refusal]]:
        from .smoke.fetch import chosen_version, fetch_from_hub, local_override, take_local, take_module
        from .smoke.precheck import check_publisher

        package = self._package(reference)
        if package:
            self.notes.append(f"{reference} is the installed package {package} here, and no Hub kernel")
            fetched = take_module(package, reference)
            return (fetched.subject, [_unsigned(package)]) if self._wish.verify else Ready(fetched)
        answer = self._ask(reference, workload)
        repo = answer.candidates.listing.repo
        trust = repo in self._wish.trust
        path = local_override(repo, self.environment)
        if path:
            self.notes.append(f"LOCAL_KERNELS names {path} for {repo}: that is what is tried")
            local = take_local(path, reference, self.environment, str(self.release["version"]), repo)
            return self._look(local, False) if local.folder else (local.subject, [_no_variant(local.notes[0])])
        version = chosen_version(answer)
        subject = _subject(answer, reference, version.version.name, version.version.commit, trust)
        if version.preferred is None:
            return subject, [self._no_build(answer, version)]
        asks = answer.candidates.listing.source == "live"
        self._trusted, refusal = check_publisher(repo, self.release, self._wish.trust, asks, self._wish.bounds.hub)
        if refusal is not None:
            return replace(subject, variant=version.preferred.build.name), [refusal]
        fetched = fetch_from_hub(answer, version, self.environment, trust, self._patience())
        return self._look(replace(fetched, subject=replace(fetched.subject, reference=reference)), from_hub=True)

    def _package(self, reference: str) -> str:
        """The importable package that a name stands for in this environment, or ""."""
        from .hub.naming import meaning
        from .hub.reference import Kind, parse_reference

        parsed = parse_reference(reference)
        if (
            parsed.kind is not Kind.FLASH_ATTENTION
            or meaning(parsed, self.environment, self.tables).source != "package"
        ):
            return ""
        return {2: "flash_attn", 3: "flash_attn_interface", 4: "flash_attn.cute"}[parsed.generation or 2]

    def _ask(self, reference: str, workload: Mapping[str, Any]) -> Answer:
        from .hub.sources import cached_snapshots

        self._wish.listener.step(f"resolving {reference}")
        answer = self._variants(reference, workload, "auto")
        if answer.candidates.listing.source == "index" and answer.asked and answer.version is None:
            # What is on disk may be newer than the index, and can be tried without the Hub.
            repo = answer.candidates.listing.repo
            if any(answer.asked in (s.commit, *s.branches) for s in cached_snapshots(repo, self.environment)):
                return self._variants(reference, workload, "cache")
        return answer

    def _variants(self, reference: str, workload: Mapping[str, Any], source: Literal["auto", "cache"]) -> Answer:
        from .api_hub import Asking, variants
        from .smoke.weigh import workload_facts

        return variants(
            reference,
            environment=self.environment,
            asking=Asking(source, self._wish.bounds.hub, self._wish.listener.step),
            rules=self._wish.folders,
            workload=workload_facts(workload, self._wish.cases.backward),
        )

    def _look(self, fetched: Fetched, from_hub: bool) -> Ready | tuple[Subject, list[Refusal]]:
        """Everything that is checked before anything of the build is imported."""
        from .smoke.build_facts import build_id_of, kernel_of
        from .smoke.precheck import check_build, check_needs
        from .smoke.signature import check_signature

        assert fetched.folder is not None
        self.notes += fetched.notes
        self._wish.listener.step("checking the files of the build")
        checked = check_build(fetched.folder, self.release, from_hub)
        self.notes += checked.notes
        if checked.metadata is not None and checked.metadata.kernel_depends:
            others = ", ".join(checked.metadata.kernel_depends)
            self.notes.append(f"it loads other kernels in turn, which were not checked beforehand: {others}")
        refusals = list(checked.refusals)
        if self._wish.verify and not refusals:
            signature = check_signature(fetched.folder, self._python)
            refusals += [signature] if signature is not None else []
        subject = replace(fetched.subject, build_id=build_id_of(fetched.folder, checked.metadata))
        kernel = kernel_of(subject, checked.metadata, self._trusted)
        for device in self.devices[:1]:
            more, notes = check_needs(kernel, self.case, self.release, device, from_hub)
            refusals += more
            self.notes += notes
        if refusals:
            return subject, refusals
        return Ready(replace(fetched, subject=subject), kernel, checked.metadata)

    def _needs_kernels(self) -> None:
        if self._wish.what.module is not None:
            return
        version = self.case.fact("packages.kernels.version")
        if version.is_absent:
            fits = self.case.fact("transformers.kernels_in_range").value
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
            answer.candidates.listing, self.environment, self.tables, self.rules, None, version.version.name
        )
        nearest = f"nearest: {option_text(options[0])}" if options else "no small change is known that would help"
        return _no_variant(headline(answer), nearest)

    def _patience(self) -> Any:
        from .smoke.fetch import Patience

        return Patience(self._wish.bounds.fetch, self._wish.listener.step)


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
