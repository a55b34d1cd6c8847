"""Reads GPUs in lspci's list and below the header that `nvidia-smi --query-gpu … --format=csv` prints."""

from __future__ import annotations

import re

from . import values
from .gpus import memory_bytes, products, vendor
from .model import Source
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_LSPCI = re.compile(
    r"\s*(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:\"?)(?:VGA compatible controller|3D controller"
    r"|Display controller)(?: \[03[0-9a-f]{2}\])?:? (NVIDIA|Advanced Micro Devices|Intel)[^\[]{0,60}"
    r"(?:\[AMD/ATI\] )?[^\[]{0,40}\[([^\]]{3,60})\]"
)
_HEADER = re.compile(r"\s*[a-z][\w.]{2,40}(?: \[\w{2,5}\])?(?:, ?[a-z][\w.]{2,40}(?: \[\w{2,5}\])?){0,12}\s*$")
_FIELDS = ("name", "gpu_name", "driver_version", "compute_cap")
_CSV = "nvidia-smi csv"
MOST = 64  # GPUs of one list


def lspci(line: Line, notebook: Notebook) -> bool:
    """ "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)"."""
    found = _LSPCI.match(line.text)
    if found is None or not products(found[2]):
        return False
    index = notebook.context.get("lspci", 0)
    if index >= MOST:
        return True
    notebook.context["lspci"] = index + 1
    notebook.saw("lspci")
    notebook.add(f"gpus.{index}.name", found[2], line, "lspci", Source.PRINTED)
    notebook.add(f"gpus.{index}.vendor", vendor(f"{found[1]} {found[2]}"), line, "lspci", Source.PRINTED)
    return True


def header(line: Line, notebook: Notebook) -> bool:
    """ "index, name, driver_version, compute_cap": the names of the columns below."""
    if not _HEADER.match(line.text):
        return False
    columns = [column.split(" [")[0].strip() for column in line.text.split(",")]
    if not any(column in _FIELDS for column in columns) or columns == ["name"]:
        return False
    notebook.context["csv"] = (columns, 0)
    notebook.block = _row
    return True


def _row(line: Line, notebook: Notebook) -> bool:
    columns, row = notebook.context["csv"]
    cells = [cell.strip() for cell in line.text.split(",")]
    if len(cells) != len(columns) or row >= MOST:
        return False
    told = dict(zip(columns, cells, strict=True))
    name = told.get("name") or told.get("gpu_name")
    if name and not products(name):
        return False
    notebook.saw(_CSV)
    notebook.context["csv"] = (columns, row + 1)
    place = f"gpus.{told['index'] if told.get('index', '').isdigit() else row}"
    if name:
        notebook.add(f"{place}.name", name, line, _CSV, Source.PRINTED)
        notebook.add(f"{place}.vendor", "nvidia", line, _CSV, Source.PRINTED)
    if driver := values.driver(told.get("driver_version", "")):
        notebook.add("driver.version", driver, line, _CSV, Source.PRINTED)
    if re.fullmatch(r"\d{1,2}\.\d", told.get("compute_cap", "")):
        notebook.add(f"{place}.compute_capability", told["compute_cap"], line, _CSV, Source.PRINTED)
    if size := memory_bytes(told.get("memory.total", "")):
        notebook.add(f"{place}.memory_bytes", size, line, _CSV, Source.PRINTED)
    return True


LSPCI = Recogniser("lspci", ("controller",), lspci, exclusive=True)
HEADER = Recogniser("nvidia-smi csv", ("driver_version", "compute_cap", "gpu_name", "name, "), header, exclusive=True)
