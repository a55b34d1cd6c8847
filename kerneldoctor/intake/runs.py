"""Reads what a run leaves behind: paths of tracebacks, names of binaries, messages that carry facts."""

from __future__ import annotations

import re

from . import values
from .labels import VARIANT_NAME, torch_facts
from .model import Source
from .names import normalise
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

KIND = "traceback"
_PYTHON_DIR = re.compile(
    r"(?:python|Python)[/\\]?(\d)\.?(\d{1,2})(t?)[/\\](?:(?:L|l)ib[/\\])?(?:site|dist)-packages", re.ASCII
)
_BINARY = re.compile(r"\.(?:cpython-(\d)(\d{1,2})(t?)|cp(\d)(\d{1,2})(t?)|abi3)[\w-]{0,40}\.(?:so|pyd)\b", re.ASCII)
_BEFORE_BINARY = re.compile(r"(?:[\w./\\<>~:-]{0,300}[/\\])?([A-Za-z_]\w{1,80})$", re.ASCII)
_PATH_LENGTH = 380  # characters before the ending that can be of the file's path
_SYMBOL = re.compile(r"undefined\s+symbol:?\s+(_Z\w{2,2000}|\w{3,200})", re.ASCII)
_MISSING_LIBRARY = re.compile(
    r"(lib(?:cudart|c10|c10_cuda|torch|torch_cuda|torch_cpu|cublas|cudnn)[\w-]{0,30}\.so(?:\."
    r"(\d{1,2}))?[\d.]*):\s+cannot\s+open"
)
_NEEDS_VERSION = re.compile(
    r"version [`'](GLIBC|GLIBCXX|CXXABI)_([\d.]{3,12})'? not found(?: \(required by ([^)]{1,400})\))?"
)
_FOUND = re.compile(r"\bbut found ([A-Za-z][\w.-]{1,40})==(\d[\w.+]{0,30})")
_TOOLKIT = (
    re.compile(
        r"[Ii]nstalled CUDA version (\d{1,2}\.\d) does not match the version torch was compiled with (\d{1,2}\.\d)"
    ),
    re.compile(
        r"detected CUDA version \((\d{1,2}\.\d)\) mismatches the version that was used to compile\s+PyTorch \("
        r"(\d{1,2}\.\d)\)"
    ),
)
_TOO_OLD = re.compile(r"found version (\d{4,6})\)")
_CAPABILITY = re.compile(
    r"(?:Found GPU\s?\d+ )?((?:NVIDIA |Tesla |GeForce )?[\w][\w -]{2,50}?) (?:which is of|with) (?:cuda"
    r"|CUDA) capability (?:sm_(\d{1,3})|(\d{1,2}\.\d))"
)
_TORCH_ARCHS = re.compile(
    r"PyTorch install(?:ation)? supports CUDA capabilities ((?:(?:sm|compute)_\d{2,3}[af]?\s?){1,20})"
)
_HIGHEST = re.compile(r"[Hh]ighest [Cc]ompute [Cc]apability(?: among GPUs detected)?: \(?(\d{1,2})[.,] ?(\d)\b")
_KERNEL_CAPABILITY = re.compile(r"CUDA capability (\d{1,2}\.\d) of the current device")
_WARNED_FILE = re.compile(r"(?:site|dist)-packages[/\\]([A-Za-z]\w{1,40})-(\d[\w.+!]{1,40})\.dist-info")
_FLASH_PATHS = ("flash_attn_2_cuda", "flash_attn_cuda", "flash_attn_3_cuda", "flashattn_hopper_cuda")
_OWNERS = {
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_cuda": "flash-attn",
    "flash_attn_3_cuda": "flash-attn-3",
    "flashattn_hopper_cuda": "flashattn-hopper",
    "causal_conv1d_cuda": "causal-conv1d",
    "selective_scan_cuda": "mamba-ssm",
    "flashinfer_kernels": "flashinfer",
    "transformer_engine_torch": "transformer-engine-torch",
    "rotary_emb": "rotary-emb",
    "awq_ext": "autoawq-kernels",
}
_IMPORTED = re.compile(r"\bimport ((?:flash_attn|flashattn|causal_conv1d|selective_scan|rotary|awq|vllm\._)\w{0,40})\b")
_CONDA = re.compile(
    r"/(?:mini|ana|mambaf|microm)(?:conda|forge|amba)\d?/|/conda/|/\.conda/envs/|\\(?:mini|ana)conda3?\\", re.I
)
_VENV = re.compile(r"/(?:\.?venv|virtualenvs?|\.virtualenvs)/|\\(?:\.?venv)\\", re.I)
_WINDOWS = re.compile(r"\b[A-Za-z]:\\(?:Users|Program|Python|a\\|\w+\\)", re.ASCII)
_MAC = re.compile(r"/Users/[\w.-]+/|/opt/homebrew/|\.dylib\b")
_HOME = re.compile(r"/(?:home|root|usr|opt|workspace|mnt)/")


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line of a traceback or of a log."""
    text = line.text
    if "packages" in line.low:
        _paths(line, notebook)
    if ".so" in text or ".pyd" in text:
        _binaries(line, notebook)
    if "\\" in text and _WINDOWS.search(text) and ("packages" in line.low or "file" in line.low):
        notebook.add("system.os", "windows", line, KIND, Source.RUN)
    if "undefined" in line.low and (symbol := _SYMBOL.search(text)):
        _symbol(symbol[1], line, notebook)
    if imported := _IMPORTED.search(text):
        notebook.context["module"] = (line.number, imported[1].rpartition(".")[2])
    if "not found" in line.low and (needs := _NEEDS_VERSION.search(text)):
        _needs(needs, line, notebook)
    if "capabilit" in line.low:
        _capability(line, notebook)
    if "but found" in line.low and (there := _FOUND.search(text)):
        notebook.add(f"packages.{normalise(there[1])}.version", there[2].rstrip("."), line, KIND, Source.RUN)
    if "match" in line.low:
        for pattern in _TOOLKIT:
            if both := pattern.search(text):
                notebook.add("toolkit.nvcc_version", both[1], line, KIND, Source.RUN)
                notebook.add("torch.cuda", both[2], line, KIND, Source.RUN)
    if "too old" in line.low and (old := _TOO_OLD.search(text)):
        number = int(old[1])
        notebook.add("driver.cuda", f"{number // 1000}.{number % 1000 // 10}", line, KIND, Source.RUN)
    return False


def _paths(line: Line, notebook: Notebook) -> None:
    text = line.text
    if found := _PYTHON_DIR.search(text):
        notebook.saw(KIND) if "file" in line.low else None
        notebook.add("python.version", f"{found[1]}.{int(found[2])}", line, KIND, Source.RUN)
        if found[3]:
            notebook.add("python.free_threaded", True, line, KIND, Source.RUN)
    if info := _WARNED_FILE.search(text):
        notebook.add(f"packages.{normalise(info[1])}.version", info[2], line, KIND, Source.RUN)
    if _CONDA.search(text):
        notebook.add("python.environment_kind", "conda", line, KIND, Source.RUN)
    elif _VENV.search(text):
        notebook.add("python.environment_kind", "venv", line, KIND, Source.RUN)
    if _MAC.search(text):
        notebook.add("system.os", "darwin", line, KIND, Source.RUN)
    elif _HOME.search(text):
        notebook.add("system.os", "linux", line, KIND, Source.RUN)


def _binaries(line: Line, notebook: Notebook) -> None:
    for ending in _BINARY.finditer(line.text):
        before = _BEFORE_BINARY.search(line.text[max(0, ending.start() - _PATH_LENGTH) : ending.start()])
        if before is None:
            continue
        major, minor = ending[1] or ending[4], ending[2] or ending[5]
        module, name = before[1], before[0] + ending[0]
        if "x86_64-linux" in name or "aarch64-linux" in name:
            notebook.add("system.os", "linux", line, KIND, Source.RUN)
            notebook.add("system.machine", values.machine(name.replace("-", " ")), line, KIND, Source.RUN)
        if "undefined symbol" not in line.low and "version `" not in line.low and module not in _OWNERS:
            continue
        notebook.context["module"] = (line.number, module)
        if VARIANT_NAME.search(line.text):
            continue  # a Hub kernel's file: kernel facts, no installed extension
        _extension(module, "file", name, line, notebook)
        if major:
            free = "t" if ending[3] or ending[6] else ""
            _extension(module, "abi_tag", f"cp{major}{minor}{free}", line, notebook)
            notebook.add("python.version", f"{major}.{int(minor)}", line, KIND, Source.RUN)
        else:
            _extension(module, "abi_tag", "abi3", line, notebook)


def _extension(module: str, field: str, value: object, line: Line, notebook: Notebook) -> None:
    notebook.add(f"extensions.{module}.{field}", value, line, KIND, Source.RUN)
    if module in _OWNERS:
        notebook.add(f"extensions.{module}.distribution", _OWNERS[module], line, KIND, Source.RUN)


def _module(line: Line, notebook: Notebook) -> str | None:
    number, module = notebook.context.get("module", (-99, ""))
    return module if 0 <= line.number - number <= 6 else None


def _symbol(symbol: str, line: Line, notebook: Notebook) -> None:
    module = _module(line, notebook)
    if module is None or VARIANT_NAME.search(line.text):
        return
    if symbol.startswith("_Z") and re.search(r"c10|at\d|2at|torch", symbol):
        _extension(module, "missing_torch_symbols", (symbol,), line, notebook)
    if "__cxx11" in symbol:
        _extension(module, "cxx11_abi", True, line, notebook)
    elif re.search(r"(?:ES|E|RK)Ss(?:$|[A-Zb])|Ss$", symbol):
        _extension(module, "cxx11_abi", False, line, notebook)


def library(line: Line, notebook: Notebook) -> bool:
    """A CUDA library that the loader did not find: the extension was built for that CUDA."""
    found = _MISSING_LIBRARY.search(line.text)
    module = _module(line, notebook)
    if found and module and found[1].startswith("libcudart") and found[2]:
        _extension(module, "cudart_major", found[2], line, notebook)
        _extension(module, "needed", (found[1],), line, notebook)
    return False


def _needs(needs: re.Match[str], line: Line, notebook: Notebook) -> None:
    asked_by = re.search(r"(\w+)\.(?:cpython|abi3|cp\d)", needs[3] or "")
    module = asked_by[1] if asked_by else _module(line, notebook)
    field = {"GLIBC": "glibc_needed", "GLIBCXX": "glibcxx_needed"}.get(needs[1])
    if module and field:
        _extension(module, field, needs[2], line, notebook)


def _capability(line: Line, notebook: Notebook) -> None:
    at = line.low.find(" cuda capability ")
    if at >= 0 and (capable := _CAPABILITY.search(line.text, max(0, at - _PATH_LENGTH))):
        name = re.sub(r"^.*?(?=NVIDIA |Tesla |GeForce )", "", capable[1], count=1).strip()
        digits = capable[2]
        cap = f"{int(digits[:-1])}.{digits[-1]}" if digits else capable[3]
        notebook.add("gpus.*.name", name, line, KIND, Source.RUN)
        notebook.add("gpus.*.compute_capability", cap, line, KIND, Source.RUN)
    if archs := _TORCH_ARCHS.search(line.text):
        listed = tuple(_arch(word) for word in archs[1].split())
        notebook.add("torch.archs", listed, line, KIND, Source.RUN)
    if highest := _HIGHEST.search(line.text):
        notebook.add("gpus.*.compute_capability", f"{int(highest[1])}.{highest[2]}", line, "bitsandbytes", Source.RUN)
    if current := _KERNEL_CAPABILITY.search(line.text):
        notebook.add("gpus.*.compute_capability", current[1], line, KIND, Source.RUN)


def _arch(word: str) -> str:
    """ "sm_90a" as facts write it, "9.0a"; "compute_120" as "12.0+PTX"."""
    kind, _, digits = word.partition("_")
    suffix = digits[-1] if digits[-1] in "af" else ""
    number = digits.removesuffix(suffix)
    return f"{int(number[:-1])}.{number[-1]}{suffix}{'+PTX' if kind == 'compute' else ''}"


def arch_list(line: Line, notebook: Notebook) -> bool:
    """ "['sm_80', 'sm_90']" as torch.cuda.get_arch_list() prints it."""
    found = re.findall(r"'((?:sm|compute)_\d{2,3}[af]?)'", line.text)
    versions = [v for v in values.versions(line.text) if "." in v and "+" in v]
    if len(found) < 2 or versions:
        return False
    notebook.add("deep.torch_archs", tuple(_arch(word) for word in found), line, "printed", Source.PRINTED)
    notebook.add("torch.archs", tuple(_arch(word) for word in found), line, "printed", Source.PRINTED)
    return True


def versions_in_variants(line: Line, notebook: Notebook) -> bool:
    """Messages of the kernels library that name what it saw of this system."""
    for path, pattern in _SYSTEM_WORDS:
        if found := pattern.search(line.text):
            if path == "torch.version":
                for place, value in torch_facts(found[1]):
                    notebook.add(place, value, line, "kernels", Source.RUN)
            elif path == "system.os":
                notebook.add(path, found[1].lower(), line, "kernels", Source.RUN)
            elif path == "backend":
                _backend(found[1], line, notebook)
            else:
                notebook.add(
                    path, found[1] == "True" if path == "torch.cxx11_abi" else found[1], line, "kernels", Source.RUN
                )
    return False


_SYSTEM_WORDS = (
    ("torch.version", re.compile(r"environment Torch version \((\d[\w.+]{0,30})\)")),
    ("torch.cuda", re.compile(r"system CUDA version \((\d{1,2}\.\d{1,2})\)")),
    ("torch.cxx11_abi", re.compile(r"environment Torch CXX11 ABI \((True|False)\)")),
    ("system.machine", re.compile(r"does not match system CPU \((\w{3,10})\)")),
    ("system.os", re.compile(r"does not match system OS \((\w{3,10})\)")),
    ("backend", re.compile(r"does not match selected backend \(([a-z]{2,6}\d{0,5})\)")),
)


def _backend(name: str, line: Line, notebook: Notebook) -> None:
    if cuda := re.fullmatch(r"cu(\d{2})(\d)", name):
        notebook.add("torch.cuda", f"{cuda[1]}.{cuda[2]}", line, "kernels", Source.RUN)
        notebook.add("torch.backend", "cuda", line, "kernels", Source.RUN)
    elif name == "cpu":
        notebook.add("torch.backend", "cpu", line, "kernels", Source.RUN)
    elif name.startswith("rocm"):
        notebook.add("torch.backend", "rocm", line, "kernels", Source.RUN)


CUES = (
    "packages", ".so", ".pyd", "undefined symbol", "undefined", "import ", "glibc", "capabilit", "too old",
    "but found", "match",
)  # fmt: skip
RECOGNISER = Recogniser("traces", CUES, read, always=True)
LIBRARY = Recogniser("missing library", ("cannot open",), library, always=True)
ARCHS = Recogniser("arch list", ("'sm_",), arch_list)
KERNELS_WORDS = Recogniser(
    "system words", ("does not match", "not compatible with", "too new for"), versions_in_variants
)
