"""What each release of the `kernels` library can read and accepts, as data; compares nothing.

Every row was read from the released package (https://pypi.org/project/kernels/#history): `build_variant`,
`build_variant_noarch` and `build_variants` of kernels/utils.py up to 0.12.3, kernels/variants.py and
kernels/backends.py from 0.13.0 on.
"""

from __future__ import annotations

import enum
import functools

from packaging.version import InvalidVersion, Version

from ..errors import UsageError
from ..values import dataclass

OLDEST_KNOWN = "0.4.0"
NEWEST_KNOWN = "0.17.2"


class Feature(enum.Enum):
    """One thing that a release does and its predecessors did not."""

    ROCM = "asks for rocm names"
    METAL = "asks for metal names"
    ARM64_IS_AARCH64 = "calls Apple's arm64 aarch64"
    XPU_UNVERSIONED = "asks for the name xpu without a number, which nobody published"
    XPU = "asks for numbered xpu names"
    CANN = "asks for cann names"
    CPU = "runs with a CPU-only torch; before, every load raised AssertionError"
    WINDOWS_NAMES = "calls AMD64 x86_64 and asks for names without an ABI tag on Windows"
    NOARCH = "takes torch-cuda, torch-cpu, ... and not only torch-universal"
    NEURON = "recognises a Neuron torch"
    READS_NAMES = "lists the folders and judges each; before, it only asked for exact names"
    TVM_FFI = "reads tvm-ffi names"
    STABLE_ABI = "reads torch-stable-abi names"
    TAGLESS_FIRST = "prefers names without an ABI tag, even to a newer CUDA minor release"
    REFUSES_FREE_THREADED = "takes no compiled build on a free-threaded Python before 3.15"
    METAL_NEEDS_MACOS_26 = "takes metal builds from macOS 26 on"
    TPU = "reads tpu names and recognises a TPU torch"


_Span = tuple[str, str | None]  # from this release on, below that one (None: to this day)

# The noarch names were brought back to every minor line on one day, 2025-12-04.
_NOARCH: tuple[_Span, ...] = (
    ("0.4.5", "0.5"),
    ("0.5.1", "0.6"),
    ("0.6.3", "0.7"),
    ("0.7.1", "0.8"),
    ("0.8.2", "0.9"),
    ("0.9.1", "0.10"),
    ("0.10.5", "0.11"),
    ("0.11.2", None),
)

SPANS: dict[Feature, tuple[_Span, ...]] = {
    Feature.ROCM: (("0.4.2", None),),
    Feature.METAL: (("0.6.0", None),),
    Feature.ARM64_IS_AARCH64: (("0.6.2", None),),
    Feature.XPU_UNVERSIONED: (("0.8.1", "0.10.1"),),
    Feature.XPU: (("0.10.1", None),),
    Feature.CANN: (("0.10.3", None),),
    Feature.CPU: (("0.11.0", None),),
    Feature.WINDOWS_NAMES: (("0.11.0", None),),
    Feature.NOARCH: _NOARCH,
    Feature.NEURON: (("0.12.2", None),),
    Feature.READS_NAMES: (("0.13.0", None),),
    Feature.TVM_FFI: (("0.13.0", None),),
    Feature.STABLE_ABI: (("0.15.1", None),),
    Feature.TAGLESS_FIRST: (("0.15.1", None),),
    Feature.REFUSES_FREE_THREADED: (("0.15.1", None),),
    Feature.METAL_NEEDS_MACOS_26: (("0.17.0", None),),
    Feature.TPU: (("0.17.0", None),),
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one `kernels` release."""

    release: str
    features: frozenset[Feature]
    extrapolated: bool  # newer than what was read: the newest known rules are applied

    def has(self, feature: Feature) -> bool:
        """Whether this release does it."""
        return feature in self.features


@functools.lru_cache(maxsize=64)
def rules_of(kernels: str) -> Rules:
    """The rules of a release such as "0.16.2". Raises UsageError for text that is no release, or one before 0.4.0."""
    try:
        release = Version(kernels)
    except InvalidVersion:
        raise UsageError(f"{kernels[:60]!r} is no kernels release: write it as in 0.17.2") from None
    if release < Version(OLDEST_KNOWN):
        raise UsageError(f"kernels {release} is older than what is known here: the oldest is {OLDEST_KNOWN}")
    features = frozenset(f for f, spans in SPANS.items() if any(_within(release, span) for span in spans))
    return Rules(str(release), features, release > Version(NEWEST_KNOWN))


def first_release(feature: Feature) -> str:
    """The release from which on every later one has the feature."""
    return SPANS[feature][-1][0]


def _within(release: Version, span: _Span) -> bool:
    first, below = span
    return Version(first) <= release and (below is None or release < Version(below))
