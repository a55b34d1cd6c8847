"""Reads what an interpreter answers: expressions that were printed, and the lines below them; Python's banner."""

from __future__ import annotations

import re
from dataclasses import replace

from .entry import Entry
from .model import Source
from .names import distribution
from .notebook import Notebook
from .readers import READERS, package
from .scan import Recogniser
from .text import Line

_PROMPT = re.compile(r"^\s*(?:>>>|In \[\d{0,4}\]:|\.\.\.)\s?(.{1,300})$")
_OUT = re.compile(r"^\s{0,8}Out\[\d{0,4}\]: ")
_COMMENT = re.compile(r"\s#\s?.{0,200}$")
_PRINT = re.compile(r"print\((.{3,300})\)[\s\"'`]{0,20}$")
_STATEMENTS = 12  # of one line whose answers are awaited
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
    """Expressions that were shown, and the lines below them that answer."""
    if _next_line(line, notebook):
        return True
    prompt = _PROMPT.match(line.text)
    asked = [_PRINT.search(statement) for statement in _COMMENT.sub("", line.text).split(";")]
    printed = [_split(found[1]) for found in asked if found]
    if prompt and not printed:
        printed = [[prompt[1].strip()]]
    wanted = [[_EXPRESSION.match(e.strip()) for e in expressions] for expressions in printed[:_STATEMENTS]]
    beside = _COMMENT.search(line.text)
    if beside and len(wanted) == 1 and _answers(replace(line, text=beside[0].strip(" \t#")), wanted[0], notebook):
        return True
    if any(any(expressions) for expressions in wanted):
        notebook.context["printing"] = (line.number, wanted)
        notebook.block = _next_line
    return False


def _next_line(line: Line, notebook: Notebook) -> bool:
    """A line below printed expressions, whatever it holds: what the first of them printed."""
    if notebook.block is _next_line:
        notebook.block = None
    number, wanted = notebook.context.pop("printing", (0, []))
    if not wanted or line.number - number > 2 or not _answers(line, wanted[0], notebook):
        return False
    if wanted[1:]:
        notebook.context["printing"] = (line.number, wanted[1:])
        notebook.block = _next_line
    return True


def _split(arguments: str) -> list[str]:
    return re.split(r",\s*(?![^()]{0,80}\))", arguments)[:8]


def _answers(line: Line, wanted: list[re.Match[str] | None], notebook: Notebook) -> bool:
    text = _OUT.sub("", line.text).strip(" '\"")
    if not text or _PROMPT.match(line.text) or text.startswith(("Traceback", "File ")):
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


def banner(line: Line, notebook: Notebook) -> bool:
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


RECOGNISER = Recogniser("printed values", ("print(", ">>>", "in ["), read)
BANNER = Recogniser("python banner", ("python 2", "python 3"), banner)
