"""Which transformers, kernels and huggingface_hub releases agree, and what the installed kernels does here."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.loading import shipped_rules
from kerneldoctor.engine.matching import judge
from kerneldoctor.environment import State
from tests.engine.facts_case import answer, case_of

PYTHON = {"version": "3.12.3", "free_threaded": False}


def stack(transformers: str = "", kernels: str = "", hub: str = "", *absent: str, **facts: Any) -> Case:
    """A Case with three releases; one that is "" is not installed."""
    versions = {"transformers": transformers, "kernels": kernels, "huggingface-hub": hub}
    packages = {name: version for name, version in versions.items() if version} | {"*": True}
    return case_of(*absent, **{"python": PYTHON, "packages": packages, **facts})


@pytest.mark.parametrize(
    ("transformers", "kernels", "expected"),
    [
        ("5.24.0", "0.17.2", False),
        ("5.24.0", "0.18.1", False),
        ("5.24.0", "0.18.2", True),
        ("5.24.0", "0.18.99", True),
        ("5.24.0", "0.19.0", False),
        ("5.24.0", "0.18.2.dev0", False),  # a development version is below its release
        ("5.24.0", "0.19.0.dev0", True),  # transformers compares plainly; a specifier would leave it out
        ("5.24.0", "0.18.2+local", True),
        ("5.22.2", "0.17.2", True),
        ("5.17.0", "0.17.2", False),
        ("5.12.1", "0.17.2", True),  # no upper bound; that it then fails to import is another fact
        ("4.57.6", "0.4.0", True),
        ("5.24.0", "", "absent"),
        ("", "0.17.2", "absent"),
        ("5.25.0.dev0", "0.17.2", "unknown"),
        ("99.0.0", "0.17.2", "unknown"),
        ("4.40.0", "0.17.2", "unknown"),
        ("5.24.0", "not a version", "unknown"),
    ],
)
def test_the_gate_of_a_transformers_release(transformers: str, kernels: str, expected: Any) -> None:
    assert answer(stack(transformers, kernels), "transformers.accepts_kernels") == expected


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("5.25.0.dev0", "no final release"),
        ("99.0.0", "newer than the newest release known here"),
        ("5.10.3", "not among the releases known here"),
    ],
)
def test_a_release_without_a_row_says_why(version: str, reason: str) -> None:
    fact = stack(version, "0.17.2").fact("transformers.kernels_range")
    assert fact.state is State.UNKNOWN
    assert reason in fact.note


def test_a_range_without_a_release_is_dated() -> None:
    fact = stack("5.24.0", "0.17.2", "2.4.0").fact("transformers.kernels_in_range")
    assert fact.is_absent
    assert ">=0.18.2,<0.19.0" in fact.note
    assert "listed on 20" in fact.note


@pytest.mark.parametrize(
    ("transformers", "hub", "expected"),
    [
        ("5.17.0", "1.33.0", "0.16.2"),
        ("5.22.2", "2.4.0", "0.17.2"),
        ("5.22.2", "1.31.0", "0.17.2"),
        ("5.12.1", "1.33.0", "0.14.1"),  # the newest with which it still imports
        ("5.12.1", "1.5.0", "0.12.3"),  # kernels 0.14 asks for huggingface_hub 1.10
        ("4.57.6", "0.36.2", "0.9.0"),
        ("4.57.6", "1.24.0", "absent"),  # this huggingface_hub has to go first
        ("5.22.2", "", "0.17.2"),
    ],
)
def test_the_kernels_release_to_install(transformers: str, hub: str, expected: str) -> None:
    assert answer(stack(transformers, "0.17.2", hub), "transformers.kernels_in_range") == expected


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [("0.17.2", "5.22.2"), ("0.16.0", "5.17.0"), ("0.15.2", "5.14.1"), ("0.14.1", "5.12.1"), ("0.18.3", "absent")],
)
def test_the_transformers_release_for_a_kernels_release(kernels: str, expected: str) -> None:
    assert answer(stack("5.24.0", kernels, "1.33.0"), "transformers.newest_for_kernels") == expected


def test_the_agreeing_set_keeps_a_huggingface_hub_that_fits_and_looks_at_python() -> None:
    newest = "transformers==5.22.2 kernels==0.17.2 huggingface_hub=="
    assert answer(stack("5.24.0", "0.17.2", "1.31.0"), "transformers.agreeing_set") == f"{newest}1.31.0"
    assert answer(stack("5.24.0", "0.17.2", "1.5.0"), "transformers.agreeing_set") == f"{newest}2.4.0"
    old_python = stack("5.17.0", "0.17.2", "1.33.0", python={"version": "3.10.12"})
    chosen = answer(old_python, "transformers.agreeing_set").split()
    assert chosen[0] == "transformers==5.22.2" or _python_of(chosen[0]) <= "3.10"


def _python_of(pin: str) -> str:
    from kerneldoctor.engine.loading import shipped_tables

    rows = {row["version"]: row["python"] for row in shipped_tables()["transformers"]}
    return str(rows[pin.partition("==")[2]]).removeprefix(">=").removesuffix(".0")


@pytest.mark.parametrize(
    ("transformers", "kernels", "expected"),
    [
        ("5.12.1", "0.17.2", False),
        ("5.12.1", "0.15.1", False),
        ("5.12.1", "0.14.1", True),
        ("5.13.0", "0.17.2", True),
        ("4.57.6", "0.8.1", False),  # "Unknown device type: rocm"
        ("4.57.6", "0.7.1", False),  # no version argument
        ("4.57.6", "0.9.0", True),
        ("4.56.2", "0.7.1", True),
        ("5.13.0", "9.9", True),  # it asks nothing of kernels while it is imported
        ("5.12.1", "9.9", "unknown"),
        ("5.12.1", "", "absent"),
    ],
)
def test_whether_transformers_imports(transformers: str, kernels: str, expected: Any) -> None:
    assert answer(stack(transformers, kernels), "transformers.imports_with_kernels") == expected


@pytest.mark.parametrize(
    ("transformers", "kernels", "hub", "expected"),
    [
        ("5.17.0", "0.16.2", "2.4.0", (False, True, "1.33.0")),
        ("5.18.0", "0.17.2", "2.4.0", (True, True, "2.4.0")),
        ("4.57.6", "0.13.0", "1.24.0", (False, True, "absent")),
        ("5.22.2", "0.17.2", "0.36.2", (False, False, "2.4.0")),
        ("5.22.2", "", "0.36.2", (False, "absent", "2.4.0")),
        ("5.22.2", "0.17.2", "", ("absent", "absent", "2.4.0")),
    ],
)
def test_the_huggingface_hub_of_both(transformers: str, kernels: str, hub: str, expected: tuple[Any, ...]) -> None:
    case = stack(transformers, kernels, hub)
    paths = ("transformers.hub_range_ok", "kernels.hub_range_ok", "transformers.hub_in_range")
    assert tuple(answer(case, path) for path in paths) == expected


@pytest.mark.parametrize(
    ("kernels", "disabled", "offline", "expected"),
    [
        ("0.17.2", True, False, True),
        ("0.13.0", True, False, True),
        ("0.12.3", True, False, False),
        ("0.17.2", False, False, False),
        ("0.17.2", True, True, False),
        ("0.17.2", None, False, "unknown"),
        ("9.9", True, False, "unknown"),
        ("9.9", False, False, False),  # with telemetry on it does not matter what that release does
        ("", True, False, "absent"),
    ],
)
def test_telemetry_switched_off(kernels: str, disabled: bool | None, offline: bool, expected: Any) -> None:
    switches = {"telemetry_disabled": disabled, "offline": offline}
    hub = {name: value for name, value in switches.items() if value is not None}
    assert answer(stack("", kernels, huggingface=hub), "kernels.telemetry_breaks_loading") == expected


@pytest.mark.parametrize(
    ("kernels", "offline", "expected"),
    [("0.12.3", True, False), ("0.13.0", True, True), ("0.14.1", True, True), ("0.15.1", True, False),
     ("0.14.1", False, False)],
)  # fmt: skip
def test_the_offline_switch_ignored(kernels: str, offline: bool, expected: bool) -> None:
    case = stack("", kernels, huggingface={"offline": offline})
    assert answer(case, "kernels.offline_ignored") == expected


def cached(repo: str, complete: bool | None) -> dict[str, Any]:
    return {"repo": repo, "commit": "0" * 40, "branches": [], "variants": [], "build_ids": [], "complete": complete}


def test_only_partial_snapshots_are_refused_offline_and_local_kernels_replaces_one() -> None:
    kernels = [cached("a/whole", True), cached("a/part", False), cached("a/no-list", None), cached("a/local", False)]
    hub = {"offline": True, "cached_kernels": kernels, "local_kernels": ["a/local=/k"]}
    assert answer(stack("", "0.17.2", "1.22.0", huggingface=hub), "kernels.refused_offline") == ("a/part",)
    assert answer(stack("", "0.17.2", "1.21.0", huggingface=hub), "kernels.refused_offline") == "absent"
    online = {**hub, "offline": False}
    assert answer(stack("", "0.17.2", "1.22.0", huggingface=online), "kernels.refused_offline") == "absent"


@pytest.mark.parametrize(
    ("python", "kernels", "expected"),
    [
        ({"version": "3.14.0", "free_threaded": True}, "0.17.2", "refused"),
        ({"version": "3.13.5", "free_threaded": True}, "0.14.1", "crash"),
        ({"version": "3.15.0", "free_threaded": True}, "0.14.1", "absent"),
        ({"version": "3.14.0", "free_threaded": False}, "0.14.1", "absent"),
        ({"version": "3.14.0"}, "0.17.2", "unknown"),
        ({"version": "3.14.0", "free_threaded": True}, "", "absent"),
    ],
)
def test_free_threaded_python(python: dict[str, Any], kernels: str, expected: str) -> None:
    assert answer(stack("", kernels, python=python), "kernels.free_threaded") == expected


def remedies(case: Case) -> list[str]:
    [finding] = judge([rule for rule in shipped_rules() if rule.id == "KD5001"], case).findings
    return [advice.command for advice in finding.remedies if advice.certain]


def test_what_a_user_is_told_to_type() -> None:
    assert remedies(stack("5.24.0", "0.17.2", "2.4.0")) == [
        "pip install transformers==5.22.2 kernels==0.17.2 huggingface_hub==2.4.0",
        'pip install "kernels>=0.18.2,<0.19.0"',
    ]
    assert remedies(stack("5.17.0", "0.17.2", "1.33.0")) == [
        "pip install kernels==0.16.2",
        "pip install transformers==5.22.2 kernels==0.17.2",
    ]
    assert remedies(stack("5.22.2", "0.18.3", "2.4.0")) == ["pip install kernels==0.17.2"]


@pytest.mark.parametrize(
    ("transformers", "hub", "bound", "fits"),
    [
        ("4.40.0", "1.3.0", "<1.0", False),
        ("4.40.0", "0.36.0", "<1.0", "unknown"),  # it may be too old
        ("4.57.6", "1.3.0", ">=0.34.0,<1.0", False),
        ("4.57.6", "0.36.0", ">=0.34.0,<1.0", True),
        ("99.0.0", "1.3.0", "unknown", "unknown"),
        ("", "1.3.0", "absent", "absent"),
    ],
)
def test_the_huggingface_hub_of_releases_that_the_tables_do_not_hold(
    transformers: str, hub: str, bound: str, fits: bool | str
) -> None:
    case = stack(transformers, "", hub)
    assert answer(case, "transformers.hub_range") == bound
    assert answer(case, "transformers.hub_range_ok") == fits


def test_the_way_back_names_what_is_installed_of_the_three() -> None:
    everything = stack("5.17.0", "0.17.2", "1.33.0")
    assert (
        answer(everything, "transformers.installed_set")
        == "transformers==5.17.0 kernels==0.17.2 huggingface_hub==1.33.0"
    )
    assert answer(stack("5.17.0"), "transformers.installed_set") == "transformers==5.17.0"
    assert answer(stack(), "transformers.installed_set") == "absent"


@pytest.mark.parametrize(
    ("transformers", "kernels", "hub"),
    [
        ("4.40.0", "0.17.2", "1.3.0"),
        ("4.40.0", "0.17.2", "0.36.0"),
        ("4.57.6", "0.17.2", "0.36.0"),
        ("5.17.0", "0.17.2", "0.36.0"),
        ("5.24.0", "0.17.2", "0.36.0"),
        ("", "0.17.2", "0.36.0"),
    ],
)
def test_what_is_advised_for_kernels_and_its_hub_does_not_break_transformers(
    transformers: str, kernels: str, hub: str
) -> None:
    findings = judge(shipped_rules(), stack(transformers, kernels, hub)).findings
    [finding] = [f for f in findings if f.rule == "KD3004"]
    commands = [remedy.command for remedy in finding.remedies]
    assert commands
    assert not [c for c in commands if "huggingface_hub>=" in c and transformers]
    if transformers.startswith("4."):
        assert all("<1.0" in c or "huggingface_hub==0." in c or "transformers==5" in c for c in commands)


def test_cached_kernels_that_are_refused_offline_are_named_with_their_folders() -> None:
    def snapshot(repo: str, commit: str, *branches: str, complete: bool = False) -> dict[str, Any]:
        return {
            "repo": repo,
            "commit": commit * 40,
            "branches": list(branches),
            "variants": [],
            "build_ids": [],
            "complete": complete,
        }

    kernels = [
        snapshot("o/a", "1"),
        snapshot("o/a", "2", "v3"),
        snapshot("o/b", "3"),
        snapshot("o/c", "4", complete=True),
    ]
    hub = {"offline": True, "cached_kernels": kernels, "kernels_cache": "/cache", "local_kernels": ["o/d=/d"]}
    case = stack("5.17.0", "0.17.2", "2.4.0", huggingface=hub)
    a, b = "/cache/kernels--o--a", "/cache/kernels--o--b"
    assert answer(case, "kernels.refused_offline") == ("o/a", "o/b")
    assert answer(case, "kernels.refused_snapshots") == (
        f"o/d=/d:o/a={a}/snapshots/{'2' * 40}:o/b={b}/snapshots/{'3' * 40}"
    )
    assert answer(case, "kernels.refused_file_lists") == (
        f"{a}/trees/{'2' * 40}.json {a}/trees/{'1' * 40}.json {b}/trees/{'3' * 40}.json"
    )
