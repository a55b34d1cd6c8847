"""A report whose commands reach the environment that was looked at, and that says where pip would not help.

Rewrites texts of findings; adds and drops none.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from dataclasses import replace

from ..address import Address, quoted
from ..engine.model import Advice, Finding
from ..environment import Environment
from .model import Report

_SECTIONS = {"flash_attn": "flash-attn", "flash_attn_3": "flash-attn-3", "flash_attn_4": "flash-attn-4"}


def addressed(report: Report, address: Address) -> Report:
    """The report for somebody at the shell that `address` tells of."""
    if address == Address():
        return report
    findings = tuple(_finding(finding, report.environment, address) for finding in report.findings)
    return replace(report, findings=findings)


def _finding(finding: Finding, environment: Environment, address: Address) -> Finding:
    remedies = tuple(_advice(advice, address) for advice in finding.remedies)
    if not any("pip install" in advice.command for advice in finding.remedies):
        return replace(finding, remedies=remedies)
    told = [text for path in _packages(finding) if (text := _elsewhere(path, environment, address))]
    return replace(finding, remedies=remedies, diagnosis=" ".join((finding.diagnosis, *dict.fromkeys(told))))


def _advice(advice: Advice, address: Address) -> Advice:
    note = advice.note
    if address.no_pip and "pip install" in advice.command:
        note = f"{note} There is no pip in this environment: {quoted(address.pip)} -m ensurepip brings it.".strip()
    return replace(
        advice,
        note=note,
        command=address.commands(advice.command),
        verify=address.commands(advice.verify),
        undo=address.commands(advice.undo),
    )


def _packages(finding: Finding) -> Iterator[str]:
    """The distributions whose facts decided a finding."""
    for used in finding.facts:
        head, *rest = used.fact.split(".")
        yield rest[0] if head == "packages" and rest else _SECTIONS.get(head, head)


def _elsewhere(name: str, environment: Environment, address: Address) -> str:
    """That the copy in force is not where pip installs; "" where it is."""
    location = environment.packages.get(name).location
    why = address.first.get(os.path.normpath(str(location.value))) if location.is_known else None
    if why is None:
        return ""
    place = f"The copy of {name} in force is at {location.value} ({why})"
    return f"{place}: one that pip installs is not used while it is there."
