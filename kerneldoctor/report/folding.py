"""Says on one line what many builds have in common: names folded in braces, one reason for all of a kind.

Pure; which builds are shown at all is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..hub.acceptance import Reason, ReasonCode
from ..hub.candidates import Candidate
from .reasons import reason_text, why
from .text import listing

MOST_NAMES = 4  # folded names on a line
MOST_VALUES = 6  # in a pair of braces, or of what builds are for

_FRAMEWORK = re.compile(r"(torch|torch-stable-abi|tvm-ffi)(\d+)(-cxx11|-cxx98|)", re.ASCII)
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
    """Names of builds with what they share said once: "torch{211,212}-cxx11-{cu126,cu130}".

    platform: the end that goes without saying, "x86_64-linux".
    """
    tags: dict[tuple[str, str, str, str], list[str]] = {}
    for name in names:
        kind, release, front, tag, end = _parts(name)
        tags.setdefault((kind, release, front, end), []).append(tag)
    releases: dict[tuple[str, str, tuple[str, ...], str], list[str]] = {}
    for (kind, release, front, end), found in tags.items():
        releases.setdefault((kind, front, tuple(found), end), []).append(release)
    texts = [_folded(*key, found, platform) for key, found in releases.items()]
    if len(texts) > MOST_NAMES:
        left = sum(len(key[2]) * len(found) for key, found in list(releases.items())[MOST_NAMES:])
        texts = [*texts[:MOST_NAMES], f"{left} more"]
    return ", ".join(texts)


def _parts(name: str) -> tuple[str, str, str, str, str]:
    """Of a compiled build "torch", "212", "-cxx11", "cu130", "x86_64-linux"; of any other name nothing but the name."""
    parts = name.split("-")
    found = _FRAMEWORK.fullmatch("-".join(parts[:-3]))
    if found is None:
        return name, "", "", "", ""
    return found[1], found[2], found[3], parts[-3], "-".join(parts[-2:])


def _folded(kind: str, front: str, tags: Sequence[str], end: str, releases: list[str], platform: str) -> str:
    middle = f"{kind}{_braces(releases)}{front}"
    return "-".join(part for part in (middle, _braces(tags), "" if end == platform else end) if part)


def _braces(items: Sequence[str]) -> str:
    more = [f"+{len(items) - MOST_VALUES}"] if len(items) > MOST_VALUES else []
    return f"{{{','.join([*items[:MOST_VALUES], *more])}}}" if len(items) > 1 else items[0]


def _in_order(text: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal()), text
