"""Reads lists of packages (pip, uv, conda, poetry, collect_env's) and says which of them are whole."""

from __future__ import annotations

import itertools
import re

from .model import Source
from .names import distribution, normalise
from .notebook import Listing, Notebook
from .scan import Recogniser
from .text import Line

_PIP_HEADER = re.compile(
    r"\s*\|?\s*Package\s{1,40}\|?\s*Version(?:\s{1,80}(?:Location|Editable project location|Installer|Build"
    r"|Latest)\b.{0,80})?\s*\|?\s*$"
)
_RULE = re.compile(r"\s*[|+]?\s*-{2,200}[\s|+-]{0,400}")
_ROW = re.compile(
    r"\s*\|?\s*([A-Za-z0-9][A-Za-z0-9._-]{0,80})\s*[|\s]\s*v?(\d[\w.!+-]{0,80})(?:\s+(.{0,300}?))?\s*\|?\s*$"
)
_FREEZE = re.compile(
    r"\s*[-+*]?\s*([A-Za-z0-9][A-Za-z0-9._-]{0,80}?)(?:\[[\w,. -]{0,60}\])?\s?(==)\s?v?(\d[\w.!+-]{0,80})"
    r"(?:\s*[;#\\(].{0,400})?\s*,?$"
)
_DIRECT = re.compile(
    r"\s*(?:-e\s+)?([A-Za-z0-9][A-Za-z0-9._-]{0,80})\s+@\s+((?:https?|file|git\+\w{1,5})://\S{1,1000})"
    r"|\s*-e\s+git\+\S{1,500}#egg=([\w.-]{1,80})"
)
_WHEEL = re.compile(r"/([A-Za-z0-9_.]{1,80})-(\d[\w.!+%]{0,80})-[\w.]{2,40}-[\w.]{2,40}-[\w.]{2,120}\.whl")
_CONDA_HEADER = re.compile(r"#\s*Name\s+Version\s+Build\s*(?:Channel)?", re.IGNORECASE)
_MAMBA_HEADER = re.compile(r"\s*Name\s+Version\s+Build\s+Channel\s*", re.IGNORECASE)
_CONDA_ROW = re.compile(
    r"\s{0,6}([A-Za-z0-9_][A-Za-z0-9._-]{0,80})\s+(\d[\w.!+-]{0,80})\s+([\w.+-]{1,80})(?:\s+(\S{1,120}))?\s*"
)
_BRACKET = re.compile(
    r"\s*(?:[-*]\s)?\[(pip3?|conda|uv)\]\s+([A-Za-z0-9][A-Za-z0-9._-]{0,80})(?:==|\s+)v?(\d[\w.!+-]{0,80})"
)
_POETRY = re.compile(
    r"([a-z0-9][a-z0-9._-]{0,60})\s+(?:\(!\)\s+)?(\d[\w.!+-]{0,60})(?:\s+[0-9a-f]{7,40})?\s+([A-Z🤗].{3,200})"
)
_MORE_FACTS = re.compile(r"\d\.\d|\bdriver\b|\b[A-Z]{1,3}\d{2,4}\b|\bNVIDIA\b")
_NAME_VERSION = re.compile(r"\s*Name:\s*([A-Za-z0-9][A-Za-z0-9._-]{0,80})\s*$")
_VERSION_LINE = re.compile(r"\s*Version:\s*v?(\d[\w.!+-]{0,80})\s*$")
_FILTER = re.compile(r"\b(?:grep|rg|findstr|select-string|head|tail|awk|sed)\b", re.IGNORECASE)
_CUT = re.compile(r"\s*(?:\.{3,}|…|\[\.{3}\]|\(?(?:snip|truncated|omitted|etc\.?)\)?|<.{1,40}>).{0,40}", re.IGNORECASE)
_PROMPT = re.compile(
    r"(?:pip3?|uv pip|python3? -m pip|conda|mamba|micromamba|poetry|uv)\s+(list|freeze|show)\b", re.IGNORECASE
)
_BARE = re.compile(r"\s*[-*]?\s?([A-Za-z][\w.-]{2,60})\s{1,60}v?(\d+\.[\w.!+-]{1,80})\s*")
_ENOUGH = 12  # entries from which a listing without `pip` in it can be whole


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line outside of a listing, or begin one."""
    text = line.text
    if _PROMPT.search(text):
        notebook.context["filtered"] = line.number if _FILTER.search(text) else -1
    if _PIP_HEADER.match(text):
        return _open(line, notebook, "pip list", _pip_row)
    if _CONDA_HEADER.search(text) or _MAMBA_HEADER.fullmatch(text):
        return _open(line, notebook, "conda list", _conda_row)
    if bracket := _BRACKET.match(text):
        source = "collect_env" if not notebook.current(line) else notebook.current(line)
        _note(bracket[2], bracket[3], line, notebook, source)
        return True
    if _FREEZE.fullmatch(text) and "pip install" not in line.low:
        return _open(line, notebook, "pip freeze", _freeze_row) and _freeze_row(line, notebook)
    if direct := _DIRECT.match(text):
        _direct(direct, line, notebook)
        return True
    if (poetry := _POETRY.fullmatch(text)) and not _MORE_FACTS.search(poetry[3]):
        notebook.saw("poetry show")
        _note(poetry[1], poetry[2], line, notebook, "poetry show")
        return True
    if (bare := _BARE.fullmatch(text)) and distribution(bare[1]) is not None:
        notebook.add(f"packages.{normalise(bare[1])}.version", bare[2], line, "package list", Source.TABLE)
        return True
    return _shown(line, notebook)


def _open(line: Line, notebook: Notebook, kind: str, row: object) -> bool:
    if kind != "pip freeze" or not _same_freeze(line, notebook):
        notebook.saw(kind)
        listing = Listing(kind, line.number, notebook.machine)
        filtered = notebook.context.get("filtered", -1)
        notebook.context["may_be_whole"] = not 0 < line.number - filtered < 4 if filtered > 0 else True
        notebook.listings.append(listing)
    notebook.block = row  # type: ignore[assignment]
    return True


def _same_freeze(line: Line, notebook: Notebook) -> bool:
    """A line that is none may stand in the middle of a list."""
    last = notebook.context.get("freeze_line", -9)
    return bool(notebook.listings) and notebook.listings[-1].kind == "pip freeze" and line.number - int(last) <= 2


def _pip_row(line: Line, notebook: Notebook) -> bool:
    listing = notebook.listings[-1]
    if _RULE.fullmatch(line.text):
        return True
    row = _ROW.fullmatch(line.text)
    if row is None or (listing.names and len(row[1]) == 1 and row[1].isdigit()):
        return _close(line, notebook)
    place = row[3] or ""
    _entry(row[1], row[2], line, notebook)
    if "/" in place or ":\\" in place:
        notebook.add(f"packages.{normalise(row[1])}.editable", True, line, listing.kind, Source.DUMP)
    return True


def _conda_row(line: Line, notebook: Notebook) -> bool:
    if (
        line.text.startswith("#")
        or _RULE.fullmatch(line.text)
        or (not line.text.strip() and not notebook.listings[-1].names)
    ):
        return True
    row = _CONDA_ROW.fullmatch(line.text)
    if row is None:
        return _close(line, notebook)
    name = "torch" if normalise(row[1]) == "pytorch" else row[1]
    build = row[3]
    _entry(name, row[2], line, notebook)
    channel = (row[4] or "").lower()
    installer = "pip" if channel == "pypi" else "conda"
    notebook.add(f"packages.{normalise(name)}.installer", installer, line, "conda list", Source.DUMP)
    if name == "torch" and (cuda := re.search(r"cuda(\d{1,2})\.(\d)|cuda_?(\d{2})(\d)", build)):
        notebook.add("torch.cuda", f"{cuda[1] or cuda[3]}.{cuda[2] or cuda[4]}", line, "conda list", Source.DUMP)
        notebook.add("torch.backend", "cuda", line, "conda list", Source.DUMP)
    elif name == "torch" and "cpu" in build:
        notebook.add("torch.backend", "cpu", line, "conda list", Source.DUMP)
    return True


def _freeze_row(line: Line, notebook: Notebook) -> bool:
    row = _FREEZE.fullmatch(line.text)
    if row is not None:
        notebook.context["freeze_line"] = line.number
        _entry(row[1], row[3], line, notebook)
        return True
    direct = _DIRECT.match(line.text)
    if direct is not None:
        notebook.context["freeze_line"] = line.number
        _direct(direct, line, notebook)
        return True
    if re.match(r"\s*(?:#|--|\\)", line.text) and line.text.strip() != "#":
        return True
    return _close(line, notebook)


def _direct(direct: re.Match[str], line: Line, notebook: Notebook) -> None:
    """ "flash_attn @ https://…/flash_attn-2.8.3+cu12…whl" tells the version in the file's name."""
    name = direct[1] or direct[3]
    url = (direct[2] or "").replace("%2B", "+").replace("%2b", "+")
    wheel = _WHEEL.search(url)
    if notebook.listings and notebook.block is not None:
        notebook.listings[-1].names.append(normalise(name))
    if wheel is not None:
        _note(name, wheel[2], line, notebook, "pip freeze")


def _entry(name: str, version: str, line: Line, notebook: Notebook) -> None:
    listing = notebook.listings[-1]
    listing.names.append(normalise(name))
    if listing.kind == "conda list" and name == "python":
        notebook.add("python.version", version, line, listing.kind, Source.DUMP)
    _note(name, version, line, notebook, listing.kind)


def _note(name: str, version: str, line: Line, notebook: Notebook, kind: str) -> None:
    notebook.add(f"packages.{normalise(name)}.version", version.rstrip(".-+"), line, kind, Source.DUMP)


def _close(line: Line, notebook: Notebook) -> bool:
    """The list is over: whole when it could not be longer, see the module."""
    listing = notebook.listings[-1]
    cut = bool(_CUT.fullmatch(line.text)) and bool(line.text.strip())
    listing.whole = bool(notebook.context.get("may_be_whole", True)) and not cut and looks_whole(listing)
    notebook.block = None
    return False


def close_open(notebook: Notebook) -> None:
    """The text ended inside of a list."""
    if notebook.block in (_pip_row, _conda_row, _freeze_row) and notebook.listings:
        listing = notebook.listings[-1]
        listing.whole = bool(notebook.context.get("may_be_whole", True)) and looks_whole(listing)
        notebook.block = None


def looks_whole(listing: Listing) -> bool:
    """A listing is in order and spans the alphabet; pip's also holds pip, conda's holds python."""
    names = listing.names
    in_order = sum(a <= b for a, b in itertools.pairwise(names)) >= 0.9 * (len(names) - 1)
    if len(names) < 3 or not in_order:
        return False
    if listing.kind == "pip list":
        return ("pip" in names and len(names) >= 5) or (len(names) >= _ENOUGH and _spans(names))
    if listing.kind == "conda list":
        return "python" in names and len(names) >= 5
    return len(names) >= _ENOUGH and _spans(names)


def _spans(names: list[str]) -> bool:
    return names[0][0] <= "d" and names[-1][0] >= "t"


def _shown(line: Line, notebook: Notebook) -> bool:
    """ "Name: vllm" and "Version: 0.21.0" of `pip show`."""
    if name := _NAME_VERSION.match(line.text):
        notebook.context["shown"] = (line.number, name[1])
        return True
    found = _VERSION_LINE.match(line.text)
    shown = notebook.context.get("shown")
    if found and shown and line.number - shown[0] <= 2:
        notebook.saw("pip show")
        notebook.add(f"packages.{normalise(shown[1])}.version", found[1], line, "pip show", Source.DUMP)
        return True
    return False


CUES = ("package", "==", "# name", "name ", "name:", "version:", "[pip", "[conda]", "[uv]", " @ ", "#egg=", "pip",
        "conda",
        "torch ", "transformers ", "flash-attn ", "kernels ", "triton ", "nvidia-")  # fmt: skip
RECOGNISER = Recogniser("package listings", CUES, read, exclusive=True)
