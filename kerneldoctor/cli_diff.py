"""The command that compares two saved machines: parse, call the API, render, exit. No logic."""

from __future__ import annotations

import click

from . import terminal


@click.command()
@click.argument("a", metavar="A.json")
@click.argument("b", metavar="B.json")
@click.option("--all", "show_all", is_flag=True, help="Also show what no rule reads, and what always differs.")
@click.option("--kernel", "kernels", multiple=True, metavar="REF", help="Also compare which build of it would load.")
@click.option("--offline", is_flag=True, help="Ask nobody about it: the bundled index and the saved caches only.")
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="A folder of more rules.")
@click.option("--no-color", is_flag=True, help="Plain text; NO_COLOR in the environment does the same.")
@click.option("--format", "form", type=click.Choice(["console", "json"]), default="console", show_default=True)
@click.option("--output", "-o", metavar="FILE", help="Write the result to a file, whole or not at all; - for stdout.")
def diff(
    a: str, b: str, show_all: bool, kernels: tuple[str, ...], offline: bool, folders: tuple[str, ...], no_color: bool,
    form: str, output: str | None,
) -> int:  # fmt: skip
    """Say what differs between two machines of which one works, and what of it matters.

    A.json and B.json are what `kerneldoctor scan --format json` wrote on each; - stands for standard input. Both are
    judged anew by the rules of this kerneldoctor.

    \b
    Exit code 0: the confirmed errors are the same.
    1: they differ.
    2: wrong use, a file that is none of ours, or a kernel that the Hub says is not there.
    """
    from .api_diff import diff as compare
    from .report.diff import render, to_json
    from .report.layout import Page
    from .report.text import json_text

    found = compare(a, b, kernels=kernels, rules=folders, offline=offline)
    if form == "json":
        text = json_text(to_json(found))
    else:
        text = render(found, Page(terminal.width(), terminal.may_color(no_color, output)), show_all)
    terminal.deliver(text, output)
    return found.exit_code
