"""Turns what stands behind a key into the value of a fact. Knows no format and no line."""

from __future__ import annotations

import re

# A release as tools print it: "2.9.0", "2.10", "2.5.0a0+872d972e41.nv24.08", "2.8.0.post2", "4.0.0b8".
VERSION = re.compile(
    r"(?<![\w.+-])v?(\d{1,5}(?:\.\d{1,6}){1,4}(?:\.?(?:a|b|rc|alpha|beta|dev|post"
    r"|c)\.?\d{0,9}){0,3}(?:\+[A-Za-z0-9._-]{1,60})?)(?![\w])",
    re.ASCII,
)
DRIVER = re.compile(r"(?<![\d.])([2-6]\d\d\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]\d)", re.ASCII)
_CUDA = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})(?:\.\d{1,4}){0,2}(?![\d])", re.ASCII)
_CUDA_TAG = re.compile(r"\bcu(\d{2})(\d)\b", re.ASCII)
_NOTHING = re.compile(
    r"(?:n/?a|none|null|nil|unknown|could not collect|not available|unavailable|not found|not installed|not set|no|-|\?"
    r"|<?fill in>?|<[^<>]{0,60}>|\.{3}|x\.?y?)\.?",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"\(?(?:not installed|not found|not present|missing|uninstalled|is not installed)\b", re.IGNORECASE
)
_PLATFORM = re.compile(r"(Linux|Windows|macOS|Darwin)-([A-Za-z0-9._+~]{1,80}(?:-[A-Za-z0-9._+~]{1,80}){0,14})")
_MACHINE = re.compile(r"(?:\b|_)(x86_64|aarch64|arm64|AMD64|amd64|x64|ppc64le)\b", re.IGNORECASE)
_LIBC = re.compile(r"\b(glibc|musl)[- ]?(\d{1,2}\.\d{1,3})", re.IGNORECASE)
_SYSTEMS = tuple(
    (name, re.compile(rf"\b(?:{words})", re.IGNORECASE))
    for name, words in (
        ("linux", r"linux|ubuntu|debian|centos|rhel|red hat|rocky|alma|fedora"),
        ("linux", r"manjaro|\w{0,6}suse|wsl|pop!?_?os|mint|nixos|gentoo|alpine|dgx os|oracle|arch linux|amazon"),
        ("windows", r"windows|win1[01]"),
        ("darwin", r"macos|mac os|darwin|os x"),
    )
)
MACHINES = {"amd64": "x86_64", "x64": "x86_64"}


def is_nothing(text: str) -> bool:
    """Whether a value says that nothing could be said."""
    return not text or _NOTHING.fullmatch(text) is not None


def says_missing(text: str) -> bool:
    """Whether a value says that the thing is not there ("not installed")."""
    return _MISSING.match(text) is not None


def version(text: str) -> str | None:
    """The first version in a value."""
    found = VERSION.search(text)
    return found[1].rstrip("._-") if found else None


def versions(text: str) -> list[str]:
    """Every different version in a value."""
    return list(dict.fromkeys(found[1].rstrip("._-") for found in VERSION.finditer(text)))


def driver(text: str) -> str | None:
    """An NVIDIA driver's version, "550.54.15"."""
    found = DRIVER.search(text)
    return found[1] if found else None


def cuda(text: str) -> str | None:
    """A CUDA release as "12.8", from "12.8", "12.8.93" or "cu128"."""
    found = _CUDA.search(text)
    if found and int(found[1]) in range(7, 20):
        return f"{int(found[1])}.{int(found[2])}"
    tag = _CUDA_TAG.search(text)
    return f"{tag[1]}.{tag[2]}" if tag else None


def system(text: str) -> str | None:
    """linux, windows or darwin."""
    return next((name for name, words in _SYSTEMS if words.search(text)), None)


def machine(text: str) -> str | None:
    """The processor's name as facts write it."""
    found = _MACHINE.search(text)
    return MACHINES.get(found[1].lower(), found[1].lower()) if found else None


def libc(text: str) -> tuple[str, str] | None:
    """("glibc", "2.35")."""
    found = _LIBC.search(text)
    return (found[1].lower(), found[2]) if found else None


def platform(text: str) -> dict[str, object]:
    """Facts of the system in what Python's `platform.platform()` prints."""
    found = _PLATFORM.search(text)
    if found is None:
        return {}
    facts: dict[str, object] = {"system.os": {"macos": "darwin"}.get(found[1].lower(), found[1].lower())}
    rest = found[2]
    release = re.split(r"-(?:x86_64|aarch64|arm64|AMD64|with|SP\d)\b", rest, maxsplit=1)[0]
    if facts["system.os"] == "linux":
        facts["system.kernel"] = release.removesuffix(".x86_64").removesuffix(".aarch64")
        facts["system.wsl"] = "microsoft" in rest.lower()
    else:
        facts["system.distribution"] = f"{found[1]} {release}"
    if named := machine(text):
        facts["system.machine"] = named
    if called := libc(text):
        facts["system.libc"], facts["system.libc_version"] = called
    return facts


def yes_no(text: str) -> bool | None:
    """True and False as tools and people write them."""
    word = re.match(r"[\W_]*(true|yes|false|no|enabled|disabled|on|off|1|0)\b", text, re.IGNORECASE)
    return word[1].lower() in ("true", "yes", "enabled", "on", "1") if word else None
