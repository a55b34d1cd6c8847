"""Reads what shells and interpreters show: installers' output and commands, variables, nvcc, printed values."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import values
from .labels import torch_facts
from .model import Source
from .names import distribution, normalise
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_WHEEL = re.compile(
    r"(?<![\w.-])([A-Za-z][A-Za-z0-9_.]{0,60})-(\d[\w.!]{0,40}(?:(?:\+|%2[Bb])[\w.]{1,60})?)-((?:cp|py"
    r"|pp)\w{2,6}(?:\.py\d)?)-(\w{3,12})-([\w.]{3,80})\.whl"
)
_SDIST = re.compile(r"(?<![\w.-])([A-Za-z][A-Za-z0-9_]{0,60})-(\d[\w.]{0,40}?)\.tar\.gz")
_SUCCESS = re.compile(r"Successfully installed ((?:[A-Za-z0-9][\w.-]{0,60}-\d[\w.+!]{0,40}[ \t]{0,4}){1,400})")
_INSTALLED_ONE = re.compile(r"([A-Za-z0-9][\w.-]{0,60}?)-(\d[\w.+!]{0,40})(?=\s|$)")
_SATISFIED = re.compile(
    r"Requirement already satisfied: ([A-Za-z0-9][\w.-]{0,60})\S{0,80} in \S{1,300}(?: \(from [^)]{1,200}\))? \("
    r"(\d[\w.+!]{0,40})\)"
)
_UV_ADDED = re.compile(r"\s*\+ ([a-z0-9][\w.-]{0,60})==(\d[\w.+!]{0,40})(?:\s.{0,200})?$")
_COMMAND = re.compile(r"(?:pip3?|uv pip|uv|conda|mamba|poetry|pixi)\s+(?:install|add|create)\b(.{0,600})")
_PINNED = re.compile(
    r"(?<![\w.-])[\"']?([A-Za-z][\w.-]{0,50})(?:\[[\w,-]{1,30}\])?\s{0,1}={1,2}\s?v?(\d[\w.+]{0,40}?)[\"']?"
    r"(?=[\s,;\"'`)]|$)"
)
_INDEX = re.compile(r"download\.pytorch\.org/whl/(?:nightly/|test/)?(?:cu(\d{2})(\d)|(cpu)|rocm([\d.]{1,5}))\b")
_VARIABLE = re.compile(
    r"(?:^|[\s;`\"'(]|\$ )(?:export |set |SET |\$env:|ENV |-e |env "
    r"|- )?([A-Z][A-Z0-9_]{3,40})(?:=|\s{1,3}=\s{1,3}|\s{0,3}:\s{0,3})"
    r"(\"[^\"]{0,300}\"|'[^']{0,300}'|[^\s;&|`\"']{0,300})"
)
_VARIABLE_PYTHON = re.compile(
    r"os\.environ\[[\"']([A-Z][A-Z0-9_]{3,40})[\"']\]\s{0,3}=\s{0,3}(?:str\()?[\"']?([^\"'\s)]{0,300})"
)
_NVCC = re.compile(r"Cuda compilation tools, release (\d{1,2}\.\d)")
_BUILD_CUDA = re.compile(r"Build cuda_(\d{1,2}\.\d)\.r")
_PTXAS = re.compile(r"ptxas: NVIDIA|ptxas info", re.IGNORECASE)


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line of an installer, of nvcc, or with variables."""
    text, low = line.text, line.low
    if "cuda compilation tools" in low and (nvcc := _NVCC.search(text)):
        notebook.saw("nvcc")
        notebook.add("toolkit.nvcc_version", nvcc[1], line, "nvcc", Source.PRINTED)
        return True
    if "build cuda_" in low and (build := _BUILD_CUDA.search(text)):
        notebook.add("toolkit.nvcc_version", build[1], line, "nvcc", Source.PRINTED)
        return True
    if "installed" in low or "satisfied" in low or "+ " in text[:4]:
        _installed(line, notebook)
    if ".whl" in low or ".tar.gz" in low:
        _files(line, notebook)
    if "install" in low or " add " in low or "create" in low:
        _command(line, notebook)
    if "=" in text or ":" in text:
        _variables(line, notebook)
    return False


def _note(name: str, version: str, line: Line, notebook: Notebook, kind: str, source: Source) -> None:
    plain = normalise(name)
    plain = "torch" if plain == "pytorch" else plain
    notebook.add(f"packages.{plain}.version", version, line, kind, source)


def _installed(line: Line, notebook: Notebook) -> None:
    if success := _SUCCESS.search(line.text):
        notebook.saw("pip install")
        for one in _INSTALLED_ONE.finditer(success[1]):
            _note(one[1], one[2], line, notebook, "pip install", Source.RUN)
    elif there := _SATISFIED.search(line.text):
        notebook.saw("pip install")
        _note(there[1], there[2], line, notebook, "pip install", Source.RUN)
    elif added := _UV_ADDED.match(line.text):
        notebook.saw("uv pip install")
        _note(added[1], added[2], line, notebook, "uv pip install", Source.RUN)


def _files(line: Line, notebook: Notebook) -> None:
    """Wheels: what was asked for or taken. The interpreter's tag tells the Python that pip chose it for."""
    asked = ("install" in line.low and "downloading" not in line.low) or "http" in line.low
    for wheel in _WHEEL.finditer(line.text):
        name, version = normalise(wheel[1]), wheel[2].replace("%2B", "+").replace("%2b", "+")
        source = Source.ASKED if asked else Source.RUN
        if "not a supported wheel" in line.low or "guessing wheel url" in line.low:
            source = Source.MENTIONED
        _note(name, version, line, notebook, "wheel name", source)
        if (tag := re.fullmatch(r"cp(\d)(\d{1,2})", wheel[3])) and wheel[4].startswith("cp"):
            if "guessing wheel url" in line.low:
                source = Source.RUN  # the build guesses it for the Python that runs it
            notebook.add("python.version", f"{tag[1]}.{int(tag[2])}", line, "wheel name", source)
        if source is not Source.MENTIONED and (system := values.system(wheel[5].replace("win_", "windows "))):
            notebook.add("system.os", system, line, "wheel name", source)
            if machine := values.machine(wheel[5]):
                notebook.add("system.machine", machine, line, "wheel name", source)


def _command(line: Line, notebook: Notebook) -> None:
    command = _COMMAND.search(line.text)
    if command is None:
        return
    source = Source.MENTIONED if _HEDGED.search(line.low) or "?" in line.text else Source.ASKED
    notebook.saw("install command")
    for pinned in _PINNED.finditer(command[1]):
        if (name := distribution(pinned[1])) is not None:
            _note(name, pinned[2], line, notebook, "install command", source)
            if name == "torch":
                for path, value in torch_facts(pinned[2]):
                    notebook.add(path, value, line, "install command", source)
        elif pinned[1] == "python":
            notebook.add("python.version", pinned[2], line, "install command", source)
    if (index := _INDEX.search(line.text)) and re.search(r"\btorch\b", command[1]):
        if index[1]:
            notebook.add("torch.cuda", f"{index[1]}.{index[2]}", line, "install command", source)
            notebook.add("torch.backend", "cuda", line, "install command", source)
        elif index[3]:
            notebook.add("torch.backend", "cpu", line, "install command", source)
        else:
            notebook.add("torch.backend", "rocm", line, "install command", source)


_HEDGED = re.compile(
    r"\b(?:try|should|could|can you|please|e\.g\.|for example|suggest|recommend|would|might|fix(?:es|ed)?|solution"
    r"|solve[sd]|work(?:s|ed)|instead)\b"
)

_OFF = ("", "0", "no", "false", "off", "n")


def _variables(line: Line, notebook: Notebook) -> None:
    found = [(m[1], m[2].strip("\"'")) for m in _VARIABLE.finditer(line.text)] if line.text.upper() != line.low else []
    found += [(m[1], m[2]) for m in _VARIABLE_PYTHON.finditer(line.text)]
    for name, value in found:
        if name in _SETTINGS:
            source = Source.SAID if _HEDGED.search(line.low) else Source.PRINTED
            _SETTINGS[name](name, value, line, notebook, source)


Setting = Callable[[str, str, Line, Notebook, Source], None]


def _flag(path: str) -> Setting:
    def set_flag(name: str, value: str, line: Line, notebook: Notebook, source: Source) -> None:
        notebook.add(path, value.lower() not in _OFF, line, "variable", source)
        if path == "huggingface.telemetry_disabled" and value.lower() not in _OFF:
            notebook.add("huggingface.telemetry_variable", name, line, "variable", source)

    return set_flag


def _text(path: str) -> Setting:
    def set_text(name: str, value: str, line: Line, notebook: Notebook, source: Source) -> None:
        if value and not values.is_nothing(value.strip("<>")):
            notebook.add(path, value, line, "variable", source)

    return set_text


def _devices(name: str, value: str, line: Line, notebook: Notebook, source: Source) -> None:
    if value.startswith("<"):
        return
    notebook.add("visibility.raw", value, line, "variable", source)
    notebook.add("visibility.uses_uuid", value.startswith(("GPU-", "MIG-")), line, "variable", source)


def _scheduler(name: str, value: str, line: Line, notebook: Notebook, source: Source) -> None:
    notebook.add("system.scheduler", "slurm", line, "variable", source)


def _world(name: str, value: str, line: Line, notebook: Notebook, source: Source) -> None:
    if value.isdigit():
        notebook.add("workload.distributed", int(value) > 1, line, "variable", source)


_SETTINGS: dict[str, Setting] = {
    "HF_HUB_OFFLINE": _flag("huggingface.offline"),
    "TRANSFORMERS_OFFLINE": _flag("huggingface.offline"),
    "HF_HUB_DISABLE_TELEMETRY": _flag("huggingface.telemetry_disabled"),
    "DISABLE_TELEMETRY": _flag("huggingface.telemetry_disabled"),
    "DO_NOT_TRACK": _flag("huggingface.telemetry_disabled"),
    "HF_ENDPOINT": _text("huggingface.endpoint"),
    "HF_HOME": _text("huggingface.home"),
    "KERNELS_CACHE": _text("huggingface.kernels_cache"),
    "USE_HUB_KERNELS": _flag("huggingface.use_hub_kernels"),
    "CUDA_VISIBLE_DEVICES": _devices,
    "CUDA_HOME": _text("toolkit.cuda_home"),
    "SLURM_JOB_ID": _scheduler,
    "WORLD_SIZE": _world,
}  # fmt: skip


CUES = (
    "installed", "satisfied", "==", ".whl", ".tar.gz", "install", "cuda compilation", "build cuda_", "hf_",
    "offline", "telemetry", "visible_devices", "cuda_home", "kernels_cache", "slurm", "world_size", "do_not_track",
    "hub_kernels",
)  # fmt: skip
RECOGNISER = Recogniser("shell", CUES, read)
