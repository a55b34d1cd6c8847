"""Cuts a line into clauses, and says which of them are about another machine, a trial or a question.

Knows no fact and no format: `prose` reads what the clauses hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLAUSE = re.compile(
    r"(?<=[A-Za-z0-9)`\"'])[.;!]+\s+|(?<=[?])\s*|,?\s+(?:but|while|whereas|however|although|though)\b\s*"
    r"|\s+[-\u2013—]{2,3}\s+"
)
_HEDGE = re.compile(
    r"\b(?:should|shall|would|could|can (?:i|we|you)|may|might|if|unless|upgrad\w+|downgrad\w+|updat(?:e|ing)"
    r"|switch(?:ed|ing)?"
    r"|mov(?:e|ed|ing) to|roll(?:ed|ing)? back|revert\w*|works?|working|worked|fine(?![- ]?tun)|succeed\w*"
    r"|no (?:such )?(?:issue|problem|error)s?|trains?(?= (?:ok|well|normally|there|just)\b|[.!;,)]|$)|trained|passe[sd]"
    r"|(?:is|are|was|were|stays?|it's) (?:ok|okay|good|normal|stable|correct|unaffected|clean|healthy)|unaffected|ran"
    r"|runs? (?:ok|well|normally|there|just|through|cleanly|perfectly|for (?:days|weeks|hours))|all good|solve[sd]|gone"
    r"|goes away|went away|disappear\w*|perfectly|tried|tr(?:y|ies|ying)|test(?:ed|s)? (?:also|with both)"
    r"|instead|requires?|required|needs?|need(?:ed)? to|support(?:s|ed|ing)?|compatib\w+|before|previously|earlier"
    r"|used to"
    r"|originally|formerly|was on"
    r"|not on|isn'?t|wasn'?t|aren'?t|not using|don'?t (?:have|use)|never|without|except|unlike|than|at least"
    r"|or (?:newer|later|above|higher|older|below)"
    r"|newer than|older than|minimum|maximum|up to|until|since|built (?:for|against|with)|compiled (?:for|against"
    r"|with)|wheels? (?:for|exist)|prebuilt|pre-built|available for(?! execution)"
    r"|release notes|changelog|fixed in|introduced in|added in|removed in|deprecated|plan|will|wait(?:ing)? for"
    r"|recommend\w*|suggest\w*|documentation|docs|latest is|exists?"
    r"|same (?:issue|error|problem|happens) (?:on|with)"
    r"|also (?:happens|fails|seen)|others|on another|the other|colleague|friend"
    r"|another|someone|people|elsewhere|docker ?hub)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\W{0,4}(?:@[\w-]{1,39}\W{1,3})?(?:please |just |you (?:need|want) (?:to |the )?|you can )?(?:use|try|install"
    r"|take|get|build|need)\s",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"\b(?:upgraded|updated|moved|switched|downgraded|re-?installed)\b(?: \S{1,40}){0,6}? ?(?:to|with"
    r"|from)?\b(?!.{0,200}\b(?:works?|solved|fixed|helped)\b)",
    re.IGNORECASE,
)
_AGAIN = re.compile(r"\b(?:still|same|but|now (?:i|it|we|the))\b", re.IGNORECASE)
_FAILS_TOO = re.compile(
    r"\b(?:i (?:am|'m) (?:on|using|running)|i use|i have|we (?:use|run)|my (?:gpu|setup|env|machine|card|system)"
    r"|running on)\b",
    re.IGNORECASE,
)
_LAST = re.compile(r", | - |: ")
_ASKS = re.compile(
    r"\W*(?:(?:hi|hello|so|and|or|also|but|then)\W{1,3})?(?:do|does|did|is|are|was|were|can|could|should|shall|would"
    r"|will|has|have (?:you|they|we)|any(?:one|body)|who|what|which|where|when|how)\b",
    re.IGNORECASE,
)
_WHETHER = re.compile(
    r"\W*(?:do|does|is|are|can|could|should|would|will)\b(?!.{0,30}\b(?:this|that|expected|known|bug|normal)\b)",
    re.IGNORECASE,
)
_FOR = re.compile(r"\W*(?:with|for|on|under|in|using|on top of|after|before)\b", re.IGNORECASE)
_WHY = re.compile(r"\W*(?:so |and |but )?(?:why|how come)\b", re.IGNORECASE)
_PART = re.compile(r",\s+|\s+and\s+(?=(?:on|with|under|using|now|the|my)\s)", re.IGNORECASE)
_FAILS = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|crash\w*|segfaults?|nan|hangs?|stuck|broken?|breaks|throws?|raises?|errors?|illegal"
    r"|happens|occurs|reproduc\w+|garbage|dies|aborts?|wrong|(?:does|do|did|is|was) ?n[o']t)\b",
    re.IGNORECASE,
)


def clauses(text: str) -> Iterator[str]:
    """A line cut where what is said of one thing ends and what is said of another begins."""
    for clause in _CLAUSE.split(text):
        if clause and clause.strip():
            yield from _parted(clause)


def _parted(clause: str) -> Iterator[str]:
    """What is said before a question by itself, and what works apart from what fails."""
    if clause.rstrip().endswith("?"):
        yield from _before_question(clause)
        return
    parts = _PART.split(clause) if "," in clause or " and " in clause else [clause]
    fails = [bool(_FAILS.search(part)) for part in parts]
    works = [not fail and bool(_HEDGE.search(part)) for fail, part in zip(fails, parts, strict=True)]
    if any(fails) and any(works):
        yield from parts
    else:
        yield clause


def _before_question(clause: str) -> Iterator[str]:
    """ "RTX 4090, torch 2.8, why does it fail?" in two; "with torch 2.9, does it work?" says nothing of a machine."""
    said, _, asked = clause.rpartition(_LAST.findall(clause)[-1]) if _LAST.search(clause) else ("", "", clause)
    supposed = _FOR.match(said) and _WHETHER.match(asked) and not _FAILS.search(said)
    if not said or _ASKS.match(said) or supposed:
        yield clause
    else:
        yield said
        yield asked


def has_moved(clause: str, line: str) -> bool:
    """Whether a clause tells what the machine has now, after a change that did not help, or not with this."""
    found = _MOVED.search(clause)
    return found is not None and bool(_AGAIN.search(line, line.find(found[0]) + len(found[0])))


def is_mention(clause: str) -> bool:
    """Whether what a clause names was asked about, was tried, is required or holds elsewhere."""
    if _ADVICE.match(clause):
        return True
    if _HEDGE.search(clause.rstrip(" ?")) and not _FAILS_TOO.search(clause):
        return True
    return clause.rstrip().endswith("?") and not (_WHY.match(clause) and _FAILS.search(clause))
