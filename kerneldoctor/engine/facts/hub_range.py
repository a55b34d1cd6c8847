"""Which huggingface_hub releases the installed transformers and kernels ask for, and what is installed of the three."""

from __future__ import annotations

from typing import Any

from ...environment import Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range
from .releases import column, installed

# The tables begin with 4.55. METADATA of 4.30.2, 4.40.0 and 4.48.3 on PyPI, read 2026-12-01: the lower bound moves.
_BEFORE_TABLES = ">=4.25,<4.55.dev0"
_OLD_BOUND = "<1.0"


@derived("transformers.hub_range", str)
def transformers_hub_range(case: Case) -> Fact[str]:
    """The huggingface_hub releases that transformers accepts; it refuses to import with others.

    Of a release before 4.55 only the upper bound is known.
    """
    wanted, version = column(case, "transformers", "huggingface_hub"), installed(case, "transformers")
    if wanted.is_unknown and version.is_known and in_range(version.value, _BEFORE_TABLES):
        return known(_OLD_BOUND, f"https://pypi.org/project/transformers/{version.value}/")
    return wanted


@derived("transformers.hub_range_ok", bool)
def transformers_hub_range_ok(case: Case) -> Fact[bool]:
    """Whether the installed huggingface_hub is one that transformers accepts."""
    answer = _fits(case, "transformers")
    if answer.value is True and case.fact("transformers.hub_range").value == _OLD_BOUND:
        return unknown("the lower bound of this transformers release is not known")
    return answer


@derived("kernels.hub_range", str)
def kernels_hub_range(case: Case) -> Fact[str]:
    """The huggingface_hub releases that the installed kernels asks for."""
    return column(case, "kernels", "huggingface_hub")


@derived("kernels.hub_range_ok", bool)
def kernels_hub_range_ok(case: Case) -> Fact[bool]:
    """Whether the installed huggingface_hub is one that kernels asks for."""
    return _fits(case, "kernels")


@derived("transformers.installed_set", str)
def installed_set(case: Case) -> Fact[str]:
    """What is installed of transformers, kernels and huggingface_hub, as pip takes it: the way back."""
    versions = {name: installed(case, name) for name in ("transformers", "kernels", "huggingface_hub")}
    pins = [f"{name}=={version.value}" for name, version in versions.items() if version.is_known]
    return known(" ".join(pins), "packages") if pins else absent("none of the three is known to be installed")


def _fits(case: Case, project: str) -> Fact[Any]:
    wanted, here = case.fact(f"{project}.hub_range"), installed(case, "huggingface_hub")
    for fact in (wanted, here):
        if not fact.is_known:
            return fact
    answer = in_range(here.value, str(wanted.value))
    return known(answer, wanted.note) if answer is not None else unknown(f"{here.value!r} is no version")
