"""Many builds on one line: names are folded without losing which they are, reasons without losing what is wanted."""

from __future__ import annotations

import pytest

from kerneldoctor.environment import Environment, System
from kerneldoctor.hub.acceptance import Reason, ReasonCode
from kerneldoctor.hub.candidates import candidates
from kerneldoctor.hub.whatif import Changes, apply
from kerneldoctor.report.folding import by_kind, fold_names, merged, state, why_all
from kerneldoctor.report.platforms import platform_of
from tests.hub.machines import STABLE, TABLES, live, machine, seen


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["torch-cuda"], "torch-cuda"),
        (["torch-cuda", "torch-cpu"], "torch-cuda, torch-cpu"),
        (["torch211-cxx11-cu126-x86_64-linux"], "torch211-cxx11-cu126"),
        (["torch211-cxx11-cu126-aarch64-linux"], "torch211-cxx11-cu126-aarch64-linux"),
        (["torch211-cxx11-cu126-x86_64-linux", "torch211-cxx11-cu128-x86_64-linux"], "torch211-cxx11-{cu126,cu128}"),
        (
            [f"torch{t}-cxx11-{c}-x86_64-linux" for t in (211, 212) for c in ("cu126", "cu130")],
            "torch{211,212}-cxx11-{cu126,cu130}",
        ),
        (
            [f"torch{t}-metal-aarch64-darwin" for t in (211, 212)] + ["torch213-cxx98-cu118-x86_64-linux"],
            "torch{211,212}-metal-aarch64-darwin, torch213-cxx98-cu118",
        ),
        ([STABLE.format(c) for c in (126, 128)], "torch-stable-abi210-{cu126,cu128}"),
        (["tvm-ffi01-cu130-x86_64-linux", "garbage", "a-b-c-d"], "tvm-ffi01-cu130, garbage, a-b-c-d"),
        ([f"torch211-cxx11-cu{n}-x86_64-linux" for n in range(100, 110)],
         "torch211-cxx11-{cu100,cu101,cu102,cu103,cu104,cu105,+4}"),
        ([f"name{n}" for n in range(10)], "name0, name1, name2, name3, 6 more"),
    ],
)  # fmt: skip
def test_names(names: list[str], text: str) -> None:
    assert fold_names(names, "x86_64-linux") == text


@pytest.mark.parametrize(
    ("code", "wanted", "text"),
    [
        (ReasonCode.TORCH_VERSION, ["2.9", "2.10", "2.9"], "2.9 and 2.10"),
        (ReasonCode.STABLE_ABI_TOO_NEW, ["2.14", "2.11"], "2.11"),
        (ReasonCode.TORCH_VERSION, [f"2.{n}" for n in range(9)], "2.0, 2.1, 2.2, 2.3, 2.4 and 4 more"),
    ],
)
def test_reasons(code: ReasonCode, wanted: list[str], text: str) -> None:
    assert merged([Reason(code, value, "here") for value in wanted]).wanted == text


def test_builds_share_a_line_only_where_the_same_is_said_of_them() -> None:
    names = [STABLE.format(cuda) for cuda in (126, 128, 130)] + ["torch212-cxx11-cu130-x86_64-linux", "???"]
    (found,) = candidates(live(*names), machine("2.13.0+cu128"), TABLES).versions
    kinds = [([c.build.name for c in kind], state(kind[0]), why_all(kind)) for kind in by_kind(found.candidates)]
    assert kinds == [
        (names[:1], "fits", ""),
        (names[1:2], "takes", ""),
        (names[2:3], "no", "for CUDA 13.0; torch is built for 12.8"),
        (names[3:4], "no", "for torch 2.12; here is 2.13"),
        (names[4:], "no", "not a name that kernels reads"),
    ]


@pytest.mark.parametrize(
    ("platform", "cuda", "foreign"),
    [
        ("x86_64-linux", "13.0", ["cpu", "rocm", "arm", "win", "metal", "npu"]),
        ("aarch64-linux", "13.0", ["old", "new", "cpu", "rocm", "win", "metal", "npu"]),
        ("arm64-darwin", None, ["old", "new", "cpu", "rocm", "arm", "win", "npu"]),
        ("x86_64-windows", "13.0", ["old", "new", "cpu", "rocm", "arm", "metal", "npu"]),
        ("x86_64-linux", "rocm7.1", ["old", "new", "cpu", "arm", "win", "metal", "npu"]),
    ],
)
def test_builds_for_other_platforms(platform: str, cuda: str | None, foreign: list[str]) -> None:
    names = {
        "old": "torch212-cxx11-cu130-x86_64-linux", "new": "torch214-cxx11-cu132-x86_64-linux",
        "cpu": "torch212-cxx11-cpu-x86_64-linux", "rocm": "torch212-cxx11-rocm71-x86_64-linux",
        "arm": "torch212-cxx11-cu130-aarch64-linux", "win": "torch212-cu130-x86_64-windows",
        "metal": "torch212-metal-aarch64-darwin", "npu": "torch-npu",
    }  # fmt: skip
    here, _ = apply(machine(), Changes("2.13", cuda, platform=platform), TABLES)
    (found,) = candidates(live(*names.values()), here, TABLES).versions
    seen_as = {c.build.name: platform_of(here).is_foreign(c) for c in found.candidates}
    assert [key for key, name in names.items() if seen_as[name]] == foreign


def test_an_unknown_platform_makes_no_build_foreign() -> None:
    unknown_system = Environment(system=System(os=seen("linux")))
    (found,) = candidates(live(STABLE.format(130)), unknown_system, TABLES).versions
    assert not platform_of(unknown_system).is_foreign(found.candidates[0])
