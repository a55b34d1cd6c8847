"""Says what the resolver of `kernels` does not: whether an accepted build can load and run on this machine.

Pure. A verdict is data (code and fields); what would be needed for one and is unknown is named as a missing fact.
Known faults of single builds are rules, see issues.py.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from dataclasses import field

from ..archs import supports_gpu
from ..engine.case import Case, Kernel, Row
from ..engine.conditions import in_range
from ..engine.facts.driver import gpu_capability, visible_nvidia_gpus
from ..engine.model import Certainty
from ..environment import Fact, Gpu
from ..values import dataclass
from .acceptance import Missing
from .listing import Build, Version
from .metadata import METADATA, Metadata
from .variant import Variant

# The builder links every Linux build against this glibc or older (manylinux_2_28):
# https://huggingface.co/docs/kernels/kernel-requirements
GLIBC = "2.28"
# torch has asked for the same glibc since 2.7 (wheel tags of https://pypi.org/project/torch/2.7.0/#files), so where
# such a torch is installed the question is settled.
TORCH_WITH_GLIBC = ">=2.7"
# metadata.json has carried the name, which kernels demands from 0.14.0 on, since the uploads of May 2026:
# https://github.com/huggingface/kernels-community/issues/945
FIRST_READABLE = "2026-05"
_AMD = re.compile(r"gfx[0-9a-f]{3,5}", re.ASCII)


class VerdictCode(enum.Enum):
    """What stops an accepted build. `wanted` and `found` of a Verdict are what the build and the machine say."""

    NO_GPU = "no_gpu"
    NO_GPU_CODE = "no_gpu_code"  # wanted: the GPU's capability; found: the architectures in the build
    DRIVER_TOO_OLD = "driver_too_old"  # wanted: CUDA of torch; found: CUDA that the driver offers
    METADATA_UNREADABLE = "metadata_unreadable"  # wanted: date of the first readable uploads; found: date of this one
    METADATA_INCOMPLETE = "metadata_incomplete"  # wanted: the fields that it lacks; found: the kernels release
    METADATA_MISSING = "metadata_missing"  # found: the kernels release
    PYTHON_DEPENDS_MISSING = "python_depends_missing"  # wanted: the distributions
    LIBC_TOO_OLD = "libc_too_old"
    KERNELS_TOO_OLD = "kernels_too_old"  # wanted: the build's own minimum


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that stops a build, or may."""

    code: VerdictCode
    certainty: Certainty
    wanted: str
    found: str
    subject: str = ""  # the GPU that it is about
    basis: str = ""  # where the build's side of it comes from, "derived from the sources of …"


@dataclass(frozen=True, slots=True)
class Beyond:
    """Everything that can be said beyond the resolver of one build."""

    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[Missing, ...] = ()


Finding = Verdict | Missing


@dataclasses.dataclass(slots=True)
class Machine:
    """The machine's side of the verdicts, worked out once for all builds."""

    case: Case
    kernels: Row  # what the kernels release does
    _gpus: list[tuple[Gpu, Fact[str]]] | None = field(default=None, init=False)

    def beyond(self, version: Version, build: Build, variant: Variant, kernel: Kernel, row: Row | None) -> Beyond:
        """The verdicts on one build and the facts that further ones would need."""
        found = (
            *self._gpu(variant, kernel, row),
            *self._libc(variant),
            *self._metadata(version, build, row),
            *self._depends(kernel),
            *self._minimum(kernel),
        )
        return Beyond(
            tuple(item for item in found if isinstance(item, Verdict)),
            tuple(item for item in found if isinstance(item, Missing)),
        )

    def _gpu(self, variant: Variant, kernel: Kernel, row: Row | None) -> Iterator[Finding]:
        if variant.backend == "rocm" and not kernel.archs.is_absent:
            yield from self._amd_code(kernel)
        if variant.backend != "cuda":
            return
        listed = visible_nvidia_gpus(self.case)
        if listed.is_unknown:
            yield Missing("gpus", listed.note)
            return
        if not listed.value:
            yield Verdict(VerdictCode.NO_GPU, "confirmed", "an NVIDIA GPU", "none")
            return
        yield from self._driver()
        if not kernel.archs.is_absent and not self._compiles_for_any_gpu(row):
            yield from self._gpu_code(kernel)

    def _compiles_for_any_gpu(self, row: Row | None) -> bool:
        """A kernel that compiles itself runs anyway, unless this kernels release checks the list in its metadata."""
        return bool(row and row.get("jit")) and not self.kernels.get("arch_check", False)

    def _driver(self) -> Iterator[Finding]:
        carries = self.case.fact("torch.driver_carries_cuda")
        if carries.value is False:
            cuda, offered = self.case.fact("torch.cuda"), self.case.fact("driver.cuda_offered")
            yield Verdict(VerdictCode.DRIVER_TOO_OLD, "confirmed", str(cuda.value), str(offered.value or "less"))

    def _gpu_code(self, kernel: Kernel) -> Iterator[Finding]:
        if kernel.archs.is_unknown:
            yield Missing("kernel.archs", kernel.archs.note)
            return
        archs = kernel.archs.value or ()
        for gpu, capability in self._capabilities():
            if not capability.is_known:
                yield Missing("gpu.compute_capability", capability.note)
            elif (runs := supports_gpu(archs, str(capability.value))) is None:
                yield Missing("gpu.compute_capability", f"whether {', '.join(archs)} covers {capability.value}")
            elif not runs:
                name = str(gpu.name.value or "GPU")
                yield Verdict(
                    VerdictCode.NO_GPU_CODE,
                    "confirmed",
                    str(capability.value),
                    ", ".join(archs),
                    name,
                    kernel.archs.note,
                )

    def _amd_code(self, kernel: Kernel) -> Iterator[Finding]:
        """As for CUDA, where the architecture of the GPUs is known: --gpu names it, no probe does."""
        gpus = [gpu for gpu in self.case.environment.gpus.value or () if gpu.vendor.value == "amd"]
        if not kernel.archs.is_known:
            yield Missing("kernel.archs", kernel.archs.note)
        elif not gpus or not all(_AMD.fullmatch(str(gpu.name.value)) for gpu in gpus):
            yield Missing("gpus", "the architecture of AMD GPUs is not looked at")
        for gpu in gpus if kernel.archs.is_known else ():
            name, archs = str(gpu.name.value), kernel.archs.value or ()
            if supports_gpu(archs, name) is False:
                code = VerdictCode.NO_GPU_CODE
                yield Verdict(code, "confirmed", name, ", ".join(archs), name, kernel.archs.note)

    def _capabilities(self) -> list[tuple[Gpu, Fact[str]]]:
        if self._gpus is None:
            seen: dict[object, tuple[Gpu, Fact[str]]] = {}
            for gpu in visible_nvidia_gpus(self.case).value or ():
                capability = gpu_capability(gpu, self.case)
                seen.setdefault((gpu.name.value, capability.value), (gpu, capability))
            self._gpus = list(seen.values())
        return self._gpus

    def _libc(self, variant: Variant) -> Iterator[Finding]:
        if variant.is_noarch or variant.os != "linux":
            return
        libc, version, torch = (self.case.fact(p) for p in ("system.libc", "system.libc_version", "torch.version"))
        if libc.value == "musl":
            yield Verdict(VerdictCode.LIBC_TOO_OLD, "confirmed", f"glibc {GLIBC}", "musl")
        elif version.is_known and in_range(version.value, f">={GLIBC}") is False:
            yield Verdict(VerdictCode.LIBC_TOO_OLD, "confirmed", f"glibc {GLIBC}", f"glibc {version.value}")
        elif not version.is_known and not (torch.is_known and in_range(torch.value, TORCH_WITH_GLIBC)):
            yield Missing("system.libc_version", version.note)

    def _metadata(self, version: Version, build: Build, row: Row | None) -> Iterator[Finding]:
        if not self.kernels.get("metadata_required", False):
            return
        said: Metadata | None = build.metadata.value
        if said is not None:
            if said.lacks:
                code, here = VerdictCode.METADATA_INCOMPLETE, str(self.kernels["version"])
                yield Verdict(code, "confirmed", ", ".join(said.lacks), here, basis=build.metadata.note)
            return
        if build.metadata.is_absent:
            yield Verdict(VerdictCode.METADATA_MISSING, "confirmed", METADATA, str(self.kernels["version"]))
            return
        code, wanted = VerdictCode.METADATA_UNREADABLE, f"uploads from {FIRST_READABLE} on"
        if version.how in ("observed", "derived", "partial") and version.as_of and version.as_of < FIRST_READABLE:
            yield Verdict(code, "confirmed", wanted, version.as_of)
        elif row is not None and str(row["last"]) < FIRST_READABLE:
            basis = "its sources have not changed since, so it may not have been built again"
            yield Verdict(code, "possible", wanted, str(row["last"]), basis=basis)

    def _depends(self, kernel: Kernel) -> Iterator[Finding]:
        if kernel.python_depends.is_absent:
            return
        if kernel.python_depends.is_unknown:
            yield Missing("kernel.python_depends", kernel.python_depends.note)
            return
        missing = Case(self.case.environment, self.case.tables, kernel).fact("kernel.missing_python_depends")
        if missing.is_known:
            code, names = VerdictCode.PYTHON_DEPENDS_MISSING, " ".join(missing.value or ())
            yield Verdict(code, "confirmed", names, "none", basis=kernel.python_depends.note)
        elif missing.is_unknown:
            yield Missing("packages", missing.note)

    def _minimum(self, kernel: Kernel) -> Iterator[Finding]:
        """Unknown for most builds; only what was read from metadata counts, and only where the release enforces it."""
        here = str(self.kernels["version"])
        if self.kernels.get("minver") != "error" or not kernel.minver.is_known:
            return
        if in_range(here, f">={kernel.minver.value}") is False:
            yield Verdict(VerdictCode.KERNELS_TOO_OLD, "confirmed", str(kernel.minver.value), here)
