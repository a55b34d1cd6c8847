"""Many ranks as one list of checks: what all agree on, what differs and where, who is missing. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ..engine.model import Severity
from ..report.checks import Check
from ..report.text import listing, plural
from .kernels import STOPPED

GROUP = "ranks"
# What must be the same everywhere, or the ranks run different code; of the rest a difference is worth knowing.
_SEVERITY: Mapping[str, Severity] = {
    "torch": "error", "backend": "error", "kernels": "error", "transformers": "error", "platform": "warning",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rank:
    """What one rank found."""

    rank: int
    node: str  # name of its machine, or what stands for it
    device: str  # "cuda:1"
    gpu: str = ""  # the short id of its own GPU
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, str] = field(default_factory=dict)  # reference -> commit and variant
    checks: tuple[Check, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Missing:
    """A rank of which nothing was heard in the end."""

    rank: int
    how: Literal["never came", "died", "fell silent", "not done", "not heard"]  # the last: the ranks could not meet
    stage: str = ""  # what it was at
    seconds: float = 0.0  # that were waited for it


def to_json(rank: Rank) -> dict[str, Any]:
    """The form in which a rank tells the others."""
    return asdict(rank)


def from_json(raw: Any, number: int) -> Rank | None:
    """What a rank told, or None where that makes no sense: another release of kerneldoctor, or somebody else."""
    try:
        checks = tuple(_check(item) for item in raw["checks"])
        texts = {key: {str(k): str(v) for k, v in raw[key].items()} for key in ("fingerprint", "builds")}
        named = {key: str(raw[key]) for key in ("node", "device", "gpu")}
        return Rank(rank=number, checks=checks, seconds=float(raw["seconds"]), **named, **texts)  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _check(raw: Mapping[str, Any]) -> Check:
    pairs = {key: tuple((str(a), str(b)) for a, b in raw[key]) for key in ("remedies", "seen")}
    return Check(**{**raw, **pairs})


def merge(ranks: Sequence[Rank], missing: Sequence[Missing], size: int) -> tuple[Check, ...]:
    """The checks of all ranks as one list. What a rank left off because another one died is no question of its own."""
    dead = next((item for item in missing if item.how == "died"), None)
    found = _merged(ranks, missing, size)
    if dead is None:
        return found
    why = f"rank {dead.rank} died"
    return tuple(replace(c, status="skipped", detail=why, decisive=False) if c.kind == STOPPED else c for c in found)


def without_meeting(checks: Iterable[Check], missing: Sequence[Missing], trouble: str) -> tuple[Check, ...]:
    """The checks where the ranks could not meet: the others cannot hear the exit code, so that it is 3 for all."""
    unheard = [item.rank for item in missing]
    detail = f"{trouble}; so nothing is known of {ranks_text(unheard)}" if unheard else trouble
    check = Check(
        "ranks:meet", GROUP, "the ranks could not meet", "undetermined", "error",
        f"{detail}, and every rank ends with 3", kind="ranks-meet",
    )  # fmt: skip
    return (check, *(replace(other, decisive=False) for other in checks))


def _merged(ranks: Sequence[Rank], missing: Sequence[Missing], size: int) -> tuple[Check, ...]:
    return (
        *(_absent(item) for item in missing if item.how != "not heard"),
        *_differences(ranks),
        *_shared_gpus(ranks),
        *_everybodys(ranks, size),
    )


def ranks_text(numbers: Iterable[int]) -> str:
    """ "rank 3", "ranks 0-2 and 5"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    parts = ["-".join(map(str, run)) for run in runs]
    several = len(parts) > 1 or any(len(run) > 1 for run in runs)
    return f"rank{'s' if several else ''} {listing(parts)}"


def _absent(missing: Missing) -> Check:
    """Dead is a finding; late or unheard of is a question that nobody answered."""
    at = f"; it was {missing.stage}" if missing.stage else ""
    detail = {
        "died": f"its process ended without a word{at}",
        "never came": f"nothing was heard of it within {missing.seconds:.0f} s",
        "fell silent": f"it came, and then gave no sign of life{at}",
        "not done": f"it was not done within {missing.seconds:.0f} s{at}",
    }[missing.how]
    status: Literal["failed", "undetermined"] = "failed" if missing.how == "died" else "undetermined"
    title = f"rank {missing.rank} {missing.how if missing.how != 'not done' else 'was not done in time'}"
    return Check(f"rank:{missing.rank}", GROUP, title, status, "error", detail, kind="rank-missing")


def _differences(ranks: Sequence[Rank]) -> Iterator[Check]:
    names = dict.fromkeys(name for rank in ranks for name in rank.fingerprint)
    different = False
    for name in names:
        groups = _groups((rank.fingerprint.get(name, "unknown"), rank.rank) for rank in ranks)
        if len(groups) > 1:
            different = True
            yield _difference(f"ranks:{name}", f"ranks differ in {name}", groups, _SEVERITY.get(name, "warning"))
    for reference in dict.fromkeys(name for rank in ranks for name in rank.builds):
        told = [(rank.builds[reference], rank.rank) for rank in ranks if reference in rank.builds]
        groups = _groups(told)
        if len(groups) > 1:
            different = True
            yield _difference(
                f"ranks:kernel:{reference}", f"ranks load different builds of {reference}", groups, "error"
            )
    if not different and len(ranks) > 1:
        what = f"{plural(len(ranks), 'rank')}, the same {listing(list(names))}"
        yield Check("ranks:same", GROUP, "ranks are alike", "passed", "error", what, kind="ranks-differ")


def _difference(identity: str, title: str, groups: Mapping[str, list[int]], severity: Severity) -> Check:
    parts = sorted(groups.items(), key=lambda item: -len(item[1]))
    detail = "; ".join(f"{value} on {ranks_text(numbers)}" for value, numbers in parts)
    return Check(identity, GROUP, title, "failed", severity, detail, kind="ranks-differ")


def _groups(told: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for value, number in told:
        groups.setdefault(value, []).append(number)
    return groups


def _shared_gpus(ranks: Sequence[Rank]) -> Iterator[Check]:
    for (node, _), numbers in _by((rank.node, rank.gpu) for rank in ranks).items():
        if len(numbers) > 1:
            named = [ranks[number].rank for number in numbers]
            detail = f"on {node}: give every rank a GPU of its own, by LOCAL_RANK or --gpus-per-task"
            title = f"{ranks_text(named)} have the same GPU"
            yield Check(f"ranks:gpu:{named[0]}", GROUP, title, "failed", "warning", detail, kind="ranks-share-gpu")


def _by(keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = {}
    for index, key in enumerate(keys):
        if key[1]:
            found.setdefault(key, []).append(index)
    return found


def _everybodys(ranks: Sequence[Rank], size: int) -> Iterator[Check]:
    """Each check once where all that made it agree; else once for every answer, with the ranks that gave it."""
    told: dict[str, dict[Hashable, list[tuple[Rank, Check]]]] = {}
    for rank in ranks:
        for check in rank.checks:
            told.setdefault(check.id, {}).setdefault((check.status, check.title, _gist(check)), []).append(
                (rank, check)
            )
    for answers in told.values():
        for answer in answers.values():
            first = answer[0][1]
            slowest = max(check.seconds for _, check in answer)
            if len(answers) == 1:
                yield replace(first, seconds=slowest)
                continue
            name = ranks_text(rank.rank for rank, _ in answer)
            yield replace(
                first, id=f"{first.id}#{name.replace(' ', '-')}", group=name, title=f"{first.title} ({name})",
                seconds=slowest,
            )  # fmt: skip


def _gist(check: Check) -> str:
    """What two answers must share to be one. Passed ones differ in figures that matter to nobody."""
    return "" if check.status == "passed" else check.detail
