"""Checks as SARIF 2.1.0 for code scanning and for viewers. Decides nothing.

GitHub takes every result for an alert, whatever its `kind` says (https://github.com/microsoft/PSRule/issues/955), and
refuses results without a location (https://github.com/github/codeql-action/issues/2459). So what is fine, or open
without deciding anything, is told beside the results; and a check that is about the machine is shown at the file that
says what the machine should have.
"""

from __future__ import annotations

import hashlib
import urllib.parse
from dataclasses import asdict
from typing import Any

from .checks import Check, Checks, RuleText
from .text import json_text, printable, web_address

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_CODES = {
    0: "nothing that fails the run", 1: "findings, or a check that failed", 3: "could not be determined",
}  # fmt: skip
_SHORT, _LONG = 1000, 20_000  # characters; GitHub shows 1024 of a short description


def render(checks: Checks) -> str:
    """The whole log."""
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(checks)]})


def _run(checks: Checks) -> dict[str, Any]:
    results = [check for check in checks.sorted() if _is_result(check)]
    doubts = [check for check in checks.sorted() if check.status == "undetermined"]
    texts = {text.id: text for text in checks.rules}
    named = {rule_id(check): check for check in (*doubts, *reversed(results))}
    index = {name: number for number, name in enumerate(sorted(named))}
    return {
        "tool": {"driver": {
            "name": "kerneldoctor",
            "version": checks.version,
            "rules": [_rule(name, named[name], texts.get(name)) for name in index],
        }},
        "automationDetails": {"id": f"{checks.title.replace(' ', '/')}/"},
        "invocations": [_invocation(checks, doubts)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(check, index, checks) for check in results],
        "properties": {
            "headline": _clean(checks.headline),
            "counts": asdict(checks.counts),
            "machine": {label: _clean(text) for label, text in checks.facts},
            "fine": [check.id for check in checks.checks if check.status == "passed"],
            "skipped": [check.id for check in checks.checks if check.status == "skipped"],
        },
    }  # fmt: skip


def rule_id(check: Check) -> str:
    """What a check is an instance of."""
    return check.rule or check.kind or check.id


def _is_result(check: Check) -> bool:
    return check.status in ("failed", "ignored") or (check.status == "undetermined" and check.decisive)


def _rule(name: str, check: Check, text: RuleText | None) -> dict[str, Any]:
    """The rule's own page, or what a check without one says of itself."""
    title = text.title if text else check.title
    url = web_address(text.url if text else check.url)
    page = text.text if text else (check.detail or check.title)
    return {
        "id": name,
        "name": _pascal(text.name if text else check.name or check.kind or name),
        "shortDescription": {"text": _clean(title)[:_SHORT]},
        "fullDescription": {"text": _clean(text.description if text else check.title)[:_SHORT]},
        "help": {"text": _clean(page)[:_LONG], "markdown": _clean(text.markdown if text else page)[:_LONG]},
        **({"helpUri": url} if url else {}),
        "defaultConfiguration": {"level": _LEVELS[text.severity if text else check.severity]},
        "properties": {"tags": list(text.tags) if text else ["check"]},
    }


def _result(check: Check, index: dict[str, int], checks: Checks) -> dict[str, Any]:
    name = rule_id(check)
    failed = check.status != "undetermined"
    return {
        "ruleId": name,
        "ruleIndex": index[name],
        "kind": "fail" if failed else "open",
        "level": _level(check) if failed else "none",
        "message": {"text": _message(check)},
        "locations": [_location(check, checks.place)],
        "partialFingerprints": _fingerprints(check),
        **({"suppressions": [_suppression(check)]} if check.status == "ignored" else {}),
        "properties": {"seen": {fact: _clean(value) for fact, value in check.seen}},
    }


def _level(check: Check) -> str:
    """A check of a pull request fails for an error: an error that does not fail the run is a warning there."""
    return "warning" if check.severity == "error" and not check.decisive else _LEVELS[check.severity]


def _message(check: Check) -> str:
    lines = [check.title, check.detail]
    lines += [f"{words}: {command}" if command else words for words, command in check.remedies]
    # [words](1) would be a link.
    return _clean("\n".join(filter(None, lines))).replace("](", "] (")[:_LONG]


def _location(check: Check, place: str) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _relative(check.file or place), "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": max(check.line, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": _clean(check.id), "kind": "check"}],
    }


def _relative(path: str) -> str:
    return urllib.parse.quote(path.encode("utf-8", "replace")).lstrip("/")


def _fingerprints(check: Check) -> dict[str, str]:
    """The first is what GitHub knows an alert by, the second is ours: the check, wherever its file moves."""
    digest = hashlib.sha256(f"{check.id}\n{check.file}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return {"primaryLocationLineHash": f"{digest}:1", "kerneldoctorCheck/v1": digest}


def _suppression(check: Check) -> dict[str, str]:
    return {"kind": "external", "status": "accepted", "justification": _clean(check.detail)}


def _invocation(checks: Checks, doubts: list[Check]) -> dict[str, Any]:
    return {
        "executionSuccessful": checks.exit_code in (0, 1),
        "exitCode": checks.exit_code,
        "exitCodeDescription": _CODES.get(checks.exit_code, "wrong use, or a fault of kerneldoctor"),
        "toolExecutionNotifications": [
            {
                "level": "error" if check.decisive else "note",
                "message": {"text": _message(check)},
                "associatedRule": {"id": rule_id(check)},
            }
            for check in doubts
        ],
    }


def _pascal(name: str) -> str:
    words = "".join(letter if letter.isalnum() else " " for letter in name).split()
    return "".join(word[:1].upper() + word[1:] for word in words)[:255] or "Check"


def _clean(text: str) -> str:
    return printable(text)
