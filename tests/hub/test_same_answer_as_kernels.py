"""The same answer as `kernels` itself: the installed release on many pairs, and frozen answers of every release."""

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.hub.acceptance import Reason, ReasonCode
from kerneldoctor.hub.eras import rules_of
from kerneldoctor.hub.resolve import Resolution, resolve
from kerneldoctor.hub.variant import parse_variants

from .oracle.cases import Case, Machine, cases, system_of
from .oracle.freeze import ANSWERS, ask

PAIRS = 20_000
FROZEN: dict[str, Any] = json.loads(ANSWERS.read_text("utf-8"))
BLOCKS = {block["releases"][-1]: block for block in FROZEN["blocks"]}

# The library's words for each of our codes; {w} and {f} are what the build wants and what was found.
WORDS = {
    ReasonCode.MACHINE: ("CPU ({w}) does not match system CPU ({f})",),
    ReasonCode.OS: ("OS ({w}) does not match system OS ({f})",),
    ReasonCode.TORCH_VERSION: ("Torch version ({w}) does not match environment Torch version ({f})",),
    ReasonCode.ABI: ("Torch CXX11 ABI (",),
    ReasonCode.STABLE_ABI_TOO_NEW: ("Torch stable ABI version ({w}) is too new for environment Torch version ({f})",),
    ReasonCode.TVM_FFI_VERSION: ("tvm-ffi version ({w}) does not match environment tvm-ffi version ({f})",),
    ReasonCode.CUDA_MAJOR: ("CUDA version ({w}) is not compatible with system CUDA version ({f})",),
    ReasonCode.CUDA_TOO_NEW: ("CUDA version ({w}) is not compatible with system CUDA version ({f})",),
    ReasonCode.BACKEND: (
        "backend ({w}) does not match selected backend ({f})",
        "backend ({w}) does not match system backend ({f}) and is not universal",
    ),
    ReasonCode.MACOS: ("Metal kernels require macOS {w} or later, system macOS version is {f}",),
}


def ours(machine: Machine, names: list[str], kernels: str) -> Resolution:
    return resolve(parse_variants(names)[0], system_of(machine), kernels)


def difference(case: Case, taken: list[str], found: Resolution) -> str:
    accepted = [variant.name for variant in found.accepted]
    preferred = found.preferred.name if found.preferred else None
    if accepted == taken and preferred == (taken[0] if taken else None) and not found.undetermined:
        return ""
    release, (machine, names) = found.rules.release, case
    return f"kernels {release} on {machine} with {names} takes {taken}, we say {accepted}, preferred {preferred}"


def agrees(reason: Reason, words: str) -> bool:
    found = "None" if reason.found == "none" else reason.found
    return any(words.startswith(text.format(w=reason.wanted, f=found)) for text in WORDS[reason.code])


@pytest.mark.torch
def test_the_installed_release_gives_the_same_answer_and_the_same_reason() -> None:
    spec = importlib.util.find_spec("kernels")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("kernels is not installed")
    pairs = list(cases(1, PAIRS))
    release = importlib.metadata.version("kernels")
    answers = ask(Path(spec.submodule_search_locations[0]).parent, pairs)
    differences, odd_reasons = [], []
    for case, (taken, refused) in zip(pairs, answers, strict=True):
        found = ours(*case, release)
        differences += filter(None, [difference(case, taken, found)])
        for item in found.rejected:
            words = refused.get(item.variant.name)
            if words is None:  # the library drops these from its own trace
                assert item.reason.code is ReasonCode.FREE_THREADED
            elif not agrees(item.reason, words):
                odd_reasons.append((item.reason, words))
    assert not differences, f"{len(differences)} of {PAIRS}: {differences[0]}"
    assert not odd_reasons, odd_reasons[0]


@pytest.mark.parametrize("release", BLOCKS)
def test_every_release_gives_the_answer_that_was_frozen(release: str) -> None:
    pairs = list(cases(FROZEN["seed"], FROZEN["count"]))
    distinct = {rules_of(r).features: r for r in BLOCKS[release]["releases"]}.values()
    differences = []
    for case, indices in zip(pairs, BLOCKS[release]["accepted"], strict=True):
        taken = [case[1][index] for index in indices]
        differences += filter(None, [difference(case, taken, ours(*case, r)) for r in distinct])
    assert not differences, f"{len(differences)} of {len(pairs)}: {differences[0]}"


def test_the_frozen_answers_cover_every_release_and_are_not_empty() -> None:
    releases = {release for block in FROZEN["blocks"] for release in block["releases"]}
    assert {"0.4.0", "0.4.5", "0.12.3", "0.13.0", "0.14.1", "0.15.2", "0.16.2", "0.17.2"} <= releases
    for block in FROZEN["blocks"]:
        assert sum(1 for accepted in block["accepted"] if accepted) > FROZEN["count"] / 20
