"""Says whether a release of kernels or transformers would take a call as it is written; knows no build and no Hub.

Tried with the released wheels: https://pypi.org/project/kernels/0.16.2/ is the last one that takes a revision by its
place, https://pypi.org/project/kernels/0.13.0/ the last one that takes a version as text, and `use_flash_attention_2`
is gone since https://github.com/huggingface/transformers/pull/37131.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.version import InvalidVersion, Version

from .model import Pin
from .python_source import OLD_KEY

_BY_NAME_ONLY = Version("0.17.0")  # kernels
_WITHOUT_OLD_KEY = Version("4.53.0")  # transformers


def kernels_refusal(pin: Pin, release: Mapping[str, Any]) -> str:
    """Why a call of the kernels library would raise, whatever it names; "" where it would not.

    release: the row of the table for the kernels release in question.
    """
    number = release["version"]
    by_name_only = Version(number) >= _BY_NAME_ONLY
    if pin.call == "both":
        return "revision and version are both given, and kernels takes one of them: ValueError"
    if pin.call == "positional" and by_name_only:
        return f"the revision is given by its place, and kernels {number} takes it by name only: TypeError"
    if pin.call == "text" and release["versions"] == "branches":
        return f"the version {pin.value!r} is no number, and kernels {number} takes numbers only"
    if pin.call == "text" and release["versions"] == "none":
        return f"kernels {number} takes no version: TypeError"
    if pin.kind == "unpinned" and _demands_version(pin, release):
        return f"neither version nor revision is given, and kernels {number} demands one: ValueError"
    return ""


def _demands_version(pin: Pin, release: Mapping[str, Any]) -> bool:
    """Whether a kernel named without a version is refused; else the branch main is taken."""
    layer = pin.place.partition(",")[0].endswith("Repository")
    return bool(release["layer_version_required" if layer else "version_required"])


def transformers_refusal(pin: Pin, release: str) -> str:
    """The same for a call of transformers, of the release that is installed; "" also where that is not known."""
    try:
        gone = pin.place.startswith(OLD_KEY) and Version(release) >= _WITHOUT_OLD_KEY
    except InvalidVersion:
        return ""
    return f"{OLD_KEY} is no argument of transformers {release}, nor of any since 4.53" if gone else ""
