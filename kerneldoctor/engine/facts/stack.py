"""Which transformers, kernels and huggingface_hub releases agree, and what the installed kernels release can do.

Rests on the tables of released packages (rules/tables/*.toml, written by regenerate.py). What an attention name
loads is in `flash_default`; what is known of single kernel builds in `kernel_builds`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...environment import CachedKernel, Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range
from .releases import (
    accepts,
    agreement,
    column,
    common_hub,
    import_obstacle,
    installed,
    listed_on,
    row_of,
    rows_newest_first,
)


@derived("transformers.kernels_range", str)
def kernels_range(case: Case) -> Fact[str]:
    """The kernels releases that the installed transformers accepts at run time, as a version specifier.

    Source: is_kernels_available in the released wheel.
    """
    gate = column(case, "transformers", "kernels")
    return known(gate.value or "any release", gate.note) if gate.is_known else gate


@derived("transformers.accepts_kernels", bool)
def accepts_kernels(case: Case) -> Fact[bool]:
    """Whether transformers lets the installed kernels through; where not, it behaves as if kernels were missing.

    Absent where one of the two is not installed. Source: is_kernels_available in the released wheel.
    """
    version = installed(case, "kernels")
    if version.is_absent:
        return absent("kernels is not installed")
    gate = column(case, "transformers", "kernels")
    if not gate.is_known:
        return gate
    if not version.is_known:
        return unknown(version.note)
    answer = accepts(str(gate.value), str(version.value))
    return known(answer, gate.note) if answer is not None else unknown(f"{version.value!r} is no version of kernels")


@derived("transformers.kernels_in_range", str)
def kernels_in_range(case: Case) -> Fact[str]:
    """The newest known kernels release that works with the installed transformers, huggingface_hub and Python.

    Absent, with the day of the listing, where none is known: newer releases may exist since.
    """
    row = row_of(case, "transformers")
    if row.value is None:
        return row
    for _, kernels in rows_newest_first(case, "kernels"):
        hub = agreement(case, row.value, kernels)
        if hub is not None and _hub_stays(case, hub):
            return known(kernels["version"], kernels["source"])
    wanted = row.value["kernels"] or "any release"
    return absent(f"no kernels release of {wanted} that fits was listed on {listed_on(case, 'kernels')}")


@derived("transformers.newest_for_kernels", str)
def newest_for_kernels(case: Case) -> Fact[str]:
    """The newest known transformers release that works with the installed kernels and Python."""
    row = row_of(case, "kernels")
    if row.value is None:
        # Of what is known: a kernels release that no table holds has no transformers release known to accept it.
        return absent(row.note)
    for _, transformers in rows_newest_first(case, "transformers"):
        if agreement(case, transformers, row.value) is not None:
            return known(transformers["version"], transformers["source"])
    return absent(f"no transformers release for kernels {row.value['version']} was listed on " + _day(case))


@derived("transformers.agreeing_set", str)
def agreeing_set(case: Case) -> Fact[str]:
    """What to give to pip for the newest three that work together here: transformers, kernels and huggingface_hub."""
    for _, transformers in rows_newest_first(case, "transformers"):
        for _, kernels in rows_newest_first(case, "kernels"):
            hub = agreement(case, transformers, kernels)
            if hub is not None:
                pins = {"transformers": transformers, "kernels": kernels}
                text = " ".join(f"{name}=={row['version']}" for name, row in pins.items())
                return known(f"{text} huggingface_hub=={hub}", f"release tables, listed {_day(case)}")
    return absent(f"no set that agrees was listed on {_day(case)}")


@derived("transformers.own_set", str)
def own_set(case: Case) -> Fact[str]:
    """What to give to pip for the newest kernels and huggingface_hub that work with the installed transformers."""
    row = row_of(case, "transformers")
    if row.value is None:
        return row
    for _, kernels in rows_newest_first(case, "kernels"):
        hub = agreement(case, row.value, kernels)
        if hub is not None:
            return known(f"kernels=={kernels['version']} huggingface_hub=={hub}", row.note)
    return absent(f"no kernels release for transformers {row.value['version']} was listed on {_day(case)}")


@derived("transformers.hub_in_range", str)
def hub_in_range(case: Case) -> Fact[str]:
    """The newest known huggingface_hub that transformers accepts, and kernels too where it is installed."""
    row, kernels = row_of(case, "transformers"), row_of(case, "kernels")
    if row.value is None or kernels.is_unknown:
        return row if row.value is None else kernels
    hub = common_hub(case, row.value, kernels.value or {"huggingface_hub": ">=0"})
    return known(hub, row.note) if hub else absent("transformers and kernels accept no common huggingface_hub")


@derived("kernels.newest_listed", str)
def newest_listed(case: Case) -> Fact[str]:
    """The newest kernels release of the tables, with the day of the listing: there may be newer ones since."""
    rows = rows_newest_first(case, "kernels")
    if not rows:
        return unknown("no table of kernels releases is loaded")
    return known(f"{rows[0][1]['version']} (listed {listed_on(case, 'kernels')})", rows[0][1]["source"])


@derived("transformers.imports_with_kernels", bool)
def imports_with_kernels(case: Case) -> Fact[bool]:
    """Whether model classes of transformers import with the installed kernels (before 5.13 some do not).

    Absent where one of the two is not installed.
    """
    transformers, kernels = row_of(case, "transformers"), row_of(case, "kernels")
    if installed(case, "kernels").is_absent or transformers.is_absent:
        return absent("transformers or kernels is not installed")
    if transformers.value is None:
        return transformers
    if not transformers.value["import_demands"]:
        return known(True, transformers.note)
    if kernels.value is None:
        return kernels
    obstacle = import_obstacle(transformers.value, kernels.value)
    return known(not obstacle, obstacle or transformers.note)


@derived("kernels.free_threaded", str)
def free_threaded(case: Case) -> Fact[str]:
    """What compiled kernels do under a free-threaded Python before 3.15: "refused" or "crash".

    They use the stable ABI, which such a Python does not offer. Absent for every other Python.
    """
    threading, version = case.fact("python.free_threaded"), case.fact("python.version")
    if threading.value is False or (version.is_known and in_range(version.value, ">=3.15.dev0")):
        return absent("this Python runs stable-ABI extensions")
    if not (threading.is_known and version.is_known):
        return unknown((threading if not threading.is_known else version).note)
    refused = column(case, "kernels", "free_threaded_refused")
    return known("refused" if refused.value else "crash", refused.note) if refused.is_known else refused


@derived("kernels.telemetry_breaks_loading", bool)
def telemetry_breaks_loading(case: Case) -> Fact[bool]:
    """Whether every online load fails here because telemetry is off and the release sends a broken header then.

    HF_HUB_USER_AGENT_ORIGIN completes the header. The variable is rare: where nobody looked, it counts as not set.
    """
    origin = case.fact("huggingface.user_agent_origin")
    return _all_of(
        column(case, "kernels", "telemetry_fault"),
        case.fact("huggingface.telemetry_disabled"),
        _negated(case.fact("huggingface.offline")),
        known(not origin.is_known, origin.note),
    )


@derived("kernels.offline_ignored", bool)
def offline_ignored(case: Case) -> Fact[bool]:
    """Whether the Hub is asked for the list of builds here although HF_HUB_OFFLINE is set."""
    return _all_of(
        column(case, "kernels", "lists_builds_online"),
        _negated(column(case, "kernels", "offline")),
        case.fact("huggingface.offline"),
    )


@derived("kernels.refused_offline", tuple[str, ...])
def refused_offline(case: Case) -> Fact[tuple[str, ...]]:
    """Cached kernels that cannot be loaded here: offline huggingface_hub 1.22 and newer refuses a partial snapshot.

    kernels downloads one variant and, offline, asks for the whole snapshot. Absent where there is none.
    """
    refuses = _all_of(
        column(case, "kernels", "offline"),
        column(case, "huggingface_hub", "refuses_partial_snapshots"),
        case.fact("huggingface.offline"),
    )
    if not refuses.value:
        return refuses if refuses.is_unknown else absent("partial snapshots are not refused here")
    cached = case.fact("huggingface.cached_kernels")
    if not cached.is_known:
        return cached
    partial = tuple(dict.fromkeys(kernel.repo for kernel in _partial(case)))
    return known(partial, cached.note) if partial else absent("every cached kernel is complete or replaced")


@derived("kernels.refused_snapshots", str)
def refused_snapshots(case: Case) -> Fact[str]:
    """These kernels as LOCAL_KERNELS names them (owner/name=/cache/…/snapshots/COMMIT), after what it names already."""
    folder, refused = case.fact("huggingface.kernels_cache"), case.fact("kernels.refused_offline")
    for fact in (refused, folder):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    there = case.fact("huggingface.local_kernels").value or ()
    entries = {k.repo: f"{k.repo}={_in_cache(folder, k)}/snapshots/{k.commit}" for k in reversed(_partial(case))}
    return known(":".join((*there, *(entries[name] for name in refused.value or ()))), folder.note)


@derived("kernels.refused_file_lists", str)
def refused_file_lists(case: Case) -> Fact[str]:
    """The files by which huggingface_hub notices that parts of these kernels are missing, as arguments of `rm`."""
    folder, refused = case.fact("huggingface.kernels_cache"), case.fact("kernels.refused_offline")
    for fact in (refused, folder):
        if not fact.is_known:
            return absent(fact.note) if fact.is_absent else unknown(fact.note)
    return known(" ".join(f"{_in_cache(folder, k)}/trees/{k.commit}.json" for k in _partial(case)), folder.note)


def _partial(case: Case) -> list[CachedKernel]:
    """Cached snapshots that lack files and that LOCAL_KERNELS does not replace; those that a branch names first."""
    replaced = {entry.partition("=")[0] for entry in case.fact("huggingface.local_kernels").value or ()}
    kernels: tuple[CachedKernel, ...] = case.fact("huggingface.cached_kernels").value or ()
    found = [kernel for kernel in kernels if kernel.complete is False and kernel.repo not in replaced]
    return sorted(found, key=lambda kernel: (kernel.repo, not kernel.branches))


def _in_cache(folder: Fact[str], kernel: CachedKernel) -> str:
    return f"{folder.value}/kernels--{kernel.repo.replace('/', '--')}"


@derived("huggingface.local_kernels_invalid", bool)
def local_kernels_invalid(case: Case) -> Fact[bool]:
    """Whether LOCAL_KERNELS has an entry that is not repo=path, which makes every load fail.

    Absent without the variable, and where the installed kernels release does not read it.
    """
    reads, entries = column(case, "kernels", "local_kernels"), case.fact("huggingface.local_kernels")
    if entries.is_absent or reads.is_absent or reads.value is False:
        return absent("LOCAL_KERNELS is not set or not read")
    if not (reads.is_known and entries.is_known):
        return unknown((entries if reads.is_known else reads).note)
    return known(any("=" not in entry for entry in entries.value or ()), entries.note)


def _all_of(*facts: Fact[bool]) -> Fact[Any]:
    """Kleene's and; absent where one is absent and none is false."""
    for fact in facts:
        if fact.value is False:
            return known(False, fact.note)
    doubt = next((fact for fact in facts if not fact.is_known), None)
    return known(True, facts[0].note) if doubt is None else doubt


def _negated(fact: Fact[bool]) -> Fact[Any]:
    return known(not fact.value, fact.note) if fact.is_known else fact


def _hub_stays(case: Case, hub: str) -> bool:
    """Whether the installed huggingface_hub can stay; true where none is known."""
    here = installed(case, "huggingface_hub")
    return not here.is_known or here.value == hub


def _day(case: Case) -> str:
    return listed_on(case, "transformers")


_FEATURES: Mapping[str, tuple[str, type, str]] = {
    "kernels.repo_type": ("repo_type", str, 'The repository type that it asks the Hub for: "kernel" or "model".'),
    "kernels.stable_abi": ("stable_abi", bool, "Whether it understands torch-stable-abi builds."),
    "kernels.arch_check": ("arch_check", bool, "Whether it refuses a build without code for the GPU."),
    "kernels.metadata_required": ("metadata_required", bool, "Whether a build must carry a full metadata.json."),
    "kernels.version_required": ("version_required", bool, "Whether get_kernel demands a version or a revision."),
    "kernels.trust": ("trust", str, 'Whose kernels load by default: "none" (all), "list", "flag".'),
    "kernels.minver_check": ("minver", str, 'What a too old kernels does: "ignored", "warning", "error".'),
}


def _feature(name: str) -> Callable[[Case], Fact[Any]]:
    return lambda case: column(case, "kernels", name)


for _path, (_column, _kind, _doc) in _FEATURES.items():
    _compute = _feature(_column)
    _compute.__doc__ = f"{_doc} Of the installed kernels release; source: its wheel."
    derived(_path, _kind)(_compute)
