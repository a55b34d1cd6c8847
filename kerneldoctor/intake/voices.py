"""Says of each line of a text whether it reports, only speaks of an error, or reports one that was mended since.

People quote messages in templates, change logs, source code and proposals, and close what they opened. It looks at how
a line is said, never at which fault it names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ..values import dataclass

Voice = Literal["reports", "speaks", "mended"]

MOST = 128_000  # characters of a text that people write; in a longer one every line is taken for a report
_LONGEST = 4_000  # characters of a line that are looked at
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s|^\s{0,3}\*\*[^*]{2,60}\*\*:?\s*$")
_TEMPLATE = re.compile(
    r"\b(?:before you (?:file|post|open|submit|ask)|common (?:errors?|problems?|issues?)|known (?:errors?|issues?"
    r"|problems?)"
    r"|frequent(?:ly asked)?|faq\b|trouble-?shooting|check-?list|typical errors?|how to report|example report)",
    re.IGNORECASE,
)
_CHANGES = re.compile(r"\bchange-?log\b|\brelease notes\b|\bwhat(?:'s| is) (?:new|changed)\b|\bnews\b", re.IGNORECASE)
_ITEM = re.compile(r"^\s{0,6}(?:[-*+•]|\d{1,3}[.)])\s|^\s*$")
_PROPOSAL = re.compile(
    r"\b(?:docs?|documentation|readme) (?:pr|page|fix|change|section|update)\b|^\W{0,4}(?:\[?docs?\]?|rfc|proposal"
    r"|feature request|\[?feature\]?|enhancement)\s*[:\]]|\b(?:should|could|would like to|let's|please) (?:explain"
    r"|document|describe|mention|catch|reword|translate|rephrase|detect)\b|\bthe (?:error )?message should\b",
    re.IGNORECASE,
)
# Words beside a message by which somebody speaks of it without having it now.
_MENTION = re.compile(
    r"\b(?:no longer|any ?more|fixed|solved|resolved|gone|went away|used to (?:get|see|say)|previously|unlike"
    r"|instead of|on (?:my|the|an?) (?:other|old|second)|another (?:box|machine)|nicer|better (?:error|message)"
    r"|(?:i|you|they|one|users?|people|someone|somebody|anyone|he|she) (?:would|will|may|might|could) "
    r"(?:also |then |only |just )?(?:get|see|hit|find|meet|run into|have)|(?:would|might|may) (?:say|print|raise"
    r"|show|report)"
    r"|if (?:you|they|somebody|someone|an?|the user|one) (?:\w+ )?(?:sees?|gets?|hits?|users?|has|have)\b|in case of"
    r"|no such (?:error|message|problem)|do(?:es)?n't (?:get|see|say)\b|(?:i|we|they) (?:don't|do not|didn't"
    r"|did not|never) (?:get|see|have|hit)\b"
    r"|works? now|what does|for example|e\.g\.|feature request|one (?:would )?gets?|common errors?|known errors?"
    r"|docs? (?:say|state|mention)s?|, as expected|expects? (?:the|an?) (?:message|error|exception)|on purpose"
    r"|read (?:about|of)|not affected|skipped because|could (?:we|you) (?:add|support)|hint when"
    r"|(?:error )?message for)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^\s{0,3}(?:>\s{0,3}){0,3}(?:```|~~~)")
_QUOTE = re.compile(r"^\s{0,3}>(?!>>)")
_CODE = re.compile(
    r"^\s*(?:\d{1,5}[:|]?\s+)?(?:raise\s+[\w.]{1,60}\(|(?:if|elif|assert|return|while|print|logging\.\w{1,10}"
    r"|log(?:ger)?\.\w{1,10}|warnings?\.warn|throw new|expect|match|case|grep|rg)\b.{0,200}[\"'`/]"
    r"|[A-Za-z_][\w.]{0,60}\s*(?:=|\+=)\s*(?:f|r|re\.compile\(r?)?[\"'(\[{]|TORCH_CHECK|with pytest\.raises"
    r"|(?:#|//)\s|[\"'].{1,300}[\"'],?\)?$|[+-]\s{0,8}(?:raise|if|msg|message)\b)"
)
_FRAME = re.compile(r'^\s*(?:File "|-+>|\d{1,5}\s)|, line \d{1,6}')
_TRACE = re.compile(r"Traceback \(most recent|^\s*File \"[^\"]{1,300}\", line \d", re.MULTILINE)
_MENDED = re.compile(
    r"\b(?:that|this|it|which|reboot\w*|re-?install\w*|upgrad\w*|downgrad\w*|restart\w*|updat\w*|rebuild\w*"
    r"|suggestion|tip)"
    r"\W+(?:\w+\W+){0,4}?(?:solved|fixed|resolved|cured|helped|did the trick|did it)\b"
    r"|\b(?:works?|working|runs?|loads?|imports?|trains?) (?:\w+ )?(?:now|again)\b|\bnow (?:it |everything "
    r"|all )?(?:works|runs|loads|imports)\b"
    r"|\b(?:is|are|got|was|now|been|all) (?:now |finally )?(?:fixed|solved|resolved)\b"
    r"|^\W*(?:edit\W{1,4})?(?:solved|fixed|resolved)\b"
    r"|\b(?:i|we|have|has)(?:'ve)? (?:\w+ )?(?:solved|fixed|resolved) (?:it|this|the|my|by)\b|\bproblem (?:solved"
    r"|gone)\b"
    r"|\bclosing\b(?: (?:this|the|it|now|as))?|\bcan be closed\b|\bfor (?:future readers|the record"
    r"|anyone (?:else )?who)\b"
    r"|已解决|解决了|解決しました|解決した|решено|помогло|заработало|gelöst|funktioniert jetzt"
    r"|läuft (?:jetzt|wieder)|résolu"
    r"|solucionad[oa]|resuelt[oa]|risolto",
    re.IGNORECASE,
)
_NOT_MENDED = re.compile(
    r"\b(?:not|n't|never|nothing|neither|nor|cannot|no one|nobody|how (?:can|do|to|should)|will|would|should|could"
    r"|can this|may"
    r"|might|until|unless|hope\w*|want|try(?:ing)? to|if (?:this|it|that|anyone)|please|before|once|when|need(?:s"
    r"|ed)? to be|to be"
    r"|only (?:works|on)|without|except)\b|\?",
    re.IGNORECASE,
)
_STILL = re.compile(
    r"\b(?:still|but (?:now|then|the same|it|i|when|on|after)|same (?:error|problem|issue|message|thing)|new error"
    r"|another error"
    r"|comes? back|came back|reappear\w*|re-?open\w*|again (?:fails|the error)|now (?:i |it |we )?(?:get|fail\w*"
    r"|says?|crash\w*|throws?|see))\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile("(?<=[.!?;\u3002])\\s+|\\s+(?=but\\b)|(?<=[\u3002\uff01\uff1f])")


_BOLD = re.compile(
    r"^[\s>]{0,6}\*\*@?([A-Za-z0-9][\w.-]{0,38})\*\*(?P<role>\s{0,2}(?:·|\((?:maintainer|author|owner|member"
    r"|collaborator"
    r"|contributor|OP)\)|\d{4}-\d\d).{0,60}|)(?P<said>\s{0,2}:\s.*|\s*)$"
)
COMMENT = re.compile(
    r"^[\s#*>]{0,6}@?\**([A-Za-z0-9][\w-]{1,38})\**(?:\s(?:commented|opened|replied|wrote|added a comment)\b.{0,60}"
    r"|\s·\s(?:comment|description|review|review thread|answer)\s·.{0,30})\s*:?$"
)
_CHAT = re.compile(
    r"^\s{0,3}(?:\[[\d:/ .APMapm-]{3,20}\]\s{0,2})?<?@([A-Za-z0-9][\w.-]{0,30})>?"
    r"(?:\s{0,2}\[[\d:/ .-]{3,20}\])?\s{0,2}:\s"
)


# What people put in bold before a value or a section, and is no name of a person.
_FIELDS = frozenset({
    "actual", "after", "answer", "before", "behavior", "cause", "code", "command", "cpu", "cuda", "description",
    "desktop", "details", "driver", "edit", "env", "environment", "error", "errors", "expected", "fix", "flash-attn",
    "flash_attn", "gpu", "gpus", "hardware", "info", "kernels", "laptop", "log", "logs", "machine", "model", "name",
    "note", "now", "os", "output", "package", "packages", "platform", "problem", "python", "pytorch", "question",
    "reason", "repro", "reproduction", "result", "results", "server", "setup", "solution", "steps", "summary",
    "system", "then", "title", "torch", "traceback", "transformers", "update", "version", "versions", "workaround",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """One line: how it is said, and by whom ("" where the text names nobody)."""

    voice: Voice = "reports"
    speaker: str = ""
    mention: bool = False  # a message in it is one that somebody does not have
    aside: bool = False  # it stands in a list of errors, a comment of a template, or what a proposal quotes


def voices(lines: Sequence[str]) -> list[Said]:
    """How each line is said; empty for a text that is longer than people write. Lines come with their quotation "
    "marks."""
    if sum(map(len, lines)) > MOST:
        return []
    who = _speakers(lines)
    speaks = _spoken(lines)
    until = _mended_until(lines, who)
    return [
        Said(
            "speaks" if only else "mended" if number <= until.get(speaker, -1) else "reports",
            speaker,
            is_mention_of_message(line[:_LONGEST]),
            aside,
        )
        for number, (line, (only, aside), speaker) in enumerate(zip(lines, speaks, who, strict=True))
    ]


_THROWN = re.compile(r"\W{0,8}(?:[\w.]{0,80})(?:Error|Exception|Warning|Fatal)\b(?:\(|: )")


def is_mention_of_message(line: str) -> bool:
    """Whether somebody speaks of a message without having it now."""
    return bool(_MENTION.search(line)) and not _THROWN.match(line)


def _speakers(lines: Sequence[str]) -> list[str]:
    """Who says each line. A name in bold is a speaker where it comes twice, or with a role or a date."""
    heads = [_head(line[:200]) for line in lines]
    names = [name for name, _ in heads if name]
    real = {name for name, sure in heads if name and (sure or names.count(name) > 1)}
    singles = set(names) - real
    if not singles & _FIELDS and len(real | singles) > 1:
        real |= singles
    real -= _FIELDS
    who, current = [], ""
    for name, _ in heads:
        current = name if name in real else current
        who.append(current)
    return who


def _head(line: str) -> tuple[str, bool]:
    """The speaker whose words begin at a line, and whether that is sure."""
    if found := (COMMENT.match(line) or _CHAT.match(line)):
        return found[1].lower(), True
    found = _BOLD.match(line)
    return (found[1].lower(), bool(found["role"])) if found else ("", False)


def _spoken(lines: Sequence[str]) -> list[tuple[bool, bool]]:
    """Which lines are no report (source code), and which stand aside: in a template or change log, or quoted."""
    section = comment = fenced = proposed = False
    topic = any(_PROPOSAL.search(line[:_LONGEST]) for line in lines[:4]) and not any(map(_TRACE.search, lines))
    said: list[tuple[bool, bool]] = []
    for number, line in enumerate(lines):
        line = line[:_LONGEST]
        if _FENCE.match(line):
            fenced = not fenced
            proposed &= fenced
        elif not fenced:
            section = _section(line, section, bool(_HEADING.match(line)))
            proposed = _proposed(line, proposed, topic)
        comment |= "<!--" in line
        code = bool(_CODE.match(line)) and not (number and _FRAME.search(lines[number - 1][:_LONGEST]))
        aside = section or comment or (proposed and (fenced or bool(_QUOTE.match(line))))
        said.append((aside or code, aside))
        comment &= "-->" not in line
    return said


def _section(line: str, inside: bool, heading: bool) -> bool:
    """Whether a line belongs to a section that lists errors: until the next heading, or the end of its list."""
    if heading or line.lstrip().startswith(("- [", "* [")):
        return bool(_TEMPLATE.search(line) or _CHANGES.search(line))
    if len(line) < 500 and re.match(r"\W{0,6}(?:[\w ]{0,20})", line) and _lists(line):
        return True
    return inside


def _lists(line: str) -> bool:
    found = _TEMPLATE.search(line) or (_CHANGES.search(line) if line.rstrip().endswith(":") else None)
    return found is not None and found.start() < 24


def _proposed(line: str, inside: bool, topic: bool) -> bool:
    """Whether what is quoted below a line is what a proposal is about."""
    if _PROPOSAL.search(line):
        return True
    return (inside or topic) if not line.strip() or _QUOTE.match(line) else topic


def _mended_until(lines: Sequence[str], who: Sequence[str]) -> dict[str, int]:
    """By speaker the last line of what was mended; nobody's where somebody says afterwards that it still fails."""
    until: dict[str, int] = {}
    for number, (line, speaker) in enumerate(zip(lines, who, strict=True)):
        if len(line) > _LONGEST:
            continue
        if not line.strip() and until.get(speaker) == number - 1:
            until[speaker] = number
        for sentence in _SENTENCE.split(line):
            if _MENDED.search(sentence) and not _NOT_MENDED.search(_around(sentence)):
                until[speaker] = number
            elif speaker in until and _STILL.search(sentence):
                del until[speaker]
    return until


def _around(sentence: str) -> str:
    """A sentence without what it quotes."""
    return re.sub(r"\"[^\"]{0,400}\"|`[^`]{0,400}`", "", sentence)
