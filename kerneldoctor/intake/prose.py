"""Reads sentences: "RTX 5090, cu128, torch 2.9 nightly, py3.12". It takes no side of a question, a trial or a hearsay.

What is asked about, was tried, is required or holds elsewhere is noted as a mention, which no fact is made of.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from . import values
from .clauses import clauses, has_moved, is_mention
from .gpus import products, vendor
from .labels import torch_facts
from .model import Source
from .names import KNOWN, SYNONYMS, distribution
from .notebook import SENTENCE, Notebook
from .scan import Recogniser
from .text import Line

_LONGEST = 600  # characters of a sentence's line; longer lines are no sentences
_VERSION = r"v?(\d{1,3}\.\d{1,3}(?:\.\d{1,4}){0,2}(?:\.?(?:dev|post|rc|a|b)\d{0,8}){0,2}(?:\+[\w.]{1,40})?)"
_JOIN = r"[\s`*\"']{0,3}(?:versions?|ver\.?|release)?[\s`*\"']{0,3}(?:==?|:|is|@|=)?[\s`*\"'(]{0,3}"
_TORCH = re.compile(rf"(?<![\w.-])(?:py)?torch{_JOIN}(?=v?[12]\.){_VERSION}(?![\w])", re.IGNORECASE)
_PYTHON = re.compile(
    r"(?<![\w.-])(?:python|py|cpython){}v?(3\.\d{{1,2}}(?:\.\d{{1,2}})?)(t)?(?![\d])".format(
        r"[\s-]{0,2}(?:version|ver)?[\s:=]{0,3}"
    ),
    re.IGNORECASE,
)
_PY_TAG = re.compile(r"(?<![\w.-])(?:py|cp)(3)(\d{1,2})(t)?(?![\w.])", re.IGNORECASE)
_CUDA = re.compile(
    r"(?<![\w.])cuda(?:[\s-]{0,2}(?:toolkit|version|runtime|ver))?[\s:=-]{0,3}v?(\d{1,2}\.\d)(?:\.\d{1,3})?(?![\d])",
    re.IGNORECASE,
)
_CU_TAG = re.compile(r"(?<![\w.-])cu(1[0-9])(\d)(?![\w-])", re.IGNORECASE)
_DRIVER = re.compile(
    r"(?<![\w])(?:drivers?|pilote|treiber|controlador|драйвер\w?|驱动(?:版本)?|ドライバー?)"
    r"(?:\s{1,2}(?:version|ver\.?|r))?[\s:=]{0,3}(?:is |nvidia-?)?v?(\d{3}(?:\.\d{1,3}){1,2}"
    r"|[3-6]\d\d)(?!\d|\.\d)",
    re.IGNORECASE,
)
_DRIVER_BEHIND = re.compile(r"(?<![\w.])(\d{3}\.\d{2,3}(?:\.\d{1,3})?) (?:nvidia )?drivers?\b", re.IGNORECASE)
_SYSTEM = re.compile(
    r"(?<![\w-])((?:Ubuntu|Debian(?: GNU/Linux)?|CentOS(?: Stream)?|Rocky(?: Linux)?|AlmaLinux|RHEL"
    r"|Red Hat Enterprise Linux|Fedora|openSUSE(?: Leap)?|SLES|Amazon Linux|Oracle Linux|Linux Mint|Pop!_OS)"
    r"[\s-]{0,2}(?:\d{1,2}(?:\.\d{1,2}){0,2})(?: LTS)?|Windows (?:1[01]|Server \d{4})(?: (?:Pro|Home|Enterprise))?"
    r"|Arch Linux|NixOS|macOS(?: \d{1,2}(?:\.\d{1,2})?)?)(?![\w.]\d)",
    re.IGNORECASE,
)
_WSL = re.compile(r"(?<![\w-])WSL ?2?(?![\w])")
_MACHINE = re.compile(r"(?<![\w-])(x86[_-]64|aarch64|arm64)(?![\w-])", re.IGNORECASE)
_LIBC = re.compile(r"\bglibc[\s-]{0,2}(2\.\d{1,2})\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\s{0,2}(?:,|/|and|or|to|through|vs\.?|→|->|\u2013|-)\s{0,2}v?\d{1,3}\.\d"
    r"|\+(?!\w)|\s{0,2}or (?:newer|later|above|higher)",
    re.IGNORECASE,
)
_RANGE_BEFORE = re.compile(
    r"(?:[<>~!]=?|>=|≥|≤)\s{0,2}$|(?:for|against|since|until|below|above|to)\s{1,2}$", re.IGNORECASE
)
_PLACES = (
    ("system.container", "docker", re.compile(r"\bdocker(?:file)?\b|\bnvcr\.io/|\binside (?:a|the) container\b", re.I)),
    ("system.container", "apptainer", re.compile(r"\b(?:apptainer|singularity)\b", re.IGNORECASE)),
    ("system.container", "kubernetes", re.compile(r"\b(?:kubernetes|k8s)\b", re.IGNORECASE)),
    ("system.notebook", "colab", re.compile(r"\b(?:google )?colab\b", re.IGNORECASE)),
    ("system.notebook", "kaggle", re.compile(r"\bkaggle\b", re.IGNORECASE)),
    ("system.scheduler", "slurm", re.compile(r"\bslurm\b|\bsbatch\b", re.IGNORECASE)),
)  # fmt: skip
_FILLER = re.compile(
    r"\b(?:version|nightly|stable|latest|release|os|linux|gpu|gpus|with|and|env(?:ironment)?|python|cuda|torch"
    r"|x86_64|build|runtime|toolkit"
    r"|driver|single|lts|pip|conda|uv|venv|gb|vram|desktop|laptop|nvidia|installed|source|pypi|wheel|c|setup|system"
    r"|info|machine|x64|wsl2?|docker|hopper|ada|blackwell|ampere)\b",
    re.IGNORECASE,
)
_NAMES_DRIVER = re.compile("driver|pilote|treiber|controlador|драйвер|驱动|ドライバ")
_CODE = re.compile(
    r"^\s*(?:File \"|from \w|import \w|def |class |#include|\$ |RUN |>>> |Downloading|Using cached|Collecting|raise "
    r"|return |assert )|site-packages|dist-packages|https?://\S*\.whl"
)
_KIND = SENTENCE
MAX_SENTENCES = 10_000  # of one text that are read: nobody writes more, a log does
_DOTTED = re.compile(r"[0-9]\.[0-9]")
_DIGIT = re.compile(r"[0-9]")
_HINT = re.compile(
    r"ubuntu|debian|centos|rocky|alma|rhel|red hat|fedora|suse|sles|amazon|oracle|mint|pop!|windows|arch|nixos|macos"
    r"|wsl|x86|aarch64|arm64|glibc|docker|nvcr"
    r"|container|apptainer|singularity|kubern|k8s|colab|kaggle|slurm|sbatch|thor|orin|titan"
)


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line as prose."""
    text = line.text
    hint, number = bool(_HINT.search(line.low)), bool(_DIGIT.search(text))
    if not hint and not number:
        return False
    notebook.sentences += 1
    if notebook.sentences > MAX_SENTENCES:
        notebook.truncated = True
        return False
    if text.count("\ufffd") > 2:  # no text at all
        return False
    if len(text) > _LONGEST or _CODE.search(text) or (notebook.current(line) and _KEY.match(text)):
        return False
    text = _THROWN.sub(". ", text, count=1)
    error = bool(_ERROR.search(text))
    for clause in clauses(text):
        found = list(_items(clause, hint))
        if not found:
            continue
        told = not error and not _INSTALLS.search(clause)
        source = _source(clause, found) if told else Source.MENTIONED
        moved = source is Source.MENTIONED and not error and has_moved(clause, text)
        if moved:
            source = Source.SAID
            notebook.forget({path for path, *_ in found}, line)
        for path, value, start, end in found:
            own = source
            if (
                isinstance(value, str)
                and not moved
                and (_SEVERAL.match(clause, end) or _RANGE_BEFORE.search(clause[max(0, start - 12) : start]))
            ):
                own = Source.MENTIONED
            _note(path, value, line, notebook, own)
    return False


# A message's numbers are what it asks for or what it was built for; those that say what is there, `runs` reads.
_ERROR = re.compile(
    r"^\W{0,8}(?:[\w.]{0,60}(?:Error|Exception|Warning)|ERROR|FATAL|fatal|warning|error)\b\s?:"
    r"|: error:|UserWarning:"
)
# "On my RTX 2060 I get: RuntimeError: … My driver: 570": the message between what is said of the machine.
_THROWN = re.compile(
    r"(?<=.{9})\b[A-Za-z_.]{0,60}(?:Error|Exception): .{0,500}?"
    r"(?:[.!] (?=(?:my|our|i|we|torch|driver|gpu|card|python|on|with|here)\b)|$)",
    re.IGNORECASE,
)
_INSTALLS = re.compile(r"\bpip3? install\s[^`\s]{0,80}\d")  # what is asked for there, `shell` reads
_KEY = re.compile(r"\s*[-*]?\s*`?[A-Za-z][\w ()/?`.-]{1,50}\s*:\s")


def _source(clause: str, found: list[tuple[str, object, int, int]]) -> Source:
    if is_mention(clause):
        return Source.MENTIONED
    rest = clause
    for _, _, start, end in sorted(found, key=lambda item: -item[2]):
        rest = rest[:start] + " " + rest[end:]
    rest = _FILLER.sub(" ", rest)
    return Source.TABLE if not re.search(r"[A-Za-z]{2,}", rest) else Source.SAID


def _note(path: str, value: object, line: Line, notebook: Notebook, source: Source) -> None:
    if path == "torch.version":
        for place, told in torch_facts(str(value)):
            notebook.add(place, told, line, _KIND, source)
        return
    notebook.add(path, value, line, _KIND, source)
    if path == "gpus.*.name" and (whose := vendor(str(value))):
        notebook.add("gpus.*.vendor", whose, line, _KIND, source)
    if path == "system.distribution" and (kind := values.system(str(value))):
        notebook.add("system.os", kind, line, _KIND, source)
    if path == "system.wsl":
        notebook.add("system.os", "linux", line, _KIND, source)
    if path == "system.libc_version":
        notebook.add("system.libc", "glibc", line, _KIND, source)


Item = tuple[str, object, int, int]


def _items(clause: str, hint: bool) -> Iterator[Item]:
    """Every value of a clause: path, value, where it begins and ends."""
    low = clause.lower()
    if "torch" in low:
        yield from (("torch.version", m[1], m.start(), m.end()) for m in _TORCH.finditer(clause))
    if "py" in low or "cp3" in low:
        yield from _pythons(clause)
    if "cu" in low:
        yield from _cudas(clause)
    if _NAMES_DRIVER.search(low):
        for pattern in (_DRIVER, _DRIVER_BEHIND):
            yield from (("driver.version", m[1], m.start(), m.end()) for m in pattern.finditer(clause))
    if _DOTTED.search(clause):
        yield from _distributions(clause, low)
    yield from _gpus(clause)
    if hint:
        yield from _systems(clause)


def _pythons(clause: str) -> Iterator[Item]:
    for m in _PYTHON.finditer(clause):
        yield "python.version", m[1], m.start(), m.end()
        if m[2] or "free-thread" in clause.lower():
            yield "python.free_threaded", True, m.start(), m.end()
    for m in _PY_TAG.finditer(clause):
        yield "python.version", f"{m[1]}.{int(m[2])}", m.start(), m.end()


def _cudas(clause: str) -> Iterator[Item]:
    for m in _CUDA.finditer(clause):
        around = clause[max(0, m.start() - 25) : m.end() + 25].lower()
        path = "cuda"
        if "toolkit" in m[0].lower() or "nvcc" in around or clause[: m.start()].endswith(("/", "\\")):
            path = "toolkit.nvcc_version"  # "/usr/local/cuda-12.4", "nvidia/cuda:12.4.1-devel-ubuntu22.04"
        elif "driver" in around or "smi" in around:
            path = "driver.cuda"
        elif re.search(r"torch\s?(?:built|compiled)?\s?(?:with|for|\+)?\s?$", clause[: m.start()].lower()):
            path = "torch.cuda"
        yield path, m[1], m.start(), m.end()
    for m in _CU_TAG.finditer(clause):
        yield "torch.cuda", f"{m[1]}.{m[2]}", m.start(), m.end()


@functools.cache
def _name_pattern() -> re.Pattern[str]:
    names = sorted(
        (KNOWN - {"torch", "numpy", "scipy", "pip", "wheel", "ray", "te", "uv", "apex", "natten", "packaging"})
        | set(SYNONYMS) - {"pytorch", "te", "cutlass"},
        key=len,
        reverse=True,
    )
    words = "|".join("[-_ ]?".join(map(re.escape, re.split("[- ]", name))) for name in names)
    return re.compile(rf"(?<![\w./-])({words}){_JOIN}{_VERSION}(?![\w])", re.IGNORECASE)


def _distributions(clause: str, low: str) -> Iterator[Item]:
    for m in _name_pattern().finditer(clause):
        name = distribution(m[1]) or distribution(re.sub(r"[\s_]", "-", m[1]))
        linux = name == "kernels" and low[: m.start()].rstrip().endswith("linux")
        product = name is not None and name.startswith("flash-attn") and m[2] in ("1.0", "2.0", "3.0")  # a name
        if name is not None and not linux and not product:
            yield f"packages.{name}.version", m[2], m.start(), m.end()


def _gpus(clause: str) -> Iterator[Item]:
    named = products(clause)
    for name in named:
        start = clause.find(name)
        yield "gpus.*.name", name, start, start + len(name)


def _systems(clause: str) -> Iterator[Item]:
    for m in _SYSTEM.finditer(clause):
        yield "system.distribution", m[1], m.start(), m.end()
    for m in _WSL.finditer(clause):
        yield "system.wsl", True, m.start(), m.end()
    for m in _MACHINE.finditer(clause):
        yield "system.machine", m[1].lower().replace("x86-64", "x86_64"), m.start(), m.end()
    for m in _LIBC.finditer(clause):
        yield "system.libc_version", m[1], m.start(), m.end()
    for path, value, pattern in _PLACES:
        place = pattern.search(clause)
        if place is not None:
            yield path, value, place.start(), place.end()


CUES = (
    "torch", "python", "py3", "cp3", "cuda", "cu1", "driver", "pilote", "treiber", "драйвер", "驱动", "ドライバ",
    "rtx", "gtx", "geforce", "4090", "5090", "3090",
    "4080", "5080", "3080", "4070", "5070", "3070", "4060", "5060", "3060", "2080", "tesla", "h100", "h200", "h800",
    "h20", "a100", "a800", "a10", "a30", "a40", "a60", "b200", "b300", "l40", "l4", "l20", "t4", "v100", "p100",
    "gh200", "gb200", "gb300", "gb10", "mi2", "mi3", "jetson", "orin", "thor", "radeon", "titan", "quadro",
    "ubuntu", "debian", "centos", "rocky", "alma", "rhel", "red hat", "fedora", "windows", "wsl", "macos", "mac os",
    "arch linux", "amazon linux", "oracle linux", "x86", "aarch64", "arm64", "glibc", "docker", "nvcr", "container",
    "apptainer", "singularity", "kubernetes", "k8s", "colab", "kaggle", "slurm", "sbatch", "transformers",
    "kernels", "flash", "fa2", "fa3", "fa4", "triton", "vllm", "xformers", "bitsandbytes", "deepspeed",
    "accelerate", "peft", "trl", "diffusers", "hub", "liger", "mamba", "causal", "cutlass", "quack", "unsloth",
    "axolotl", "sglang", "arc ",
)  # fmt: skip
RECOGNISER = Recogniser("prose", CUES, read)
