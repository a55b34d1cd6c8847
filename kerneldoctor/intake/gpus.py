"""Recognises GPUs by name in values, lists and sentences. What a name can do is left to tables and derived facts."""

from __future__ import annotations

import re

from .model import Source
from .notebook import Notebook
from .text import Line

_PRODUCT = re.compile(
    r"""(?:(?<![\w-])|(?<=\dx)|(?<=\d\u00d7))(?:NVIDIA\ )?(?:
      RTX\ PRO\ \d{4}(?:\ Blackwell)?(?:\ (?:Server|Workstation|Max-Q\ Workstation)\ Edition)?
    | (?:GeForce\ )?(?:RTX|GTX)[\ -]?\d{3,4}(?:\ ?(?:Ti|SUPER|Super|Ada|D|A)\b){0,3}(?:\ Generation)?
      (?:\ Laptop(?:\ GPU)?|\ Max-Q)?
    | (?:Quadro\ )?RTX\ ?A\d{4}(?:\ Laptop(?:\ GPU)?)?
    | RTX\ ?(?:2000|4000|4500|5000|6000)(?:\ SFF)?\ Ada(?:\ Generation)?
    | (?:Tesla\ )?(?:V100S?|P100|P40|P4|T4G?|K80|M40|M60)(?:-(?:SXM\d|PCIE|PCIe)(?:-\d\dGB)?)?(?:[\ -]\d{2}GB)?
    | (?:GH200|GB200|GB300|GB10|B300|B200|B100|H200|H100|H800|H20|L40S?|L4|L20|A100X?|A800|A40|A30|A16|A10G?|A2
      |A6000|A5000|A4500|A4000|A2000)
      (?:[- ](?:SXM\d?(?:-\d{2,3}GB)?|PCIe|NVL|\d{2,3}\ ?GB(?:\ HBM\de?)?|HBM\de?)){0,3}
    | (?:TITAN|Titan)\ (?:RTX|V|Xp|X)
    | Jetson\ (?:AGX\ )?(?:Orin|Thor|Xavier)(?:\ (?:NX|Nano))? | Thor | Orin
    | (?:AMD\ )?(?:Instinct\ )?MI(?:100|210|250X?|300[AX]?|308X|325X|350X?|355X)
    | (?:AMD\ )?Radeon\ (?:RX|PRO|Pro)\ \w{3,8}(?:\ XTX?)?
    | Intel(?:\(R\))?\ (?:Arc|Data\ Center\ GPU\ Max)[\w\ ()]{0,24}
    )(?![\w])""",
    re.VERBOSE,
)
_LOOSE = re.compile(
    r"(?<![\w-])(?:rtx|gtx|geforce|tesla|quadro)[\s-]{0,2}(?:pro )?[a-z]?\d{2,4}(?: ?(?:ti|super))?\b", re.I
)
_BARE_CONSUMER = re.compile(
    r"\b(?:an?|my|our|the|on|dual|two|\dx|\d x) ((?:50[5-9]0|40[5-9]0|30[5-9]0|20[6-8]0)(?: ?Ti)?)(?!\w|\.\d|%)",
    re.IGNORECASE,
)
_CAPABILITY = re.compile(
    r"(?:sm_?|compute_|cc ?|capability ?)?\(?(?<![\d.])(\d{1,2})[.,] ?(\d)\)?(?![\d])", re.IGNORECASE
)
_SM = re.compile(r"\bsm[_ ]?(\d{1,2})(\d)[af]?\b|\bcompute_(\d{1,2})(\d)[af]?\b", re.IGNORECASE)
_COUNT = re.compile(
    r"^(\d{1,2}) ?[x\u00d7*] ?(?=[A-Z])|\b[x\u00d7] ?(\d{1,2})$|\([x\u00d7]?(\d{1,2})[x\u00d7]?\)$", re.IGNORECASE
)
_MEMORY = re.compile(r"(\d{1,6})(?:\.\d+)? ?(GiB|GB|MiB|MB)\b", re.IGNORECASE)


def capability(text: str) -> str | None:
    """A compute capability: "9.0", "sm_90", "(9, 0)"."""
    if short := _SM.search(text):
        return f"{int(short[1] or short[3])}.{short[2] or short[4]}"
    found = _CAPABILITY.search(text)
    if found and 3 <= int(found[1]) <= 13:
        return f"{int(found[1])}.{found[2]}"
    return None


def products(text: str) -> list[str]:
    """Every GPU that a text names, as it is written there, without repetition."""
    found = [match[0].strip() for match in _PRODUCT.finditer(text)]
    if not found:
        found = [match[0].strip() for match in _LOOSE.finditer(text)]
        found += [f"RTX {match[1]}" for match in _BARE_CONSUMER.finditer(text)]
    return list(dict.fromkeys(found))


def vendor(name: str) -> str | None:
    """Whose GPU a name is."""
    low = name.lower()
    if any(word in low for word in ("instinct", "radeon", "amd ", "mi300", "mi2", "mi3", "gfx")):
        return "amd"
    if "intel" in low or "arc " in low:
        return "intel"
    if "apple" in low:
        return "apple"
    return "nvidia" if products(name) or "nvidia" in low or "geforce" in low or "tesla" in low else None


def split_names(text: str) -> list[str]:
    """ "NVIDIA H100, NVIDIA H100" and "2x A100" as a list of names."""
    pieces = [piece.strip(" `*.;") for piece in re.split(r",(?! ?\d)|;| \+ ", text)]
    names: list[str] = []
    for piece in pieces:
        if not piece:
            continue
        count = _COUNT.search(piece)
        bare = _COUNT.sub("", piece).strip(" -")
        names += [bare] * (int(next(g for g in count.groups() if g)) if count and len(names) < 64 else 1)
    return names


def add_names(text: str, line: Line, kind: str, source: Source, notebook: Notebook) -> bool:
    """Note the GPUs of a value: "NVIDIA H100 80GB HBM3, …", "RTX 5090 (12.0)", "8x A40". False where it names none."""
    found = [name for name in split_names(text) if products(name) or name.startswith("NVIDIA ")]
    if not found:
        return False
    tool = source in (Source.SAVED, Source.DUMP)
    names = [_bare(name) if tool else (products(name) or [_bare(name)])[0] for name in found]
    if len(set(names)) > 1 and not tool:
        return False  # "H100 / CI on H200": which one it was here is not said
    for index, name in enumerate(names[:64]):
        place = str(index) if tool or len(names) > 1 else "*"
        notebook.add(f"gpus.{place}.name", name, line, kind, source)
        if whose := vendor(name):
            notebook.add(f"gpus.{place}.vendor", whose, line, kind, source)
    if re.search(r"\bMIG\b.{0,12}(?:enabled|on\b|\d\w{0,4}\.\d)", text, re.IGNORECASE):
        notebook.add("gpus.0.mig" if tool or len(names) > 1 else "gpus.*.mig", True, line, kind, source)
    said = re.search(r"(?:\bcc|compute capability|capability|sm|\()[\s:=(]{0,3}(\d{1,2}\.\d)\b", text, re.IGNORECASE)
    cap = said[1] if said else (capability(text) if _SM.search(text) else None)
    if cap and len(set(names)) == 1:
        for index in range(len(names[:64])):
            place = str(index) if tool or len(names) > 1 else "*"
            notebook.add(f"gpus.{place}.compute_capability", cap, line, kind, source)
    return True


def memory_bytes(text: str) -> int | None:
    """ "81559MiB" and "80 GB" in bytes."""
    found = _MEMORY.search(text)
    if found is None:
        return None
    return int(found[1]) * 2 ** (30 if found[2].lower().startswith("g") else 20)


def _bare(name: str) -> str:
    name = re.sub(r"\s{0,4}\((?:UUID|sm|SM|cc|CC|compute|x\d|\d+(?:\.\d+)?)[^)]{0,80}\)", "", name)
    return re.sub(r"[,.;]?\s{0,4}(?:Max memory.*|VRAM.*)$", "", name).strip()
