"""Asks an unpacked `kernels` release what it would take: `python ask.py FOLDER < cases.json > answers.json`.

FOLDER holds `kernels/` of that release. The release's own code decides; torch, the platform and libcudart are
stand-ins, so that it sees the machine of each case. Runs as a program of its own, because it puts a fake torch into
`sys.modules`. An answer is [accepted folders in order, {refused folder: the library's words}].
"""

from __future__ import annotations

import ast
import importlib
import json
import logging
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Answer = tuple[list[str], dict[str, str]]
Ask = Callable[[dict[str, Any], list[str]], Answer]


def fake_torch(machine: dict[str, Any]) -> Any:
    mps = machine["os"] == "darwin" and machine["machine"] == "arm64"
    torch = types.ModuleType("torch")
    torch.__dict__.update(
        __version__=machine["torch"],
        version=types.SimpleNamespace(cuda=machine["cuda"], hip=machine["hip"], xpu=machine["xpu"]),
        backends=types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: mps)),
        xpu=types.SimpleNamespace(is_available=lambda: machine["xpu"] is not None),
        compiled_with_cxx11_abi=lambda: machine["cxx11"],
        _C=types.SimpleNamespace(),
    )
    if machine["plugin"] == "neuron":
        torch.__dict__["neuron"] = object()
    if machine["plugin"] == "tpu":
        torch.backends.tpu = object()
    if machine["plugin"] == "npu":
        torch._C._get_privateuse1_backend_name = lambda: "npu"
    return torch


def fake_platform(machine: dict[str, Any]) -> Any:
    return types.SimpleNamespace(
        machine=lambda: machine["machine"],
        system=lambda: machine["os"].capitalize(),
        mac_ver=lambda: (machine["macos"] or "", ("", "", ""), ""),
    )


def install(machine: dict[str, Any]) -> None:
    sys.modules.pop("torch", None)
    if machine["torch"] is not None:
        sys.modules["torch"] = fake_torch(machine)
    else:
        sys.modules["torch"] = None  # type: ignore[assignment]  # an import of it then raises ImportError
    npu: Any = types.ModuleType("torch_npu.utils.collect_env")
    npu.get_cann_version = lambda: machine["cann"]
    sys.modules["torch_npu.utils.collect_env"] = npu
    if machine["tvm_ffi"] is not None:
        tvm_ffi = types.ModuleType("tvm_ffi")
        tvm_ffi.__dict__["__version__"] = machine["tvm_ffi"]
        sys.modules["tvm_ffi"] = tvm_ffi


def exact_name_release(source: Path) -> Ask:
    """Before 0.13: run only the functions that make the names; their module imports much that is not needed."""
    from packaging.version import parse

    wanted = ("build_variant", "universal_build_variant", "_get_privateuse_backend_name")
    tree = ast.parse(source.read_text("utf-8"))
    body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith(wanted)]
    scope: dict[str, Any] = {"parse": parse, "List": list, "Optional": {str: str}, "platform": None}
    exec(compile(ast.Module(body, []), str(source), "exec"), scope)

    def ask(machine: dict[str, Any], names: list[str]) -> Answer:
        scope["platform"] = fake_platform(machine)
        try:
            if "build_variants" in scope:
                candidates = scope["build_variants"]()
            else:
                candidates = [scope["build_variant"](), scope["universal_build_variant"]()]
        except (AssertionError, ImportError):
            return [], {}
        return [name for name in candidates if name in names], {}

    return ask


def resolver_release(folder: Path) -> Ask:
    """From 0.13 on: the release's own `parse_variant` and `resolve_variants`."""
    package = types.ModuleType("kernels")  # without its __init__, which imports torch in earnest
    package.__path__ = [str(folder / "kernels")]
    sys.modules["kernels"] = package
    backends: Any = importlib.import_module("kernels.backends")
    variants: Any = importlib.import_module("kernels.variants")

    def ask(machine: dict[str, Any], names: list[str]) -> Answer:
        cudart = machine["cudart"] and backends.CUDA(version=variants.Version(machine["cudart"]))
        backends.has_torch = variants.has_torch = machine["torch"] is not None
        variants.has_tvm_ffi = machine["tvm_ffi"] is not None
        backends._get_cuda = lambda: cudart
        variants.platform = fake_platform(machine)
        variants._is_unsupported_free_threaded_build = lambda: machine["free_threaded"]
        parsed = {}
        for name in names:
            try:
                variant = variants.parse_variant(name)
            except ValueError:
                continue
            parsed[id(variant)] = (name, variant)
        resolved = variants.resolve_variants([variant for _, variant in parsed.values()])
        accepted, trace = resolved if isinstance(resolved, tuple) else (resolved, ())
        refused = {parsed[id(d.variant)][0]: d.reason for d in trace if hasattr(d, "reason")}
        return [parsed[id(variant)][0] for variant in accepted], refused

    return ask


def main(folder: Path) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    if (folder / "kernels" / "backends.py").exists():
        ask = resolver_release(folder)
    else:
        ask = exact_name_release(folder / "kernels" / "utils.py")
    answers = []
    for machine, names in json.load(sys.stdin):
        install(machine)
        answers.append(ask(machine, names))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
