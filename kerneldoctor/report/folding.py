"""Says on one line what many builds have in common: names folded in braces, one reason for all of a kind.

Pure; which builds are shown at all is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..hub.acceptance import Reason, ReasonCode
from ..hub.candidates import Candidate
from .reasons import reason_text, why
from .text import listing

MOST_NAMES = 4  # folded names on a line
MOST_VALUES = 6  # in a pair of braces, or of what builds are for

_OR_NEWER = frozenset({ReasonCode.STABLE_ABI_TOO_NEW, ReasonCode.NAME_NOT_READ, ReasonCode.MACOS})
Kind = tuple[str, str, str]  # state, code of the reason or text, what was found


def state(candidate: Candidate) -> str:
    """What becomes of a build: takes | fits | no | ?."""
    return "takes" if candidate.preferred else {True: "fits", False: "no", None: "?"}[candidate.accepted]


def by_kind(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Builds of which one thing can be said together, in the order in which the first of each kind comes."""
    kinds: dict[Kind, list[Candidate]] = {}
    for candidate in candidates:
        reason = candidate.reason
        said = (reason.code.value, reason.found) if reason is not None else (why(candidate), "")
        kinds.setdefault((state(candidate), *said), []).append(candidate)
    return list(kinds.values())


def why_all(kind: Sequence[Candidate]) -> str:
    """The one thing to say of builds of a kind."""
    reasons = [candidate.reason for candidate in kind if candidate.reason is not None]
    return reason_text(merged(reasons)) if reasons else why(kind[0])


def merged(reasons: Sequence[Reason]) -> Reason:
    """One reason for several of the same code: what each of them is for, in order."""
    wanted = sorted({reason.wanted for reason in reasons}, key=_in_order)
    if reasons[0].code in _OR_NEWER:
        return replace(reasons[0], wanted=wanted[0])
    more = [f"{len(wanted) - MOST_VALUES + 1} more"] if len(wanted) > MOST_VALUES else []
    return replace(reasons[0], wanted=listing([*wanted[: MOST_VALUES - len(more)], *more]))


def fold_names(names: Iterable[str], platform: str = "") -> str:
    """Names of builds with what they share said once: "torch212-cxx11-{cu126,cu130}".

    platform: the end that goes without saying, "x86_64-linux".
    """
    folds: dict[tuple[str, str], list[str]] = {}
    for name in names:
        front, tag, end = _parts(name)
        folds.setdefault((front, end), []).append(tag)
    texts = [_folded(front, tags, "" if end == platform else end) for (front, end), tags in folds.items()]
    if len(texts) > MOST_NAMES:
        left = sum(len(tags) for tags in list(folds.values())[MOST_NAMES:])
        texts = [*texts[:MOST_NAMES], f"{left} more"]
    return ", ".join(texts)


def _parts(name: str) -> tuple[str, str, str]:
    """Front, backend and platform of a compiled build's name; of any other name nothing but the front."""
    parts = name.split("-")
    if len(parts) < 4:
        return name, "", ""
    return "-".join(parts[:-3]), parts[-3], "-".join(parts[-2:])


def _folded(front: str, tags: list[str], end: str) -> str:
    shown = tags[:MOST_VALUES]
    more = ["..."] if len(tags) > MOST_VALUES else []
    middle = f"{{{','.join([*shown, *more])}}}" if len(tags) > 1 else tags[0]
    return "-".join(part for part in (front, middle, end) if part)


def _in_order(text: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal()), text
