"""Reads the value of each kind of key into sightings. Which key is of which kind stands in keys.py."""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import values
from .entry import Entry, Reader
from .gpus import add_names, capability
from .labels import torch_facts
from .model import Source
from .names import normalise
from .notebook import Notebook
from .smi import listed_gpu
from .system_readers import environment_kind, gcc, image, kernel, libc, machine, os, platform, ram
from .text import Line


def torch(entry: Entry) -> bool:
    """torch's version; the CUDA and backend that its label names; "2.7.1+cu128 (CUDA 12.8)"."""
    found = values.version(entry.value)
    if found is None:
        return _missing_package(entry, "torch")
    if _several(entry.value, found):
        return False  # "2.11-2.13", "2.8 and 2.9": which one it is here was not said
    for path, value in torch_facts(found):
        entry.add(path, value)
    beside = re.search(
        r"(?:cuda|cu)[\s=:]{0,3}(\d{1,2}\.\d)", entry.value[entry.value.find(found) + len(found) :], re.I
    )
    if beside and "+" not in found:
        entry.add("torch.cuda", beside[1])
    elif "+" not in found and (tag := re.search(r"\bcu(\d\d)(\d)\b", entry.value)):
        entry.add("torch.cuda", f"{tag[1]}.{tag[2]}")
    return True


def _several(value: str, found: str) -> bool:
    """Whether another version stands right behind the first one: "2.11-2.13", "2.8 and 2.9"."""
    return _NEXT.match(value, value.find(found) + len(found)) is not None


_NEXT = re.compile(r"\s?(?:-|\u2013|to|and|or|/|,|->|→)\s?v?\d{1,3}\.\d")


def torch_gpu(entry: Entry) -> bool:
    """ "2.3.1+cu121 (True)": whether torch saw a GPU stands in brackets."""
    torch(entry)
    mark = re.search(r"\((True|False|CUDA|NA|ROCM|XPU|NPU)\)", entry.value)
    if mark and mark[1] in ("True", "False", "CUDA", "NA"):
        entry.add("deep.cuda_available", mark[1] in ("True", "CUDA"))
    return True


def torch_cuda(entry: Entry) -> bool:
    """The CUDA that torch was built with; "None" is an answer of a build without CUDA."""
    found = values.cuda(entry.value)
    if found:
        entry.add("torch.cuda", found)
        entry.add("torch.backend", "cuda")
    elif re.fullmatch(r"None\.?", entry.value):
        entry.add("torch.cuda", None)
    return True


def torch_hip(entry: Entry) -> bool:
    """The HIP that torch was built with."""
    found = values.version(entry.value)
    if found:
        entry.add("torch.hip", found)
        entry.add("torch.backend", "rocm")
    return True


def said_cuda(entry: Entry) -> bool:
    """ "CUDA: 12.8" without saying whose: torch's where the report's tool means it, else it stays unassigned."""
    capability_like = re.fullmatch(r"(\d{1,2}\.\d)\.?", entry.value) and "capability" in entry.line.low
    found = values.cuda(entry.value)
    if found is None or capability_like:
        return False
    if entry.kind == "bitsandbytes":
        return torch_cuda(entry)
    entry.add(_whose_cuda(entry.value.lower()), found)
    return True


def cuda_version(entry: Entry) -> bool:
    """ "CUDA Version" is nvidia-smi's word for what the driver offers; people use it for anything."""
    found = values.cuda(entry.value)
    if found is None:
        return False
    ours = entry.kind in ("nvidia-smi", "nvidia-smi -q")
    entry.add("driver.cuda" if ours else _whose_cuda(entry.value.lower()), found)
    return True


def _whose_cuda(text: str) -> str:
    if "smi" in text or "driver" in text:
        return "driver.cuda"
    if "nvcc" in text or "toolkit" in text or "/usr/local" in text:
        return "toolkit.nvcc_version"
    if "torch" in text or "wheel" in text or re.search(r"\bcu\d{3}\b", text):
        return "torch.cuda"
    return "cuda"


def cuda_runtime(entry: Entry) -> bool:
    """collect_env asks nvcc for "CUDA runtime version"; FlashInfer prints torch's under the same key."""
    found = values.cuda(entry.value)
    if found:
        entry.add("torch.cuda" if entry.kind.startswith("flashinfer") else "toolkit.nvcc_version", found)
    return True


def toolkit(entry: Entry) -> bool:
    """The CUDA compiler's release."""
    found = values.cuda(entry.value)
    if found:
        entry.add("toolkit.nvcc_version", found)
    elif values.says_missing(entry.value):
        entry.add("toolkit.nvcc_version", None)
    return True


def cuda_home(entry: Entry) -> bool:
    """Where the toolkit lies."""
    path = entry.value.strip("'\"")
    if path.startswith("/") or path[1:3] == ":\\":
        entry.add("toolkit.cuda_home", path)
    elif path in ("None", "Not set", ""):
        entry.add("toolkit.cuda_home", None)
    return True


def driver(entry: Entry) -> bool:
    """The driver's version, and what CUDA it offers where that stands beside it."""
    found = values.driver(entry.value)
    if found is None:
        return False
    entry.add("driver.version", found)
    beside = re.search(r"CUDA(?:\s?(?:Version|driver))?\s{0,3}[:=]?\s{0,3}(\d{1,2}\.\d)", entry.value, re.IGNORECASE)
    if beside:
        entry.add("driver.cuda", beside[1])
    return True


def python(entry: Entry) -> bool:
    """Python's version, "3.11.6 (main, …)", "3.14.3 free-threading"."""
    found = re.search(r"(?<![\d.])([23]\.\d{1,2}(?:\.\d{1,2})?(?:(?:a|b|rc)\d)?)(t\b)?", entry.value)
    if found is None or _several(entry.value, found[1]):
        return False
    entry.add("python.version", found[1])
    if found[2] or "free-thread" in entry.value.lower() or "free thread" in entry.value.lower():
        entry.add("python.free_threaded", True)
    if "conda" in entry.value.lower():
        entry.add("python.environment_kind", "conda")
    return True


def cuda_available(entry: Entry) -> bool:
    """Whether torch sees a GPU."""
    text = {"available": "yes", "unavailable": "no", "not available": "no"}.get(entry.value.lower(), entry.value)
    found = values.yes_no(text)
    if found is not None:
        entry.add("deep.cuda_available", found)
    return found is not None


def debug(entry: Entry) -> bool:
    """Whether torch is a debug build."""
    found = values.yes_no(entry.value)
    if found is not None:
        entry.add("torch.debug", found)
    return found is not None


def cxx11_abi(entry: Entry) -> bool:
    """Whether torch uses the new C++ ABI."""
    found = values.yes_no(entry.value)
    if found is not None:
        entry.add("torch.cxx11_abi", found)
    return found is not None


def gpu_names(entry: Entry) -> bool:
    """Names of GPUs, "NVIDIA H100 80GB HBM3, …" or "8x H100"."""
    return add_names(entry.value, entry.line, entry.kind, entry.source, entry.notebook)


def gpu_capability(entry: Entry) -> bool:
    """A compute capability, "12.0 (Blackwell)", "sm_90"."""
    found = capability(entry.value)
    if found:
        entry.add("gpus.*.compute_capability", found)
    return found is not None


def unsloth(line: Line, notebook: Notebook) -> bool:
    """unsloth's banner: "Torch: 2.6.0+cu124. CUDA: 7.5. CUDA Toolkit: 12.4." names the capability "CUDA"."""
    banner = _UNSLOTH.search(line.text)
    if banner is None:
        return False
    notebook.saw("unsloth")
    for path, value in torch_facts(banner[1].rstrip(".")):
        notebook.add(path, value, line, "unsloth", Source.DUMP)
    notebook.add("gpus.*.compute_capability", banner[2], line, "unsloth", Source.DUMP)
    notebook.add("torch.cuda", banner[3], line, "unsloth", Source.DUMP)
    return True


_UNSLOTH = re.compile(
    r"(?:Pyt|T)orch\s?[:=] (\d[\w.+]{2,40}?)\.? CUDA ?[:=] ?(\d{1,2}\.\d)\. CUDA Toolkit ?[:=] ?(\d{1,2}\.\d)"
)


def hub(entry: Entry) -> bool:
    """huggingface_hub's version."""
    return package(entry, "huggingface-hub")


def package(entry: Entry, name: str) -> bool:
    """A distribution's version, or that it is not installed."""
    found = values.version(entry.value)
    if found is None or _several(entry.value, found):
        return _missing_package(entry, name) if found is None else False
    if re.search(r"[<>]=?|~=|!=", entry.value.partition(found)[0]):
        return False  # a requirement, not what is there
    entry.add(f"packages.{normalise(name)}.version", found)
    return True


def _missing_package(entry: Entry, name: str) -> bool:
    if values.says_missing(entry.value):
        entry.add(f"packages.{name}.version", None)
        return True
    return values.is_nothing(entry.value)


def distributed(entry: Entry) -> bool:
    """Whether several processes run."""
    found = values.yes_no(entry.value)
    if found is not None:
        entry.add("workload.distributed", found)
    return True


def gpu_lines(entry: Entry) -> bool:
    """collect_env's list begins here; the first GPU may stand behind the key."""
    if entry.value.lower().startswith("no cuda"):
        entry.add("deep.cuda_available", False)
    elif entry.value and not listed_gpu(entry.value, entry.line, entry.notebook) and not values.is_nothing(entry.value):
        add_names(entry.value, entry.line, entry.kind, entry.source, entry.notebook)
    return False


def ignored(entry: Entry) -> bool:
    """A key that looks like another one and means something else."""
    return True


def rocm(entry: Entry) -> bool:
    """A ROCm release that nobody said torch was built with."""
    return True


READERS: Mapping[str, Reader] = {
    "torch": torch,
    "torch_gpu": torch_gpu,
    "torch_cuda": torch_cuda,
    "torch_hip": torch_hip,
    "said_cuda": said_cuda,
    "cuda_version": cuda_version,
    "cuda_runtime": cuda_runtime,
    "toolkit": toolkit,
    "cuda_home": cuda_home,
    "driver": driver,
    "python": python,
    "os": os,
    "machine": machine,
    "platform": platform,
    "kernel": kernel,
    "libc": libc,
    "gcc": gcc,
    "cuda_available": cuda_available,
    "debug": debug,
    "cxx11_abi": cxx11_abi,
    "gpu_names": gpu_names,
    "gpu_lines": gpu_lines,
    "capability": gpu_capability,
    "ram": ram,
    "hub": hub,
    "image": image,
    "environment_kind": environment_kind,
    "distributed": distributed,
    "ignored": ignored,
    "rocm": rocm,
}
