"""Reads what ldd, readelf and objdump print of an extension: the libraries that it needs. Opens no file."""

from __future__ import annotations

import re

from .model import Source
from .notebook import Notebook
from .scan import Recogniser
from .text import Line

_FILE = re.compile(r"(?:^|[\s/\\])([A-Za-z_]\w{1,80})\.(?:cpython-\w{2,6}|abi3|cp\d{2,4})[\w-]{0,40}\.so\b", re.ASCII)
_COMMAND = re.compile(r"\b(?:ldd|readelf|objdump)\b")
_LDD = re.compile(r"\s*(lib[\w.+-]{1,80}\.so[\d.]{0,20})\s+=>\s+(\S.{0,300})")
_NEEDED = re.compile(r"\(?NEEDED\)?\s+(?:Shared library: )?\[?(lib[\w.+-]{1,80}\.so[\d.]{0,20})\]?")
_VERSION = re.compile(r"^ldd \([^)]{1,60}\) (2\.\d{1,2})\b")
MOST = 80  # libraries of one extension that are kept
REACH = 120  # lines below the file's name that can be about it


def read(line: Line, notebook: Notebook) -> bool:
    """Read one line that names a file to look into, or a library that it needs."""
    if version := _VERSION.match(line.text):
        notebook.add("system.libc", "glibc", line, "ldd", Source.PRINTED)
        notebook.add("system.libc_version", version[1], line, "ldd", Source.PRINTED)
        return True
    file = _FILE.search(line.text)
    if file and (_COMMAND.search(line.low) or line.text.endswith(":")):
        notebook.context["looked into"] = (line.number, file[1], [])
        return False
    needed = _LDD.match(line.text) or _NEEDED.search(line.text)
    if needed is None:
        return False
    number, module, libraries = notebook.context.get("looked into", (-REACH, "", []))
    if not module or line.number - number > REACH or len(libraries) >= MOST:
        return False
    libraries.append(needed[1])
    kind = "ldd" if "=>" in line.text else "readelf"
    notebook.saw(kind)
    place = f"extensions.{module}"
    notebook.add(f"{place}.needed", tuple(libraries), line, kind, Source.PRINTED)
    if cudart := re.fullmatch(r"libcudart\.so\.(\d{1,2})[\d.]*", needed[1]):
        notebook.add(f"{place}.cudart_major", cudart[1], line, kind, Source.PRINTED)
    return True


RECOGNISER = Recogniser("binaries", ("ldd", "readelf", "objdump", ".so:", "=>", "needed"), read)
