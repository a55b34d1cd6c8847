"""How pip gets the installed torch again: the exact build, from the index that has it, and nothing invented."""

from __future__ import annotations

import pytest

from .facts_case import answer, case_of

PYTORCH = "https://download.pytorch.org/whl"


@pytest.mark.parametrize(
    ("version", "listed", "arguments"),
    [
        ("2.11.0+cu130", "2.11.0+cu130", f'"torch==2.11.0+cu130" --index-url {PYTORCH}/cu130'),
        ("2.11.0+cu130", "2.11.0", '"torch==2.11.0"'),  # a wheel of PyPI: only torch itself names its CUDA
        ("2.11.0+cu128", "2.11.0", f'"torch==2.11.0+cu128" --index-url {PYTORCH}/cu128'),  # not what PyPI has
        ("2.11.0+cpu", "2.11.0", f'"torch==2.11.0+cpu" --index-url {PYTORCH}/cpu'),  # PyPI on Windows
        ("2.13.0", "2.13.0", '"torch==2.13.0"'),  # macOS
        ("2.11.0+cu130", "2.10.0", f'"torch==2.11.0+cu130" --index-url {PYTORCH}/cu130'),  # metadata of another one
        ("2.13.0+cpu", "2.13.0+cpu", f'"torch==2.13.0+cpu" --index-url {PYTORCH}/cpu'),
        ("2.9.1+rocm6.4", "2.9.1+rocm6.4", f'"torch==2.9.1+rocm6.4" --index-url {PYTORCH}/rocm6.4'),
        ("2.9.1+xpu", "2.9.1+xpu", f'"torch==2.9.1+xpu" --index-url {PYTORCH}/xpu'),
        (
            "2.15.0.dev20260920+cu130",
            "2.15.0.dev20260920+cu130",
            f'--pre "torch==2.15.0.dev20260920+cu130" --index-url {PYTORCH}/nightly/cu130',
        ),
        ("2.9.0a0+50eac811a6.nv25.09", "2.9.0a0+50eac811a6.nv25.9", "absent"),  # NVIDIA's containers
        ("2.13.0a0+gitabc", "2.13.0a0+gitabc", "absent"),
        ("2.8.0+computecanada", "2.8.0+computecanada", "absent"),
        ("abc", "2.8.0", "unknown"),
    ],
)
def test_arguments_for_pip(version: str, listed: str, arguments: str) -> None:
    case = case_of(torch={"version": version, "installer": "pip"}, packages={"torch": listed})
    assert answer(case, "torch.pip_arguments") == arguments


def test_what_conda_installed_is_not_given_to_pip() -> None:
    case = case_of(torch={"version": "2.8.0", "installer": "conda"}, packages={"torch": "2.8.0"})
    assert answer(case, "torch.pip_arguments") == "absent"


@pytest.mark.parametrize(
    ("version", "system", "arguments"),
    [
        ("2.10.0+cpu", {"os": "linux", "machine": "aarch64"}, '"torch==2.10.0"'),
        ("2.11.0+cu130", {"os": "linux", "machine": "aarch64"}, '"torch==2.11.0"'),
        ("2.11.0+cpu", {"os": "windows", "machine": "AMD64"}, '"torch==2.11.0"'),
        ("2.11.0+cu130", {"os": "windows", "machine": "AMD64"}, f'"torch==2.11.0+cu130" --index-url {PYTORCH}/cu130'),
    ],
)
def test_what_pypi_has_depends_on_the_system(version: str, system: dict[str, str], arguments: str) -> None:
    case = case_of(
        system=system, torch={"version": version, "installer": "pip"}, packages={"torch": version.split("+")[0]}
    )
    assert answer(case, "torch.pip_arguments") == arguments
