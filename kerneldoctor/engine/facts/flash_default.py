"""What attn_implementation="flash_attention_2|3|4" loads with the installed transformers: package, Hub kernel, none.

Since 4.56 transformers puts a Hub kernel in the place of a missing flash-attn, and each release names its own
repository and major version. Rests on transformers.toml (read from the released wheels) and hub_builds.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from packaging.version import Version

from ...environment import Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range, parse_version
from .releases import column, installed
from .stack import accepts_kernels

GENERATIONS = {2: "flash_attn", 3: "flash_attn_3", 4: "flash_attn_4"}
_DISTRIBUTIONS = {2: "flash-attn", 3: "flash-attn-3", 4: "flash-attn-4"}
_REPLACES_NOTHING = "<4.55.dev0"  # the tables begin there, and replacements with 4.56
_OLDEST_FLASH_ATTN = ">=2.3.3"  # transformers.utils.is_flash_attn_2_available


def _source(case: Case, generation: int) -> Fact[str]:
    """Where attn_implementation="flash_attention_N" comes from: "package", "hub" or "none".

    "none": transformers raises. The note says why. It is what transformers decides, not whether it then works.
    """
    if (transformers := installed(case, "transformers")).is_absent:
        return absent("transformers is not installed")
    if case.fact("torch.version").is_absent:
        return absent("torch is not installed")
    if transformers.is_unknown:
        return transformers
    package = _package(case, generation)
    if package.is_unknown:
        return unknown(package.note)
    if package.value:
        return known("package", package.note)
    default = column(case, "transformers", f"flash_attention_{generation}")
    if default.is_absent or in_range(transformers.value, _REPLACES_NOTHING):
        return known("none", f"{package.note}; this release has no replacement")
    if default.is_unknown:
        return default
    accepted = accepts_kernels(case)
    if accepted.is_unknown:
        return unknown(accepted.note)
    if accepted.value:
        return known("hub", f"{package.note}; {default.note}")
    return known("none", f"{package.note}; kernels is not installed or not in the range that transformers accepts")


def _package(case: Case, generation: int) -> Fact[bool]:
    """Whether transformers takes the package of a generation for installed."""
    section, wanted = GENERATIONS[generation], _DISTRIBUTIONS[generation]
    kind, distribution = case.fact(f"{section}.kind"), case.fact(f"{section}.distribution")
    if kind.is_unknown:  # a pasted list of packages tells of distributions only
        listed = case.fact(f"packages.{wanted}.version")
        return unknown(listed.note) if listed.is_unknown else known(listed.is_known, f"{wanted}: {listed.note}")
    if kind.is_absent or kind.value in ("metadata_only", "namespace_only"):
        return known(False, f"{wanted} is not installed")
    if distribution.is_unknown:
        return unknown(distribution.note)
    if distribution.value != wanted:
        return known(False, f"{section} does not belong to a distribution {wanted}, which is what transformers asks")
    version = case.fact(f"{section}.version")
    if generation == 2 and version.is_known and in_range(version.value, _OLDEST_FLASH_ATTN) is False:
        return known(False, f"flash-attn {version.value} is older than transformers takes")
    return known(True, f"{wanted} {version.value or ''}".strip())


def _repo(case: Case, generation: int) -> Fact[str]:
    """The Hub repository that the installed transformers puts in the place of a missing package.

    Absent where that release replaces nothing. With ROCm it may be another one.
    """
    default = column(case, "transformers", f"flash_attention_{generation}")
    if not default.is_known or default.value is None:
        return default
    rocm = _on_rocm(case, default.value)
    if rocm.is_unknown:
        return unknown(rocm.note)
    return known(default.value["rocm_repo" if rocm.value else "repo"], default.note)


def _version(case: Case, generation: int) -> Fact[str]:
    """The major version (branch v<N>) that is asked of that repository; absent where none is: the main branch then."""
    default = column(case, "transformers", f"flash_attention_{generation}")
    if not default.is_known or default.value is None:
        return default
    row: Mapping[str, Any] = default.value
    rocm = _on_rocm(case, row)
    if rocm.is_unknown:
        return unknown(rocm.note)
    name = "rocm_version" if rocm.value else "version"
    if name not in row:
        return absent(f"no version is passed: {default.note}")
    if not rocm.value and "torch" in row:
        torch = case.fact("torch.version")
        parsed = parse_version(str(torch.value)) if torch.is_known else None
        if parsed is None:
            return unknown(torch.note or "no version of torch")
        # is_torch_greater_or_equal(…, accept_dev=True): a nightly counts as the release that it leads to.
        name = "version" if Version(parsed.base_version) >= Version(row["torch"]) else "version_before"
    return known(str(row[name]), default.note)


def _reference(case: Case, generation: int) -> Fact[str]:
    """The same as a name to type: "owner/name@v4", or "owner/name@main" where no version is passed."""
    repo, version = _repo(case, generation), _version(case, generation)
    if not repo.is_known or version.is_unknown:
        return repo if not repo.is_known else version
    return known(f"{repo.value}@{f'v{version.value}' if version.is_known else 'main'}", repo.note)


def _has_build(case: Case, generation: int) -> Fact[bool]:
    """Whether the kernel that is loaded from the Hub has a CUDA or ROCm build for this torch and system.

    Absent where none is loaded; unknown where its builds are not known. Source: hub_builds.toml. Says nothing of the
    GPU.
    """
    source = _source(case, generation)
    if source.value != "hub":
        return unknown(source.note) if source.is_unknown else absent("no Hub kernel is loaded")
    reference, backend = _reference(case, generation), case.fact("torch.backend")
    torch, system = case.fact("torch.version"), case.fact("system.os")
    if backend.is_known and backend.value not in ("cuda", "rocm"):
        return absent(f"torch is built for {backend.value}")
    doubt = next((fact for fact in (reference, backend, torch, system) if not fact.is_known), None)
    if doubt is not None:
        return absent(doubt.note) if doubt.is_absent else unknown(doubt.note)
    wanted = (reference.value, system.value, backend.value)
    rows = ((r["reference"], r["os"], r.get("backend", "cuda"), r) for r in case.table("hub_builds"))
    row = next((r for *key, r in rows if tuple(key) == wanted), {})
    for name, answer in (("torch", True), ("missing", False)):
        if in_range(str(torch.value), row.get(name, "<0")):
            return known(answer, row["source"])
    return unknown(f"the builds of {reference.value} for torch {torch.value} on {system.value} are not known here")


def _on_rocm(case: Case, row: Mapping[str, Any]) -> Fact[bool]:
    backend = case.fact("torch.backend")
    if "rocm_repo" not in row:
        return known(False, "the same on ROCm")
    return known(backend.value == "rocm", backend.note) if backend.is_known else unknown(backend.note)


_FACTS: Mapping[str, tuple[type, Callable[[Case, int], Fact[Any]]]] = {
    "source": (str, _source),
    "repo": (str, _repo),
    "version": (str, _version),
    "reference": (str, _reference),
    "has_build": (bool, _has_build),
}


def _for_generation(compute: Callable[[Case, int], Fact[Any]], generation: int) -> Callable[[Case], Fact[Any]]:
    def of_generation(case: Case) -> Fact[Any]:
        return compute(case, generation)

    of_generation.__doc__ = (compute.__doc__ or "").replace("flash_attention_N", f"flash_attention_{generation}")
    return of_generation


for _generation in GENERATIONS:
    for _name, (_kind, _compute) in _FACTS.items():
        derived(f"transformers.flash_attention_{_generation}_{_name}", _kind)(_for_generation(_compute, _generation))
