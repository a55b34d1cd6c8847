"""Derived facts about compilers: with which toolkit an extension can be compiled for this torch and these GPUs."""

from __future__ import annotations

import pytest

from .facts_case import answer, case_of

HOME = "toolkit.cuda_home_for_torch"


def nvccs(*versions: str) -> list[dict[str, str]]:
    """Compilers of /usr/local, the one in force first."""
    return [{"path": f"/usr/local/cuda-{version}/bin/nvcc", "version": version} for version in versions]


@pytest.mark.parametrize(
    ("cuda", "found", "capability", "home"),
    [
        ("12.8", ["12.4"], "9.0", "/usr/local/cuda-12.4"),  # another minor release will do
        ("12.8", ["13.0"], "9.0", "absent"),
        ("13.0", ["12.8"], "9.0", "absent"),
        ("13.0", ["12.8", "13.0"], "9.0", "/usr/local/cuda-13.0"),
        ("12.8", ["12.4", "12.9"], "9.0", "/usr/local/cuda-12.4"),  # the one in force comes first
        ("12.8", ["13.0", "12.4", "12.9"], "9.0", "/usr/local/cuda-12.9"),
        ("12.8", ["12.4", "12.9"], "12.0", "/usr/local/cuda-12.9"),  # Blackwell needs 12.8
        ("12.8", ["12.4"], "12.0", "absent"),
        ("12.8", ["12.8"], "12.1", "/usr/local/cuda-12.8"),  # code for 12.0 runs there
        ("13.0", ["13.0"], "11.0", "/usr/local/cuda-13.0"),
        ("12.8", ["12.9"], "11.0", "absent"),
        ("12.8", [], "9.0", "absent"),
    ],
)
def test_which_toolkit_compiles_for_this_torch(cuda: str, found: list[str], capability: str, home: str) -> None:
    gpu = {"vendor": "nvidia", "name": "X", "compute_capability": capability}
    case = case_of(torch={"cuda": cuda}, toolkit={"nvccs": nvccs(*found)}, gpus=[gpu])
    assert answer(case, HOME) == home


def test_a_hidden_gpu_asks_for_nothing() -> None:
    gpus = [
        {"vendor": "nvidia", "name": "A", "compute_capability": "8.0", "visible": True},
        {"vendor": "nvidia", "name": "B", "compute_capability": "12.0", "visible": False},
    ]
    case = case_of(torch={"cuda": "12.8"}, toolkit={"nvccs": nvccs("12.4")}, gpus=gpus)
    assert answer(case, HOME) == "/usr/local/cuda-12.4"


def test_a_report_that_names_only_the_version_gets_the_usual_place() -> None:
    case = case_of(torch={"cuda": "12.8"}, toolkit={"nvcc_version": "12.8"}, gpus=[])
    assert answer(case, HOME) == '"${CUDA_HOME:-/usr/local/cuda}"'
    assert answer(case_of(torch={"cuda": "13.0"}, toolkit={"nvcc_version": "12.8"}, gpus=[]), HOME) == "absent"


def test_without_a_look_nothing_is_offered() -> None:
    assert answer(case_of(torch={"cuda": "12.8"}), HOME) == "unknown"
    assert answer(case_of("torch", toolkit={"nvccs": nvccs("12.8")}), HOME) == "absent"
    assert answer(case_of("toolkit", torch={"cuda": "12.8"}), HOME) == "absent"
