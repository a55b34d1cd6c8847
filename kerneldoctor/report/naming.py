"""What a kernel's name means, as JSON and as text: the chain of reasons and how it changed over releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..hub.naming import Meaning, Step, StepCode
from .layout import Page

SCHEMA = "kerneldoctor.resolve/1"

_STEPS: Mapping[StepCode, str] = {
    StepCode.BUILTIN: "{name} is attention that transformers and torch bring themselves: no kernel is loaded",
    StepCode.TRANSFORMERS: "transformers {release} ({source})",
    StepCode.TRANSFORMERS_UNKNOWN: "which transformers is asked is not known: {why}",
    StepCode.SOURCE_UNKNOWN: "whether the package or a kernel from the Hub is used is not known: {why}",
    StepCode.PACKAGE: "the package is installed and is what is used: {what}",
    StepCode.NO_PACKAGE: "the package is not used: {why}",
    StepCode.KERNELS_ACCEPTED: "kernels {kernels} is one that it accepts ({range})",
    StepCode.KERNELS_UNKNOWN: "it accepts kernels {range}; which one is here is not known: {why}",
    StepCode.AGREEING_SET: "a set that works together: pip install {pins} (as listed on {listed})",
    StepCode.REPLACED_BY: "in place of the package it takes the Hub kernel {repo}, without asking",
    StepCode.NO_REPLACEMENT: "transformers {release} puts nothing in its place",
    StepCode.VERSION_NAMED: "the revision is named: {revision}",
    StepCode.VERSION_DEFAULT: "no revision is named: it asks for {version} (its rule: {condition})",
    StepCode.VERSION_NONE: "no revision is named and it passes no version: the branch {branch}",
    StepCode.VERSION_UNKNOWN: "no revision is named, and which version it asks for is not known: {why}",
    StepCode.DEVICES: "{version} has builds for {backends}",
    StepCode.PAGED_WARNS: "transformers {release} takes the prefix paged| off, with a FutureWarning: leave it out",
    StepCode.SWITCH_WITHOUT_EFFECT: "USE_HUB_KERNELS turns off layers from the Hub, not this replacement",
}


def step_text(step: Step) -> str:
    """One link of the chain in words."""
    fields = step.fields
    if step.code is StepCode.TRANSFORMERS and not fields["release"]:
        return "transformers is not installed; --transformers 5.22 asks what a release would do"
    if step.code is StepCode.KERNELS_REFUSED:
        here = f"kernels {fields['kernels']} is not one that it accepts" if fields["kernels"] else "kernels is missing"
        none = f"no release in that range was listed on {fields['listed']}"
        do = f"pip install {fields['fits']}" if fields["fits"] else none
        return f"{here} ({fields['range'] or 'any release'}), so nothing is taken from the Hub: {do}"
    if step.code is StepCode.IMPORT_FAILS:
        return f"but model classes of this transformers do not import with it: {fields['why']}{_mend(step)}"
    if step.code is StepCode.VERSION_DEMANDED:
        why = f"kernels {fields['kernels']} demands a version or revision and raises ValueError"
        return f"{why}: name one after an @{_mend(step).replace(': ', ', or ', 1)}"
    return _STEPS[step.code].format(**fields)


def _mend(step: Step) -> str:
    return f": pip install {step.fields['fits']}" if step.fields["fits"] else ""


def obstacle_text(meaning: Meaning) -> str:
    """Why transformers would load no kernel, in half a sentence; "" where nothing is known to stop it."""
    step = meaning.obstacle
    if step is None:
        return ""
    name = f"transformers {meaning.transformers}"
    if step.code is StepCode.KERNELS_REFUSED:
        here = (
            f"does not accept kernels {step.fields['kernels']} [KD5001]" if step.fields["kernels"] else "needs kernels"
        )
        return f"{name} {here}"
    if step.code is StepCode.IMPORT_FAILS:
        return f"model classes of {name} do not import here"
    return f"{name} names no version, and kernels {step.fields['kernels']} demands one"


def mend_text(meaning: Meaning) -> str:
    """What to install so that transformers takes kernels from the Hub; "" where nothing is known to help."""
    agreeing, step = meaning.step(StepCode.AGREEING_SET), meaning.obstacle
    fits = step.fields["fits"] if step is not None else ""
    pins = fits or (agreeing.fields["pins"] if agreeing is not None else "")
    return f"pip install {pins}" if pins else ""


def conclusion(meaning: Meaning) -> str:
    """The answer in one line."""
    name = str(meaning.reference)
    obstacle = obstacle_text(meaning)
    if meaning.works is False and meaning.source in ("hub", "named"):
        meant = "" if meaning.repo in name else f" ({meaning.name})"
        return f"{name}{meant} would not be loaded: {obstacle}"
    match meaning.source:
        case "builtin":
            return f"{name} loads no kernel"
        case "package":
            instead = f"; without the package it would be {meaning.name}" if meaning.repo else ""
            return f"{name} is the installed package{instead}"
        case "hub":
            return f"{name} would load {meaning.name} from the Hub"
        case "named" if meaning.works is None and meaning.revision:
            return f"whether {name} would be loaded cannot be told"
        case "named":
            return f"{name} would load {meaning.name}" if meaning.revision else f"{name}: which version is not known"
        case "none":
            instead = f"; with an accepted kernels it would be {meaning.name}" if meaning.repo else ""
            return f"{name} cannot be loaded here{instead}"
        case _:
            return f"what {name} would load cannot be told"


def to_json(meaning: Meaning, notes: tuple[str, ...] = ()) -> dict[str, Any]:
    """The published form."""
    return {
        "schema": SCHEMA,
        "reference": str(meaning.reference),
        "conclusion": conclusion(meaning),
        "source": meaning.source,
        "works": meaning.works,
        "repo": meaning.repo or None,
        "revision": meaning.revision or None,
        "transformers": meaning.transformers or None,
        "steps": [{"code": s.code.value, **s.fields, "text": step_text(s)} for s in meaning.steps],
        "eras": [asdict(era) for era in meaning.eras],
        "notes": [*meaning.reference.notes, *notes],
    }


def render(meaning: Meaning, notes: tuple[str, ...], page: Page) -> str:
    """The page for a person."""
    page.line(conclusion(meaning), "bold")
    for note in (*meaning.reference.notes, *notes):
        page.paragraph("  note  ", note)
    page.line()
    for number, step in enumerate(meaning.steps, 1):
        page.paragraph(f"  {number}. ", step_text(step))
    if meaning.eras:
        page.line()
        page.line("What it means by transformers release (kernels range in brackets)", "bold")
    for era in meaning.eras:
        here = bool(meaning.transformers) and _holds(meaning.transformers, era.first, era.last)
        span = era.first if era.first == era.last else f"{era.first} to {era.last}"
        rocm = f"; with ROCm {era.rocm}" if era.rocm else ""
        target = f"{era.repo} {era.version}{rocm}" if era.repo else "nothing from the Hub"
        page.paragraph(f"{'*' if here else ' '} {span:<18} ", f"{target} [{era.kernels or 'any'}]")
    return page.text()


def _holds(release: str, first: str, last: str) -> bool:
    from packaging.version import Version

    return Version(first) <= Version(release) <= Version(last)
