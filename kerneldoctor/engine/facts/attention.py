"""FlashAttention packages against torch, Python and the GPU: labels, GPU code, dependencies; looks at nothing itself.

What the releases hold comes from the tables `flash_attn_releases` and `flash_attn_4_releases`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...archs import supports_gpu
from ...environment import Extension, Fact, absent, known, unknown
from ..case import Case, Row, derived
from ..conditions import in_range, major_of, parse_version

_BINARY = "flash_attn_2_cuda"
# Two dependencies of flash-attn-4 that name cutlass.cute.core.ThrMma, gone from nvidia-cutlass-dsl 4.6.0:
# https://github.com/NVIDIA/Megatron-LM/pull/6545 and the sources of quack-kernels 0.5.0 and 0.5.1 on PyPI.
_THRMMA_GONE = ">=4.6.0"
_QUACK_WITHOUT_THRMMA = ">=0.5.1"


@derived("flash_attn.public_version", str)
def public_version(case: Case) -> Fact[Any]:
    """The version of flash-attn without its local label: what an index knows it by."""
    version = case.fact("flash_attn.version")
    return known(str(version.value).partition("+")[0], version.note) if version.is_known else version


@derived("flash_attn.label_torch_ok", bool)
def label_torch_ok(case: Case) -> Fact[Any]:
    """Whether the torch minor in the wheel's name (`torch2.8`) is the installed one, or its symbols resolve anyway."""
    label, torch = case.fact("flash_attn.built_for_torch"), case.fact("torch.version")
    if not label.is_known or not torch.is_known:
        return label if not label.is_known else torch
    if minor(label.value) == minor(torch.value) or _symbols_resolve(case):
        return known(True, label.note)
    if major_of(label.value) is None or major_of(torch.value) is None:
        return unknown(f"{label.value!r} or {torch.value!r} is no torch release")
    return known(False, f"built for torch {label.value}, torch is {torch.value}")


@derived("flash_attn.label_cuda_ok", bool)
def label_cuda_ok(case: Case) -> Fact[Any]:
    """Whether the CUDA major in the wheel's name (`cu12`) is torch's."""
    label, cuda = case.fact("flash_attn.built_for_cuda"), case.fact("torch.cuda")
    if not label.is_known or not cuda.is_known:
        return label if not label.is_known else cuda
    one, other = major_of(label.value), major_of(cuda.value)
    if one is None or other is None:
        return unknown(f"{label.value!r} or {cuda.value!r} is no CUDA release")
    return known(one == other, f"built for CUDA {label.value}, torch for CUDA {cuda.value}")


@derived("flash_attn.label_abi_ok", bool)
def label_abi_ok(case: Case) -> Fact[Any]:
    """Whether the C++ ABI that the wheel's name stands for is torch's.

    `cxx11abiTRUE` forces the new ABI; `cxx11abiFALSE` means that of the torch it was compiled against, which is new
    from torch 2.7 on, and for 2.8.x wheels already with torch 2.6 (compiled against 2.6.0+cu126):
    https://github.com/Dao-AILab/flash-attention/issues/1783
    """
    label, abi = case.fact("flash_attn.built_for_cxx11_abi"), case.fact("torch.cxx11_abi")
    if not label.is_known or not abi.is_known:
        return label if not label.is_known else abi
    if _symbols_resolve(case):
        return known(True, "every torch symbol resolves")
    real = bool(label.value) or _false_means_new(case)
    return known(real == abi.value, f"the wheel has the {'new' if real else 'old'} C++ ABI")


def _false_means_new(case: Case) -> bool:
    built_for = parse_version(str(case.fact("flash_attn.built_for_torch").value))
    version = case.fact("flash_attn.version").value
    if built_for is None:
        return False
    if built_for.release[:2] == (2, 6):
        return bool(in_range(version, ">=2.8.0,<2.9"))
    return built_for.release[:2] >= (2, 7)


@derived("flash_attn.label_mismatch", str)
def label_mismatch(case: Case) -> Fact[Any]:
    """What of the label does not fit, "torch 2.8, not 2.9.1+cu128; CUDA 12, not 13.0". Absent where all fits."""

    def value(path: str) -> Any:
        return case.fact(path).value

    abi = "old" if value("torch.cxx11_abi") else "new"
    texts = {
        "flash_attn.label_torch_ok": f"torch {value('flash_attn.built_for_torch')}, not {value('torch.version')}",
        "flash_attn.label_cuda_ok": f"CUDA {value('flash_attn.built_for_cuda')}, not {value('torch.cuda')}",
        "flash_attn.label_abi_ok": f"the {abi} C++ ABI, which is not that of torch",
    }
    wrong = [text for path, text in texts.items() if value(path) is False]
    if wrong:
        return known("; ".join(wrong), "flash_attn.version")
    doubt = next((case.fact(path) for path in texts if case.fact(path).is_unknown), None)
    return doubt or absent("the label fits, or there is none")


@derived("flash_attn.hollow_generations", tuple[str, ...])
def hollow_generations(case: Case) -> Fact[Any]:
    """FlashAttention 3 or 4 distributions whose package is gone or lacks a part, "flash-attn-4 4.0.0b36"."""
    kinds = {name: case.fact(f"{name}.kind") for name in ("flash_attn_3", "flash_attn_4")}
    hollow = [name for name, kind in kinds.items() if kind.value in ("metadata_only", "incomplete")]
    texts = tuple(f"{case.fact(f'{n}.distribution').value} {case.fact(f'{n}.version').value}" for n in hollow)
    if texts:
        return known(texts, kinds[hollow[0]].note)
    doubt = next((kind for kind in kinds.values() if kind.is_unknown), None)
    return doubt or absent("whole, or not installed")


@derived("gpu.flash_attn_2_supported", bool)
def flash_attn_2_supported(case: Case) -> Fact[Any]:
    """Whether FlashAttention 2 has kernels for this generation of GPU: compute capability 8.0 or newer.

    https://github.com/Dao-AILab/flash-attention#nvidia-cuda-support
    """
    return _capability_fact(case, lambda major, _minor: major >= 8)


@derived("gpu.flash_attn_3_supported", bool)
def flash_attn_3_supported(case: Case) -> Fact[Any]:
    """Whether FlashAttention 3 runs on this GPU: compute capability 9.0; builds for 8.x exist, so there it is unknown.

    https://github.com/Dao-AILab/flash-attention#flashattention-3-beta-release
    """
    capability = _capability(case)
    if capability.is_known and str(capability.value).startswith("8."):
        return unknown("the README asks for compute capability 9.0, some builds hold code for 8.x")
    return _capability_fact(case, lambda major, _minor: major == 9)


@derived("gpu.flash_attn_4_supported", bool)
def flash_attn_4_supported(case: Case) -> Fact[Any]:
    """Whether the installed flash-attn-4 lets this GPU through in the forward pass (table flash_attn_4_releases)."""
    row = _release(case, "flash_attn_4")
    if isinstance(row, Fact):
        return row
    majors = row["forward"]
    return _capability_fact(case, lambda major, _minor: str(major) in majors, str(row["source"]))


@derived("gpu.flash_attn_2_has_code", bool)
def flash_attn_2_has_code(case: Case) -> Fact[Any]:
    """Whether the installed flash-attn 2 holds code for this GPU: read from its binary, else from the release table.

    Without the binary it is known only where wheel and build from source agree, or a label shows that it is a wheel.
    Code for 8.0 on Orin (8.7) is unknown: NVIDIA promises it between GPUs of one major, users saw it fail
    (https://github.com/Dao-AILab/flash-attention/issues/1146).
    """
    capability = _capability(case)
    if not capability.is_known:
        return capability
    if in_range(case.fact("flash_attn.version").value, "<2"):
        return absent("FlashAttention 1")
    answers = {supports_gpu(archs, str(capability.value)) for archs, _ in _code(case)}
    if len(answers) != 1 or None in answers:
        return unknown(f"GPU code of this flash-attn is not known for compute capability {capability.value}")
    answer = answers.pop()
    if answer and _orin_without_own_code(case):
        return unknown("it holds code for 8.0; whether that runs on Orin is reported both ways")
    return known(answer, _code(case)[0][1])


@derived("gpu.flash_attn_2_orin_code_missing", bool)
def flash_attn_2_orin_code_missing(case: Case) -> Fact[Any]:
    """Whether this is a Jetson Orin (8.7) and the installed flash-attn 2 holds no code of exactly that capability."""
    capability = _capability(case)
    if not capability.is_known:
        return capability
    if capability.value != "8.7":
        return known(False, "no Jetson Orin")
    if not _code(case):
        return unknown("GPU code of this flash-attn is not known")
    return known(_orin_without_own_code(case), _code(case)[0][1])


def _orin_without_own_code(case: Case) -> bool:
    own = _capability(case).value == "8.7"
    return own and all(not arch.startswith("8.7") and "+PTX" not in arch for archs, _ in _code(case) for arch in archs)


def _code(case: Case) -> list[tuple[tuple[str, ...], str]]:
    """The lists of GPU code that the installed flash-attn may hold, each with its source."""
    binary = binary_extension(case)
    if binary is not None and binary.archs.is_known:
        return [(tuple(binary.archs.value or ()), binary.archs.note)]
    row = _release(case, "flash_attn")
    if isinstance(row, Fact):
        return []
    wheel = (tuple(row["wheel_archs"]), str(row["source"]))
    if case.fact("flash_attn.built_for_torch").is_known:
        return [wheel]
    return [wheel, (tuple(row["source_archs"]), str(row["source"]))]


@derived("flash_attn_4.dependency_fault", str)
def flash_attn_4_dependency_fault(case: Case) -> Fact[Any]:
    """What the installed flash-attn-4 beta does not find among its dependencies; absent when all fit."""
    row = _release(case, "flash_attn_4")
    if isinstance(row, Fact):
        return row
    doubts: list[str] = []
    for name, wanted in _dependencies(row):
        found = case.fact(f"packages.{name}.version")
        if found.is_unknown:
            doubts.append(f"{name}: {found.note}")
        elif found.is_absent:
            return known(f"{name} is not installed, it needs {wanted}", str(row["source"]))
        elif not in_range(found.value, wanted):
            return known(f"{name} is {found.value}, it works with {wanted}", str(row["source"]))
    return unknown("; ".join(doubts)) if doubts else _quack_fault(case)


@derived("flash_attn_4.dependencies_ok", bool)
def flash_attn_4_dependencies_ok(case: Case) -> Fact[Any]:
    """Whether nvidia-cutlass-dsl, quack-kernels and apache-tvm-ffi suit the installed flash-attn-4 beta."""
    fault = case.fact("flash_attn_4.dependency_fault")
    if fault.is_unknown:
        return fault
    row = _release(case, "flash_attn_4")
    if isinstance(row, Fact):
        return row
    return known(fault.is_absent, fault.note)


def _dependencies(row: Row) -> Iterable[tuple[str, str]]:
    below = row.get("cutlass_dsl_below")
    yield "nvidia-cutlass-dsl", str(row["cutlass_dsl"]) + (f",<{below}" if below else "")
    yield "quack-kernels", str(row["quack"])
    yield "apache-tvm-ffi", str(row["tvm_ffi"])


def _quack_fault(case: Case) -> Fact[Any]:
    quack, dsl = case.fact("packages.quack-kernels.version"), case.fact("packages.nvidia-cutlass-dsl.version")
    if in_range(dsl.value, _THRMMA_GONE) and in_range(quack.value, _QUACK_WITHOUT_THRMMA) is False:
        return known(f"quack-kernels {quack.value} breaks on nvidia-cutlass-dsl {dsl.value}", quack.note)
    return absent("all dependencies fit")


def _release(case: Case, name: str) -> Row | Fact[Any]:
    """The table row of an installed generation, or the fact that says why there is none."""
    version = case.fact(f"{name}.version")
    if not version.is_known:
        return version
    if name == "flash_attn_4" and case.fact("flash_attn_4.distribution").value == "flash-attn":
        return absent("flash_attn.cute is the copy that flash-attn ships")
    for row in case.table(f"{name}_releases"):
        if in_range(version.value, str(row["versions"])):
            return row
    return unknown(f"{version.value} is in no row of the table {name}_releases")


def _capability(case: Case) -> Fact[Any]:
    return case.fact("gpu.capability")


def _capability_fact(case: Case, allows: Any, source: str = "compute capability") -> Fact[Any]:
    capability = _capability(case)
    if not capability.is_known:
        return capability
    parsed = parse_version(str(capability.value))
    if parsed is None:
        return unknown(f"{capability.value} is no compute capability")
    return known(bool(allows(parsed.major, parsed.minor)), source)


def binary_extension(case: Case) -> Extension | None:
    """The compiled part of flash-attn 2 among the extensions that were looked at."""
    listed = case.fact("extensions")
    return next((item for item in listed.value or () if item.module == _BINARY), None)


def _symbols_resolve(case: Case) -> bool:
    binary = binary_extension(case)
    return binary is not None and binary.missing_torch_symbols.is_known and not binary.missing_torch_symbols.value


def minor(version: Any) -> str:
    """`2.8` of `2.8.0+cu128`; the text itself where it is no version."""
    parsed = parse_version(str(version))
    return f"{parsed.major}.{parsed.minor}" if parsed else str(version)
