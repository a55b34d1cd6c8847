"""Makes facts of sightings: which machine, which value of several, what contradicts. Reads no text."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..build_label import parse_build_label
from ..environment import (
    NOT_LOOKED,
    Environment,
    Extension,
    Fact,
    FlashAttention,
    Gpu,
    Package,
    Packages,
    Torch,
    absent,
    known,
    unknown,
)
from .agree import agree, finer
from .labels import torch_facts
from .model import Contradiction, Sighting, Source
from .notebook import Listing

_NOT_SAID = unknown("the text does not say")
_FA = {"flash_attn": ("flash-attn",), "flash_attn_3": ("flash-attn-3", "fa3-fwd"), "flash_attn_4": ("flash-attn-4",)}
_BUILDS = "kernels"  # what `hub` reads from the name of a build
_SECTIONS = ("system", "python", "driver", "visibility", "toolkit", "torch", "huggingface", "deep", "requirements")


@dataclasses.dataclass(slots=True)
class Choice:
    """The sighting taken for each path, and what spoke against it."""

    taken: dict[str, Sighting]
    contradictions: list[Contradiction]


def choose(sightings: Iterable[Sighting], others: Iterable[Sighting] = ()) -> Choice:
    """For every path the value of the strongest class; of equals the first, or the finer of two that agree.

    `others` are of machines that were set aside; where nothing but their values tells them apart, they contradict.
    """
    groups: dict[str, list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        if sighting.source is not Source.MENTIONED:
            groups[sighting.path].append(sighting)
    if "cuda" in groups:
        _assign_cuda(groups)
    taken: dict[str, Sighting] = {}
    contradictions: list[Contradiction] = []
    for path, group in groups.items():
        best = _best(path, group)
        if best is None:
            continue
        taken[path] = best
        against = [s for s in group if not agree(path, best.value, s.value)]
        if against:
            contradictions.append(Contradiction(path, (best, *_distinct(against)), _reason(best, against)))
    own, listed = taken.get("torch.version"), taken.get("packages.torch.version")
    if own is not None and own.kind == _BUILDS and listed is not None:
        for path in ("torch.version", "torch.cuda"):
            if path in taken and taken[path].kind == _BUILDS:
                del taken[path]
    return Choice(taken, [*contradictions, *_torch_twice(taken), *_between(taken, others)])


def _torch_twice(taken: Mapping[str, Sighting]) -> Iterable[Contradiction]:
    """torch as torch says it, and as a list of packages has it: two environments where they differ."""
    own, listed = taken.get("torch.version"), taken.get("packages.torch.version")
    if own is None or listed is None or agree("torch.version", own.value, listed.value):
        return
    reason = f"the text may be of two environments: the {own.kind} (line {own.line_number}) was taken"
    yield Contradiction("torch.version", (own, listed), reason)


_TOLD_APART_BY = ("torch.version", "driver.version", "python.version", "gpus.0.name")


def _between(taken: Mapping[str, Sighting], others: Iterable[Sighting]) -> Iterable[Contradiction]:
    for sighting in others:
        own = taken.get(sighting.path)
        if own is None or sighting.path not in _TOLD_APART_BY or sighting.source >= Source.ASKED:
            continue
        if own.source < Source.ASKED and not agree(sighting.path, own.value, sighting.value):
            reason = f"the text holds reports of several machines: this is of the one at line {own.line_number}"
            yield Contradiction(sighting.path, (own, sighting), reason)


# The CUDA release that nvidia-smi names for a driver branch:
# https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/index.html
_OFFERED = {
    470: "11.4", 510: "11.6", 515: "11.7", 520: "11.8", 525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4",
    555: "12.5", 560: "12.6", 565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1",
}  # fmt: skip


def _assign_cuda(groups: dict[str, list[Sighting]]) -> None:
    """ "CUDA 12.8" without saying whose: the driver's where it is what that driver offers, else torch's if unsaid."""
    said = groups.pop("cuda")
    drivers = [str(s.value).partition(".")[0] for s in groups.get("driver.version", ())]
    offered = {_OFFERED.get(int(d)) for d in drivers if d.isdigit()}
    compiled = [s for s in groups.get("torch.backend", ()) if s.value in ("cpu", "rocm", "xpu")]
    for sighting in said:
        told = [s.value for path in ("torch.cuda", "toolkit.nvcc_version", "driver.cuda") for s in groups.get(path, ())]
        if sighting.value in told:
            continue
        if sighting.value in offered:
            groups["driver.cuda"].append(dataclasses.replace(sighting, path="driver.cuda", source=Source.SAID))
        elif "torch.cuda" not in groups and not compiled:
            groups["torch.cuda"].append(dataclasses.replace(sighting, path="torch.cuda", source=Source.SAID))


def _best(path: str, group: list[Sighting]) -> Sighting | None:
    if path in ("torch.version", "torch.cuda"):  # a build is named for a torch, which need not be the one here
        group = [s for s in group if s.kind != _BUILDS] or group
    ordered = sorted(group, key=lambda s: s.source)  # stable: of one class the first comes first
    best = ordered[0]
    rivals = {str(s.value) for s in ordered if s.source is best.source}
    if best.source is Source.SAID and len(rivals) > 1 and not _all_agree(path, ordered):
        return None  # sentences that disagree speak of several things
    for other in ordered[1:]:
        if (
            other.source < Source.ASKED
            and agree(path, best.value, other.value)
            and finer(path, other.value, best.value)
        ):
            best = other
    return best


def _all_agree(path: str, group: list[Sighting]) -> bool:
    return all(agree(path, group[0].value, s.value) for s in group)


def _distinct(against: list[Sighting]) -> list[Sighting]:
    return list({str(s.value): s for s in reversed(against)}.values())[::-1]


def _reason(best: Sighting, against: list[Sighting]) -> str:
    strongest = min(s.source for s in against)
    if strongest is best.source:
        return f"both are {best.source.words}: the first one (line {best.line_number}) was taken"
    return f"{best.source.words} (line {best.line_number}) outweighs {strongest.words} (line {against[0].line_number})"


def note(sighting: Sighting) -> str:
    """Where a value comes from, as the note of its fact."""
    return f"line {sighting.line_number}: {sighting.line_text}"


def fact(sighting: Sighting | None) -> Fact[Any]:
    """The fact of one sighting."""
    if sighting is None:
        return _NOT_SAID
    return absent(note(sighting)) if sighting.value is None else known(sighting.value, note(sighting))


def environment(choice: Choice, listings: list[Listing]) -> Environment:
    """The Environment of everything that was taken."""
    taken = choice.taken
    packages = _packages(taken, listings)
    sections: dict[str, Any] = {name: _section(name, taken) for name in _SECTIONS}
    sections |= {name: _flash(name, packages) for name in _FA}
    built = Environment(packages=packages, gpus=_gpus(taken), extensions=_extensions(taken), **sections)
    return dataclasses.replace(built, torch=_torch(built.torch, packages))


def complete(read: Environment, saved: Environment | None) -> Environment:
    """A saved environment, with what it does not know filled in from the text around it."""
    if saved is None:
        return read
    changes: dict[str, Any] = {}
    for name in _SECTIONS + tuple(_FA):
        mine, theirs = getattr(saved, name), getattr(read, name)
        filled = {
            f.name: getattr(theirs, f.name)
            for f in dataclasses.fields(mine)
            if getattr(mine, f.name).is_unknown and not getattr(theirs, f.name).is_unknown
        }
        changes[name] = dataclasses.replace(mine, **filled)
    for name in ("gpus", "extensions"):
        if getattr(saved, name).is_unknown:
            changes[name] = getattr(read, name)
    return dataclasses.replace(saved, **changes)


def _section(name: str, taken: Mapping[str, Sighting]) -> Any:
    kind = type(getattr(Environment(), name))
    return kind(**{f.name: fact(taken.get(f"{name}.{f.name}")) for f in dataclasses.fields(kind)})


def _packages(taken: Mapping[str, Sighting], listings: list[Listing]) -> Packages:
    fields: dict[str, dict[str, Fact[Any]]] = defaultdict(dict)
    for path, sighting in taken.items():
        if path.startswith("packages."):
            _, name, field = path.split(".")
            fields[name][field] = fact(sighting)
    torch = taken.get("torch.version")
    if torch is not None and "torch" not in fields:
        fields["torch"]["version"] = fact(torch)
    items = {
        name: Package(
            *(
                absent(given["version"].note) if given.get("version", _NOT_SAID).is_absent else given.get(f, _NOT_SAID)
                for f in ("version", "installer", "location", "editable")
            )
        )
        for name, given in fields.items()
    }
    whole = next((listing for listing in listings if listing.whole), None)
    if whole is not None:
        return Packages(items, True, f"line {whole.line_number}: {whole.kind} without it")
    return Packages(items, False, "no whole list of packages was pasted")


def _torch(torch: Torch, packages: Packages) -> Torch:
    """torch's own facts, completed from the list of packages."""
    listed = packages.items.get("torch")
    if torch.version.is_unknown and listed is not None:
        torch = dataclasses.replace(torch, version=listed.version)
    elif torch.version.is_unknown and packages.complete:
        torch = dataclasses.replace(torch, version=absent(packages.note))
    label = (torch.version.value or "").partition("+")[2]
    changes: dict[str, Any] = {}
    for path, value in torch_facts(str(torch.version.value)) if label else ():
        field = path.removeprefix("torch.")
        if getattr(torch, field).is_unknown:
            changes[field] = absent(torch.version.note) if value is None else known(value, torch.version.note)
    torch = dataclasses.replace(torch, **changes)
    if torch.backend.is_unknown and torch.cuda.is_known:
        changes["backend"] = known("cuda", torch.cuda.note)
    if torch.cuda.is_unknown and not label and (runtime := _companion_cuda(packages)) is not None:
        changes |= {"cuda": runtime, "backend": known("cuda", runtime.note)}
    if torch.hip.is_unknown and torch.backend.value in ("cuda", "cpu"):
        changes["hip"] = absent(torch.backend.note)
    return dataclasses.replace(torch, **changes)


def _companion_cuda(packages: Packages) -> Fact[str] | None:
    """torch's wheels of PyPI carry no label there, but pin the CUDA runtime they were built with."""
    for name in ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime"):
        listed = packages.items.get(name)
        if listed is not None and listed.version.is_known and "torch" in packages.items:
            parts = str(listed.version.value).split(".")
            return known(".".join(parts[:2]), listed.version.note) if len(parts) > 1 else None
    return None


def _flash(name: str, packages: Packages) -> FlashAttention:
    blank = FlashAttention(**{f.name: _NOT_SAID for f in dataclasses.fields(FlashAttention)})
    for distribution in _FA[name]:
        version = packages.get(distribution).version
        if not version.is_known:
            continue
        label = parse_build_label(str(version.value))
        told = {"built_for_torch": label.torch, "built_for_cuda": label.cuda, "built_for_cxx11_abi": label.cxx11_abi}
        facts: dict[str, Fact[Any]] = {f: known(v, version.note) for f, v in told.items() if v is not None}
        return dataclasses.replace(blank, version=version, distribution=known(distribution, version.note), **facts)
    gone = [packages.get(distribution).version for distribution in _FA[name]]
    if name != "flash_attn_4" and all(version.is_absent for version in gone):
        nothing = absent(gone[0].note)
        return FlashAttention(**{f.name: nothing for f in dataclasses.fields(FlashAttention)})
    return blank


def _gpus(taken: Mapping[str, Sighting]) -> Fact[tuple[Gpu, ...]]:
    fields: dict[str, dict[str, Sighting]] = defaultdict(dict)
    for path, sighting in taken.items():
        if path.startswith("gpus."):
            _, index, field = path.split(".")
            fields[index][field] = sighting
    if "none" in fields:
        return known((), note(next(iter(fields["none"].values()))))
    numbered = sorted((index for index in fields if index != "*"), key=int)
    shared = fields.get("*", {})
    if not numbered and not shared:
        return _NOT_SAID
    gpus = [_gpu(index, fields[index], shared if _shared_fits(fields, numbered, shared) else {}) for index in numbered]
    if not numbered:
        gpus = [_gpu("*", shared, {})]
    first = next(iter(fields[numbered[0]].values())) if numbered else next(iter(shared.values()))
    return known(tuple(gpus), note(first))


def _shared_fits(
    fields: Mapping[str, dict[str, Sighting]], numbered: list[str], shared: Mapping[str, Sighting]
) -> bool:
    """What was said of "the GPU" holds for numbered ones when those are all of one kind."""
    names = {str(fields[i]["name"].value) for i in numbered if "name" in fields[i]}
    return len(names) <= 1 and (
        "name" not in shared or not names or agree("gpus.*.name", names.pop(), shared["name"].value)
    )


def _gpu(index: str, own: Mapping[str, Sighting], shared: Mapping[str, Sighting]) -> Gpu:
    given: dict[str, Fact[Any]] = {}
    for name in (f.name for f in dataclasses.fields(Gpu) if f.name != "index"):
        given[name] = fact(own.get(name) or shared.get(name))
    where = next(iter((*own.values(), *shared.values())))
    return Gpu(index=known(int(index), note(where)) if index != "*" else _NOT_SAID, **given)


def _extensions(taken: Mapping[str, Sighting]) -> Fact[tuple[Extension, ...]]:
    fields: dict[str, dict[str, Sighting]] = defaultdict(dict)
    for path, sighting in taken.items():
        if path.startswith("extensions."):
            _, module, field = path.split(".", 2)
            fields[module][field] = sighting
    if not fields:
        return NOT_LOOKED
    built = [
        Extension(
            module, **{f.name: fact(given.get(f.name)) for f in dataclasses.fields(Extension) if f.name != "module"}
        )
        for module, given in fields.items()
    ]
    return known(tuple(built), note(next(iter(next(iter(fields.values())).values()))))
