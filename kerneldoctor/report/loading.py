"""The answer about a Hub kernel in a line, and what to type for it: builds, and what keeps them from being loaded.

Words only: what would load is decided in the hub room.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..hub.answer import Answer, Pin
from ..hub.candidates import VersionCandidates
from ..hub.naming import StepCode
from ..hub.reference import Kind
from ..hub.surroundings import Hindrance
from ..values import dataclass
from .naming import mend_text, obstacle_text
from .text import listing
from .variants import also_unused_gpu, asked_name, headline, loadable, pin_lines, short

_HINDRANCES: Mapping[Hindrance, str] = {
    Hindrance.OFFLINE: "would not load: offline mode is on, and it is not in the cache; online it would take {build}",
    Hindrance.OFFLINE_PARTLY: "would not load: offline mode is on, the cache holds {build} alone, and huggingface_hub "
    "since 1.22 refuses what is not there whole",
    Hindrance.OFFLINE_UNKNOWN: "may load or not: offline mode is on, and what the cache holds of it is not known; it "
    "would take {build}",
    Hindrance.REFUSED: "may load or not: the Hub refuses to show the repository; as last seen it would take {build}",
    Hindrance.NOT_TRUSTED: "would not load without trust_remote_code, because the Hub does not mark its publisher as "
    "trusted; with it {build} would load (untested)",
}


@dataclass(frozen=True, slots=True)
class NotHere:
    """A line to type that would fail here."""

    text: str
    why: str
    mend: str  # a command, or ""


def verdict_line(answer: Answer) -> str:
    """The whole answer in a line: which build, what hinders it, and whether transformers has a part in it."""
    if answer.meaning.reference.kind is Kind.FLASH_ATTENTION and answer.meaning.works is False:
        why = obstacle_text(answer.meaning) or _no_source(answer)
        return f"{answer.meaning.reference} would not be loaded: {why}; the kernel: {_line(answer)}"
    return f"{_line(answer)}{_not_through_transformers(answer)}"


def hindrance_text(answer: Answer, version: VersionCandidates) -> str:
    """What keeps a version with a fitting build from being loaded; reads on after its name. "" where nothing does."""
    found, chosen = hindrance(answer, version), version.preferred
    if found is None:
        return ""
    if chosen is None or not version.usable:
        return "would not load: offline mode is on, and it is not in the cache"
    return _HINDRANCES[found].format(build=chosen.build.name)


def hindrance(answer: Answer, version: VersionCandidates) -> Hindrance | None:
    """The same as a code."""
    asked = answer.asked if version is answer.version else ""
    return answer.around.hindrance(version, asked) if answer.around is not None else None


def typed(answer: Answer) -> tuple[tuple[str, ...], tuple[NotHere, ...]]:
    """The lines to type for the pin that work here, and those that do not, each with why and what would mend it."""
    pin = answer.pin
    if pin is None:
        return (), ()
    lines = pin_lines(pin, answer.candidates.listing.repo)
    if pin.attention is False:
        return lines, ()
    attention, call = lines
    why = _why_not_attention(answer, pin)
    return ((call,), (NotHere(attention, why, mend_text(answer.meaning)),)) if why else (lines, ())


def _line(answer: Answer) -> str:
    version = answer.version
    if answer.names_version or version is not None:
        text = hindrance_text(answer, version) if version is not None else ""
        return f"{asked_name(answer)} {text}" if text else headline(answer)
    repo, usable = answer.candidates.listing.repo, [v for v in answer.candidates.versions if v.usable]
    loading = [v for v in usable if answer.loads(v)]
    if loading or not usable:
        return f"{repo}: {loadable(loading)}{also_unused_gpu(answer)}" if loading else headline(answer)
    names = listing([short(version.version.name) for version in usable])
    return f"{repo}: {names} {hindrance_text(answer, usable[0])}"


def _not_through_transformers(answer: Answer) -> str:
    """What a repository is asked about is get_kernel: that transformers would not get there must be said."""
    meant = answer.meaning
    if meant.works is not False or meant.reference.kind is not Kind.KERNEL or not answer.usable:
        return ""
    if answer.pin is not None and answer.pin.attention is False:
        return ""
    return f"; by get_kernel alone: {obstacle_text(meant)}"


def _no_source(answer: Answer) -> str:
    return f"transformers {answer.meaning.transformers} takes nothing from the Hub here"


def _why_not_attention(answer: Answer, pin: Pin) -> str:
    step = answer.meaning.obstacle
    if answer.meaning.works is False and step is not None and step.code is not StepCode.VERSION_DEMANDED:
        return obstacle_text(answer.meaning)
    if pin.consent == "impossible":
        return "this transformers cannot tell kernels to trust a publisher; 5.13 and newer do, with allow_all_kernels"
    return ""
