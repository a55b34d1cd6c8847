"""A Hub on loopback: a real HTTP server that speaks the kernel-repository part of the Hub's interface.

`huggingface_hub` and `kernels` do the talking (`HF_ENDPOINT`); the server only answers. Faults (status codes, cut
connections, slow answers, garbage, redirects) are given per request pattern, so that a test says what breaks.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Files = Mapping[str, bytes]


@dataclass
class Repo:
    """One kernel repository: branches and tags by name, files by commit."""

    id: str
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)
    private: bool = False
    lfs_from: int = 1 << 30  # files of at least this size are LFS files

    def commit(self, files: Files, branch: str = "") -> str:
        """Add a commit and point a branch at it. The id follows from the content."""
        digest = hashlib.sha1(usedforsecurity=False)
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + files[path] + b"\0")
        sha = digest.hexdigest()
        self.commits[sha] = dict(files)
        if branch:
            self.branches[branch] = sha
        return sha

    def resolve(self, revision: str) -> str | None:
        """The commit of a revision: a commit, a branch, a tag, or refs/heads/…"""
        name = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        found = self.branches.get(name) or self.tags.get(name)
        return found or (name if name in self.commits else None)


@dataclass
class Fault:
    """What goes wrong with requests whose path matches. `times` counts down; -1 is for ever."""

    pattern: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    cut: bool = False  # close the connection after half of the body
    times: int = -1


@dataclass
class Hub:
    """The whole server's state; requests are kept for tests to look at."""

    repos: dict[str, Repo] = field(default_factory=dict)
    trusted: set[str] = field(default_factory=set)  # organisations whose kernels need no trust_remote_code
    organisations: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)
    page: int = 1000  # entries of a tree answer
    token: str = ""  # needed for private repositories
    requests: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    url: str = ""

    def repo(self, identity: str, trusted: bool = True) -> Repo:
        """The repository of that id, made when it is not there."""
        organisation = identity.split("/")[0]
        self.organisations.add(organisation)
        if trusted:
            self.trusted.add(organisation)
        return self.repos.setdefault(identity, Repo(identity))

    def environment(self) -> dict[str, str]:
        """The variables that send a client here and nowhere else."""
        return {"HF_ENDPOINT": self.url, "NO_PROXY": "127.0.0.1,localhost", "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_HUB_DISABLE_XET": "1"}  # fmt: skip


@contextmanager
def serve(hub: Hub | None = None) -> Iterator[Hub]:
    """Run a Hub on a free loopback port."""
    state = hub or Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    server.block_on_close = False
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _answer(self, with_body: bool) -> None:
            hub.requests.append((self.command, self.path, dict(self.headers)))
            fault = next((f for f in hub.faults if f.times and re.search(f.pattern, self.path)), None)
            if fault is not None:
                fault.times -= 1
                time.sleep(fault.delay)
            if fault is not None and fault.status:
                status, headers, body = fault.status, dict(fault.headers), fault.body
            else:
                status, headers, body = _route(hub, self.path, self.headers.get("Authorization", ""))
            try:
                self._send(status, headers, body, with_body, fault is not None and fault.cut)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, status: int, headers: dict[str, str], body: bytes, with_body: bool, cut: bool) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if with_body:
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.wfile.flush()
                self.close_connection = True
                self.connection.close()

    return Handler


Answer = tuple[int, dict[str, str], bytes]


def _json(value: object, headers: Mapping[str, str] = {}) -> Answer:
    return 200, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


def _error(status: int, code: str, message: str, headers: Mapping[str, str] = {}) -> Answer:
    body = json.dumps({"error": message}).encode()
    return status, {"X-Error-Code": code, "X-Error-Message": message, **headers}, body


def _route(hub: Hub, raw: str, authorization: str) -> Answer:
    url = urllib.parse.urlsplit(raw)
    query = dict(urllib.parse.parse_qsl(url.query))
    parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
    match parts:
        case ["api", "organizations", name, "overview"]:
            if name not in hub.organisations:
                return _error(404, "", "no such organization")
            return _json(
                {"name": name, "fullname": name, "avatarUrl": "", "trustedKernelPublisher": name in hub.trusted}
            )
        case ["api", "kernels", owner, name, *rest]:
            repo = _open(hub, f"{owner}/{name}", authorization)
            return _api(hub, repo, rest, query) if isinstance(repo, Repo) else repo
        case ["kernels", owner, name, "resolve", revision, *path]:
            repo = _open(hub, f"{owner}/{name}", authorization)
            return _file(repo, revision, "/".join(path)) if isinstance(repo, Repo) else repo
    return _error(404, "", "Not Found")


def _open(hub: Hub, identity: str, authorization: str) -> Repo | Answer:
    repo = hub.repos.get(identity)
    if repo is None or (repo.private and not authorization):
        return _error(401, "RepoNotFound", "Repository not found")
    if repo.private and authorization != f"Bearer {hub.token}":
        return _error(403, "GatedRepo", "Access to this repository is restricted")
    return repo


def _api(hub: Hub, repo: Repo, rest: list[str], query: Mapping[str, str]) -> Answer:
    match rest:
        case []:
            return _info(repo, repo.resolve("main"))
        case ["refs"]:
            return _json({"branches": _refs("heads", repo.branches), "tags": _refs("tags", repo.tags), "converts": [],
                          "pullRequests": []})  # fmt: skip
        case ["revision", revision]:
            return _info(repo, repo.resolve(revision))
        case ["tree", revision, *path]:
            return _tree(hub, repo, revision, "/".join(path), query)
    return _error(404, "", "Not Found")


def _info(repo: Repo, sha: str | None) -> Answer:
    if sha is None:
        return _error(404, "RevisionNotFound", "Revision not found")
    return _json({"_id": "0", "id": repo.id, "sha": sha, "private": repo.private, "gated": False, "downloads": 0,
                  "likes": 0, "lastModified": "2026-09-01T00:00:00.000Z", "author": repo.id.split("/")[0]})  # fmt: skip


def _refs(kind: str, names: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "ref": f"refs/{kind}/{name}", "targetCommit": sha} for name, sha in names.items()]


def _tree(hub: Hub, repo: Repo, revision: str, folder: str, query: Mapping[str, str]) -> Answer:
    sha = repo.resolve(revision)
    if sha is None:
        return _error(404, "RevisionNotFound", "Revision not found")
    entries = _entries(repo, repo.commits[sha], folder, query.get("recursive") == "true")
    if not entries and folder:
        return _error(404, "EntryNotFound", f"{folder} does not exist", {"X-Repo-Commit": sha})
    start = int(query.get("cursor", "0"))
    headers = {}
    if start + hub.page < len(entries):
        following = urllib.parse.urlencode({**query, "cursor": str(start + hub.page)})
        path = f"/api/kernels/{repo.id}/tree/{urllib.parse.quote(revision, safe='')}"
        headers["Link"] = f'<{hub.url}{path}{"/" + folder if folder else ""}?{following}>; rel="next"'
    return _json(entries[start : start + hub.page], headers)


def _entries(repo: Repo, files: Files, folder: str, recursive: bool) -> list[dict[str, Any]]:
    prefix = f"{folder}/" if folder else ""
    found: dict[str, dict[str, Any]] = {}
    for path, data in files.items():
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts)) if recursive else range(1, min(2, len(parts))):
            name = prefix + "/".join(parts[:depth])
            found[name] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": name}
        if recursive or len(parts) == 1:
            found[path] = {"type": "file", "oid": _blob(data), "size": len(data), "path": path, **_lfs(repo, data)}
    return [found[name] for name in sorted(found)]


def _lfs(repo: Repo, data: bytes) -> dict[str, Any]:
    if len(data) < repo.lfs_from:
        return {}
    return {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}}


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _file(repo: Repo, revision: str, path: str) -> Answer:
    sha = repo.resolve(revision)
    if sha is None:
        return _error(404, "RevisionNotFound", "Revision not found")
    data = repo.commits[sha].get(path)
    if data is None:
        return _error(404, "EntryNotFound", f"{path} does not exist", {"X-Repo-Commit": sha})
    headers = {"X-Repo-Commit": sha, "Content-Type": "application/octet-stream"}
    if len(data) >= repo.lfs_from:
        etag = hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Etag": f'"{etag}"', "X-Linked-Size": str(len(data)), "ETag": f'"{etag}"'}
    else:
        headers["ETag"] = f'"{_blob(data)}"'
    return 200, headers, data
