"""Reads the name of a kernel as people type it; does not look up what it stands for or whether it exists.

The grammar is the one of transformers' `attn_implementation`: `owner/name`, then `@revision`, then `:function`, and
in front of it the old `paged|` (`is_kernel` and `load_and_register_attn_kernel` of integrations/hub_kernels.py in
https://pypi.org/project/transformers/5.24.0/). What follows the `@` goes to the Hub as a git revision, so `@v3` means
the branch v3. Only 40 lower-case hex digits count as a commit (REGEX_COMMIT_HASH of file_download.py in
https://pypi.org/project/huggingface-hub/2.4.0/); a shortened one is sent as if it were a branch, and is never found
offline. Texts that are plainly a way of pasting a name (a call, an option, a page of the Hub) are read with a note.
"""

from __future__ import annotations

import difflib
import enum
import re
from dataclasses import field
from typing import Any

from ..errors import UsageError
from ..values import dataclass
from .pasted import unwrap

BUILTINS = frozenset(
    {"eager", "sdpa", "flex_attention"}
)  # attention that ships with transformers: no kernel repository
FLASH_GENERATIONS = (2, 3, 4)

_REPO = re.compile(r"[A-Za-z0-9](?:[\w.-]*\w)?/\w(?:[\w.-]*\w)?", re.ASCII)
_REVISION = re.compile(r"[^\s/:~^?*\[\\|\x00-\x1f\x7f]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT_COMMIT = re.compile(r"(?=.*\d)[0-9a-f]{7,39}")
_VERSION = re.compile(r"v(\d{1,9})", re.ASCII)
_FLASH = re.compile(r"flash_attention_(\d+)", re.ASCII)
_ALMOST_FLASH = re.compile(r"(?:flash[-_ ]?att(?:n|ention)|fa)[-_ ]?(\d)?", re.ASCII | re.IGNORECASE)
_ALMOST_REVISION = re.compile(r"(.+?)(?:==?|#)(v?\d{1,9})", re.ASCII)
_ALIKE, _SLIP = 0.9, 2  # of a misspelt name: how alike, and by how many letters longer or shorter
_PATH = re.compile(r"\.{0,2}/|\.{1,2}\\|~|[A-Za-z]:[\\/]")


class Kind(enum.Enum):
    """What a name is."""

    KERNEL = "kernel"  # a repository on the Hub
    FLASH_ATTENTION = "flash_attention"  # the flash-attn package, or the kernel that transformers takes in its place
    BUILTIN = "builtin"  # no kernel at all


@dataclass(frozen=True, slots=True)
class Reference:
    """A name, by its parts. `str()` gives what `attn_implementation` takes, and is read back to an equal one."""

    kind: Kind
    name: str  # "owner/name", "flash_attention_2", "sdpa"
    revision: str | None = None  # branch, tag or commit, as typed
    function: str | None = None
    paged: bool = (
        False  # the old `paged|` prefix; transformers 5.19 to 5.24 take it off with a warning, except from `eager`
    )
    notes: tuple[str, ...] = field(default=(), compare=False)  # how the text was read, where that needs saying

    @property
    def repo(self) -> str | None:
        """The repository on the Hub, or None where the name itself says none."""
        return self.name if self.kind is Kind.KERNEL else None

    @property
    def version(self) -> int | None:
        """The kernel version that the revision names: the branch v3 is version 3."""
        found = _VERSION.fullmatch(self.revision or "")
        return int(found[1]) if found else None

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a full commit, so that it can never mean anything else tomorrow."""
        return _COMMIT.fullmatch(self.revision or "") is not None

    @property
    def generation(self) -> int | None:
        """The 2 of flash_attention_2."""
        return int(self.name[-1]) if self.kind is Kind.FLASH_ATTENTION else None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        function = f":{self.function}" if self.function else ""
        return f"{'paged|' if self.paged else ''}{self.name}{revision}{function}"


def parse_reference(text: str) -> Reference:
    """Read a typed or pasted name. Raises UsageError, in one line that says what is wrong and how to write it."""
    name, notes = unwrap(text)
    if not name:
        raise UsageError("no kernel was named: write owner/name@revision, as in kernels-community/flash-attn2@v3")
    paged = name.startswith("paged|")
    bare = name.removeprefix("paged|").strip()
    if "|" in bare:
        raise _wrong(name, "the only word that may stand before a | is paged, and only once")
    if bare in BUILTINS:
        return Reference(Kind.BUILTIN, bare, paged=paged, notes=notes)
    if "/" not in bare:
        return _flash_attention(bare, paged, notes)
    return _kernel(bare, paged, notes)


def _flash_attention(name: str, paged: bool, notes: tuple[str, ...]) -> Reference:
    base = re.split("[@:]", name, maxsplit=1)[0]
    found = _FLASH.fullmatch(base)
    generations = ", ".join(f"flash_attention_{n}" for n in FLASH_GENERATIONS)
    if found and int(found[1]) not in FLASH_GENERATIONS:
        raise _wrong(name, f"transformers knows {generations}")
    if found and base != name:
        raise _wrong(name, f"{base} takes neither @ nor :, only a repository does: kernels-community/flash-attn2@v3")
    if found:
        return Reference(Kind.FLASH_ATTENTION, f"flash_attention_{int(found[1])}", paged=paged, notes=notes)
    if almost := _ALMOST_FLASH.fullmatch(base):
        raise _wrong(name, _meant_flash(base, almost[1]))
    if base in BUILTINS:
        raise _wrong(name, f"{base} takes neither @ nor :")
    if meant := _nearest(base):
        raise _wrong(name, f"did you mean {meant}?")
    raise _wrong(name, "a kernel is owner/name, as in kernels-community/flash-attn2")


def is_misspelt(name: str) -> bool:
    """Whether a name without a slash is a slip in one that transformers knows, rather than one of somebody's own."""
    return bool(_FLASH.fullmatch(name) or _ALMOST_FLASH.fullmatch(name) or _nearest(name))


def _nearest(name: str) -> str:
    """The name of transformers that differs by a letter or two, by their order, or by capitals; else ""."""
    known = (*sorted(BUILTINS), *(f"flash_attention_{n}" for n in FLASH_GENERATIONS))
    plain = name.lower()
    for other in known:
        if plain == other or (len(plain) == len(other) and sorted(plain) == sorted(other)):
            return other
    near = difflib.get_close_matches(plain, known, 1, _ALIKE)
    return near[0] if near and abs(len(near[0]) - len(plain)) <= _SLIP else ""


def _meant_flash(name: str, number: str | None) -> str:
    """What a name that is nearly one may mean: the attention of transformers, or the repository."""
    generation = int(number) if number and int(number) in FLASH_GENERATIONS else 2
    repo = f"kernels-community/flash-attn{generation}"
    first, second = f"flash_attention_{generation}", repo
    if re.match(r"flash[-_]attn", name):
        first, second = second, first
    others = ", ".join(f"flash_attention_{n}" for n in FLASH_GENERATIONS)
    return f"did you mean {first} (transformers knows {others}), or {second}?"


def _kernel(text: str, paged: bool, notes: tuple[str, ...]) -> Reference:
    if _PATH.match(text):
        raise _wrong(text, "this looks like a folder on disk, a kernel on the Hub is owner/name")
    if almost := _ALMOST_REVISION.fullmatch(text):
        number = almost[2].removeprefix("v")
        raise _wrong(text, f"a version stands after an @: {almost[1].rstrip('@')}@v{number}")
    head, *functions = text.split(":")
    repo, at, revision = head.partition("@")
    repo, revision = repo.strip(), revision.strip()
    if len(functions) > 1:
        raise _wrong(text, "at most one :function may follow")
    problem = _repo_problem(repo) or _revision_problem(revision)
    if problem:
        raise _wrong(text, problem)
    function = functions[0].strip() if functions else None
    if function is not None and not function.isidentifier():
        raise _wrong(text, "after the : comes the name of a function in the kernel")
    revision, more = _read_revision(revision, bool(at))
    if function is not None and _VERSION.fullmatch(function) and not revision:
        more += (f"{function} is read as the name of a function: version {function[1:]} is written @{function}",)
    return Reference(Kind.KERNEL, repo, revision or None, function, paged, notes + more)


def _repo_problem(repo: str) -> str:
    """The rules of huggingface_hub's validate_repo_id, which would refuse the name later."""
    if repo.count("/") > 1:
        return "a repository has one /, and a revision with a / cannot be named: give its commit"
    if not _REPO.fullmatch(repo):
        return "a repository is owner/name, of letters, digits, '-', '_' and '.', with none of '-' and '.' at the ends"
    if len(repo) > 96 or "--" in repo or ".." in repo or repo.endswith(".git"):
        return "a repository name has at most 96 characters, without '--', '..' and a final '.git'"
    return ""


def _revision_problem(revision: str) -> str:
    if "/" in revision:
        return "transformers reads no revision with a / in it: give the commit instead"
    bad = revision.startswith("-") or revision.endswith((".", ".lock")) or ".." in revision or "@{" in revision
    if revision and (bad or not _REVISION.fullmatch(revision)):
        return f"{_short(revision)} can be no branch, tag or commit"
    return ""


def _read_revision(revision: str, at: bool) -> tuple[str, tuple[str, ...]]:
    """The revision to use, and what should be said about it."""
    if at and not revision:
        return "", ("nothing follows the @: read as no revision",)
    if re.fullmatch("[0-9A-Fa-f]{40}", revision) and not _COMMIT.fullmatch(revision):
        return revision.lower(), ("commits are written in lower case on the Hub: read so",)
    if _SHORT_COMMIT.fullmatch(revision):
        return revision, (f"{revision} is read as a branch or tag: a commit counts only with all its 40 digits",)
    if revision.isdecimal() or re.fullmatch(r"V\d+", revision, re.ASCII):
        number = revision.lstrip("V")
        return revision, (f"{revision} is read as a branch of that name: version {number} is written @v{number}",)
    return revision, ()


def _wrong(text: str, how: str) -> UsageError:
    return UsageError(f"{_short(text)} is no kernel reference: {how}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
