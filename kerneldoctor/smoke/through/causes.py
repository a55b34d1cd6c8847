"""Finds why transformers does not take an attention kernel, where its own message says something else.

Child side. transformers answers with "flash-attn is not installed" or "kernels is not installed" to nearly everything;
what the kernels library or the Hub said is further down the chain of exceptions, or has to be asked for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ..loading import Refusal, classify
from ..protocol import RefusalReason

_KERNEL = re.compile(r"([^/:@|]+/[^/:@|]+)(?:@([^/:|]+))?(?::[^/:|]+)?")
_LONGEST = 1500


def refusal_of(error: BaseException, attention: str) -> Refusal:
    """The refusal for an exception out of transformers: the true cause first, what transformers said after it."""
    said = _text(error)
    reason, cause = _true_cause(error, attention)
    message = said if not cause or cause in said else f"{cause}. transformers itself says: {said}"
    return Refusal(reason, message[:_LONGEST], error)


def _true_cause(error: BaseException, attention: str) -> tuple[RefusalReason, str]:
    ranged = _out_of_range(attention)
    if ranged:
        return "kernels-out-of-range", ranged
    for link in chain(error):
        if not _raised_by(link, "transformers"):
            return classify(link), _text(link)
    return _asked_directly(error, attention)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and those it came from, the last one raised first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        # Also where it was suppressed: "raise X from None" hides causes from people.
        link = link.__cause__ or link.__context__


def _raised_by(error: BaseException, package: str) -> bool:
    trace: TracebackType | None = error.__traceback__
    name = ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name.partition(".")[0] in (package, "") or name.startswith("_kerneldoctor")


def _out_of_range(attention: str) -> str:
    """What is to be said where transformers acts as if kernels, which is there, were not installed; or ""."""
    found: Any = importlib.import_module("transformers.utils.import_utils")
    available = getattr(found, "is_kernels_available", None)
    if available is None or available():
        return ""
    import transformers

    name = f"transformers {transformers.__version__}"
    try:
        version = importlib.metadata.version("kernels")
    except importlib.metadata.PackageNotFoundError:
        return f"kernels is not installed, and {name} needs it for {attention}"
    least, most = (getattr(found, f"KERNELS_{end}_VERSION", None) for end in ("MIN", "MAX"))
    if least is None:
        return f"{name} does not accept kernels {version}"
    wanted = f">={least}" + (f",<{most}" if most else "")
    return f"{name} accepts kernels {wanted}; {version} is installed, so it acts as if there were none"


def _asked_directly(error: BaseException, attention: str) -> tuple[RefusalReason, str]:
    """What the kernels library says when it is asked for the kernel that transformers would load."""
    request = kernel_of(attention)
    if request is None:
        return classify(error), ""
    repo, options = request
    try:
        kernels: Any = importlib.import_module("kernels")
        kernels.get_kernel(repo, **options)
    except Exception as cause:  # noqa: BLE001 - somebody else's import raises anything
        return classify(cause), f"kernels says of {repo}: {_text(cause)}"
    return "import-error", f"kernels itself loads {repo}: it is transformers that does not take it"


def kernel_of(attention: str) -> tuple[str, dict[str, Any]] | None:
    """The kernel that this transformers loads for a name, as arguments of get_kernel; None where it loads none."""
    utils: Any = importlib.import_module("transformers.modeling_flash_attention_utils")
    name = getattr(utils, "FLASH_ATTN_KERNEL_FALLBACK", {}).get(attention, attention)
    found = _KERNEL.fullmatch(name)
    if found is None:
        return None
    if found[2]:
        return found[1], {"revision": found[2]}
    hub: Any = importlib.import_module("transformers.integrations.hub_kernels")
    version = getattr(hub, "get_attn_kernel_version", None)
    return found[1], {} if version is None else {"version": version(found[1])}


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[: _LONGEST // 2]
