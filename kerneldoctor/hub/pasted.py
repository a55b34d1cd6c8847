"""Takes a kernel's name out of what was pasted around it: quotes, an option, a call, a page of the Hub.

Only text is looked at; whether what is left is a name at all is the business of reference.py.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from ..errors import UsageError

MAX_TEXT = 1000
HUB_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co"})

_QUOTES = "\"'`\u201c\u201d\u2018\u2019"
_OPTION_QUOTED = re.compile(r"attn_implementation[\"']?\s*[=:]\s*([\"'])([^\"']*)\1")
_OPTION = re.compile(r"-{0,2}attn[_-]implementation[\"']?\s*(?:[=:]|\s)\s*(\S.*)")
_CALL = re.compile(
    r"(?:get_kernel|has_kernel|LayerRepository|FuncRepository)\(\s*(?:repo_id\s*=\s*)?[\"']([^\"']+)[\"'](.*)",
    re.DOTALL,
)
_CALL_REVISION = re.compile(r"\brevision\s*=\s*[\"']([^\"']+)[\"']")
_CALL_VERSION = re.compile(r"\bversion\s*=\s*(\d{1,9})\b", re.ASCII)
_URL = re.compile(r"https?://|(?:www\.)?(?:huggingface\.co|hf\.co)/", re.IGNORECASE)
_WITH_REVISION = frozenset({"tree", "blob", "resolve", "raw", "commits", "commit"})
_NO_REPOSITORIES = frozenset(
    {"api", "blog", "collections", "datasets", "docs", "join", "learn", "models", "organizations", "papers", "spaces"}
)


def unwrap(text: str) -> tuple[str, tuple[str, ...]]:
    """The name inside, and a note for each way of pasting that was undone. Raises UsageError for a wrong page."""
    if len(text) > MAX_TEXT:
        raise UsageError(f"a kernel reference of {len(text)} characters: one has at most {MAX_TEXT}")
    name, notes = _bare(text), []
    for undo in (_undo_call, _undo_option, _undo_page):
        inner = undo(name)
        if inner is not None:
            notes.append(f"{_short(name)} is read as {inner}")
            name = inner
    return name, tuple(notes)


def _bare(text: str) -> str:
    """Without blanks, quotes and the comma that a copied line ends with."""
    before = None
    while before != text:
        before = text
        text = text.strip().strip(_QUOTES).rstrip(",;")
    return text


def _undo_option(text: str) -> str | None:
    if quoted := _OPTION_QUOTED.search(text):
        return _bare(quoted[2])
    plain = _OPTION.fullmatch(text)
    return _bare(plain[1]) if plain else None


def _undo_call(text: str) -> str | None:
    call = _CALL.search(text)
    if call is None:
        return None
    repo, rest = _bare(call[1]), call[2]
    if revision := _CALL_REVISION.search(rest):
        return f"{repo}@{revision[1].strip()}"
    version = _CALL_VERSION.search(rest)
    return f"{repo}@v{version[1]}" if version else repo


def _undo_page(text: str) -> str | None:
    if _URL.match(text):
        path = _hub_path(text)
    elif text.startswith("kernels/") and text.count("/") > 1:
        path = text
    else:
        return None
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["kernels"]:
        parts = parts[1:]
    if len(parts) < 2 or parts[0] in _NO_REPOSITORIES:
        raise UsageError(
            f"{_short(text)} is no page of a kernel: one looks like https://huggingface.co/kernels/owner/name"
        )
    repo = f"{parts[0]}/{parts[1]}"
    if len(parts) > 3 and parts[2] in _WITH_REVISION:
        return f"{repo}@{unquote(parts[3])}"
    return repo


def _hub_path(text: str) -> str:
    try:
        url = urlsplit(text if "://" in text else f"https://{text}")
        host = (url.hostname or "").lower()
    except ValueError:
        raise UsageError(f"{_short(text)} is no address that can be read") from None
    if host not in HUB_HOSTS:
        raise UsageError(
            f"{_short(text)} is no page of the Hub: kernels are at https://huggingface.co/kernels/owner/name"
        )
    return url.path


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
