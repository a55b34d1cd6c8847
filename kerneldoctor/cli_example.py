"""The command that prints files to start from: parse, look up, print. No logic."""

from __future__ import annotations

import click

from . import terminal


@click.command()
@click.argument("name", required=False)
@click.option("--output", "-o", metavar="FILE", help="Write the example to a new file; - for stdout.")
@click.option("--force", is_flag=True, help="Also over a file that is there.")
def example(name: str | None, output: str | None, force: bool) -> int:
    """Print a file to start from: CI, a batch job, an image, a hook, a policy. Without NAME: which there are.

    The command of each that you keep is: kerneldoctor example github-actions -o .github/workflows/kernels.yml
    """
    from .examples import EXAMPLES, check_new, find_example
    from .report.layout import Page

    if name is not None:
        text = find_example(name).text
        if output is not None and not force:
            check_new(output)
        terminal.deliver(text, output)
        return 0
    page = Page(terminal.width())
    room = max(len(known.name) for known in EXAMPLES) + 2
    for known in EXAMPLES:
        page.paragraph(known.name.ljust(room), f"{known.target}: {known.purpose}")
    terminal.deliver(page.text(), output)
    return 0
