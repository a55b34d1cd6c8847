"""The file `kerneldoctor.lock`: which build was chosen for which environment, and what was measured of it there.

Reads, writes and compares; it must not choose a build, ask the Hub or look at a machine.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .engine.case import Case
from .engine.facts.driver import gpu_capability, visible_nvidia_gpus
from .environment import Environment, Fact
from .errors import UsageError
from .files import read_json, write_text

SCHEMA = "kerneldoctor.lock/1"
DEFAULT_PATH = "kerneldoctor.lock"
NONE = "none"  # in a fingerprint: looked for, and not there
VERDICTS = ("passed", "partial", "untested")
_WHAT = "a kerneldoctor.lock"
_PACKAGES = ("kernels", "transformers", "huggingface_hub")
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_REFERENCE = re.compile(r"[^\s\x00-\x1f\x7f]{1,300}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class LockedVerdict:
    """What is known of a locked build on the machine where it was locked."""

    kind: str  # one of VERDICTS
    text: str  # the whole line
    cases: int = 0  # that passed


@dataclass(frozen=True, slots=True)
class Locked:
    """One build that was chosen for one reference in one environment."""

    reference: str  # as a person asked: "kernels-community/flash-attn2@v3", "flash_attention_2"
    repo: str
    revision: str  # branch or tag, "" where a commit was asked for
    commit: str  # 40 hex digits
    variant: str
    build_id: str  # "" where the build has none, or it is not known
    digests: Mapping[str, str]  # file of the build -> "sha256:…"; empty where the build was not fetched
    environment: Mapping[str, str]  # see fingerprint()
    verdict: LockedVerdict
    workload: Mapping[str, Any]  # heads, kv_heads, head_dim, dtype, backward, model: what it was chosen for
    date: str  # ISO day
    kerneldoctor: str  # the release that wrote it

    @property
    def key(self) -> tuple[str, ...]:
        """What an entry is for: of two with the same key the newer one counts."""
        return _key(self.reference, self.environment)

    @property
    def is_measured(self) -> bool:
        """Whether it was run where it was locked."""
        return self.verdict.kind != "untested"

    @property
    def pin(self) -> str:
        """owner/name@commit"""
        return f"{self.repo}@{self.commit}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One line of a fingerprint that changed. "" stands for what is not known on that side."""

    name: str
    locked: str
    now: str


def fingerprint(environment: Environment) -> Mapping[str, str]:
    """What of an environment decides which build loads and how it runs, as short texts.

    What is not there is "none"; what could not be looked at is left out. With a torch for the CPU no GPU counts.
    """
    case = Case(environment, {})
    backend = _backend(environment)
    gpus = visible_nvidia_gpus(case)
    found = {
        "platform": _platform(environment),
        "python": _text(environment.python.version),
        "torch": _text(environment.torch.version),
        "backend": backend,
        **{name: _text(environment.packages.get(name.replace("_", "-")).version) for name in _PACKAGES},
    }
    if backend == "cpu":
        found |= {"gpu": NONE, "compute_capability": NONE, "driver": NONE}
    else:
        found["driver"] = _text(environment.driver.version)
        found["gpu"] = _each(gpus, [gpu.name for gpu in gpus.value or ()])
        found["compute_capability"] = _each(gpus, [gpu_capability(gpu, case) for gpu in gpus.value or ()])
    return {name: text for name, text in sorted(found.items()) if text}


def differences(locked: Mapping[str, str], now: Mapping[str, str]) -> tuple[Difference, ...]:
    """The lines in which two fingerprints differ, those first that decide which build loads."""
    order = ["platform", "backend", "torch", "compute_capability"]
    names = sorted({*locked, *now}, key=lambda name: (order.index(name) if name in order else len(order), name))
    found = (Difference(name, locked.get(name, ""), now.get(name, "")) for name in names)
    return tuple(difference for difference in found if difference.locked != difference.now)


def find_locked(entries: Iterable[Locked], reference: str, now: Mapping[str, str]) -> Locked | None:
    """The entry of a reference for an environment, or None."""
    key = _key(reference, now)
    return next((entry for entry in entries if entry.key == key), None)


def read_lock(path: str) -> tuple[Locked, ...]:
    """The entries of a lock file, in its order. Raises UsageError that says what is wrong, and where."""
    return tuple(_entry(item, f"{path}: entries[{n}]") for n, item in enumerate(_raw_entries(path)))


def read_lock_if_there(path: str) -> tuple[Locked, ...]:
    """The entries of a lock file, none where there is no file. Raises UsageError as read_lock does."""
    return read_lock(path) if _exists(path) else ()


def check_writable(path: str) -> None:
    """Raises UsageError where write_lock would, as far as that can be told before."""
    read_lock_if_there(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"{path}: cannot write: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: cannot write: no permission to write into {folder}")


def write_lock(path: str, entries: Iterable[Locked]) -> None:
    """Put entries into a lock file, whole or not at all: each replaces the one of its key, the others stay.

    Raises UsageError where the file cannot be written, or is there already and no usable lock.
    """
    kept = dict(zip((entry.key for entry in read_lock(path)), _raw_entries(path), strict=True)) if _exists(path) else {}
    for entry in entries:
        kept[entry.key] = asdict(entry)
    document = {"schema": SCHEMA, "entries": [kept[key] for key in sorted(kept)]}
    write_text(path, json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


# --- a fingerprint ----------------------------------------------------------------------------------------------------


def _key(reference: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    torch = ".".join(environment.get("torch", "").split("+")[0].split(".")[:2])
    rest = (environment.get(name, "") for name in ("platform", "backend", "compute_capability"))
    return (reference, torch, *rest)


def _text(fact: Fact[Any]) -> str:
    return "" if fact.is_unknown else NONE if fact.is_absent else str(fact.value)


def _each(gpus: Fact[Any], facts: list[Fact[Any]]) -> str:
    if gpus.is_unknown or any(fact.is_unknown for fact in facts):
        return ""
    return ", ".join(sorted({_text(fact) for fact in facts})) or NONE


def _platform(environment: Environment) -> str:
    os_, machine = environment.system.os, environment.system.machine
    if not os_.is_known or not machine.is_known:
        return ""
    name = str(machine.value).lower()
    return f"{_MACHINES.get(name, name)}-{os_.value}"


def _backend(environment: Environment) -> str:
    torch = environment.torch
    release = {"cuda": torch.cuda, "rocm": torch.hip, "xpu": torch.xpu}.get(str(torch.backend.value))
    text = _text(torch.backend)
    return f"{text} {release.value}" if release is not None and release.is_known else text


# --- the file ---------------------------------------------------------------------------------------------------------


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _raw_entries(path: str) -> list[Any]:
    document = read_json(path, _WHAT)
    if not isinstance(document, dict):
        raise UsageError(f"{path}: this is not {_WHAT}: it holds no JSON object")
    schema = document.get("schema")
    if not isinstance(schema, str) or not schema.startswith("kerneldoctor.lock/"):
        raise UsageError(f'{path}: this is not {_WHAT}: its "schema" is not "{SCHEMA}"')
    if schema != SCHEMA:
        raise UsageError(f"{path}: written by another release of kerneldoctor ({schema[:40]}; this one reads {SCHEMA})")
    entries = document.get("entries")
    if not isinstance(entries, list):
        raise UsageError(f'{path}: "entries" is no list')
    return entries


def _entry(item: object, where: str) -> Locked:
    if not isinstance(item, dict):
        raise UsageError(f"{where} is no object")
    take = _Taker(item, where)
    verdict = take.mapping("verdict")
    cases = verdict.get("cases", 0)
    return Locked(
        reference=take.text("reference", _REFERENCE.fullmatch),
        repo=take.text("repo", re.compile(r"[\w.-]+/[\w.-]+", re.ASCII).fullmatch),
        revision=take.text("revision"),
        commit=take.text("commit", _COMMIT.fullmatch),
        variant=take.text("variant", lambda text: bool(text) and "/" not in text),
        build_id=take.text("build_id"),
        digests=_inside(take.texts("digests", _DIGEST.fullmatch), where),
        environment=take.texts("environment"),
        verdict=LockedVerdict(
            kind=_Taker(verdict, f"{where}.verdict").text("kind", VERDICTS.__contains__),
            text=_Taker(verdict, f"{where}.verdict").text("text"),
            cases=cases if isinstance(cases, int) else 0,
        ),
        workload={key: value for key, value in take.mapping("workload").items() if _plain(value)},
        date=take.text("date", _DAY.fullmatch),
        kerneldoctor=take.text("kerneldoctor"),
    )


def _inside(digests: dict[str, str], where: str) -> dict[str, str]:
    """The digests, whose paths stay within the folder of the build."""
    for path in digests:
        if path.startswith("/") or "\\" in path or not set(path.split("/")).isdisjoint({"", ".", ".."}):
            raise UsageError(f"{where}.digests: {path[:60]!r} is no file of a build")
    return digests


def _plain(value: object) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


@dataclass(frozen=True, slots=True)
class _Taker:
    """Reads typed fields out of one JSON object, and says where one is wrong."""

    item: Mapping[str, Any]
    where: str

    def text(self, name: str, check: Callable[[str], object] = lambda text: True) -> str:
        value = self.item.get(name)
        if not isinstance(value, str) or not check(value):
            raise UsageError(f"{self.where}.{name} {_problem(value, name in self.item)}")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.item.get(name)
        if not isinstance(value, dict):
            raise UsageError(f"{self.where}.{name} {_problem(value, name in self.item)}")
        return value

    def texts(self, name: str, check: Callable[[str], object] = lambda text: True) -> dict[str, str]:
        found = self.mapping(name)
        inner = _Taker(found, f"{self.where}.{name}")
        return {key: inner.text(key, check) for key in found}


def _problem(value: object, there: bool) -> str:
    return f"is not usable: {str(value)[:60]!r}" if there else "is missing"
