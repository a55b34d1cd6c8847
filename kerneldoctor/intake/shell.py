"""Reads what shells and interpreters show: installers' output and commands, variables, nvcc, printed values."""

from __future__ import annotations

import re
from collections.abc import Callable

from . import values
from .entry import Entry
from .labels import torch_facts
from .model import Source
from .names import distribution, normalise
from .notebook import Notebook
from .readers import READERS, package
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
    r"|- )?([A-Z][A-Z0-9_]{3,40})\s{0,3}[=:]\s{0,3}(\"[^\"]{0,300}\"|'[^']{0,300}'|[^\s;&|`\"']{0,300})"
)
_VARIABLE_PYTHON = re.compile(
    r"os\.environ\[[\"']([A-Z][A-Z0-9_]{3,40})[\"']\]\s{0,3}=\s{0,3}(?:str\()?[\"']?([^\"'\s)]{0,300})"
)
_NVCC = re.compile(r"Cuda compilation tools, release (\d{1,2}\.\d)")
_BUILD_CUDA = re.compile(r"Build cuda_(\d{1,2}\.\d)\.r")
_PTXAS = re.compile(r"ptxas: NVIDIA|ptxas info", re.IGNORECASE)
_PROMPT = re.compile(r"^\s*(?:>>>|In \[\d{0,4}\]:|\.\.\.)\s?(.{1,300})$")
_PRINT = re.compile(r"print\((.{3,300}?)\)\s*[\"';)]*\s*(?:#.*)?$")
_EXPRESSION = re.compile(
    r"[\"'\s]*(torch|flash_attn|transformers|kernels|triton|vllm|xformers|trl|peft|huggingface_hub|bitsandbytes"
    r"|numpy|np|deepspeed|diffusers|accelerate|causal_conv1d|mamba_ssm|sys)\.(__version__|version\.cuda|version\.hip"
    r"|cuda\.is_available\(\)|cuda\.get_device_name\(\d?\)|cuda\.get_device_capability\(\d?\)"
    r"|compiled_with_cxx11_abi\(\)|_C\._GLIBCXX_USE_CXX11_ABI|cuda\.get_arch_list\(\)|version|__file__"
    r"|utils\.cpp_extension\.CUDA_HOME)\s*$"
)
_READERS = {
    "version.cuda": "torch_cuda", "version.hip": "torch_hip", "cuda.is_available()": "cuda_available",
    "cuda.get_device_name": "gpu_names", "cuda.get_device_capability": "capability",
    "compiled_with_cxx11_abi()": "cxx11_abi", "_C._GLIBCXX_USE_CXX11_ABI": "cxx11_abi",
    "utils.cpp_extension.CUDA_HOME": "cuda_home",
}  # fmt: skip


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


def printed(line: Line, notebook: Notebook) -> bool:
    """Expressions that were shown, and the line below them that answers."""
    waiting = notebook.context.pop("printing", None)
    if waiting is not None and _answers(line, waiting, notebook):
        return True
    prompt = _PROMPT.match(line.text)
    code = prompt[1] if prompt else line.text
    asked = _PRINT.search(code)
    expressions = _split(asked[1]) if asked else ([code.strip()] if prompt else [])
    wanted = [_EXPRESSION.match(e.strip()) for e in expressions]
    if any(wanted):
        notebook.context["printing"] = (line.number, wanted)
        notebook.block = _next_line
    return False


def _next_line(line: Line, notebook: Notebook) -> bool:
    """The line below a printed expression, whatever it holds."""
    notebook.block = None
    waiting = notebook.context.pop("printing", None)
    return waiting is not None and _answers(line, waiting, notebook)


def _split(arguments: str) -> list[str]:
    return re.split(r",\s*(?![^()]{0,80}\))", arguments)[:8]


def _answers(line: Line, waiting: tuple[int, list[re.Match[str] | None]], notebook: Notebook) -> bool:
    number, wanted = waiting
    text = line.text.strip(" '\"")
    if line.number - number > 2 or not text or _PROMPT.match(line.text) or text.startswith(("Traceback", "File ")):
        return False
    parts = [text] if len(wanted) == 1 else text.split()
    done = False
    for expression, part in zip(wanted, parts, strict=False):
        if expression is not None:
            done |= _printed_value(expression[1], expression[2], part, line, notebook)
    if done:
        notebook.saw("printed values")
    return done


def _printed_value(module: str, attribute: str, value: str, line: Line, notebook: Notebook) -> bool:
    entry = Entry(value.strip("'\","), line, "printed", Source.PRINTED, notebook)
    reader = _READERS.get(re.sub(r"\(\d?\)$", "", attribute)) or _READERS.get(attribute)
    if module == "sys":
        return attribute == "version" and READERS["python"](entry)
    if attribute == "__version__":
        if module == "torch":
            return READERS["torch"](entry)
        name = distribution("numpy" if module == "np" else module)
        return name is not None and package(entry, name)
    return reader is not None and READERS[reader](entry)


def python_banner(line: Line, notebook: Notebook) -> bool:
    """ "Python 3.12.3 (main, …) [GCC 13.2.0] on linux" and "Python 3.11.7" of --version."""
    found = re.match(
        r"\s*Python (\d\.\d{1,2}\.\d{1,2}\S{0,4})(?: (?:experimental )?(free-threading))?(?: \(|\s*$| \|)", line.text
    )
    if found is None:
        return False
    notebook.add("python.version", found[1], line, "printed", Source.PRINTED)
    if found[2] or "free-threading" in line.low:
        notebook.add("python.free_threaded", True, line, "printed", Source.PRINTED)
    if " on linux" in line.low:
        notebook.add("system.os", "linux", line, "printed", Source.PRINTED)
    elif " on win32" in line.low:
        notebook.add("system.os", "windows", line, "printed", Source.PRINTED)
    return True


CUES = (
    "installed", "satisfied", "==", ".whl", ".tar.gz", "install", "cuda compilation", "build cuda_", "hf_",
    "offline", "telemetry", "visible_devices", "cuda_home", "kernels_cache", "slurm", "world_size", "do_not_track",
    "hub_kernels",
)  # fmt: skip
RECOGNISER = Recogniser("shell", CUES, read)
PRINTED = Recogniser("printed values", ("print(", ">>>", "in ["), printed)
BANNER = Recogniser("python banner", ("python 2", "python 3"), python_banner)
