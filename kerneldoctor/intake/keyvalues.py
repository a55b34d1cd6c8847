"""Reads "key: value" lines of every report and every hand-written table; the meaning of keys stands in keys.py."""

from __future__ import annotations

import re

from . import values
from .keys import KEYS
from .model import Source
from .names import distribution
from .notebook import Notebook
from .readers import READERS, Entry, package
from .scan import Recogniser
from .text import Line

# A line that only one tool prints -> the tool. Found anywhere in a line, in lower case.
MARKS: tuple[tuple[str, str, bool], ...] = (
    ("collecting environment information", "collect_env", True),
    ("cuda used to build pytorch", "collect_env", False),
    ("vllm build flags", "vllm collect_env", False),
    ("vllm version", "vllm collect_env", False),
    ("`transformers` version", "transformers env", True),
    ("`accelerate` version", "accelerate env", True),
    ("`diffusers` version", "diffusers env", True),
    ("🤗 diffusers version", "diffusers env", True),
    ("copy-paste the following information when reporting", "trl env", True),
    ("trl version", "trl env", False),
    ("deepspeed c++/cuda extension op report", "ds_report", True),
    ("deepspeed general environment info", "ds_report", False),
    ("torch install path", "ds_report", False),
    ("memory_efficient_attention.", "xformers.info", False),
    ("pytorch.version", "xformers.info", False),
    ("bitsandbytes v0.", "bitsandbytes", True),
    ("bug report information", "bitsandbytes", False),
    ("pytorch settings found: cuda_version", "bitsandbytes", False),
    ("flashinfer version", "flashinfer", True),
    ("=== torch version info ===", "flashinfer", False),
    ("system info\n", "collect_env", False),
)
_LINE = re.compile(
    r"""[\s|>#*+•·`'"\[{(–-]{0,40}
        ([A-Za-z_🤗.-][\w\ .()/?+&-]{0,58}?[\w)?])
        [`*'"\s]{0,40}
        (?:[:=](?!=)|\.{3,60}|->|→|\||\t)
        [\s.=:|`*'"]{0,60}
        (.{0,600})""",
    re.VERBOSE,
)
_WIDE = re.compile(r"\s{0,8}([A-Za-z_][\w .()/-]{0,40}?\S)\s{2,40}(\S.{0,200})")
_BRACKET = re.compile(r"\s*\[(?:pip3?|conda|uv)\]\s")
CUES = (
    "torch", "python", "cuda", "driver", "gpu", "libc", "os ", "os:", "platform", "version", "nvcc", "accelerator", "arch",
    "kernel", "abi", "capabilit", "transformers", "flash", "triton", "xformers", "vllm", "deepspeed", "hub", "image",
    "device", "hardware", "distro", "trl", "peft", "accelerate", "diffusers", "bitsandbytes", "numpy", "gcc", "system",
    "distributed", "container", "hip", "attn", "graphics", "card", "ninja", "memory_efficient", "liger", "machine",
    "conda", "unsloth", "axolotl", "causal", "mamba", "cutlass", "quack", "safetensors", "tokenizers", "wsl",
)  # fmt: skip


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line. True where its key was understood."""
    _mark(line, notebook)
    if notebook.context.get("pending") and _answer(line, notebook):
        return True
    if _BRACKET.match(line.text):
        return False
    found = _LINE.match(line.text)
    if found is None:
        wide = _WIDE.fullmatch(line.text)
        return bool(wide) and _entry(wide[1], wide[2], line, notebook, wide=True)  # type: ignore[index]
    return _entry(found[1], found[2], line, notebook)


def normalise(key: str) -> str:
    """A key in lower case without markup; "**PyTorch  version**" is "pytorch version"."""
    return " ".join(key.replace("`", "").replace("*", "").split()).strip(" -:=.'\"").lower()


def _mark(line: Line, notebook: Notebook) -> None:
    for mark, kind, starts in MARKS:
        if mark in line.low:
            if kind == "trl env" and notebook.current(line) not in ("", "trl env"):
                continue
            if kind == "vllm collect_env" and notebook.current(line) == "collect_env" and ":" in line.low:
                notebook.saw(kind)
                continue
            if starts:
                notebook.start(kind, line)
            else:
                notebook.begin(kind, line)
            return


def _entry(raw_key: str, raw_value: str, line: Line, notebook: Notebook, wide: bool = False) -> bool:
    key, value = normalise(raw_key), raw_value.strip().rstrip("|").strip(" `*'\",;").strip()
    if "**" in value or "`" in value:
        value = value.replace("**", "").replace("`", "").strip()
    reader = KEYS.get(key)
    name = None if reader else _package_key(key)
    if reader is None and name is None:
        return False
    if not value:
        notebook.context["pending"] = (line.number, raw_key)
        return False
    kind = notebook.current(line)
    source = Source.DUMP if kind else Source.TABLE
    entry = Entry(value, line, kind or "table", source, notebook)
    if name is not None:
        return (not values.is_nothing(value) or values.says_missing(value)) and package(entry, name)
    if values.is_nothing(value) and reader not in ("torch_cuda", "cuda_available", "cuda_home", "distributed"):
        return True
    return READERS[reader](entry) if reader in READERS else False


def _package_key(key: str) -> str | None:
    """ "flash-attn version", "`transformers`", "vllm" """
    plain = key.removesuffix(" version").removesuffix(" info").removesuffix(".__version__").removeprefix("🤗 ")
    return distribution(plain) if len(plain) < 40 else None


def _answer(line: Line, notebook: Notebook) -> bool:
    """A value on the line below its key."""
    number, key = notebook.context.pop("pending")
    text = line.text.strip()
    if line.number - number > 2 or not text or _LINE.match(line.text):
        return False
    return _entry(key, text, line, notebook)


RECOGNISER = Recogniser("key value", CUES, read)
