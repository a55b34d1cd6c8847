"""What keeps a Hub kernel from being loaded or from running here: GPU, builds, cache, offline mode.

What an attention name stands for is in `flash_default`, what the kernels release itself can do in `stack`. Asks no Hub:
where the builds of a version are not known, no obstacle is known either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...environment import CachedKernel, Fact, absent, known, unknown
from ..case import Case, derived
from ..conditions import in_range, parse_version
from .driver import gpu_capability, visible_nvidia_gpus

FLASH_ATTN_2 = "kernels-community/flash-attn2"
_ROOM = 300_000_000  # bytes; the wheel of flash-attn 2.8.3, compiled from the same sources, has about 250 MB
_AMPERE = (8, 0)  # https://github.com/Dao-AILab/flash-attention#nvidia-cuda-support


@derived("driver.gpus_before_ampere", tuple[str, ...])
def gpus_before_ampere(case: Case) -> Fact[tuple[str, ...]]:
    """The visible NVIDIA GPUs on which no FlashAttention runs, "Tesla T4 (7.5)", each model once.

    Absent where there is none. A GPU whose compute capability is not known counts as able.
    """
    names = [text for text, able in _gpus(case) if not able]
    if not visible_nvidia_gpus(case).is_known:
        return unknown(visible_nvidia_gpus(case).note)
    return (
        known(tuple(dict.fromkeys(names)), "gpus") if names else absent("every GPU is of Ampere or newer, or unknown")
    )


def _gpus(case: Case) -> Iterator[tuple[str, bool]]:
    """Each visible NVIDIA GPU in words, and whether FlashAttention 2 may run on it."""
    for gpu in visible_nvidia_gpus(case).value or ():
        capability = gpu_capability(gpu, case)
        version = parse_version(str(capability.value)) if capability.is_known else None
        able = version is None or version.release[:2] >= _AMPERE
        yield f"{gpu.name.value or 'a GPU'} ({capability.value})", able


@derived("transformers.flash_attention_2_cached", bool)
def flash_attention_2_cached(case: Case) -> Fact[bool]:
    """Whether the Hub kernel that transformers takes for flash_attention_2 is in the cache or given by LOCAL_KERNELS.

    Absent where it takes none. Which of its builds are there is not looked at.
    """
    source, reference = (case.fact(f"transformers.flash_attention_2_{name}") for name in ("source", "reference"))
    if source.value != "hub":
        return unknown(source.note) if source.is_unknown else absent("no Hub kernel is loaded")
    if not reference.is_known:
        return unknown(reference.note)
    repo, _, revision = str(reference.value).partition("@")
    return _cached(case, repo, revision)


def _cached(case: Case, repo: str, revision: str = "") -> Fact[bool]:
    """Whether a snapshot of a repository (and branch) is in the cache, or a folder stands for it."""
    local, cached = case.fact("huggingface.local_kernels"), case.fact("huggingface.cached_kernels")
    if any(entry.partition("=")[0] == repo for entry in local.value or ()):
        return known(True, local.note)
    kernels: tuple[CachedKernel, ...] = cached.value or ()
    if any(kernel.repo == repo and (not revision or revision in kernel.branches) for kernel in kernels):
        return known(True, cached.note)
    doubt = next((fact for fact in (cached, local) if fact.is_unknown), None)
    if doubt is not None or "stopped after" in cached.note:
        return unknown(doubt.note if doubt else cached.note)
    return known(False, cached.note)


@derived("kernels.cache_obstacle", str)
def cache_obstacle(case: Case) -> Fact[str]:
    """Why no kernel can be downloaded into the cache although one is to be: it cannot be written, or it is full.

    Absent offline, without kernels, and where what is wanted is there: then nothing is downloaded.
    """
    release, offline = case.fact("packages.kernels.version"), case.fact("huggingface.offline")
    if not release.is_known or offline.value is True:
        return unknown(release.note) if release.is_unknown else absent("nothing is downloaded")
    there = case.fact("transformers.flash_attention_2_cached")
    if there.value is True or (there.is_absent and case.fact("huggingface.cached_kernels").value):
        return absent("what is wanted is in the cache")
    answer = _state_of_cache(case)
    doubt = next((fact for fact in (offline, there, answer) if fact.is_unknown), None)
    return answer if doubt is None or answer.is_absent else unknown(doubt.note)


def _state_of_cache(case: Case) -> Fact[str]:
    writable, free = case.fact("huggingface.cache_writable"), case.fact("huggingface.cache_free_bytes")
    if writable.value is False:
        return known("it cannot be written", writable.note)
    if free.is_known and int(free.value or 0) < _ROOM:
        return known(f"only {int(free.value or 0) // 1_000_000} MB are free", free.note)
    doubt = next((fact for fact in (writable, free) if fact.is_unknown), None)
    return unknown(doubt.note) if doubt else absent("it can be written and has room")


@derived("transformers.flash_attention_2_obstacle", str)
def flash_attention_2_obstacle(case: Case) -> Fact[str]:
    """Why the Hub kernel of flash_attention_2 cannot be loaded here or run, as far as that is known; absent otherwise.

    Never unknown: it only keeps from advising what is known not to work.
    """
    known_ones = (*_everywhere(case), *_of_flash_attention_2(case))
    return next(iter(known_ones), absent("none is known"))


@derived("hub.flash_attn2_obstacle", str)
def flash_attn2_obstacle(case: Case) -> Fact[str]:
    """Why kernels-community/flash-attn2 is no way out here, as far as that is known; absent otherwise, never unknown.

    Whether kernels is installed does not count: that can be mended.
    """
    found = list(_everywhere(case))
    if case.fact("system.os").value in ("windows", "darwin"):
        found.append(
            known("it has no builds for this system", "https://github.com/huggingface/kernels-community/pull/893")
        )
    if case.fact("huggingface.offline").value is True and _cached(case, FLASH_ATTN_2).value is False:
        found.append(known("offline mode is on, and it is not in the cache", "huggingface.cached_kernels"))
    return next(iter(found), absent("none is known"))


def _everywhere(case: Case) -> Iterator[Fact[Any]]:
    """Obstacles that every compiled FlashAttention 2 kernel of the Hub meets."""
    gpus = list(_gpus(case))
    if case.fact("torch.backend").value == "cuda" and case.fact("driver.visible_gpu_count").value == 0:
        yield known("CUDA sees no GPU", "driver.visible_gpu_count")
    if gpus and not any(able for _, able in gpus):
        yield known(f"no FlashAttention runs on {', '.join(dict.fromkeys(text for text, _ in gpus))}", "gpus")
    if case.fact("torch.driver_carries_cuda").value is False:
        yield known("the driver does not run the CUDA release of torch", "torch.driver_carries_cuda")
    if case.fact("torch.broken_libraries").is_known:
        yield known("torch is not whole", "torch.broken_libraries")
    threads, python = case.fact("python.free_threaded"), case.fact("python.version")
    if threads.value is True and in_range(python.value, "<3.15.dev0"):
        yield known("compiled kernels do not load on a free-threaded Python before 3.15", threads.note)


def _of_flash_attention_2(case: Case) -> Iterator[Fact[Any]]:
    if case.fact("transformers.flash_attention_2_has_build").value is False:
        yield known("it has no build for this torch", "transformers.flash_attention_2_has_build")
    if case.fact("kernels.telemetry_breaks_loading").value is True:
        yield known("telemetry is off, which breaks the download", "kernels.telemetry_breaks_loading")
    if (
        case.fact("huggingface.offline").value is True
        and case.fact("transformers.flash_attention_2_cached").value is False
    ):
        yield known("offline mode is on, and it is not in the cache", "huggingface.cached_kernels")
    obstacle = case.fact("kernels.cache_obstacle")
    if obstacle.is_known:
        yield known(f"the cache: {obstacle.value}", obstacle.note)
