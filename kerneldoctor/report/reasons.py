"""Words for what the hub room says in codes: why a build is refused, what stops it, what is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..environment import Environment
from ..hub.acceptance import Missing, Reason, ReasonCode
from ..hub.beyond import Verdict, VerdictCode
from ..hub.candidates import Candidate
from ..hub.issues import KnownIssue
from .text import listing

_NO_TORCH = "no torch is installed"
_REASONS: Mapping[ReasonCode, str] = {
    ReasonCode.NAME_NOT_READ: "read by kernels {wanted} and newer, not by {found}",
    ReasonCode.NAME_NOT_CANONICAL: "kernels asks for {wanted}",
    ReasonCode.RELEASE_WITHOUT_BACKEND: "kernels {wanted} takes nothing with a torch for {found}",
    ReasonCode.TORCH_MISSING: "no torch is installed",
    ReasonCode.FREE_THREADED: "compiled builds are refused on a free-threaded Python",
    ReasonCode.MACHINE: "for {wanted}; this is {found}",
    ReasonCode.OS: "for {wanted}; this is {found}",
    ReasonCode.TORCH_VERSION: "for torch {wanted}; here is {found}",
    ReasonCode.ABI: "C++ ABI {wanted}; torch has {found}",
    ReasonCode.STABLE_ABI_TOO_NEW: "needs torch {wanted} or newer; here is {found}",
    ReasonCode.TVM_FFI_VERSION: "needs tvm-ffi {wanted}; here is {found}",
    ReasonCode.CUDA_MAJOR: "for CUDA {wanted}; torch is built for {found}",
    ReasonCode.CUDA_TOO_NEW: "for CUDA {wanted}, newer than torch's {found}",
    ReasonCode.CUDA_NOT_EXACT: "for {wanted}; this kernels release takes {found} only",
    ReasonCode.BACKEND: "for {wanted}; torch is built for {found}",
    ReasonCode.MACOS: "needs macOS {wanted}; here is {found}",
}
_VERDICTS: Mapping[VerdictCode, Callable[[Verdict], str]] = {
    VerdictCode.NO_GPU: lambda v: "no NVIDIA GPU is visible",
    VerdictCode.NO_GPU_CODE: lambda v: f"no code for {v.subject} (capability {v.wanted}; it holds {v.found})",
    VerdictCode.DRIVER_TOO_OLD: lambda v: f"the driver offers CUDA {v.found}, torch wants {v.wanted}",
    VerdictCode.METADATA_UNREADABLE: lambda v: (
        f"this kernels release cannot read its metadata: it was uploaded {v.found}, readable are {v.wanted}"
        if v.certainty == "confirmed"
        else f"this kernels release may not read its metadata: last changed {v.found}, readable are {v.wanted}"
    ),
    VerdictCode.METADATA_INCOMPLETE: lambda v: (
        f"its metadata.json has no usable {listing(v.wanted.split(', '))}, which kernels {v.found} demands"
    ),
    VerdictCode.METADATA_MISSING: lambda v: f"it has no metadata.json, which kernels {v.found} demands",
    VerdictCode.PYTHON_DEPENDS_MISSING: lambda v: f"needs packages that are not installed: pip install {v.wanted}",
    VerdictCode.LIBC_TOO_OLD: lambda v: f"needs {v.wanted} or newer; here is {v.found}",
    VerdictCode.KERNELS_TOO_OLD: lambda v: f"needs kernels {v.wanted} or newer; here is {v.found}",
}
# Rules that say of a build what a verdict says already; their pages say what to do.
_PAGES: Mapping[VerdictCode, frozenset[str]] = {
    VerdictCode.NO_GPU_CODE: frozenset({"KD3102", "KD3103"}),
    VerdictCode.METADATA_UNREADABLE: frozenset({"KD3107"}),
    VerdictCode.METADATA_INCOMPLETE: frozenset({"KD3107"}),
    VerdictCode.PYTHON_DEPENDS_MISSING: frozenset({"KD3106"}),
}


def reason_text(reason: Reason) -> str:
    """Why the resolver refuses a build."""
    text = _REASONS[reason.code].format(wanted=reason.wanted, found=reason.found or "none")
    if reason.without_torch:  # a torch that is not there is built for nothing
        found = f"torch is built for {reason.found}"
        text = text.replace(found, without_torch_text(reason.found)).replace(
            f"newer than torch's {reason.found}", f"newer than {reason.found}, which is libcudart's: {_NO_TORCH}"
        )
    return text.replace("here is none", "none is installed")


def without_torch_text(backend: str) -> str:
    """What kernels makes of a machine on which torch is not installed: it goes by the libcudart that it finds."""
    return f"{_NO_TORCH}, and without one kernels takes this machine for {backend or 'none that is known'}"


def unused_gpu_text(environment: Environment) -> str:
    """That the installed torch leaves the GPU of a machine alone, so that what would load runs on the CPU, or ""."""
    torch, gpus = environment.torch, environment.gpus.value or ()
    visible = [gpu for gpu in gpus if gpu.visible.value is not False]
    if torch.backend.value != "cpu" or environment.system.os.value == "darwin" or not visible:
        return ""
    page = " [KD4007]" if visible[0].vendor.value == "nvidia" else ""
    name = visible[0].name.value or "GPU"
    return f"on the CPU: torch {torch.version.value} is a CPU build and cannot use the {name}{page}"


def verdict_text(verdict: Verdict) -> str:
    """What stops a build that the resolver takes; says so where the build's side of it was derived."""
    text = _VERDICTS[verdict.code](verdict)
    if not verdict.basis.startswith("derived"):
        return text
    return f"{text[:-1]}, derived)" if text.endswith(")") else f"{text} (derived)"


def missing_text(missing: Missing) -> str:
    """Which fact is needed and why it is not known."""
    return f"{missing.fact} ({missing.why})"


def issue_text(issue: KnownIssue) -> str:
    """A known fault of a build, with how sure it is."""
    if issue.certainty == "confirmed":
        return f"{issue.title} [{issue.rule}]"
    open_facts = [path for path in issue.missing if not path.startswith("workload.")]
    depends = "depends on the workload" if issue.depends_on_workload else ""
    doubt = f"not certain: {', '.join(open_facts)}" if open_facts else ""
    return f"{issue.title} [{issue.rule}; {'; '.join(filter(None, (depends, doubt)))}]"


def why(candidate: Candidate) -> str:
    """The one most important thing to say of a build; "" where nothing speaks against it."""
    if candidate.variant is None:
        return "not a name that kernels reads"
    if candidate.reason is not None:
        return reason_text(candidate.reason)
    sure = [v for v in candidate.verdicts if v.certainty == "confirmed"]
    if sure:
        pages = [i.rule for i in candidate.issues if i.rule in _PAGES.get(sure[0].code, ())]
        return verdict_text(sure[0]) + (f" [{', '.join(pages)}]" if pages else "")
    for issue in candidate.issues:
        if issue.severity == "error":
            return issue_text(issue)
    if candidate.verdicts:
        return verdict_text(candidate.verdicts[0])
    if candidate.missing:
        return f"not determined: needs {missing_text(candidate.missing[0])}"
    return issue_text(candidate.issues[0]) if candidate.issues else ""


def more(candidate: Candidate) -> list[str]:
    """What else there is to say of a build that would be taken."""
    told = {rule for verdict in candidate.verdicts for rule in _PAGES.get(verdict.code, ())}
    first, sure = why(candidate), [v for v in candidate.verdicts if v.certainty == "confirmed"]
    texts = [verdict_text(v) for v in candidate.verdicts if v not in sure[:1]]
    texts += [issue_text(issue) for issue in candidate.issues if issue.rule not in told]
    texts += [f"not determined: needs {missing_text(m)}" for m in candidate.missing]
    return [text for text in texts if text != first]
