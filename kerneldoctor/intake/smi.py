"""Reads nvidia-smi: its table, `-q`, `-L` and `--query-gpu … --format=csv`; and GPU lists of other tools."""

from __future__ import annotations

import re

from . import values
from .gpus import add_names, capability, memory_bytes, products, vendor
from .model import Source
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_HEADER = re.compile(
    r"NVIDIA-SMI\s{1,4}(?:version\s*:\s*)?([\d.]{3,14})\s{1,40}(?:Driver|KMD) Version:?\s{1,4}([\d.]{3,14})",
    re.IGNORECASE,
)
_OFFERS = re.compile(r"CUDA (?:UMD )?Version:?\s{0,4}(\d{1,2}\.\d)")
_ROW = re.compile(r"\s*\|?\s{0,4}(\d{1,3})\s{1,6}(\S.{2,60}?)\s+(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!)\s*\|.{0,60}\|")
_CUT_ROW = re.compile(
    r"\s*\|?\s{0,4}(\d{1,3})\s{1,6}(\S.{2,60}?)\s*\|\s*[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d", re.IGNORECASE
)
_MEMORY = re.compile(r"\d{1,7}MiB\s*/\s*(\d{1,7})MiB")
_MIG = re.compile(r"\|\s*(Enabled|Disabled)\*?\s*\|")
_LISTED = re.compile(
    r"\s*(?:[-*]\s*)?(?:\[\d\]\s*)?GPU[\s#]{0,2}(\d[\d,\s-]{0,60}?)\s*(\(CUDA order\))?\s*[:=]\s*(\S.{0,160})$"
)
_MIG_DEVICE = re.compile(r"\s*MIG\s+(\d\w*\.\d+gb\S*)\s+Device\s+(\d+)", re.IGNORECASE)
_GPU_CAPABILITY = re.compile(r"\s*GPU\s*([\d,]{1,60})\s+Compute Capability\s*:\s*(\d{1,2}\.\d)")
_CSV = re.compile(
    r"\s*(?:(\d{1,2}), ?)?((?:NVIDIA|Tesla|GeForce|Quadro|TITAN|A100"
    r"|H100)[^,|]{2,50}),(?: ?[^,|]{1,60},){0,6} ?[^,|]{1,60}"
)
_NOT_FOUND = ("no devices were found", "no devices found")
_NVML_ERRORS = {
    "driver/library version mismatch": "driver_library_mismatch",
    "driver not loaded": "driver_not_loaded",
    "couldn't communicate with the nvidia driver": "driver_not_loaded",
    "insufficient permissions": "insufficient_permissions",
    "gpu is lost": "gpu_is_lost",
    "failed to initialize nvml: unknown error": "unknown_error",
    "nvml: unknown error": "unknown_error",
    "nvml shared library not found": "library_not_found",
}


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line of nvidia-smi's table, or of a list of GPUs."""
    low = line.low
    if "smi" in low and (header := _HEADER.search(line.text)):
        _header(header, line, notebook)
        return True
    if "nvsmi log" in low:
        notebook.start("nvidia-smi -q", line)
        notebook.block = _query_row
        return True
    if (
        low.startswith(("nvml", "failed", "nvidia-smi has failed", "unable", "error"))
        or "nvml" in low
        or "communicate" in low
    ):
        _nvml(line, notebook)
    if any(text in low for text in _NOT_FOUND):
        notebook.saw("nvidia-smi")
        notebook.add("gpus.none.name", None, line, "nvidia-smi", Source.DUMP)
        return True
    if mig := _MIG_DEVICE.match(line.text):
        index = notebook.context.get("gpu", "0")
        notebook.add(f"gpus.{index}.mig", True, line, "nvidia-smi -L", Source.DUMP)
        notebook.add(f"gpus.{index}.mig_devices", int(mig[2]) + 1, line, "nvidia-smi -L", Source.DUMP)
        return True
    if cap := _GPU_CAPABILITY.match(line.text):
        for index in _indexes(cap[1]):
            notebook.add(
                f"gpus.{index}.compute_capability", cap[2], line, notebook.current(line) or "gpu list", Source.DUMP
            )
        return True
    if listed_gpu(line.text, line, notebook):
        return True
    if (csv := _CSV.match(line.text)) and products(csv[2]) and ", " in line.text:
        return _csv(csv, line, notebook)
    return False


def _header(header: re.Match[str], line: Line, notebook: Notebook) -> None:
    notebook.start("nvidia-smi", line)
    notebook.add("driver.version", header[2], line, "nvidia-smi", Source.DUMP)
    if offers := _OFFERS.search(line.text):
        notebook.add("driver.cuda", offers[1], line, "nvidia-smi", Source.DUMP)
    if int(header[1].partition(".")[0] or 0) and header[1] != header[2] and "Driver Version" in line.text:
        notebook.add("system.wsl", True, line, "nvidia-smi", Source.RUN)  # only there the two differ
    notebook.context["gpu"] = ""
    notebook.block = _table_row


def _table_row(line: Line, notebook: Notebook) -> bool:
    """A line of the table below the header: a GPU's first, second or MIG line."""
    text = line.text.strip()
    if text.startswith(("+", "|=", "|-")) or not text:
        return bool(text) or notebook.context.get("gpu") != ""
    if not text.startswith("|"):
        return False
    if "Processes" in text or "Compute Instance" in text or "MIG devices" in text:
        notebook.context["gpu_rows"] = False
        return False
    row = _ROW.match(line.text) or _CUT_ROW.match(line.text)
    if (
        row
        and not re.match(r"\s*\|?\s*\d+\s+(?:N/A|\d+)\s", line.text)
        and (products(row[2]) or "NVIDIA" in row[2] or "..." in row[2])
    ):
        notebook.context["gpu"] = row[1]
        name = row[2].strip()
        place = f"gpus.{int(row[1])}"
        if not re.fullmatch(r"(?:NVIDIA )?GeForce(?: [RG]TX)? ?\.{3}|NVIDIA \.{3}", name):
            notebook.add(f"{place}.name", name.removesuffix("...").rstrip(), line, "nvidia-smi", Source.DUMP)
        notebook.add(f"{place}.vendor", "nvidia", line, "nvidia-smi", Source.DUMP)
        return True
    gpu = notebook.context.get("gpu")
    if gpu:
        if memory := _MEMORY.search(text):
            notebook.add(f"gpus.{int(gpu)}.memory_bytes", int(memory[1]) * 2**20, line, "nvidia-smi", Source.DUMP)
        elif mig := _MIG.search(text):
            notebook.add(f"gpus.{int(gpu)}.mig", mig[1] == "Enabled", line, "nvidia-smi", Source.DUMP)
    return True


def _query_row(line: Line, notebook: Notebook) -> bool:
    """A line of `nvidia-smi -q`: keys with wide gaps, sections by indentation."""
    text = line.text.strip()
    if not text or text.startswith("="):
        return True
    if re.match(r"GPU [0-9A-Fa-f]{4,8}:", text):
        notebook.context["q_gpu"] = int(notebook.context.get("q_gpu", -1)) + 1 if "q_seen" in notebook.context else 0
        notebook.context["q_seen"] = True
        return True
    key, colon, value = (part.strip() for part in text.partition(" : "))
    if not colon:
        key, colon, value = (part.strip() for part in text.partition(": "))
    if not colon:
        notebook.context["q_section"] = text
        return len(text) < 60 and not text.startswith(("```", "Traceback"))
    _query_value(key, value, line, notebook)
    return True


def _query_value(key: str, value: str, line: Line, notebook: Notebook) -> None:
    place = f"gpus.{notebook.context.get('q_gpu', 0)}"
    kind, section = "nvidia-smi -q", notebook.context.get("q_section", "")

    def note(path: str, what: object) -> None:
        notebook.add(path, what, line, kind, Source.DUMP)

    if key == "Driver Version" and (found := values.driver(value)):
        note("driver.version", found)
    elif key == "CUDA Version" and (offers := values.cuda(value)):
        note("driver.cuda", offers)
    elif key == "Product Name":
        note(f"{place}.name", value)
        note(f"{place}.vendor", vendor(value) or "nvidia")
    elif key == "Current" and section == "MIG Mode" and value in ("Enabled", "Disabled"):
        note(f"{place}.mig", value == "Enabled")
    elif key == "Total" and section == "FB Memory Usage" and (size := memory_bytes(value)):
        note(f"{place}.memory_bytes", size)
    elif key == "GPU UUID" and value.startswith("GPU-"):
        note(f"{place}.uuid", value)


def _nvml(line: Line, notebook: Notebook) -> None:
    for text, code in _NVML_ERRORS.items():
        if text in line.low:
            notebook.add("driver.nvml_error", code, line, "nvidia-smi", Source.RUN)
            notebook.add("driver.nvml_error_text", line.short, line, "nvidia-smi", Source.RUN)
            return


def _indexes(text: str) -> list[int]:
    """ "0,1,2" and "0-7"."""
    span = re.fullmatch(r"\s*(\d{1,3})\s*-\s*(\d{1,3})\s*", text)
    if span and int(span[1]) < int(span[2]) < 64:
        return list(range(int(span[1]), int(span[2]) + 1))
    return [int(part) for part in re.findall(r"\d{1,3}", text)][:64]


def listed_gpu(text: str, line: Line, notebook: Notebook) -> bool:
    """Read "GPU 0: NVIDIA H100 80GB HBM3"; False where a text is no such entry."""
    listed = _LISTED.match(text)
    return listed is not None and _listed(listed, line, notebook)


def _listed(listed: re.Match[str], line: Line, notebook: Notebook) -> bool:
    """ "GPU 0: NVIDIA H100 80GB HBM3 (UUID: …)", "GPU 0 (CUDA order): NVIDIA B200 | SM100 | …"."""
    name, *rest = listed[3].split(" | ")
    name = re.split(r"\s{2,}|\.\.\.|,? \d+ ?MiB", name)[0]
    name = re.sub(r"\s*\((?:UUID|sm|SM|cc|compute).{0,80}$|\s+Compute Capability.{0,40}$", "", name).strip(" ,.`*")
    if not products(name) and not name.startswith(("NVIDIA", "AMD", "Intel")):
        return False
    current = notebook.current(line)
    tool = bool(current) or "UUID" in line.text or "CUDA order" in line.text or name.startswith("NVIDIA")
    kind = "nvidia-smi -L" if "UUID" in line.text else current or "gpu list"
    source = Source.DUMP if tool else Source.TABLE
    if not tool and len(name) > 50:
        return False
    if "UUID" in line.text:
        notebook.saw("nvidia-smi -L")
    for index in _indexes(listed[1]):
        notebook.context["gpu"] = str(index)
        place = f"gpus.{index}"
        if name not in ("NVIDIA", "NVIDIA GeForce", "NVIDIA GeForce RTX"):  # cut short, as nvidia-smi does
            notebook.add(f"{place}.name", name, line, kind, source)
        notebook.add(f"{place}.vendor", vendor(name) or "nvidia", line, kind, source)
        for part in (*rest, listed[3] if "apab" in listed[3] else ""):
            if cap := (capability(part) if re.search(r"sm|capab", part, re.IGNORECASE) else None):
                notebook.add(f"{place}.compute_capability", cap, line, kind, source)
    return True


def _csv(csv: re.Match[str], line: Line, notebook: Notebook) -> bool:
    """ "NVIDIA A100-SXM4-80GB, 550.54.15, 81920 MiB"."""
    row = csv[0].split(",")
    if all(products(part) for part in row[:2]):
        return False  # a list of GPUs
    driver, size, cap = values.driver(csv[0]), memory_bytes(csv[0]), re.search(r", ?(\d{1,2}\.\d)(?=,|$)", csv[0])
    if not driver and not size and not cap:
        return False
    index = csv[1] if csv[1] is not None else "0"
    kind = "nvidia-smi csv"
    notebook.saw(kind)
    add_index = f"gpus.{index}"
    notebook.add(f"{add_index}.name", csv[2].strip(), line, kind, Source.PRINTED)
    if driver:
        notebook.add("driver.version", driver, line, kind, Source.PRINTED)
    if cap:
        notebook.add(f"{add_index}.compute_capability", cap[1], line, kind, Source.PRINTED)
    if size:
        notebook.add(f"{add_index}.memory_bytes", size, line, kind, Source.PRINTED)
    return True


def bare(line: Line, notebook: Notebook) -> bool:
    """A line that is the name of a GPU and nothing else, as `torch.cuda.get_device_name()` prints it."""
    text = line.text.strip(" '\"`")
    if text.startswith("NVIDIA ") and products(text) and len(text) < 50 and not re.search(r"[,:;.?!](?:\s|$)", text):
        return add_names(text, line, "printed", Source.PRINTED, notebook)
    return False


CUES = (
    "nvidia-smi", "nvsmi", "gpu ", "gpu0", "gpu#", "gpu:", "mig ", "no devices", "nvml", "communicate with",
    "nvidia ", "tesla ", "geforce",
)  # fmt: skip
RECOGNISER = Recogniser("nvidia-smi", CUES, read, exclusive=True)
BARE = Recogniser("gpu name", ("nvidia ",), bare)
