"""Loads the kernel the way a user's program would, and says why not when it cannot. Child side.

It must not run anything of the kernel but its import, and not soften the trust rule of the kernels library.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .contracts import matching
from .protocol import Json, KernelRequest, Loaded, RefusalReason

if TYPE_CHECKING:
    from types import ModuleType

_TAIL = 6000
_COMMIT = re.compile(r"/snapshots/([0-9a-f]{40})/")
# "_flash_attn2_cuda_48628c8.abi3.so": the id is the last part, with a digit in it.
_BINARY = re.compile(r"_((?=[a-z]*\d)[0-9a-z]{6,})\.(?:abi3\.|cpython[^.]*\.)?(?:so|pyd)$")
#: By class name, searched along the base classes: what huggingface_hub and its transport raise.
_BY_NAME: tuple[tuple[str, RefusalReason], ...] = (
    ("RepositoryNotFoundError", "not-found"),
    ("RevisionNotFoundError", "not-found"),
    ("LocalEntryNotFoundError", "hub-unreachable"),
    ("OfflineModeIsEnabled", "hub-unreachable"),
    ("EntryNotFoundError", "not-found"),
    ("HfHubHTTPError", "hub-unreachable"),
    ("TransportError", "hub-unreachable"),
    ("RequestException", "hub-unreachable"),
    ("ModuleNotFoundError", "missing-dependency"),
)
#: What the kernels library says itself.
_BY_TEXT: tuple[tuple[str, RefusalReason], ...] = (
    (r"not from a trusted publisher|trust_remote_code", "untrusted"),
    (r"Cannot find a build variant|does not have build|No build variant|build variant for this system", "no-variant"),
    (r"Python dependency|requires Python dependenc|unsupported kernel dependency", "missing-dependency"),
    (r"(?:compute capability|architectures?\b).{0,200}(?:not|support|built for)", "wrong-architecture"),
    (
        r"No kernel module found|Version \S+ not found|[Aa]vailable versions|does not exist|Could not resolve kernel",
        "not-found",
    ),
)


class Refusal(Exception):
    """The kernel cannot be loaded. `cause` is the exception that said so."""

    def __init__(self, reason: RefusalReason, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message
        self.tail = "" if cause is None else "".join(traceback.format_exception(cause))[-_TAIL:]


def import_torch() -> None:
    """Imports torch; Refusal when that fails."""
    try:
        importlib.import_module("torch")
    except Exception as error:  # a broken torch raises anything
        raise Refusal("no-torch", _line(error), error) from error


def open_device(device: str) -> tuple[str | None, dict[str, Json]]:
    """Makes the device the current one: (CUDA or HIP version of torch, what the device says of itself)."""
    import torch

    toolkit = torch.version.cuda or getattr(torch.version, "hip", None)
    if device == "cpu":
        return toolkit, {}
    kind, _, number = device.partition(":")
    try:
        backend = torch.get_device_module(kind)
        if not backend.is_available():
            raise Refusal("no-device", f"torch {torch.__version__} sees no {kind} device")
        index = int(number or 0)
        if kind == "mps":
            return toolkit, {"name": "mps"}
        if index >= backend.device_count():
            raise Refusal("no-device", f"there is no {device}: torch sees {backend.device_count()} {kind} device(s)")
        backend.set_device(index)
        torch.zeros(1, device=device)
        properties = backend.get_device_properties(index)
    except (RuntimeError, AssertionError, AttributeError, ValueError) as error:
        reason: RefusalReason = "out-of-memory" if "out of memory" in str(error).lower() else "no-device"
        raise Refusal(reason, _line(error), error) from error
    capability = [properties.major, properties.minor] if hasattr(properties, "major") else None
    return toolkit, {
        "name": properties.name,
        "capability": ".".join(map(str, capability)) if capability else None,
        "total_memory": properties.total_memory,
    }


def load(request: KernelRequest, device: str) -> ModuleType:
    """The imported kernel module; Refusal when there is none."""
    loader = {"hub": _from_hub, "local": _from_folder, "module": _importable}[request.mode]
    try:
        return loader(request, device)
    except Refusal:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # somebody else's import raises anything, SystemExit included
        raise Refusal(classify(error), _line(error), error) from error


def classify(error: BaseException) -> RefusalReason:
    """Why a load failed, by the exception's classes, then by the words of the kernels library."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return "out-of-memory"
    names = {kind.__name__ for kind in type(error).__mro__}
    for name, reason in _BY_NAME:
        if name in names:
            return reason
    text = str(error)
    for pattern, reason in _BY_TEXT:
        if re.search(pattern, text, re.DOTALL):
            return reason
    return "not-found" if isinstance(error, FileNotFoundError) else "import-error"


def _from_hub(request: KernelRequest, device: str) -> ModuleType:
    kernels = _kernels()
    revision, version = request.revision, request.version
    if version is not None and "version" not in inspect.signature(kernels.get_kernel).parameters:
        revision, version = f"v{version}", None  # kernels before 0.12; a version is the branch of that name
    wanted = {"revision": revision, "version": version, "backend": _backend(device)}
    return _call(kernels.get_kernel, request.repo, trust_remote_code=request.trust_remote_code or None, **wanted)


def _from_folder(request: KernelRequest, device: str) -> ModuleType:
    kernels = _kernels()
    path = Path(request.path or "")
    if not path.is_dir():
        raise Refusal("not-found", f"there is no folder {path}")
    return _call(
        kernels.get_local_kernel,
        path,
        package_name=_package_name(path),
        backend=_backend(device),
        trust_remote_code=request.trust_remote_code or None,
    )


def _importable(request: KernelRequest, device: str) -> ModuleType:
    return importlib.import_module(request.module or "")


def _kernels() -> Any:
    try:
        return importlib.import_module("kernels")
    except Exception as error:  # as with torch
        raise Refusal("no-kernels", _line(error), error) from error


def _call(function: Callable[..., ModuleType], *arguments: Any, **options: Any) -> ModuleType:
    """Calls a loader of the kernels library with those options that this release has and that are not None."""
    known = inspect.signature(function).parameters
    return function(*arguments, **{n: v for n, v in options.items() if v is not None and n in known})


def _backend(device: str) -> str | None:
    """On a machine with a GPU the library takes the GPU's build by itself; the CPU's has to be asked for."""
    return "cpu" if device == "cpu" else None


def _package_name(path: Path) -> str:
    """The Python name that releases of kernels before metadata.json ask for."""
    name = _metadata(path).get("name")
    return (name if isinstance(name, str) else path.resolve().name).replace("-", "_")


def describe(module: ModuleType, request: KernelRequest, nonce: str) -> Loaded:
    """What was loaded: from where, which build, what it exports and which contracts that fits."""
    file = getattr(module, "__file__", None)
    exports = public_names(module)
    variant = _variant_folder(file) if request.mode != "module" else None
    commit = _COMMIT.search(Path(file).as_posix()) if file else None
    source: Any = request.mode
    if request.mode == "hub" and commit is None:
        source = "local"  # LOCAL_KERNELS took its place
    return Loaded(
        nonce=nonce,
        module=module.__name__,
        file=file,
        exports=exports,
        contracts=tuple(one.name for one in matching(exports)),
        variant=variant.name if variant else None,
        build_id=_build_id(variant) if variant else None,
        commit=commit[1] if commit else None,
        source=source,
    )


def public_names(module: ModuleType) -> tuple[str, ...]:
    """What a kernel offers: its `__all__`, or its public functions and classes; and the layers in its `layers`."""
    listed = vars(module).get("__all__")
    names = [str(n) for n in listed] if isinstance(listed, (list, tuple)) else _callables(module)
    layers = vars(module).get("layers")
    if inspect.ismodule(layers):
        names += [f"layers.{name}" for name in _layers(layers)]
    return tuple(sorted(set(names)))


def _callables(module: ModuleType) -> list[str]:
    return [n for n, v in vars(module).items() if not n.startswith("_") and callable(v)]


def _layers(module: ModuleType) -> Iterator[str]:
    import torch

    for name, value in vars(module).items():
        own = getattr(value, "__module__", "").partition(".")[0] != "torch"
        is_layer = inspect.isclass(value) and issubclass(value, torch.nn.Module)
        if not name.startswith("_") and own and (is_layer or inspect.isfunction(value)):
            yield name


def _variant_folder(file: str | None) -> Path | None:
    """The build directory that a module was loaded from: the nearest one with a metadata.json."""
    if file is None:
        return None
    return next((folder for folder in list(Path(file).parents)[:3] if (folder / "metadata.json").is_file()), None)


def _build_id(variant: Path) -> str | None:
    """The id in the name of the native library; of a build without one, the id in metadata.json."""
    for path in sorted(variant.rglob("*")):
        found = _BINARY.search(path.name)
        if found:
            return found[1]
    given = _metadata(variant).get("id")
    return given if isinstance(given, str) else None


def _metadata(folder: Path) -> dict[str, Json]:
    try:
        raw = json.loads((folder / "metadata.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return raw if isinstance(raw, dict) else {}


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:2000]
