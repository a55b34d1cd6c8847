"""The environment of a child that does not run where the user stands: what was relative to there is spelt out.

Parent side. It changes nothing else, and leaves what it cannot resolve as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_PATHS = frozenset({"PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "PATH"})
_FOLDERS = frozenset(
    {
        "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_KERNELS_CACHE", "KERNELS_CACHE", "HF_ASSETS_CACHE",
        "HF_MODULES_CACHE", "HF_TOKEN_PATH", "HF_XET_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HOME",
        "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX", "TORCH_HOME", "TORCH_EXTENSIONS_DIR",
        "TORCHINDUCTOR_CACHE_DIR", "TRITON_HOME", "TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_PTXAS_PATH",
        "CUDA_HOME", "CUDA_PATH", "ROCM_HOME", "ROCM_PATH", "CUDA_CACHE_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    }
)  # fmt: skip


def wherever(environ: Mapping[str, str]) -> dict[str, str]:
    """The same environment, with the same meaning in any current folder."""
    return {name: _absolute(name, value) for name, value in environ.items()}


def from_here(path: str) -> str:
    """A path that means the same in any current folder; a bare program name is looked for on PATH and stays."""
    return _folder(path) if os.sep in path else path


def _absolute(name: str, value: str) -> str:
    if not value:
        return value
    if name == "LOCAL_KERNELS":
        entries = (entry.partition("=") for entry in value.split(os.pathsep))
        return os.pathsep.join(f"{repo}{equals}{_folder(path)}" for repo, equals, path in entries)
    if name in _PATHS:
        return os.pathsep.join(_entry(name, entry) for entry in value.split(os.pathsep))
    return _folder(value) if name in _FOLDERS else value


def _entry(name: str, entry: str) -> str:
    # An empty entry is the current folder; a bare name in LD_PRELOAD is looked for as libraries are.
    if name == "LD_PRELOAD":
        return from_here(entry)
    return _folder(entry or os.curdir)


def _folder(path: str) -> str:
    if not path or path.startswith("~"):
        return path
    try:
        return os.path.join(os.getcwd(), path)  # as it is: what is normalised may lead elsewhere through a link
    except OSError:  # the current folder was removed: nothing relative leads anywhere
        return path
