"""Mangled names as c++filt writes them, bounded on hostile ones; and what a missing symbol says of its torch."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.engine.demangle import LONGEST, demangle, string_abi

from .facts_case import answer, case_of

NEW_STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "c10::cuda::SetDevice(int)"),
        ("_ZN3c104cuda9SetDeviceEa", "c10::cuda::SetDevice(signed char)"),
        (
            f"_ZN3c105ErrorC2ENS_14SourceLocationE{NEW_STRING}",
            "c10::Error::Error(c10::SourceLocation, std::__cxx11::string)",
        ),
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "c10::Error::Error(c10::SourceLocation, std::string)"),
        (
            "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
            "c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool)",
        ),
        (
            "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalINS2_10ScalarTypeEEENS6_IbEE",
            "at::_ops::zeros::call(c10::ArrayRef<c10::SymInt>, c10::optional<c10::ScalarType>, c10::optional<bool>)",
        ),
        ("_ZN5torch3jit17parseSchemaOrNameERKSsb", "torch::jit::parseSchemaOrName(std::string const&, bool)"),
        ("_ZNK2at6Tensor7reshapeEN3c108ArrayRefIlEE", "at::Tensor::reshape(c10::ArrayRef<long>) const"),
        (
            "_ZN3c107WarningC1ESt7variantIJNS0_11UserWarningENS0_18DeprecationWarningEEERKNS_14SourceLocationEb",
            "c10::Warning::Warning(std::variant<c10::Warning::UserWarning, c10::Warning::DeprecationWarning>, "
            "c10::SourceLocation const&, bool)",
        ),
        ("_ZTIN3c105ErrorE", "typeinfo for c10::Error"),
        ("_ZN3c1013MessageLoggerD1Ev", "c10::MessageLogger::~MessageLogger()"),
        ("_ZN2at3fooIlEEvRKNS_6TensorE", "at::foo<long>(at::Tensor const&)"),
        ("_ZN2at3fooEM1aFvvE", "at::foo(…)"),
        ("ncclCommRegister", "ncclCommRegister"),
        ("_ZN5torch8autograd12Variab", "_ZN5torch8autograd12Variab"),
    ],
)  # fmt: skip
def test_a_symbol_reads_as_its_declaration(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


@pytest.mark.parametrize("symbol", [f"_ZN3c10{NEW_STRING}E", "_ZN1aERKSs", "_ZN1aEv"])
def test_the_string_abi_is_told(symbol: str) -> None:
    assert string_abi(symbol) == {"_ZN1aERKSs": "old", "_ZN1aEv": ""}.get(symbol, "new")


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z" + "P" * 990, "_ZN" + "1a" * 400 + "E", "_Z1fI" + "1aIS_S_E" * 100 + "E", "_ZN1aI1bEE" + "S_" * 300,
        "_ZS" + "9" * 900,
    ],
)  # fmt: skip
def test_a_hostile_symbol_costs_no_time_and_no_memory(symbol: str) -> None:
    start = time.process_time()
    assert len(demangle(symbol)) <= LONGEST + 10
    assert time.process_time() - start < 0.2


@given(st.text(alphabet="NSIEKPRO_0123456789abijlCDtJL", max_size=80).map(lambda tail: "_Z" + tail))
def test_no_symbol_makes_it_fail(symbol: str) -> None:
    demangle(symbol)


@pytest.mark.parametrize(
    ("symbol", "torch", "told"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "2.6.0", "the extension is the older side"),
        ("_ZN3c104cuda9SetDeviceEa", "2.1.0", "torch is the older side"),
        ("_ZN3c104cuda9SetDeviceEi", "2.2.0", "which torch has only before 2.3"),
        ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "2.7.0", "in the old C++ string ABI"),
        ("_ZN2at6Tensor3fooEv", "2.7.0", "at::Tensor::foo()"),
    ],
)
def test_a_missing_symbol_says_which_side_is_older(symbol: str, torch: str, told: str) -> None:
    case = case_of(torch={"version": torch}, extensions=[{"module": "x", "missing_torch_symbols": [symbol]}])
    (item,) = case.items("extensions")
    assert str(answer(item, "extension.missing_symbol")).endswith(told)


def test_an_extension_whose_symbols_resolve_misses_none() -> None:
    (item,) = case_of(extensions=[{"module": "x", "missing_torch_symbols": []}]).items("extensions")
    assert answer(item, "extension.missing_symbol") == "absent"
