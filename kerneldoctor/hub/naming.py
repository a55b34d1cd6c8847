"""Says what a kernel's name means for a transformers release: package, repository, version; and how that changed.

Pure. Rests on the table of transformers releases (what each released wheel does) through the derived facts of
engine/facts/flash_default.py; lists no builds.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from packaging.version import Version

from ..engine import facts  # noqa: F401 - registers the derived facts asked for here
from ..engine.case import Case, Row, Tables
from ..engine.conditions import parse_version
from ..engine.facts.releases import agreement, listed_on, row_of, rows_newest_first
from ..environment import Environment, Fact
from ..values import dataclass
from .reference import Kind, Reference

Source = Literal["named", "package", "hub", "none", "builtin", "unknown"]
NO_REPOSITORY_VERSION = "main"  # the branch that is taken where no version is passed
# From this release on the prefix is taken off with a FutureWarning; 5.23 and 5.24 still do, although the warning says
# that 5.23 would not (_check_and_adjust_attn_implementation of modeling_utils.py in the released wheels).
_PAGED_WARNS = Version("5.19")


class StepCode(enum.Enum):
    """One link of the chain. The fields of each are named after the dash."""

    BUILTIN = "builtin"  # - name
    TRANSFORMERS = "transformers"  # - release, source; release is "" where none is installed
    TRANSFORMERS_UNKNOWN = "transformers_unknown"  # - why
    SOURCE_UNKNOWN = "source_unknown"  # package or Hub - why
    PACKAGE = "package"  # the flash-attn package is used - what
    NO_PACKAGE = "no_package"  # - why
    KERNELS_ACCEPTED = "kernels_accepted"  # - kernels, range
    KERNELS_REFUSED = "kernels_refused"  # - kernels, range, fits (pins that would do, or ""), listed
    KERNELS_UNKNOWN = "kernels_unknown"  # - why, range
    AGREEING_SET = "agreeing_set"  # three releases that work together - pins, listed
    REPLACED_BY = "replaced_by"  # - repo
    NO_REPLACEMENT = "no_replacement"  # - release
    VERSION_NAMED = "version_named"  # - revision
    VERSION_DEFAULT = "version_default"  # - version, condition
    VERSION_NONE = "version_none"  # no version is passed - branch
    VERSION_UNKNOWN = "version_unknown"  # - why
    VERSION_DEMANDED = "version_demanded"  # and kernels raises, because it demands one - kernels, fits
    IMPORT_FAILS = "import_fails"  # model classes of this transformers do not import with this kernels - why, fits
    DEVICES = "devices"  # what the version has builds for - backends, version
    PAGED_WARNS = "paged_warns"  # the paged| prefix is taken off with a warning - release
    SWITCH_WITHOUT_EFFECT = "switch_without_effect"  # USE_HUB_KERNELS does not reach attention


_RAISES = (StepCode.IMPORT_FAILS, StepCode.KERNELS_REFUSED, StepCode.VERSION_DEMANDED)


@dataclass(frozen=True, slots=True)
class Step:
    """One reason, as data; the words are the report's."""

    code: StepCode
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Era:
    """Consecutive transformers releases for which a name means the same."""

    first: str
    last: str
    repo: str  # "" where the name means no kernel
    version: str  # "v3", "v4 from torch 2.10 on, else v3", "main"
    rocm: str  # what replaces it with ROCm, "" where nothing does
    kernels: str  # the range of kernels releases accepted, "" for any


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a reference comes to on one machine."""

    reference: Reference
    transformers: str  # the release, "" where none is installed or known
    source: Source
    repo: str  # "" where no kernel is meant
    revision: str  # "v3", "main", a commit; "" where it is not known
    steps: tuple[Step, ...]
    eras: tuple[Era, ...]  # oldest first

    @property
    def works(self) -> bool | None:
        """Whether transformers would load something, as far as its own checks go; None where that cannot be told."""
        if self.source == "none" or self.step(StepCode.IMPORT_FAILS) is not None:
            return False
        if self.source in ("named", "hub"):
            if self.obstacle is not None:
                return False
            sure = self.revision and self.transformers and self.step(StepCode.KERNELS_UNKNOWN) is None
            return True if sure else None
        return None if self.source == "unknown" else True

    @property
    def obstacle(self) -> Step | None:
        """The step at which transformers gives up on all kernels of the Hub, or on one named without version."""
        return next((step for step in self.steps if step.code in _RAISES), None)

    def step(self, code: StepCode) -> Step | None:
        """The step of that code, where the chain has one."""
        return next((step for step in self.steps if step.code is code), None)

    @property
    def name(self) -> str:
        """The kernel as a reference: "owner/name@v3"."""
        return f"{self.repo}@{self.revision}" if self.revision else self.repo


def meaning(reference: Reference, environment: Environment, tables: Tables) -> Meaning:
    """Follow a name to what would be loaded by the installed transformers."""
    return _Chain(reference, Case(environment, tables)).follow()


class _Chain:
    def __init__(self, reference: Reference, case: Case) -> None:
        self._reference = reference
        self._case = case
        self._steps: list[Step] = []
        self._release = row_of(case, "transformers")

    def follow(self) -> Meaning:
        if self._reference.kind is Kind.BUILTIN:
            self._step(StepCode.BUILTIN, name=self._reference.name)
            return self._meaning("builtin", "", "", ())
        self._transformers()
        if self._reference.kind is Kind.FLASH_ATTENTION:
            return self._flash_attention()
        repo = self._reference.name
        self._kernels_range()
        return self._meaning("named", repo, self._version_of(repo), eras_of_repo(repo, self._case))

    def _transformers(self) -> None:
        if self._release.value is not None:
            release = self._release.value["version"]
            self._step(StepCode.TRANSFORMERS, release=release, source=self._installed("transformers").note)
            if self._reference.paged and self._reference.name != "eager" and Version(release) >= _PAGED_WARNS:
                self._step(StepCode.PAGED_WARNS, release=release)
        elif self._release.is_absent:
            self._step(StepCode.TRANSFORMERS, release="", source=self._release.note)
        else:
            self._step(StepCode.TRANSFORMERS_UNKNOWN, why=self._release.note)

    def _flash_attention(self) -> Meaning:
        generation = self._reference.generation
        source, repo, version = (self._default(generation, part) for part in ("source", "repo", "version"))
        eras = eras_of_flash(self._reference.name, self._case)
        if source.value == "package":
            self._step(StepCode.PACKAGE, what=source.note)
        elif source.value is None and self._release.value is not None:
            self._step(StepCode.SOURCE_UNKNOWN, why=source.note)
        elif source.value is not None:
            self._step(StepCode.NO_PACKAGE, why=source.note.partition(";")[0])
        if source.value != "package":
            self._kernels_range()
        if repo.value is None:
            if self._release.value is not None and repo.is_absent:
                self._step(StepCode.NO_REPLACEMENT, release=self._release.value["version"])
            return self._meaning(_source(source), "", "", eras)
        self._step(StepCode.REPLACED_BY, repo=str(repo.value))
        if self._case.fact("huggingface.use_hub_kernels").value is False:
            self._step(StepCode.SWITCH_WITHOUT_EFFECT)
        revision = self._default_version(version)
        if source.value == "hub":
            self._demanded(revision)
        self._devices(str(repo.value), revision)
        return self._meaning(_source(source), str(repo.value), revision, eras)

    def _default_version(self, version: Fact[Any]) -> str:
        if version.is_unknown:
            self._step(StepCode.VERSION_UNKNOWN, why=version.note)
            return ""
        if version.is_absent:
            self._step(StepCode.VERSION_NONE, branch=NO_REPOSITORY_VERSION)
            return NO_REPOSITORY_VERSION
        default: Row = self._release.value[self._reference.name] if self._release.value is not None else {}
        on_rocm = self._case.fact("torch.backend").value == "rocm" and "rocm_version" in default
        condition = f"v{default['rocm_version']}" if on_rocm else version_text(default)
        self._step(StepCode.VERSION_DEFAULT, version=f"v{version.value}", condition=condition)
        return f"v{version.value}"

    def _version_of(self, repo: str) -> str:
        revision = self._reference.revision
        if revision:
            self._step(StepCode.VERSION_NAMED, revision=revision)
            return revision
        if self._release.value is None:
            why = self._release.note or "no transformers release to ask"
            self._step(StepCode.VERSION_UNKNOWN, why=why)
            return ""
        chosen = default_of(repo, self._release.value)
        if "version" not in chosen:
            self._step(StepCode.VERSION_NONE, branch=NO_REPOSITORY_VERSION)
            self._demanded(NO_REPOSITORY_VERSION)
            return NO_REPOSITORY_VERSION
        number = _number(chosen, self._case.fact("torch.version"))
        if number is None:
            self._step(StepCode.VERSION_UNKNOWN, why=self._case.fact("torch.version").note)
            return ""
        self._step(StepCode.VERSION_DEFAULT, version=f"v{number}", condition=version_text(chosen))
        self._devices(repo, f"v{number}")
        return f"v{number}"

    def _demanded(self, revision: str) -> None:
        """kernels has refused to choose a version itself since 0.15.1."""
        here = parse_version(str(self._installed("kernels").value or ""))
        older = [
            row for version, row in rows_newest_first(self._case, "kernels") if here is not None and version <= here
        ]
        if revision == NO_REPOSITORY_VERSION and older and older[0]["version_required"]:
            self._step(StepCode.VERSION_DEMANDED, kernels=str(here), fits=self._pins_that_fit())

    def _kernels_range(self) -> None:
        accepted, wanted = (
            self._case.fact("transformers.accepts_kernels"),
            self._case.fact("transformers.kernels_range"),
        )
        if wanted.value is None:
            return
        here = str(self._installed("kernels").value or "")
        if accepted.value:
            self._step(StepCode.KERNELS_ACCEPTED, kernels=here, range=str(wanted.value))
            imports = self._case.fact("transformers.imports_with_kernels")
            if imports.value is False:
                self._step(StepCode.IMPORT_FAILS, why=imports.note, fits=self._pins_that_fit())
        elif accepted.is_unknown:
            self._step(StepCode.KERNELS_UNKNOWN, why=accepted.note, range=str(wanted.value))
        else:
            self._kernels_refused(here, str(wanted.value))

    def _kernels_refused(self, here: str, wanted: str) -> None:
        listed = listed_on(self._case, "kernels")
        fits = self._pins_that_fit()
        self._step(StepCode.KERNELS_REFUSED, kernels=here, range=wanted, fits=fits, listed=listed)
        pins = self._case.fact("transformers.agreeing_set")
        if not fits and pins.is_known:
            self._step(StepCode.AGREEING_SET, pins=str(pins.value), listed=listed_on(self._case, "transformers"))

    def _pins_that_fit(self) -> str:
        """The newest kernels release for this transformers, and huggingface_hub where it must change with it."""
        hub_here = self._installed("huggingface-hub").value
        for _, kernels in rows_newest_first(self._case, "kernels"):
            hub = agreement(self._case, self._release.value, kernels) if self._release.value is not None else None
            if hub is not None:
                also = "" if hub_here in (None, hub) else f" huggingface_hub=={hub}"
                return f"kernels=={kernels['version']}{also}"
        return ""

    def _devices(self, repo: str, revision: str) -> None:
        for row in self._case.table("hub_kernels"):
            if row["repo"] == repo and f"v{row['version']}" == revision:
                backends = ", ".join(dict.fromkeys((*row["compiled"], *row["noarch"])))
                self._step(StepCode.DEVICES, backends=backends, version=revision)

    def _default(self, generation: int | None, part: str) -> Fact[Any]:
        return self._case.fact(f"transformers.flash_attention_{generation}_{part}")

    def _installed(self, package: str) -> Fact[Any]:
        return self._case.fact(f"packages.{package}.version")

    def _step(self, code: StepCode, **fields: str) -> None:
        self._steps.append(Step(code, fields))

    def _meaning(self, source: Source, repo: str, revision: str, eras: tuple[Era, ...]) -> Meaning:
        release = str(self._release.value["version"]) if self._release.value is not None else ""
        return Meaning(self._reference, release, source, repo, revision, tuple(self._steps), eras)


def default_of(repo: str, release: Row) -> Row:
    """The version that a transformers release passes for a repository named without one: `version`, and where it
    depends on torch, `torch` and `version_before`. Empty where it passes none.
    """
    for row in release["versions"]:
        by_name = "generation" in row and re.match(rf".*flash.*{row['generation']}", repo)
        if row.get("repo") == repo or by_name:
            return {key: value for key, value in row.items() if key not in ("repo", "generation")}
    return {"version": release["default_version"]} if "default_version" in release else {}


def version_text(default: Row) -> str:
    """A default version as words: "v4 from torch 2.10 on, else v3"."""
    if "version" not in default:
        return NO_REPOSITORY_VERSION
    if "torch" in default:
        return f"v{default['version']} from torch {default['torch']} on, else v{default['version_before']}"
    return f"v{default['version']}"


def eras_of_flash(name: str, case: Case) -> tuple[Era, ...]:
    """What flash_attention_N came to over the known transformers releases, oldest first."""

    def of_release(row: Row) -> tuple[str, str, str]:
        default = row.get(name)
        if default is None:
            return "", "", ""
        rocm = default.get("rocm_repo", "")
        version = f"@v{default['rocm_version']}" if "rocm_version" in default else ""
        return default["repo"], version_text(default), f"{rocm}{version}"

    return _eras(case, of_release)


def eras_of_repo(repo: str, case: Case) -> tuple[Era, ...]:
    """The version that a repository named without one got over the known transformers releases, oldest first."""
    return _eras(case, lambda row: (repo, version_text(default_of(repo, row)), ""))


def _eras(case: Case, of_release: Callable[[Row], tuple[str, str, str]]) -> tuple[Era, ...]:
    eras: list[Era] = []
    for _, row in reversed(rows_newest_first(case, "transformers")):
        repo, version, rocm = of_release(row)
        era = Era(row["version"], row["version"], repo, version, rocm, row["kernels"])
        before = eras[-1] if eras else None
        if before is not None and replace(before, last=era.last) == replace(era, first=before.first):
            eras[-1] = replace(before, last=era.last)
        else:
            eras.append(era)
    return tuple(eras)


def _number(chosen: Row, torch: Fact[Any]) -> int | None:
    if "torch" not in chosen:
        return int(chosen["version"])
    parsed = parse_version(str(torch.value)) if torch.is_known else None
    if parsed is None:
        return None
    # is_torch_greater_or_equal(…, accept_dev=True): a nightly counts as the release that it leads to.
    return int(chosen["version" if Version(parsed.base_version) >= Version(chosen["torch"]) else "version_before"])


def _source(fact: Fact[Any]) -> Source:
    return "unknown" if fact.value is None else fact.value
