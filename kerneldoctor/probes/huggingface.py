"""Looks at how an environment would talk to the Hub: switches, folders, token, cached kernels.

It reads the variables as huggingface_hub, kernels and transformers do, without importing them, and never keeps
the value of a token or of a proxy. Sources: huggingface_hub/constants.py
(https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/constants.py) and
https://huggingface.co/docs/kernels/env
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from ..environment import CachedKernel, Fact, HuggingFace, absent, decode, known, unknown
from ..errors import ProbeError
from ..host import Host
from .kernel_cache import look_into
from .scene import Scene

TRUE_VALUES = frozenset({"1", "ON", "YES", "TRUE"})  # in any case of letters; huggingface_hub and transformers agree
TELEMETRY_SWITCHES = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")  # values are secret
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")  # also in small letters; may hold passwords

VARIABLES = (
    *TELEMETRY_SWITCHES,
    *OFFLINE_SWITCHES,
    *("HF_ENDPOINT", "HUGGINGFACE_CO_STAGING", "HF_HOME", "XDG_CACHE_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
    "HF_HUB_USER_AGENT_ORIGIN",
    *("KERNELS_CACHE", "HF_KERNELS_CACHE", "LOCAL_KERNELS", "USE_HUB_KERNELS"),
)
"""What a recording must keep for this probe to answer alike; tokens and proxies are recorded as yes or no."""

_ENDPOINT = "https://huggingface.co"
_STAGING = "https://hub-ci.huggingface.co"


def probe(scene: Scene) -> Mapping[str, object]:
    """The `huggingface` part."""
    host = scene.host
    home = _hf_home(host)
    cache = _kernels_cache(scene, home)
    exists, writable, free = _folder_state(host, cache)
    disabled, switch = _telemetry(host.environ)
    return {
        "huggingface": HuggingFace(
            endpoint=_endpoint(host.environ),
            offline=_offline(host.environ),
            telemetry_disabled=disabled,
            telemetry_variable=switch,
            user_agent_origin=_variable(host.environ, "HF_HUB_USER_AGENT_ORIGIN"),
            home=home,
            kernels_cache=cache,
            cache_exists=exists,
            cache_writable=writable,
            cache_free_bytes=free,
            token=_token(host, home),
            cached_kernels=_cached_kernels(host, cache),
            local_kernels=_local_kernels(host.environ),
            use_hub_kernels=_use_hub_kernels(host.environ),
            proxies=_proxies(host),
        )
    }


def _is_true(value: str | None) -> bool:
    return value is not None and value.upper() in TRUE_VALUES


# ------------------------------------------------------------------------------------------------------- switches


def _endpoint(environ: Mapping[str, str]) -> Fact[str]:
    if _is_true(environ.get("HUGGINGFACE_CO_STAGING")):
        return known(_STAGING, "HUGGINGFACE_CO_STAGING")
    if "HF_ENDPOINT" not in environ:
        return known(_ENDPOINT, "default")
    raw = environ["HF_ENDPOINT"].rstrip("/")
    shown = re.sub(r"(?<=//)[^/@]*@", "", raw)
    return known(shown, "HF_ENDPOINT" if shown == raw else "HF_ENDPOINT, user and password left out")


def _offline(environ: Mapping[str, str]) -> Fact[bool]:
    """HF_HUB_OFFLINE=0 wins over TRANSFORMERS_OFFLINE=1; an empty HF_HUB_OFFLINE does not."""
    switch = next((name for name in OFFLINE_SWITCHES if environ.get(name)), None)
    if switch is None:
        return known(False, f"{' and '.join(OFFLINE_SWITCHES)} are not set")
    return known(_is_true(environ[switch]), switch)


def _telemetry(environ: Mapping[str, str]) -> tuple[Fact[bool], Fact[str]]:
    """Whether telemetry is off, and which variable did it."""
    switch = next((name for name in TELEMETRY_SWITCHES if _is_true(environ.get(name))), None)
    if switch is None:
        none = f"none of {', '.join(TELEMETRY_SWITCHES)} is true"
        return known(False, none), absent(none)
    return known(True, switch), known(switch, switch)


def _variable(environ: Mapping[str, str], name: str) -> Fact[str]:
    return known(environ[name], name) if environ.get(name) else absent(f"{name} is not set")


def _use_hub_kernels(environ: Mapping[str, str]) -> Fact[bool]:
    """transformers 5: layers and functions from the Hub, on unless switched off; it does not stop attention kernels."""
    if "USE_HUB_KERNELS" not in environ:
        return known(True, "default")
    return known(_is_true(environ["USE_HUB_KERNELS"]), "USE_HUB_KERNELS")


def _local_kernels(environ: Mapping[str, str]) -> Fact[tuple[str, ...]]:
    """The entries as written; kernels (0.13 and newer) refuses to load anything when one of them has no "="."""
    raw = environ.get("LOCAL_KERNELS")
    if raw is None:
        return absent("LOCAL_KERNELS")
    entries = tuple(raw.split(":"))
    wrong = [entry for entry in entries if "=" not in entry]
    return known(entries, f'LOCAL_KERNELS; "{wrong[0]}" is not repo=path' if wrong else "LOCAL_KERNELS")


def _proxies(host: Host) -> Fact[tuple[str, ...]]:
    names = [n for upper in PROXY_VARIABLES for n in (upper, upper.lower())]
    try:
        found = host.observe("proxies", "", lambda: [name for name in names if host.environ.get(name)])
    except ProbeError as error:
        return unknown(str(error))
    return known(tuple(str(n) for n in found), "environment") if found else absent("environment")


def _token(host: Host, home: Fact[str]) -> Fact[bool]:
    """Whether huggingface_hub would find a token. The token itself is not read."""
    if host.environ.get("HF_OIDC_RESOURCE"):
        return unknown("HF_OIDC_RESOURCE: the token is fetched when it is needed")
    try:
        source = str(host.observe("huggingface token", "", lambda: _token_source(host, home)))
    except ProbeError as error:
        return unknown(str(error))
    if not source and host.environ.get("COLAB_RELEASE_TAG"):
        return unknown("Colab's secrets are seen only from inside the notebook")
    return known(bool(source), source or "no variable and no token file")


def _token_source(host: Host, home: Fact[str]) -> str:
    for name in TOKEN_VARIABLES:
        if (host.environ.get(name) or "").strip():
            return name
    path = host.environ.get("HF_TOKEN_PATH")
    file = _folder(host, path, "HF_TOKEN_PATH") if path is not None else home
    if not file.is_known or file.value is None:
        raise ProbeError(file.note)
    info = host.stat(file.value if path is not None else os.path.join(file.value, "token"))
    return "token file" if info.kind == "file" and info.size else ""


# -------------------------------------------------------------------------------------------------------- folders


def _hf_home(host: Host) -> Fact[str]:
    environ = host.environ
    if "HF_HOME" in environ:
        return _folder(host, environ["HF_HOME"], "HF_HOME")
    if "XDG_CACHE_HOME" in environ:
        return _folder(host, os.path.join(environ["XDG_CACHE_HOME"], "huggingface"), "XDG_CACHE_HOME")
    return _folder(host, "~/.cache/huggingface", "default")


def _kernels_cache(scene: Scene, home: Fact[str]) -> Fact[str]:
    """The folder into which the installed kernels release downloads."""
    environ = scene.host.environ
    if "KERNELS_CACHE" in environ or "HF_KERNELS_CACHE" in environ:
        name = next((name for name in _cache_variables(scene) if name in environ), None)
        if name is not None:
            return _folder(scene.host, environ[name], name, variables=False)
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if name in environ:
            return _folder(scene.host, environ[name], name)
    return known(os.path.join(home.value, "hub"), home.note) if home.value is not None else home


def _cache_variables(scene: Scene) -> tuple[str, ...]:
    """What kernels reads, first wins: HF_KERNELS_CACHE up to 0.13.0, KERNELS_CACHE from 0.4.3 on (its releases)."""
    from packaging.version import InvalidVersion, Version

    try:
        installed = scene.distribution("kernels")
        version = Version(installed.version) if installed else None
    except (ProbeError, InvalidVersion):
        version = None
    if version is None or version >= Version("0.14.0"):
        return ("KERNELS_CACHE",)
    return ("HF_KERNELS_CACHE", "KERNELS_CACHE") if version >= Version("0.4.3") else ("HF_KERNELS_CACHE",)


def _folder(host: Host, raw: str, source: str, variables: bool = True) -> Fact[str]:
    """A path of the environment made absolute: `~`, `$NAME` (kernels' own variables: only `~`), current folder."""
    try:
        path = raw
        if path == "~" or path.startswith("~/"):
            path = _user_home(host) + path[1:]
        if variables:
            path = re.sub(r"\$(?:(\w+)|\{([^}]*)\})", lambda m: host.environ.get(m[1] or m[2], m[0]), path)
        if not os.path.isabs(path):
            path = os.path.join(host.stat(".").real, path)
    except ProbeError as error:
        return unknown(str(error))
    note = source if raw else f"{source} is empty, which means the current folder"
    return known(os.path.normpath(path), note)


def _user_home(host: Host) -> str:
    try:
        # Observed, because a recording may not hold HOME.
        return str(host.observe("home", "", lambda: host.environ.get("HOME") or os.path.expanduser("~")))
    except ProbeError:
        if "HOME" in host.environ:
            return host.environ["HOME"]
        raise


def _folder_state(host: Host, cache: Fact[str]) -> tuple[Fact[bool], Fact[bool], Fact[int]]:
    """Whether the cache is there, can be written and how much room is left; of its parent where it is to be made."""
    if cache.value is None:
        return unknown(cache.note), unknown(cache.note), unknown(cache.note)
    try:
        kind = host.stat(cache.value).kind
        place = cache.value
        while kind == "missing" and os.path.dirname(place) != place:
            place = os.path.dirname(place)
            kind = host.stat(place).kind
        exists = known(kind == "dir" and place == cache.value, cache.value)
        if kind != "dir":
            return exists, known(False, f"{place} is no folder"), unknown(f"{place} is no folder")
        writable = known(host.writable(place), place)
    except ProbeError as error:
        return unknown(str(error)), unknown(str(error)), unknown(str(error))
    try:
        return exists, writable, known(host.free_bytes(place), place)
    except ProbeError as error:
        return exists, writable, unknown(str(error))


def _cached_kernels(host: Host, cache: Fact[str]) -> Fact[tuple[CachedKernel, ...]]:
    if cache.value is None:
        return unknown(cache.note)
    try:
        answer = look_into(host, cache.value)
    except ProbeError as error:
        return unknown(str(error))
    kernels: tuple[CachedKernel, ...] = decode(tuple[CachedKernel, ...], answer.get("kernels"), cache.value)
    note: Any = answer.get("note")
    return known(kernels, f"{cache.value}: {note}" if note else cache.value)
