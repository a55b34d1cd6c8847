"""Checks as JUnit XML: a suite for each group, a test case for each check. Decides nothing.

Valid against the schema that the xunit plugin of Jenkins checks with (junit-10.xsd). What fails the run is a failure;
what it could not tell and rests on is an error; everything else that is not fine is skipped, with the reason: a report
must not be red where the exit code is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from .checks import Check, Checks

# All that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(checks: Checks) -> str:
    """The whole document."""
    groups: dict[str, list[Check]] = {}
    for check in checks.checks:
        groups.setdefault(check.group, []).append(check)
    named = {"name": _xml(checks.title), "time": _time(checks.checks)}
    root = Element("testsuites", named | _counts(checks.checks))
    for group, members in groups.items():
        _suite(root, group, members, checks)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, "unicode") + "\n"


def _suite(root: Element, group: str, members: list[Check], checks: Checks) -> None:
    skipped = sum(_tag(check) == "skipped" for check in members)
    named = {
        "name": _xml(group), "skipped": str(skipped), "time": _time(members), "timestamp": f"{checks.date}T00:00:00",
    }  # fmt: skip
    suite = SubElement(root, "testsuite", named | _counts(members))
    properties = SubElement(suite, "properties")
    said = (("kerneldoctor", checks.version), ("verdict", checks.headline), *checks.facts)
    for name, value in said:
        SubElement(properties, "property", name=_xml(name), value=_xml(value))
    for check in members:
        _case(suite, check)


def _case(suite: Element, check: Check) -> None:
    """The name is the same whatever the answer: by it the history of a test is kept."""
    name = f"{check.id}: {check.name}" if check.name else check.id
    classname = f"kerneldoctor.{check.group}"
    case = SubElement(suite, "testcase", name=_xml(name), classname=_xml(classname), time=f"{check.seconds:.3f}")
    tag = _tag(check)
    if tag:
        kind = check.severity if check.status == "failed" else check.status
        message = check.title if tag != "skipped" else f"{kind}: {check.title}"
        SubElement(case, tag, message=_xml(message), type=kind).text = _xml("\n".join(_said(check)))


def _tag(check: Check) -> str:
    if check.status == "passed":
        return ""
    return {"failed": "failure", "undetermined": "error"}.get(check.status, "skipped") if check.decisive else "skipped"


def _said(check: Check) -> Iterable[str]:
    if check.file:
        yield f"{check.file}:{check.line}" if check.line else check.file
    yield check.detail
    yield from (f"seen: {fact} = {value}" for fact, value in check.seen)
    for words, command in check.remedies:
        yield f"{words}:\n  {command}" if command else words
    if check.url:
        yield f"see {check.url}"


def _counts(members: Iterable[Check]) -> dict[str, str]:
    tags = [_tag(check) for check in members]
    return {"tests": str(len(tags)), "failures": str(tags.count("failure")), "errors": str(tags.count("error"))}


def _time(members: Iterable[Check]) -> str:
    return f"{sum(check.seconds for check in members):.3f}"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
