"""The report as JSON text; what the keys mean is in schema.json."""

from __future__ import annotations

from .model import Report
from .text import json_text


def render(report: Report) -> str:
    """The whole report."""
    return json_text(report.to_json())
