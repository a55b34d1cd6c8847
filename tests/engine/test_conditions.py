"""Three-valued conditions: what decides, what keeps in doubt, and how versions compare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.engine.case import Case
from kerneldoctor.engine.conditions import evaluate, in_range, undecided
from kerneldoctor.engine.loading import parse_condition
from kerneldoctor.engine.model import Condition, Tree
from kerneldoctor.environment import Environment, Fact, Torch, absent, known, unknown


def torch_case(**facts: Fact[Any]) -> Case:
    return Case(Environment(torch=replace(Torch(), **facts)))


def truth(condition: dict[str, Any], **facts: Fact[Any]) -> bool | None:
    return evaluate(parse_condition(condition), torch_case(**facts))


@pytest.mark.parametrize(
    ("condition", "value", "expected"),
    [
        ({"fact": "torch.cuda", "in": ">=12.8,<13"}, "12.8", True),
        ({"fact": "torch.cuda", "in": ">=12.8,<13"}, "13.0", False),
        ({"fact": "torch.version", "in": "<2.11"}, "2.11.0+cu130", False),
        ({"fact": "torch.version", "in": "==2.13.*"}, "2.13.1+cu130", True),
        ({"fact": "torch.version", "in": ">=2.14.dev0"}, "2.14.0.dev20261101+cu130", True),
        ({"fact": "torch.version", "in": ">=2.14"}, "2.14.0.dev20261101+cu130", False),
        ({"fact": "torch.version", "in": ">=2"}, "main-build", None),
        ({"fact": "torch.backend", "one_of": ["cuda", "rocm"]}, "rocm", True),
        ({"fact": "torch.backend", "is": "cuda"}, "cpu", False),
        ({"fact": "torch.archs", "has": "9.0"}, ("8.0", "9.0"), True),
        ({"fact": "torch.archs", "has": "9.0"}, ("8.0", "9.0a"), False),
        ({"fact": "torch.location", "matches": "/opt/.*"}, "/opt/venv", True),
    ],
)
def test_an_operator_on_a_known_fact(condition: dict[str, Any], value: object, expected: bool | None) -> None:
    name = condition["fact"].split(".")[1]
    assert truth(condition, **{name: known(value, "test")}) is expected


@pytest.mark.parametrize("operator", [{"in": ">=1"}, {"is": "12.8"}, {"one_of": ["12.8"]}, {"same_as": "torch.hip"}])
def test_unknown_stays_unknown_and_absent_is_false(operator: dict[str, Any]) -> None:
    condition = {"fact": "torch.cuda", **operator}
    assert truth(condition, cuda=unknown("no permission"), hip=known("6.4", "test")) is None
    assert truth(condition, cuda=absent("version.py"), hip=known("6.4", "test")) is False


def test_only_present_may_tell_absent_from_known() -> None:
    condition = {"fact": "torch.cuda", "present": True}
    assert truth(condition, cuda=known("13.0", "test")) is True
    assert truth(condition, cuda=absent("version.py")) is False
    assert truth(condition, cuda=unknown("unreadable")) is None
    assert truth({"fact": "torch.cuda", "present": False}, cuda=absent("version.py")) is True


def test_facts_compare_with_each_other_as_versions() -> None:
    older = {"fact": "torch.cuda", "older_than": "torch.triton_ptxas_version"}
    assert truth(older, cuda=known("12.8", "t"), triton_ptxas_version=known("12.10", "t")) is True
    assert truth(older, cuda=known("13.0", "t"), triton_ptxas_version=known("12.10", "t")) is False
    assert truth(older, cuda=known("13.0", "t"), triton_ptxas_version=known("rubbish", "t")) is None


TRUTHS = st.sampled_from([True, False, None])


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    if depth == 0 or draw(st.booleans()):
        return {"fact": f"torch.{draw(st.sampled_from(['cuda', 'hip', 'xpu', 'git_version']))}", "is": "x"}
    kind = draw(st.sampled_from(["all", "any", "not"]))
    if kind == "not":
        return {"not": draw(trees(depth=depth - 1))}
    return {kind: draw(st.lists(trees(depth=depth - 1), min_size=1, max_size=3))}


def settle(condition: Condition, facts: dict[str, bool]) -> bool:
    """The classical truth when every fact is known: the reference."""
    if isinstance(condition, Tree):
        values = [settle(item, facts) for item in condition.items]
        return {"all": all(values), "any": any(values), "not": not values[0]}[condition.kind]
    return facts[condition.fact.split(".")[1]]


@given(trees(), st.dictionaries(st.sampled_from(["cuda", "hip", "xpu", "git_version"]), TRUTHS))
def test_a_decided_condition_stays_decided_whatever_the_unknown_facts_turn_out_to_be(
    tree: dict[str, Any], given_facts: dict[str, bool | None]
) -> None:
    values = {name: given_facts.get(name) for name in ("cuda", "hip", "xpu", "git_version")}
    facts = {n: unknown("?") if v is None else known("x" if v else "y", "t") for n, v in values.items()}
    condition = parse_condition(tree)
    case = torch_case(**facts)
    answer = evaluate(condition, case)
    doubtful = [name for name, value in values.items() if value is None]
    outcomes = set()
    for bits in range(2 ** len(doubtful)):
        chosen = {n: bool(bits >> i & 1) for i, n in enumerate(doubtful)}
        outcomes.add(settle(condition, {n: chosen.get(n, bool(v)) for n, v in values.items()}))
    if answer is not None:
        assert outcomes == {answer}
    else:
        named = {leaf.fact.split(".")[1] for leaf in undecided(condition, case)}
        assert named
        assert named <= set(doubtful)


@given(st.text(max_size=30))
def test_no_text_makes_a_version_comparison_fail(text: str) -> None:
    assert in_range(text, ">=1") in (True, False, None)
