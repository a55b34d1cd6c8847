"""A diagnosis for a person: a page for the terminal, and a reply that a maintainer can post. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ..diagnosis.answer import Answer, Diagnosis, Refuted
from ..diagnosis.asking import Ask
from ..engine.model import Advice, Severity
from .layout import Page
from .markup import code, fenced, inline
from .text import listing, plural
from .understood import understood

_STYLE: dict[Severity, str] = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
_REMEDIES = 3
_OTHERS = 5
_BASIS = {
    "text and facts": "the message and the facts of the report say so",
    "text": "the message says so",
    "facts": "the facts of the report say so, whatever the message",
}


_STANDINGS = {
    "mended": "This was a known fault; the report says that it was mended.",
    "mentioned": "The report speaks of a known fault and does not say that it happened.",
}


def headline(diagnosis: Diagnosis) -> str:
    """The answer in one line."""
    if not diagnosis.answers:
        return "No known fault speaks out of this report."
    best = diagnosis.answers[0]
    if best.standing != "open":
        return _STANDINGS[best.standing]
    if _is_beside(diagnosis):
        return "The message itself is not known; the environment has a known fault."
    if best.finding.certainty == "possible" and any(
        a.finding.explained_by == best.finding.rule and a.finding.certainty == "confirmed" for a in diagnosis.answers
    ):
        return "This is a known fault, and this may be its cause."
    return "This is a known fault." if best.finding.certainty == "confirmed" else "This may be a known fault."


def _is_beside(diagnosis: Diagnosis) -> bool:
    """Whether the best answer is a fault of the environment that no word of the report speaks of."""
    best = diagnosis.answers[0]
    told = any(a.basis != "facts" and a.finding.explained_by == best.finding.rule for a in diagnosis.answers)
    return best.basis == "facts" and not told and diagnosis.has_error and best.finding.certainty == "confirmed"


def render(diagnosis: Diagnosis, page: Page, verbose: bool = False) -> str:
    """The page for a terminal."""
    page.line(headline(diagnosis), "bold")
    for number, answer in enumerate(diagnosis.answers):
        if number == 0 or verbose:
            _answer(answer, page, verbose)
    others = () if verbose else diagnosis.answers[1:]
    if others:
        page.line()
        page.line("Also" if diagnosis.answers[0].finding.certainty == "confirmed" else "Or", "bold")
        for answer in others[:_OTHERS]:
            page.paragraph("  ", f"{answer.finding.title} [{answer.finding.rule}], {_standing(answer)}")
        if len(others) > _OTHERS:
            page.paragraph("  ", f"and {len(others) - _OTHERS} more; --verbose shows them")
    _ask(diagnosis, page)
    _doubts(diagnosis, page)
    page.line()
    page.line("What was understood", "bold")
    for label, text in understood(diagnosis) or [("", "nothing about a machine")]:
        page.paragraph(f"  {label:<10} ", text)
    return page.text()


def _answer(answer: Answer, page: Page, verbose: bool) -> None:
    finding = answer.finding
    page.line()
    title = f"{finding.severity.upper():<8}{finding.title} [{finding.rule}]{_about(answer)}"
    page.line(title, _STYLE[finding.severity])
    page.paragraph("  sure      ", _standing(answer))
    page.paragraph("  why       ", finding.diagnosis)
    for place, shown in enumerate(answer.lines):
        page.whole(f"  {'shown by' if place == 0 else '':<9} line {shown.number}: {_one_line(shown.text, 110)}")
    for place, advice in enumerate(finding.remedies if verbose else finding.remedies[:_REMEDIES]):
        _advice("  do this   " if place == 0 else "  or        ", advice, page)
    if verbose:
        for url in finding.references:
            page.whole(f"  see       {url}")


def _advice(label: str, advice: Advice, page: Page) -> None:
    page.paragraph(label, f"{advice.title}{'' if advice.certain else ' (if it applies here)'}")
    for text in filter(None, (advice.command, advice.snippet)):
        page.whole(f"              {text}", "bold")
    if advice.pin and advice.pin not in advice.command + advice.snippet:
        page.whole(f"              pin {advice.pin}", "bold")
    if advice.note:
        page.paragraph("            ", advice.note)


def _ask(diagnosis: Diagnosis, page: Page) -> None:
    ask = diagnosis.ask
    if ask is None:
        return
    page.line()
    page.line(_asking(ask, bool(diagnosis.answers)), "bold")
    page.whole(f"  {ask.command}")


def _asking(ask: Ask, has_answer: bool) -> str:
    missing = f" ({listing(list(ask.facts[:4]))})" if ask.facts else ""
    return f"{'To be sure, ask for' if has_answer else 'What would help'}: {ask.what}{missing}"


def _doubts(diagnosis: Diagnosis, page: Page) -> None:
    texts = [*_contradictions(diagnosis), *_refuted(diagnosis.refuted), *_limits(diagnosis)]
    if not texts:
        return
    page.line()
    page.line("Mind", "bold")
    for text in texts:
        page.paragraph("  ", text)


def _contradictions(diagnosis: Diagnosis) -> Iterable[str]:
    for contradiction in diagnosis.contradictions:
        values = " and ".join(f"{v.value} (line {v.line_number})" for v in contradiction.values[:3])
        yield f"the report says of {contradiction.path} both {values}; {contradiction.reason}"


def _refuted(refuted: Iterable[Refuted]) -> Iterable[str]:
    for item in refuted:
        where = f" in line {item.lines[0].number}" if item.lines else ""
        yield f"the words of {item.rule} ({item.title}) stand{where}, but the facts of the report deny it"


def _limits(diagnosis: Diagnosis) -> Iterable[str]:
    if diagnosis.machines > 1:
        yield f"the text tells {plural(diagnosis.machines, 'machine')} apart; this is about one of them"
    if diagnosis.truncated:
        yield "the text is so long that not all of it was read"


def _standing(answer: Answer) -> str:
    if answer.standing == "mended":
        return "mended: the report says that it was solved since"
    sure = "confirmed" if answer.finding.certainty == "confirmed" else "possible"
    if answer.standing == "mentioned" and sure == "possible":
        return "possible: the message is only spoken of"
    cause = f", a consequence of {answer.finding.explained_by}" if answer.finding.explained_by else ""
    return f"{sure}: {_BASIS[answer.basis]}{cause}"


def _about(answer: Answer) -> str:
    new = [subject for subject in answer.subjects if subject not in answer.finding.title]
    return f" on {listing(new[:3])}" if new else ""


def _one_line(text: str, limit: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def markdown(diagnosis: Diagnosis, version: str) -> str:
    """A reply to the reporter."""
    parts = [*_reply(diagnosis), *_reply_ask(diagnosis), *_reply_others(diagnosis)]
    known = "; ".join(f"{label} {text}" for label, text in understood(diagnosis) if label != "read from")
    parts.append(
        f"<sub>Read from your report: {inline(known) or 'nothing about a machine'}. kerneldoctor {version}</sub>"
    )
    return "\n\n".join(parts) + "\n"


def _reply(diagnosis: Diagnosis) -> Iterable[str]:
    if not diagnosis.answers:
        yield "I know no fault that this report shows for certain."
        return
    best = diagnosis.answers[0]
    finding = best.finding
    if _is_beside(diagnosis):
        yield "I do not know the message itself. Beside that, the environment has a fault that is known:"
    sure = "A known fault" if finding.certainty == "confirmed" else "This may be a known fault"
    if best.standing == "mended":
        sure = "A known fault, which was mended here as I read it"
    elif best.standing == "mentioned" and finding.certainty != "confirmed":
        sure = "The message that you speak of belongs to a known fault"
    yield f"{sure}: **{inline(finding.title)}** (`{finding.rule}`). {inline(finding.diagnosis)}"
    if best.lines:
        yield "\n".join(f"> line {shown.number}: {code(_one_line(shown.text, 200))}" for shown in best.lines[:4])
    for number, advice in enumerate(finding.remedies[:_REMEDIES]):
        lead = "What to do" if number == 0 else "Or"
        doubt = "" if advice.certain else " (if it applies to you)"
        note = f" {inline(advice.note)}" if advice.note else ""
        yield f"{lead}: {inline(advice.title)}{doubt}.{note}"
        if advice.command:
            yield fenced(advice.command, "sh")
        if advice.snippet:
            yield _snippet(advice.snippet)
    if finding.references:
        yield "See " + ", ".join(finding.references[:3])


def _snippet(text: str) -> str:
    """What to write somewhere: a page, a line for the shell, or Python."""
    if text.startswith("https://") and len(text.split()) == 1:
        return text
    return fenced(text, "sh" if text.startswith("export ") else "python")


def _reply_ask(diagnosis: Diagnosis) -> Iterable[str]:
    if diagnosis.ask is not None:
        lead = "To be sure, please" if diagnosis.answers else "Please"
        yield f"{lead} post the output of this command ({inline(diagnosis.ask.what)}):"
        yield fenced(diagnosis.ask.command, "sh")


def _reply_others(diagnosis: Diagnosis) -> Iterable[str]:
    sure = [a for a in diagnosis.answers[1:] if a.finding.certainty == "confirmed"]
    others = [a for a in sure if not a.finding.explained_by][:_OTHERS]  # what follows from the fault goes with it
    if others:
        yield "I also noticed:"
        yield "\n".join(f"- {inline(a.finding.title)} (`{a.finding.rule}`)" for a in others)
    doubts = list(_contradictions(diagnosis))
    if doubts:
        yield "\n".join(f"- {inline(text)}" for text in doubts[:3])
