"""What a symbol that an extension misses says: its name for people, and for which torch the extension was compiled."""

from __future__ import annotations

from typing import Any

from ...environment import Fact, absent, known
from ..case import Case, derived
from ..conditions import in_range
from ..demangle import demangle, string_abi

_ABI = {"new": "the new C++ string ABI", "old": "the old C++ string ABI"}


@derived("extension.missing_symbol", str)
def missing_symbol(case: Case) -> Fact[Any]:
    """The first torch symbol that the extension misses, readable, with what it tells of the torch it was built for.

    Rests on the table torch_symbols. Absent where every symbol resolves.
    """
    missing = case.fact("extension.missing_torch_symbols")
    if not missing.is_known:
        return missing
    if not missing.value:
        return absent("every torch symbol resolves")
    symbol = str(missing.value[0])
    told = _built_for(symbol, case) or _abi(symbol)
    return known(f"{demangle(symbol)}{f', {told}' if told else ''}", missing.note)


def _built_for(symbol: str, case: Case) -> str:
    """Which torch has a function of that signature, and who is older where that is certain."""
    name = demangle(symbol)
    row = next((row for row in case.table("torch_symbols") if row["name"] == name), None)
    if row is None:
        return ""
    versions = str(row["versions"])
    words = f"which torch has {'only before' if versions.startswith('<') else 'from'} {versions.lstrip('<>=')}"
    version = case.fact("torch.version")
    if not version.is_known or in_range(version.value, versions) is not False:
        return words
    return f"{words}: {'the extension' if versions.startswith('<') else 'torch'} is the older side"


def _abi(symbol: str) -> str:
    abi = string_abi(symbol)
    return f"in {_ABI[abi]}" if abi else ""
