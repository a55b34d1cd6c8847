"""The Environment's JSON: both ways for any facts, and one clear line for what is not ours."""

from __future__ import annotations

import copy
import dataclasses
import json
import types
import typing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldoctor.environment import Environment, Fact, Package, Packages, State, absent, fact_paths, fact_type, unknown
from kerneldoctor.errors import EnvironmentFileError

TEXT = st.text(max_size=12)


def values(kind: Any) -> st.SearchStrategy[Any]:
    origin = typing.get_origin(kind)
    if origin is Fact:
        inner = values(typing.get_args(kind)[0])
        return st.one_of(
            st.builds(Fact, st.just(State.KNOWN), inner, TEXT), st.builds(absent, TEXT), st.builds(unknown, TEXT)
        )
    if origin is tuple:
        return st.lists(values(typing.get_args(kind)[0]), max_size=2).map(tuple)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(values(arg) for arg in typing.get_args(kind)))
    if kind is Packages:
        return st.builds(Packages, st.dictionaries(TEXT, values(Package), max_size=2), st.booleans(), TEXT)
    if dataclasses.is_dataclass(kind):
        return st.builds(kind, **{n: values(h) for n, h in typing.get_type_hints(kind).items()})
    return {
        str: TEXT,
        int: st.integers(),
        bool: st.booleans(),
        float: st.floats(allow_nan=False),
        type(None): st.none(),
    }[kind]


@settings(max_examples=40, deadline=None)
@given(values(Environment))
def test_json_carries_every_fact_both_ways(environment: Environment) -> None:
    assert Environment.from_json(json.loads(json.dumps(environment.to_json()))) == environment


def test_every_path_of_the_schema_can_be_looked_up() -> None:
    for path, kind in fact_paths():
        path = path.replace("*", "numpy")
        assert fact_type(path) == kind
        assert Environment().fact(path).is_unknown
    with pytest.raises(KeyError):
        Environment().fact("torch.kuda")


def broken(change: Any) -> Any:
    document = copy.deepcopy(Environment().to_json())
    return change(document) or document


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: [1], "no JSON object"),
        (lambda d: {"hello": 1}, 'no "schema"'),
        (lambda d: {**d, "schema": "kerneldoctor.environment/9"}, "upgrade kerneldoctor"),
        (lambda d: {**d, "tensorflow": {}}, "unknown key 'tensorflow'"),
        (lambda d: {**d, "torch": 5}, "torch: expected an object"),
        (lambda d: {**d, "torch": {"cuda": {"value": 13, "source": "x"}}}, "torch.cuda: expected str, found 13"),
        (lambda d: {**d, "torch": {"cuda": "13.0"}}, "torch.cuda: a fact is"),
        (lambda d: {**d, "gpus": {"value": {}, "source": "x"}}, "gpus: expected a list"),
        (lambda d: {**d, "packages": []}, "packages: expected complete"),
        (lambda d: {**d, "extensions": {"value": [{}], "source": "x"}}, "extensions[0]"),
    ],
)
def test_what_is_not_ours_is_refused_with_its_place(change: Any, says: str) -> None:
    with pytest.raises(EnvironmentFileError) as error:
        Environment.from_json(broken(change))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
