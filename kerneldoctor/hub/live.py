"""The live Hub's listing of a kernel repository, through huggingface_hub. Beside it only download.py asks.

Every question ends within its time limit, whatever the server does: huggingface_hub retries and waits on its own, so
the questions run in a thread that is left behind when the time is up.
"""

from __future__ import annotations

import datetime
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from .. import __version__
from ..environment import Fact, absent, unknown
from ..errors import HubError, UsageError
from .listing import NOT_READ, Build, Listing, Question, Version, build_id, in_order, is_version
from .metadata import METADATA, SIZE_LIMIT

ATTEMPTS = 4
_GRACE = 0.2  # seconds for putting together what has arrived
AT_ONCE = 8  # versions that are read at the same time
_REST = 0.6  # the share of the time in which other versions than the first are read; their metadata comes after
_HINTS = {
    407: " (a proxy wants a user and a password)",
    429: " (rate limit: a token in HF_TOKEN raises it)",
}
_BUSY = (429, 500, 502, 503, 504)
T = TypeVar("T")


class RepositoryMissingError(UsageError):
    """The Hub answered, and knows no such repository (or does not show it to us)."""


class RefusedError(HubError):
    """The Hub answered, and does not show the repository to us: a download would fail as well."""


class RevisionMissingError(UsageError):
    """The Hub answered, and the repository has no such branch, tag or commit."""


def endpoint() -> str:
    """The Hub in force, without credentials that its URL may carry."""
    url = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rsplit('@', 1)[-1]}".rstrip("/")


def _check_endpoint() -> None:
    """Raises HubError for an HF_ENDPOINT that no request can be sent to, which huggingface_hub takes as it is."""
    try:
        url = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise HubError(f"HF_ENDPOINT is {endpoint()[:80]!r}, which is no address: unset it, or write https://HOST")


def live_listing(question: Question) -> Listing:
    """Ask the Hub. Raises RepositoryMissingError or RevisionMissingError on its word, HubError when it gives none."""
    _check_endpoint()
    box: list[Listing | Exception] = []
    retries = _Retries(question.progress)

    def work() -> None:
        try:
            retries.listen()
            box.append(_ask(question, time.monotonic() + question.timeout, retries))
        except Exception as error:  # noqa: BLE001 - carried over to the asking thread, which sorts it
            box.append(error)

    thread = threading.Thread(target=work, name="hub-listing", daemon=True)
    thread.start()
    thread.join(question.timeout + _GRACE)
    answer = box[0] if box else HubError(f"no answer from {endpoint()} within {question.timeout:g} s{retries.last}")
    if isinstance(answer, Listing):
        return answer
    raise explain(answer, question)


class _Retries(logging.Filter):
    """Takes huggingface_hub's own words about retries off the terminal: shown as progress, the last one kept."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        super().__init__()
        self._progress = progress
        self._threads: set[int] = set()
        self.last = ""

    def listen(self) -> None:
        """Stand in for huggingface_hub's logging of requests from now on. Called in each thread that asks."""
        self._threads.add(threading.get_ident())
        logger = logging.getLogger("huggingface_hub.utils._http")
        for earlier in [f for f in logger.filters if isinstance(f, _Retries) and f is not self]:
            logger.removeFilter(earlier)
        logger.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a line about a failed request of ours; let nothing through, nor what a thread left behind says."""
        if record.thread not in self._threads:
            return False
        text = record.getMessage().split(" thrown while requesting ")[0].strip()
        self._progress(text)
        if not text.startswith("Retrying"):
            self.last = f" (last: {text[:120]})"
        return False


def _ask(question: Question, end: float, retries: _Retries) -> Listing:
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when huggingface_hub is imported
    from huggingface_hub import HfApi

    began = time.monotonic()
    api = HfApi(library_name="kerneldoctor", library_version=__version__)
    question.progress(f"asking {endpoint()} for the versions of {question.repo}")
    refs = patiently(lambda: api.list_repo_refs(question.repo, repo_type="kernel"), end, question)
    named = {ref.name: ref.target_commit for ref in (*refs.branches, *refs.tags)}
    wanted = {name: commit for name, commit in named.items() if is_version(name)}
    if question.revision and question.revision not in (*wanted, *wanted.values()):
        wanted[question.revision] = named.get(question.revision, question.revision)
    if not wanted and "main" in named:
        wanted["main"] = named["main"]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    reading = _Reading(api, today, end, question, retries)
    rest = end if question.whole else began + (end - began) * _REST
    return Listing(question.repo, "live", today, in_order(reading.read(wanted, rest)))


class _Reading:
    """The builds of many versions, several at a time: the first one first, then the newest, while the time lasts."""

    def __init__(self, api: Any, today: str, end: float, question: Question, retries: _Retries) -> None:
        self._api, self._today, self._end = api, today, end
        self._question, self._retries = question, retries
        self._read: dict[str, Version | Exception] = {}
        self._news = threading.Condition()

    def read(self, wanted: Mapping[str, str], rest: float) -> list[Version]:
        """The versions, those that were not read as unread ones. Raises what the first one, or all of them, raised."""
        unread = {name: Version(name, _full(commit), (), "live", self._today, False) for name, commit in wanted.items()}
        order = sorted(in_order(list(unread.values())), key=lambda version: not self._is_first(version))
        todo = deque((version.name, wanted[version.name]) for version in order)
        for _ in range(min(AT_ONCE, len(todo))):
            threading.Thread(target=self._work, args=(todo, rest), name="hub-version", daemon=True).start()
        needed = [version.name for version in order if self._is_first(version)]
        with self._news:
            self._news.wait_for(lambda: len(self._read) == len(wanted), max(0.0, rest - time.monotonic()))
            if needed:
                self._news.wait_for(lambda: needed[0] in self._read, max(0.0, self._end - time.monotonic()))
            found = dict(self._read)
        self._check(found, needed, len(wanted))
        return [self._or_unread(found.get(name), version) for name, version in unread.items()]

    def _is_first(self, version: Version) -> bool:
        wanted = self._question.revision or self._question.first
        return bool(wanted) and wanted in (version.name, version.commit)

    def _work(self, todo: deque[tuple[str, str]], rest: float) -> None:
        self._retries.listen()
        while time.monotonic() < rest:
            try:
                name, commit = todo.popleft()
            except IndexError:
                return
            outcome: Version | Exception
            try:
                outcome = _version(self._api, name, commit, self._today, self._end, self._question)
            except Exception as error:  # noqa: BLE001 - carried over to the asking thread, which sorts it
                outcome = error
            with self._news:
                self._read[name] = outcome
                self._news.notify_all()

    def _check(self, found: Mapping[str, Version | Exception], needed: list[str], count: int) -> None:
        errors = {name: value for name, value in found.items() if isinstance(value, Exception)}
        late = HubError(f"no answer from {endpoint()} within {self._question.timeout:g} s{self._retries.last}")
        if needed and not isinstance(found.get(needed[0]), Version):
            raise errors.get(needed[0], late)
        if self._question.whole and (errors or len(found) < count):
            raise next(iter(errors.values()), late)
        if count and len(errors) == len(found):
            raise next(iter(errors.values()), late)

    def _or_unread(self, outcome: Version | Exception | None, version: Version) -> Version:
        if isinstance(outcome, Version):
            return outcome
        why = "not read in time" if outcome is None else str(explain(outcome, self._question))
        return replace(version, note=why)


def _version(api: Any, name: str, commit: str, today: str, end: float, question: Question) -> Version:
    from huggingface_hub.errors import EntryNotFoundError

    question.progress(f"listing the builds of {question.repo}@{name}")

    def look() -> list[Any]:
        return list(api.list_repo_tree(question.repo, "build", recursive=True, revision=commit, repo_type="kernel"))

    try:
        entries = patiently(look, end, question)
    except EntryNotFoundError:
        return Version(name, _full(commit), (), "live", today, True, "this revision has no build folder")
    sizes = {entry.path: getattr(entry, "size", 0) for entry in entries}  # folders have none
    return Version(name, _full(commit), _builds(sizes), "live", today, True)


def _full(commit: str) -> str:
    return commit if len(commit) == 40 and not set(commit) - set("0123456789abcdef") else ""


def _builds(sizes: Mapping[str, int]) -> tuple[Build, ...]:
    """The build folders of a tree, from the size of each of its files (bytes) by path."""
    ids: dict[str, str] = {}
    for path in sizes:
        parts = path.split("/")
        if len(parts) >= 2 and parts[0] == "build":
            found = build_id(path) if len(parts) > 2 else ""
            ids[parts[1]] = ids.get(parts[1]) or found
    return tuple(
        Build(name, found, "live" if found else "", metadata=_metadata_of(sizes.get(f"build/{name}/{METADATA}")))
        for name, found in sorted(ids.items())
    )


def _metadata_of(size: int | None) -> Fact[Any]:
    if size is None:
        return absent("no such file is listed")
    if size > SIZE_LIMIT:
        return unknown(f"{METADATA} of {size} bytes was not fetched")
    return NOT_READ


def patiently(ask: Callable[[], T], end: float, question: Question) -> T:
    """Ask again when the server is busy, after the wait that it names, as long as the time lasts."""
    from huggingface_hub.errors import HfHubHTTPError

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return ask()
        except HfHubHTTPError as error:
            status = getattr(error.response, "status_code", None)
            wait = _wait(error.response, attempt)
            if status not in _BUSY or attempt == ATTEMPTS or time.monotonic() + wait > end:
                raise
            question.progress(f"{endpoint()} answered {status}; asking again in {wait:g} s")
            time.sleep(wait)
    raise AssertionError("unreachable")


def _wait(response: Any, attempt: int) -> float:
    value = str(response.headers.get("Retry-After", "")) if response is not None else ""
    return float(value) if value.isdigit() else 0.5 * 2**attempt


def explain(error: Exception, question: Question) -> Exception:
    """The one clear line for what huggingface_hub raised."""
    from huggingface_hub import errors

    where = endpoint()
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, HubError):
        return error
    if isinstance(error, errors.RevisionNotFoundError):
        return RevisionMissingError(f"{question.repo} has no revision {question.revision!r} on {where}")
    if isinstance(error, errors.GatedRepoError) or status == 403:
        return RefusedError(
            f"{where} refuses {question.repo} to this token (403): ask its owner for access, or set HF_TOKEN"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        hint = "if it is private, set HF_TOKEN to a token that may read it"
        return RepositoryMissingError(f"no kernel repository {question.repo} on {where}; {hint}")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return HubError("the Hub was not asked: HF_HUB_OFFLINE is set")
    if status == 401:
        return RefusedError(f"{where} answered 401 for {question.repo}: {_token_text()}")
    if status is not None:
        return HubError(f"{where} answered {status} for {question.repo}{_HINTS.get(status, '')}")
    if isinstance(error, UnicodeEncodeError):
        return HubError(f"{where} cannot be asked: the token in HF_TOKEN, or the saved one, is none: it is not ASCII")
    if isinstance(error, (LookupError, TypeError, AttributeError, ValueError, RecursionError)):
        return HubError(f"{where} answered something that is no listing of a Hub (a proxy, or a page to log in?)")
    return HubError(f"{where} cannot be asked{_through_proxy()}: {_first_line(error)}")


def _token_text() -> str:
    from huggingface_hub import get_token

    if get_token():
        return "it does not accept the token in HF_TOKEN, or the saved one"
    return "it wants a token, and none is set: export HF_TOKEN"


def _through_proxy() -> str:
    """Which variable sends the question through a proxy, for a question that did not arrive."""
    host = urlsplit(endpoint())
    names = (f"{host.scheme}_proxy", "all_proxy")
    name = next((n for name in names for n in (name, name.upper()) if os.environ.get(n)), "")
    return f" (through the proxy of {name})" if name and not proxy_bypass(host.netloc) else ""


def _first_line(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
