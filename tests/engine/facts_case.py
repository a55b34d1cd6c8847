"""Makes a Case from a few facts, as rule examples do, for tests of derived facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import kerneldoctor.engine.facts
from kerneldoctor.engine.case import Case
from kerneldoctor.engine.examples import example_case
from kerneldoctor.engine.loading import shipped_tables
from kerneldoctor.engine.model import Example

assert kerneldoctor.engine.facts  # registers the derived facts


def case_of(*absent: str, **facts: Mapping[str, Any] | list[Any]) -> Case:
    """A Case in which the named facts are known, those of `absent` absent, and all others unknown."""
    return example_case(Example("", "fires", facts, absent, "", ()), shipped_tables())


def gpu_cases(case: Case) -> list[Case]:
    """One Case for each GPU, as a rule with `each = "gpus"` sees it."""
    return list(case.items("gpus"))


def answer(case: Case, path: str) -> Any:
    """The value of a fact, or "absent" or "unknown"."""
    fact = case.fact(path)
    return fact.value if fact.is_known else fact.state.value
