"""Recognises where a text turns to another machine, and picks the one that a reading is of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .agree import agree
from .model import Sighting, Source
from .notebook import Machine, Notebook
from .scan import Recogniser
from .text import Line
from .voices import COMMENT

_MAIL = re.compile(r"^On .{6,80}? ([\w.-]+)(?: <[^>]{3,80}>)? wrote:$")
_WHAT = (
    r"(?:machine|node|host|server|box|system|setup|environment|env|configuration|config|workstation|cluster|computer|pc"
    r"|instance|vm|container)"
)
_HEADING = re.compile(
    rf"^[\s#*>=\-[(]{{0,8}}(?:on (?:the |my |our )?)?(?:(first|second|third|other|working|broken|failing|good|bad"
    rf"|faulty|healthy|old|new|reference)\s{_WHAT}|{_WHAT}\s?\#?\s?([1-9A-F])\b)"
    r"(.{0,60}?)[\s:*=\-\])]{0,8}$",
    re.IGNORECASE,
)
_FAILING = re.compile(
    r"\b(?:broken|fail(?:s|ing|ed)?|bad|faulty|not working|error|crash\w*|doesn'?t work|problem)\b", re.IGNORECASE
)
_WORKING = re.compile(r"\b(?:working|works|good|healthy|fine|ok|reference|passes)\b", re.IGNORECASE)
_IDENTITY = (
    "torch.version",
    "driver.version",
    "python.version",
    "system.distribution",
    "gpus.0.name",
    "gpus.*.name",
    "system.os",
    "system.machine",
)


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line that may be a heading over another machine's report, or over another person's comment."""
    text = line.text.strip()
    if len(text) > 120 or (":" in text[:-1] and not text.endswith(":") and "·" not in text):
        return False
    if comment := (COMMENT.match(text) or _MAIL.match(text)):
        notebook.turn_to(f"@{comment[1].lower()}", "")
        return True
    heading = _HEADING.match(text)
    if heading is None:
        return False
    words = f"{heading[1] or ''} {heading[3] or ''}"
    mood = "failing" if _FAILING.search(words) else "working" if _WORKING.search(words) else ""
    notebook.turn_to(" ".join(text.strip("#*>=-[]() :").lower().split()), mood)
    return True


def pick(sightings: Iterable[Sighting], machines: list[Machine]) -> tuple[list[Sighting], list[Sighting], int]:
    """The sightings of the machine that the reading is of, those of others, and how many machines there are.

    The one whose heading calls it broken, else the first that is not called working. What stands before the first
    heading, and reports that nothing tells apart, belong to it too.
    """
    by_machine: dict[int, list[Sighting]] = {number: [] for number in range(len(machines))}
    for sighting in sightings:
        by_machine[sighting.machine].append(sighting)
    groups = _merge(by_machine, machines)
    chosen = _chosen(groups, machines)
    picked = [s for number in sorted(chosen) for s in by_machine[number]]
    others = [s for group in groups if group is not chosen for number in group for s in by_machine[number]]
    told_apart = sum(1 for group in groups if any(_identity(by_machine[n], machines[n]) for n in group))
    return picked, others, max(1, told_apart)


def _merge(by_machine: dict[int, list[Sighting]], machines: list[Machine]) -> list[list[int]]:
    """Reports that may be of one machine, together: no heading parts them, or the first says nothing of a machine."""
    groups: list[list[int]] = []
    for number, machine in enumerate(machines):
        own = _identity(by_machine[number], machine)
        home = next(
            (g for g in groups if _may_join(_of(g, by_machine, machines), own, machine, machines[g[0]])),
            None,
        )
        if home is None:
            groups.append([number])
        else:
            home.append(number)
    return groups


def _of(group: list[int], by_machine: dict[int, list[Sighting]], machines: list[Machine]) -> dict[str, Sighting]:
    found: dict[str, Sighting] = {}
    for number in group:
        found = _identity(by_machine[number], machines[number]) | found
    return found


def _may_join(group: dict[str, Sighting], own: dict[str, Sighting], machine: Machine, head: Machine) -> bool:
    if any(path in group and not agree(path, group[path].value, own[path].value) for path in own):
        return False
    moods = {machine.mood, head.mood}
    if (machine.mood == "working" and head.mood != "working") or moods == {"failing", "working"}:
        return False
    if not machine.label:
        return True
    return not group or not own


def _identity(sightings: list[Sighting], machine: Machine) -> dict[str, Sighting]:
    """What tells machines apart: what is shown, and what somebody says of an own one."""
    weakest = Source.SAID if machine.label.startswith("@") else Source.TABLE
    found: dict[str, Sighting] = {}
    for sighting in sightings:
        if sighting.path in _IDENTITY and sighting.source <= weakest and sighting.value is not None:
            found.setdefault(sighting.path, sighting)
    return found


def _chosen(groups: list[list[int]], machines: list[Machine]) -> list[int]:
    moods = [{machines[number].mood for number in group} for group in groups]
    failing = (group for group, mood in zip(groups, moods, strict=True) if "failing" in mood)
    open_ones = (group for group, mood in zip(groups, moods, strict=True) if "working" not in mood)
    return next(failing, None) or next(open_ones, None) or groups[0]


CUES = ("commented", "opened", "replied", "wrote:", "added a comment", " · ", "machine", "node", "host", "server",
        "box", "system", "setup", "env",
        "config", "workstation", "cluster", "computer", " pc", "instance", " vm", "container")  # fmt: skip
RECOGNISER = Recogniser("machines", CUES, read)
