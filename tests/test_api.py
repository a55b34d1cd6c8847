"""The Python API behind the commands."""

from __future__ import annotations

import datetime
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldoctor
from kerneldoctor import api, api_hub
from kerneldoctor.environment import Package, Packages, known
from kerneldoctor.errors import UsageError
from kerneldoctor.report.model import Ignore
from tests.fake_host import FakeHost
from tests.report.samples import BROKEN, HEALTHY, RULES


def test_scan_of_given_facts() -> None:
    report = kerneldoctor.scan(env=BROKEN, rules=[RULES], ignore=["TST2001=known"], redact=False)
    assert isinstance(report, kerneldoctor.Report)
    assert "TST1001" in {finding.rule for finding in report.findings}
    assert report.environment == BROKEN
    assert report.summary.ignored == 1


def test_scan_is_redacted_unless_told_otherwise() -> None:
    assert "alice" not in json.dumps(kerneldoctor.scan(env=BROKEN).to_json())


def test_the_date_decides_on_ignore_entries() -> None:
    for today, state in ((datetime.date(2026, 12, 1), "used"), (datetime.date(2027, 1, 1), "expired")):
        report = kerneldoctor.scan(
            env=BROKEN, rules=[RULES], ignore=[Ignore("TST1001", "x", "2026-12-31")], today=today
        )
        assert [use.state for use in report.ignores] == [state]
        assert report.date == today.isoformat()


def test_what_the_package_promises_is_there() -> None:
    assert sorted(kerneldoctor.__all__) == kerneldoctor.__all__
    for name in kerneldoctor.__all__:
        assert getattr(kerneldoctor, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'scam'"):
        _ = kerneldoctor.scam  # type: ignore[attr-defined]


def test_no_capture_is_written_where_the_rules_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        api.scan(capture=str(tmp_path / "machine.json"), rules=[tmp_path / "rules"])
    for thread in threading.enumerate():  # the machine was being looked at meanwhile
        if thread is not threading.current_thread():
            thread.join(20)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("KD1001=see ticket 7", Ignore("KD1001", "see ticket 7")),
        (" KD1001 = a=b; c ;until=2027-01-31", Ignore("KD1001", "a=b; c", "2027-01-31")),
        ("KD1001=x; UNTIL = 2027-01-31", Ignore("KD1001", "x", "2027-01-31")),
        ("KD1001=x;foo=bar", None),
        ("KD1001=x;untill=2027-01-31", None),
        ("KD1001=x;until=2027-01-31;until=2027-02-28", None),
        ("KD1001=x;until=2027-01-31; owner=me", None),
        ("https://example.org/issues?id", None),
        ("=x", None),
        ("KD1001=;until=2027-01-31", None),
        ("KD1001=x;until=2027-02-30", None),
        ("KD1001=x;until=", None),
    ],
)
def test_ignore_entries(text: str, expected: Ignore | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match="--ignore"):
            api.parse_ignore(text)
    else:
        assert api.parse_ignore(text) == expected


def test_environment_and_report_are_both_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for document in (HEALTHY.to_json(), kerneldoctor.scan(env=HEALTHY, redact=False).to_json()):
        path.write_text(json.dumps(document))
        assert api.load_environment(str(path)) == HEALTHY


def test_identity_comes_from_variables_and_files() -> None:
    host = FakeHost(
        files={"/proc/sys/kernel/hostname": "node17.example\n", "/mnt/nfs/alice/": ""},
        links={"/home/alice": "/mnt/nfs/alice"},
        environ={"HOME": "/home/alice", "LOGNAME": "alice"},
    )
    identity = api.find_identity(host)
    assert identity.users == ("alice",)
    assert identity.hosts == ("node17.example", "node17")
    assert set(identity.homes) == {"/home/alice", "/mnt/nfs/alice"}
    assert not host.asked, "no program is run for it"


def test_identity_of_a_machine_that_tells_nothing() -> None:
    assert api.find_identity(FakeHost()) == api.find_identity(FakeHost(environ={"HOME": "", "USER": "root"}))


@pytest.mark.parametrize("version", ["x", "", "0.3.0"])
def test_a_kernels_release_of_which_nothing_is_known_costs_its_own_answer_only(version: str) -> None:
    items = {**HEALTHY.packages.items, "kernels": Package(version=known(version, "METADATA"))}
    environment = replace(HEALTHY, packages=Packages(items, True, "listed"))
    [answer] = api_hub.kernels_of_scan((), environment)
    assert isinstance(answer, api_hub.Unanswered)
    assert answer.reference == "flash_attention_2"
    assert kerneldoctor.scan(env=environment).findings is not None
