"""Asking a real server, through the real huggingface_hub: every fault is one clear line within its limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldoctor
from kerneldoctor.environment import CachedKernel, Environment, HuggingFace, known
from kerneldoctor.errors import HubError, KerneldoctorError, UndeterminedError, UsageError
from kerneldoctor.hub.listing import build_id
from kerneldoctor.hub.live import Question, RefusedError, RepositoryMissingError, RevisionMissingError, live_listing
from kerneldoctor.hub.sources import find_listing

from .server import Fault, Hub, serve

REPO = "kernels-community/relu"
CU130 = "torch-stable-abi210-cu130-x86_64-linux"


def files(*variants: str, identity: str = "48628c8") -> dict[str, bytes]:
    found = {"README.md": b"x"}
    for variant in variants:
        found[f"build/{variant}/metadata.json"] = b"{}"
        found[f"build/{variant}/_relu_cuda_{identity}.abi3.so"] = b"ELF"
    return found


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve() as running:
        repo = running.repo(REPO)
        repo.commit(files("torch-cpu"), "v1")
        repo.commit(files(CU130, "torch-cpu", identity="4eec01c"), "v3")
        repo.commit({"README.md": b"x"}, "main")
        for name, value in {**running.environment(), "HF_HOME": str(tmp_path)}.items():
            monkeypatch.setenv(name, value)
        # huggingface_hub reads its endpoint when it is imported; one process asks many servers here.
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", running.url)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", running.url)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        yield running


def ask(timeout: float = 15, revision: str = "", repo: str = REPO) -> object:
    return live_listing(Question(repo, revision, timeout))


def test_versions_come_newest_first_with_commit_and_build_id(hub: Hub) -> None:
    listing = live_listing(Question(REPO))
    assert listing.source == "live"
    assert [(v.name, v.commit, v.complete) for v in listing.versions] == [
        ("v3", hub.repos[REPO].branches["v3"], True),
        ("v1", hub.repos[REPO].branches["v1"], True),
    ]
    assert [(b.name, b.build_id) for b in listing.versions[0].builds] == [("torch-cpu", "4eec01c"), (CU130, "4eec01c")]


def test_a_repository_without_numbered_versions_shows_main(hub: Hub) -> None:
    hub.repo("someone/old").commit(files("torch-cpu"), "main")
    assert [v.name for v in live_listing(Question("someone/old")).versions] == ["main"]


def test_a_named_branch_tag_or_commit_is_listed_too(hub: Hub) -> None:
    sha = hub.repos[REPO].commit(files("torch-universal"))
    hub.repos[REPO].tags["release-2"] = sha
    for revision in ("release-2", sha):
        listing = live_listing(Question(REPO, revision))
        assert [b.name for b in listing.version(revision).builds] == ["torch-universal"]  # type: ignore[union-attr]


def test_a_commit_that_a_branch_names_is_listed_once(hub: Hub) -> None:
    listing = live_listing(Question(REPO, hub.repos[REPO].branches["v1"]))
    assert [version.name for version in listing.versions] == ["v3", "v1"]


def test_a_revision_without_build_folder_is_listed_as_empty_and_says_so(hub: Hub) -> None:
    version = live_listing(Question(REPO, "main")).version("main")
    assert version is not None
    assert (version.builds, version.note) == ((), "this revision has no build folder")


def test_ten_thousand_builds_over_many_pages(hub: Hub) -> None:
    hub.page = 700
    hub.repos[REPO].commit(files(*(f"torch-x{number}" for number in range(10_000))), "v4")
    listing = live_listing(Question(REPO, timeout=60))
    assert len(listing.versions[0].builds) == 10_000


def test_lfs_files_carry_their_build_id_like_others(hub: Hub) -> None:
    hub.repos[REPO].lfs_from = 3
    assert live_listing(Question(REPO)).versions[0].builds[0].build_id == "4eec01c"


def test_a_private_repository_is_shown_to_its_token_only(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos[REPO].private, hub.token = True, "hf_right"
    with pytest.raises(RepositoryMissingError, match="if it is private"):
        ask()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(HubError, match="refuses"):
        ask()
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert live_listing(Question(REPO)).versions


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (Fault("/refs", 500), HubError, "answered 500"),
        (Fault("/refs", 401, {"X-Error-Message": "Invalid credentials in Authorization header"}), HubError, "token"),
        (Fault("/refs", 407), HubError, "a proxy wants a user"),
        (Fault("/tree/", 503), HubError, "within 3 s .last: HTTP Error 503"),
        (Fault("/refs", 429, {"Retry-After": "3600"}), HubError, "rate limit|no answer"),
        (Fault("/refs", cut=True), HubError, "cannot be asked"),
        (Fault("/refs", 200, body=b'{"branches": [{'), HubError, "no listing of a Hub"),
        (Fault("/refs", 200, body=b'{"hello": 1}'), HubError, "no listing of a Hub"),
        (Fault("/tree/", 200, body=b'[{"type": "moon"}]'), HubError, "no listing of a Hub"),
        (Fault("/refs", 200, body=b"null"), HubError, "no listing of a Hub"),
        (Fault("/refs", 200, body=b"[" * 5000), HubError, "no listing of a Hub"),
        (Fault("/refs", delay=30), HubError, "no answer from http://127.0.0.1:.* within 3 s"),
        (Fault("/refs", 302, {"Location": "http://127.0.0.1:9/elsewhere"}), HubError, "cannot be asked|answered"),
    ],
)  # fmt: skip
def test_a_fault_of_the_server_is_one_clear_line_within_the_limit(
    hub: Hub, fault: Fault, kind: type[KerneldoctorError], says: str
) -> None:
    hub.faults.append(fault)
    began = time.monotonic()
    with pytest.raises(kind, match=says) as error:
        ask(timeout=3)
    assert time.monotonic() - began < 15
    assert "\n" not in str(error.value)


def test_a_busy_server_is_asked_again_after_the_wait_it_names(hub: Hub) -> None:
    hub.faults.append(Fault("/tree/", 429, {"Retry-After": "1"}, times=1))
    assert live_listing(Question(REPO)).versions


def test_a_missing_repository_and_a_missing_revision_are_said_to_be_so(hub: Hub) -> None:
    with pytest.raises(RepositoryMissingError, match="no kernel repository kernels-community/rela"):
        ask(repo="kernels-community/rela")
    with pytest.raises(RevisionMissingError, match="no revision 'v9x'"):
        ask(revision="v9x")


def test_a_server_that_is_not_there_is_one_line(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_ENDPOINT", "http://user:secret@127.0.0.1:9")
    with pytest.raises(HubError) as error:
        ask(timeout=5)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "rubbish", ["", "rubbish", "ftp://x", "http://", "http://[bad", "http://host:port", "https:/x"]
)
def test_an_endpoint_that_is_no_address_is_named_before_anybody_is_asked(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, rubbish: str
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", rubbish)
    with pytest.raises(HubError, match=r"HF_ENDPOINT is '.*', which is no address"):
        ask()
    assert not hub.requests


def test_a_question_that_does_not_arrive_names_the_proxy(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.append(Fault(".", cut=True))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"cannot be asked: "):  # NO_PROXY leaves this host out
        ask(timeout=5)
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(HubError, match=r"cannot be asked .through the proxy of http_proxy."):
        ask(timeout=5)


def test_a_token_that_is_none_is_named_and_not_shown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s\xe9cret")
    with pytest.raises(HubError, match="the token in HF_TOKEN") as error:
        ask(timeout=5)
    assert "cret" not in str(error.value)


@pytest.mark.parametrize(
    ("switches", "asked"),
    [
        ({"HF_HUB_OFFLINE": "1"}, False), ({"TRANSFORMERS_OFFLINE": "yes"}, False),
        ({"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"}, True), ({"HF_HUB_OFFLINE": "maybe"}, True),
    ],
)  # fmt: skip
def test_the_offline_switches_count_as_huggingface_hub_counts_them(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, switches: dict[str, str], asked: bool
) -> None:
    for name, value in switches.items():
        monkeypatch.setenv(name, value)
    listing = find_listing(Question(REPO), Environment())
    assert (listing.source == "live") is asked
    assert asked or listing.notes == (f"the Hub was not asked: {next(iter(switches))} is set",)


def test_names_that_only_look_like_versions_are_none(hub: Hub) -> None:
    sha = hub.repos[REPO].branches["v1"]
    hub.repos[REPO].branches |= {"v\uff11": sha, "version": sha, "v": sha, "v1.0": sha}
    assert [version.name for version in live_listing(Question(REPO)).versions] == ["v3", "v1"]


def test_what_the_hub_cannot_say_the_index_says_with_its_date(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.faults.append(Fault(".", 500))
    listing = find_listing(Question("kernels-community/flash-attn2", timeout=3), Environment())
    assert listing.source == "index"
    assert listing.as_of
    assert "answered 500" in listing.notes[0]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    listing = find_listing(Question("kernels-community/flash-attn2"), Environment())
    assert listing.notes == ("the Hub was not asked: HF_HUB_OFFLINE is set",)


def test_what_the_hub_denies_is_not_taken_from_the_index_but_may_be_in_the_cache(hub: Hub) -> None:
    repo = "kernels-community/flash-attn2"
    with pytest.raises(UsageError, match="no kernel repository"):
        find_listing(Question(repo), Environment())
    snapshot = CachedKernel(repo, "a" * 40, ("v3",), (CU130,), ("48628c8",), False)
    environment = Environment(huggingface=HuggingFace(cached_kernels=known((snapshot,), "cache")))
    listing = find_listing(Question(repo), environment)
    assert (listing.source, listing.versions[0].builds[0].build_id) == ("cache", "48628c8")


def test_what_nobody_knows_is_undetermined_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UndeterminedError, match="did you mean kernels-community/flash-attn2"):
        find_listing(Question("kernels-comunity/flash-attn2"), Environment())


def test_the_telemetry_switches_do_not_stop_our_listing(hub: Hub) -> None:
    script = (
        "from kerneldoctor.hub.live import Question, live_listing\n"
        f"print(len(live_listing(Question('{REPO}')).versions))"
    )
    switches = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **switches}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "2", done.stderr


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("build/x/_flash_attn2_cuda_48628c8.abi3.so", "48628c8"),
        ("build/x/_relu_cpu_1a2b3c4_dirty.so", "1a2b3c4"),
        ("build/x/_flash_attn_9e27194.abi3.so", "9e27194"),
        ("build/x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so", ""),
        ("build/x/_C.abi3.so", ""),
        ("build/x/__init__.py", ""),
    ],
)
def test_the_build_id_is_read_from_the_compiled_file(path: str, expected: str) -> None:
    assert build_id(path) == expected


def test_without_a_token_it_is_said_that_one_is_wanted(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    hub.faults.append(Fault("/refs", 401, {"X-Error-Message": "Invalid credentials in Authorization header"}))
    with pytest.raises(RefusedError, match="none is set: export HF_TOKEN"):
        ask()


def test_the_version_asked_for_is_read_first_and_what_has_no_time_is_called_unread(hub: Hub) -> None:
    for number in range(10, 60):
        hub.repos[REPO].commit({f"build/torch-cuda/{number}.py": b"", **files("torch-cuda")}, f"v{number}")
    hub.faults.append(Fault("/tree/", delay=0.7))
    began = time.monotonic()
    found = live_listing(Question(REPO, timeout=3, first="v11"))
    assert time.monotonic() - began < 6
    read = {version.name for version in found.versions if version.complete}
    assert "v11" in read
    assert "v59" in read  # then the newest
    unread = [version for version in found.versions if not version.complete]
    assert unread
    assert {version.note for version in unread} == {"not read in time"}


def test_a_listing_to_be_kept_is_whole_or_none(hub: Hub) -> None:
    hub.faults.append(Fault(f"/tree/{hub.repos[REPO].branches['v1']}", 404))
    assert live_listing(Question(REPO)).versions
    with pytest.raises(HubError):
        live_listing(Question(REPO, whole=True))


def test_the_hub_is_told_which_kerneldoctor_asks(hub: Hub) -> None:
    ask()
    agents = [{name.lower(): value for name, value in headers.items()}["user-agent"] for _, _, headers in hub.requests]
    assert agents
    assert all(f"kerneldoctor/{kerneldoctor.__version__}" in agent for agent in agents)
