"""Checks as one HTML page that asks nobody for anything: style inside, no script, light and dark, for paper as well.

The page is built as a tree, and the serializer escapes: no text of a machine can become markup. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

from .checks import Check, Checks, Section, Status
from .text import code_spans, plural, printable, web_address

Child = Element | str
_GROUPS: tuple[tuple[Status, str], ...] = (
    ("failed", "Findings"), ("undetermined", "Not determined"), ("ignored", "Ignored"), ("skipped", "Not run"),
)  # fmt: skip
_BADGES = {"undetermined": "not determined", "ignored": "ignored", "skipped": "not run", "passed": "fine"}
_MARKS = {0: ("good", "\N{CHECK MARK}"), 1: ("bad", "\N{MULTIPLICATION X}"), 3: ("open", "?")}
_OPEN = 8  # groups of more checks than this are folded, findings apart
# Nothing may be loaded and nothing may run, whatever a text of a machine tried.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(checks: Checks) -> str:
    """The whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"kerneldoctor {checks.version}"),
        tag("title", f"{checks.title}: {checks.headline}"),
        tag("style", resources.files(__package__).joinpath("page.css").read_text("utf-8")),
    )
    body = tag("body", _top(checks), tag("main", *_main(checks)), _foot(checks))
    return "<!DOCTYPE html>\n" + tostring(tag("html", head, body, lang="en"), "unicode", method="html") + "\n"


def tag(name: str, /, *children: Child, css: str = "", **attributes: str) -> Element:
    """An element with its children. css is its class; http_equiv becomes http-equiv."""
    given = {key.replace("_", "-"): _text(value) for key, value in attributes.items()}
    made = Element(name, {"class": css, **given} if css else given)
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + _text(child)
        else:
            made.text = (made.text or "") + _text(child)
    return made


def _text(text: str) -> str:
    # Half a surrogate pair cannot be written as UTF-8.
    return printable(text).encode("utf-8", "replace").decode()


def _top(checks: Checks) -> Element:
    css, mark = _MARKS.get(checks.exit_code, _MARKS[1])
    return tag(
        "header",
        tag("p", checks.title, css="title"),
        tag("h1", tag("span", mark, css="mark", aria_hidden="true"), checks.headline, css=css),
        _counts(checks),
    )


def _counts(checks: Checks) -> Element:
    counts = checks.counts
    noun = "finding" if counts.findings == 1 else "findings"
    shown = [(noun, counts.findings, True), ("fine", counts.fine, True)]
    shown += [("not determined", counts.undetermined, True)]
    shown += [("ignored", counts.ignored, False), ("not run", counts.skipped, False)]
    items = [tag("li", tag("b", str(n)), f" {word}") for word, n, always in shown if n or always]
    return tag("ul", *items, tag("li", "exit code ", tag("b", str(checks.exit_code))), css="counts")


def _main(checks: Checks) -> Iterator[Element]:
    ordered = [check for check in checks.sorted() if not check.tabled]
    for status, title in _GROUPS:
        members = [check for check in ordered if check.status == status]
        if members:
            articles = [_article(check) for check in members]
            folded = status != "failed" and len(members) > _OPEN
            yield _part(f"{title} ({len(members)})", articles, folded)
    if checks.notes:
        yield _part("Notes", [tag("ul", *(tag("li", *_prose(note)) for note in checks.notes))])
    open_sections = [section for section in checks.sections if not section.folded]
    yield from (_part(section.title, list(_section(section))) for section in open_sections)
    if checks.facts:
        yield _part("What was looked at", [_list(checks.facts)])
    passed = [check for check in ordered if check.status == "passed"]
    if passed:
        names = [tag("li", *_named(check)) for check in passed]
        yield _part(f"{len(passed)} {checks.fine}", [tag("ul", *names, css="names")], True)
    folded_sections = [section for section in checks.sections if section.folded]
    yield from (_part(section.title, list(_section(section)), True) for section in folded_sections)


def _part(title: str, content: Sequence[Element], folded: bool = False) -> Element:
    if folded:
        return tag("details", tag("summary", tag("h2", title)), *content)
    return tag("section", tag("h2", title), *content)


def _article(check: Check) -> Element:
    kind = check.severity if check.status == "failed" else check.status
    word = check.severity if check.status == "failed" else _BADGES[check.status]
    body: list[Element] = []
    if check.file:
        body.append(tag("p", "in ", tag("code", f"{check.file}:{check.line}" if check.line else check.file)))
    if check.detail:
        body.append(tag("p", *_prose(check.detail)))
    if check.remedies and check.status != "ignored":
        body += _remedies(check.remedies)
    if check.seen:
        body.append(tag("details", tag("summary", f"{plural(len(check.seen), 'fact')} seen"), _list(check.seen)))
    if web_address(check.url):
        body.append(tag("p", tag("a", check.url, href=check.url, rel="noreferrer"), css="see"))
    heading = tag("h3", tag("span", word, css=f"badge {kind}"), *_named(check))
    return tag("article", heading, *body, css=kind)


def _named(check: Check) -> Iterator[Child]:
    yield check.title
    if check.rule:
        yield " "
        yield tag("code", check.rule, css="rule")


def _remedies(remedies: Iterable[tuple[str, str]]) -> Iterator[Element]:
    for words, command in remedies:
        if not command:
            yield tag("p", *_prose(words))
        elif " " in words or "\n" in command:
            yield from (tag("p", *_prose(words), css="do"), _code(command))
        else:  # "Then", "Undo"
            yield tag("p", tag("span", words, css="label"), " ", tag("code", command))


def _prose(text: str) -> Iterator[Child]:
    """Our own sentences, in which `code` is code."""
    for number, part in enumerate(code_spans(text)):
        yield tag("code", part) if number % 2 else part


def _code(text: str) -> Element:
    return tag("pre", tag("code", text))


def _list(rows: Iterable[tuple[str, str]]) -> Element:
    return tag("dl", *(tag("div", tag("dt", label), tag("dd", text)) for label, text in rows))


def _section(section: Section) -> Iterator[Element]:
    yield from (tag("p", *_prose(text)) for text in section.paragraphs)
    if section.rows:
        head = tag("tr", *(tag("th", cell, scope="col") for cell in section.head))
        # On a phone a row is a block, and each cell says what it is.
        labelled = (zip(section.head, row, strict=False) for row in section.rows)
        rows = [tag("tr", *(tag("td", *_prose(cell), data_label=label) for label, cell in cells)) for cells in labelled]
        wide = tag("table", tag("thead", head), tag("tbody", *rows))
        yield tag("div", wide, css="wide", tabindex="0", role="region", aria_label=section.title)
    if section.code:
        yield _code(section.code)
    if section.figure:
        yield tag("figure", _figure(section.figure))


def _figure(svg: str) -> Element:
    """Our own drawing, taken into the tree so that what its labels say stays text."""
    try:
        root = fromstring(svg)
    except ParseError as error:
        raise ValueError(f"a figure is no SVG: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.tag in ("script", "foreignObject", "style"):
            raise ValueError(f"a figure must not hold <{element.tag}>")
    return root


def _foot(checks: Checks) -> Element:
    return tag("footer", *(tag("p", line) for line in (*checks.foot, checks.date)))
