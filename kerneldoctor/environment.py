"""The facts about one machine and one Python environment, and their JSON form.

Only facts live here: no judgement, no look at the machine. Every leaf is a `Fact`, which is *known* (with its
source), *absent* (we looked and it is not there) or *unknown* (we could not look, with the reason).
The dataclasses below are the schema: a fact's path in rules and in JSON is the path of its fields
(`torch.cuda`, `driver.version`); packages are reached by distribution name (`packages.kernels.version`).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Generic, TypeVar

from .errors import EnvironmentFileError
from .values import dataclass

SCHEMA = "kerneldoctor.environment/1"
T = TypeVar("T")
S = TypeVar("S")


class State(enum.Enum):
    """How much we know of a fact."""

    KNOWN = "known"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One fact. `note` is the source of a known or absent fact, the reason of an unknown one."""

    state: State
    value: T | None = None
    note: str = ""

    @property
    def is_known(self) -> bool:
        """Whether the value was seen."""
        return self.state is State.KNOWN

    @property
    def is_absent(self) -> bool:
        """Whether we looked and it is not there."""
        return self.state is State.ABSENT

    @property
    def is_unknown(self) -> bool:
        """Whether we could not look."""
        return self.state is State.UNKNOWN


def known(value: T, source: str) -> Fact[T]:
    """A fact that was seen, with where it came from."""
    return Fact(State.KNOWN, value, source)


def absent(source: str) -> Fact[Any]:
    """A thing that was looked for at `source` and is not there."""
    return Fact(State.ABSENT, None, source)


def unknown(reason: str) -> Fact[Any]:
    """A thing that could not be looked at, and why."""
    return Fact(State.UNKNOWN, None, reason)


NOT_LOOKED: Fact[Any] = unknown("not looked at")


@dataclass(frozen=True, slots=True)
class LibraryOverride:
    """A GPU or C++ runtime library that an environment variable puts before the one torch brings."""

    variable: str  # LD_LIBRARY_PATH or LD_PRELOAD
    path: str  # the file
    family: str  # cuda | cudnn | nccl | nvjitlink | cublas | libstdc++ | libcuda


@dataclass(frozen=True, slots=True)
class System:
    """Operating system and where the process runs."""

    os: Fact[str] = NOT_LOOKED  # linux | windows | darwin
    distribution: Fact[str] = NOT_LOOKED  # "Ubuntu 22.04.4 LTS"
    kernel: Fact[str] = NOT_LOOKED  # "6.8.0-45-generic"
    machine: Fact[str] = NOT_LOOKED  # x86_64 | aarch64 | arm64
    cpu: Fact[str] = NOT_LOOKED
    libc: Fact[str] = NOT_LOOKED  # glibc | musl
    libc_version: Fact[str] = NOT_LOOKED
    glibcxx: Fact[str] = NOT_LOOKED  # newest GLIBCXX_x.y.z that the libstdc++ in force offers, "3.4.30"
    container: Fact[str] = NOT_LOOKED  # docker | podman | apptainer | kubernetes | lxc | container
    wsl: Fact[bool] = NOT_LOOKED
    scheduler: Fact[str] = NOT_LOOKED  # slurm | pbs | lsf | kubernetes
    notebook: Fact[str] = NOT_LOOKED  # colab | kaggle | sagemaker | databricks | paperspace
    memory_bytes: Fact[int] = NOT_LOOKED
    library_overrides: Fact[tuple[LibraryOverride, ...]] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Python:
    """The interpreter whose environment is looked at."""

    version: Fact[str] = NOT_LOOKED
    implementation: Fact[str] = NOT_LOOKED  # cpython | pypy
    free_threaded: Fact[bool] = NOT_LOOKED
    executable: Fact[str] = NOT_LOOKED
    environment_kind: Fact[str] = NOT_LOOKED  # venv | conda | system
    abi_tag: Fact[str] = NOT_LOOKED  # cp312, cp313t
    site_packages: Fact[tuple[str, ...]] = NOT_LOOKED
    pip_and_conda_mixed: Fact[bool] = NOT_LOOKED  # one of our packages was installed by both
    headers: Fact[bool] = NOT_LOOKED  # Python.h is there; Triton compiles a launcher against it
    c_compiler: Fact[str] = NOT_LOOKED  # the one that Triton would call: $CC, gcc, clang or cc
    c_compiler_version: Fact[str] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver, its kernel module and what reaches this process of it."""

    version: Fact[str] = NOT_LOOKED  # userland, "580.95.05"
    cuda: Fact[str] = NOT_LOOKED  # newest CUDA the driver offers, "13.0"
    kernel_module_loaded: Fact[bool] = NOT_LOOKED
    kernel_module_version: Fact[str] = NOT_LOOKED
    kernel_module_flavour: Fact[str] = NOT_LOOKED  # open | proprietary
    uvm_loaded: Fact[bool] = NOT_LOOKED
    nvml_error: Fact[str] = NOT_LOOKED  # probes.nvml.NVML_ERRORS, timeout, crashed; absent when NVML answered
    nvml_error_text: Fact[str] = NOT_LOOKED
    device_nodes: Fact[tuple[str, ...]] = NOT_LOOKED  # /dev/nvidia*, /dev/dxg
    pci_devices: Fact[int] = NOT_LOOKED  # NVIDIA display controllers on the PCI bus, driver or not
    libcuda: Fact[str] = NOT_LOOKED  # path of libcuda.so.1
    libcuda_linkable: Fact[bool] = NOT_LOOKED  # the loader cache or LD_LIBRARY_PATH has libcuda.so.1, as Triton asks
    cuda_compat: Fact[str] = NOT_LOOKED  # a forward-compatibility libcuda that comes first
    fabric_manager: Fact[str] = NOT_LOOKED  # running | stopped; absent without NVSwitch


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU."""

    index: Fact[int] = NOT_LOOKED
    name: Fact[str] = NOT_LOOKED
    vendor: Fact[str] = NOT_LOOKED  # nvidia | amd | intel | apple
    uuid: Fact[str] = NOT_LOOKED  # shortened in reports
    compute_capability: Fact[str] = NOT_LOOKED  # "9.0"
    memory_bytes: Fact[int] = NOT_LOOKED
    mig: Fact[bool] = NOT_LOOKED  # MIG mode is on
    mig_devices: Fact[int] = NOT_LOOKED
    visible: Fact[bool] = NOT_LOOKED  # CUDA_VISIBLE_DEVICES leaves it visible


@dataclass(frozen=True, slots=True)
class Visibility:
    """CUDA_VISIBLE_DEVICES as the CUDA runtime reads it."""

    raw: Fact[str] = NOT_LOOKED
    count: Fact[int] = NOT_LOOKED  # how many GPUs a CUDA program sees
    problem: Fact[str] = NOT_LOOKED  # empty | invalid_entry | trailing_text | duplicate | out_of_range | mig_mixed
    ignored: Fact[str] = NOT_LOOKED  # the entry at which reading stopped, and what follows it; "-3" of "0-3"
    uses_uuid: Fact[bool] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Nvcc:
    """One CUDA compiler on the machine."""

    path: str
    version: str  # "12.8"


@dataclass(frozen=True, slots=True)
class Toolkit:
    """CUDA toolkits beside those that wheels carry."""

    cuda_home: Fact[str] = NOT_LOOKED
    nvcc_version: Fact[str] = NOT_LOOKED  # the one that CUDA_HOME or PATH picks
    nvccs: Fact[tuple[Nvcc, ...]] = NOT_LOOKED
    cudart: Fact[str] = NOT_LOOKED  # the libcudart outside of wheels that would be picked
    nvrtc: Fact[str] = NOT_LOOKED
    ptxas_version: Fact[str] = NOT_LOOKED
    ninja: Fact[bool] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Torch:
    """The installed torch, read from its files."""

    version: Fact[str] = NOT_LOOKED  # with local label, "2.13.0+cu130"
    backend: Fact[str] = NOT_LOOKED  # cuda | rocm | xpu | cpu
    cuda: Fact[str] = NOT_LOOKED  # "13.0"
    hip: Fact[str] = NOT_LOOKED
    xpu: Fact[str] = NOT_LOOKED
    cxx11_abi: Fact[bool] = NOT_LOOKED
    git_version: Fact[str] = NOT_LOOKED
    debug: Fact[bool] = NOT_LOOKED
    location: Fact[str] = NOT_LOOKED
    installer: Fact[str] = NOT_LOOKED  # pip | uv | conda
    archs: Fact[tuple[str, ...]] = NOT_LOOKED  # GPU code in the wheel, "8.0", "9.0a", "12.0+PTX"
    package_missing: Fact[bool] = NOT_LOOKED  # metadata is there, the package is not
    metadata_missing: Fact[bool] = NOT_LOOKED  # the package is there, the metadata is not
    source_shadowed: Fact[bool] = NOT_LOOKED  # another torch comes first on the path
    duplicate_companions: Fact[tuple[str, ...]] = NOT_LOOKED  # "nvidia-cudnn: cu12 and cu13"
    missing_companions: Fact[tuple[str, ...]] = NOT_LOOKED  # "nvidia-cudnn-cu13==9.15.1.9 (not installed)"
    unusable_libraries: Fact[tuple[str, ...]] = NOT_LOOKED  # of its own, "libtorch_cuda.so (missing)"; () when whole
    triton_ptxas_version: Fact[str] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """One generation of FlashAttention as an import name (`flash_attn`, `flash_attn_interface`, …)."""

    version: Fact[str] = NOT_LOOKED  # with local label
    distribution: Fact[str] = NOT_LOOKED
    providers: Fact[tuple[str, ...]] = NOT_LOOKED  # every distribution that owns files of that name
    kind: Fact[str] = NOT_LOOKED  # complete | incomplete | stub | leftover | metadata_only | namespace_only
    location: Fact[str] = NOT_LOOKED
    built_for_torch: Fact[str] = NOT_LOOKED  # from the local label, "2.8"
    built_for_cuda: Fact[str] = NOT_LOOKED  # "12" or "12.8"
    built_for_cxx11_abi: Fact[bool] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Extension:
    """One compiled extension module that links against torch or CUDA."""

    module: str  # flash_attn_2_cuda
    distribution: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    file: Fact[str] = NOT_LOOKED
    problem: Fact[str] = NOT_LOOKED  # empty | truncated | not_elf | wrong_machine | dangling_link | no_file; or absent
    missing_torch_symbols: Fact[tuple[str, ...]] = NOT_LOOKED  # mangled; undefined here, absent in libtorch
    cxx11_abi: Fact[bool] = NOT_LOOKED  # from its own undefined symbols
    needed: Fact[tuple[str, ...]] = NOT_LOOKED  # DT_NEEDED
    cudart_major: Fact[str] = NOT_LOOKED  # "12"
    glibc_needed: Fact[str] = NOT_LOOKED  # "2.32"
    glibcxx_needed: Fact[str] = NOT_LOOKED  # "3.4.29"
    abi_tag: Fact[str] = NOT_LOOKED  # cp312, abi3
    archs: Fact[tuple[str, ...]] = NOT_LOOKED  # GPU code inside, as torch.archs


@dataclass(frozen=True, slots=True)
class Package:
    """One installed distribution."""

    version: Fact[str] = NOT_LOOKED
    installer: Fact[str] = NOT_LOOKED
    location: Fact[str] = NOT_LOOKED
    editable: Fact[bool] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Packages:
    """Distributions by normalised name. With `complete`, a name that is not listed is absent."""

    items: Mapping[str, Package] = field(default_factory=dict)
    complete: bool = False
    note: str = "not looked at"

    def get(self, name: str) -> Package:
        """The package, or one whose facts are absent (complete listing) or unknown."""
        found = self.items.get(name)
        if found is not None:
            return found
        missing: Fact[Any] = absent(self.note) if self.complete else unknown(self.note)
        return Package(missing, missing, missing, missing)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A requirement of one installed distribution that another one does not meet."""

    distribution: str
    requirement: str  # "huggingface-hub>=1.3.0,<2.0"
    found: str  # version, or "" when it is not installed


@dataclass(frozen=True, slots=True)
class Requirements:
    """Whether the installed distributions meet each other's requirements."""

    conflicts: Fact[tuple[Conflict, ...]] = NOT_LOOKED
    duplicates: Fact[tuple[str, ...]] = NOT_LOOKED  # distributions with two metadata folders, "numpy 1.26.4, 2.4.6"


@dataclass(frozen=True, slots=True)
class CachedKernel:
    """One snapshot of a kernel repository in the local cache."""

    repo: str
    commit: str
    branches: tuple[str, ...]  # refs that point at it
    variants: tuple[str, ...]
    build_ids: tuple[str, ...]  # suffixes of the compiled files, "48628c8"
    complete: bool | None  # holds everything its tree file lists; None where there is no tree file


@dataclass(frozen=True, slots=True)
class HuggingFace:
    """How this environment would talk to the Hub."""

    endpoint: Fact[str] = NOT_LOOKED
    offline: Fact[bool] = NOT_LOOKED
    telemetry_disabled: Fact[bool] = NOT_LOOKED
    telemetry_variable: Fact[str] = NOT_LOOKED  # which switch did it
    user_agent_origin: Fact[str] = NOT_LOOKED  # HF_HUB_USER_AGENT_ORIGIN, which huggingface_hub adds to its header
    home: Fact[str] = NOT_LOOKED
    kernels_cache: Fact[str] = NOT_LOOKED  # the folder in force
    cache_exists: Fact[bool] = NOT_LOOKED
    cache_writable: Fact[bool] = NOT_LOOKED
    cache_free_bytes: Fact[int] = NOT_LOOKED
    token: Fact[bool] = NOT_LOOKED
    cached_kernels: Fact[tuple[CachedKernel, ...]] = NOT_LOOKED
    local_kernels: Fact[tuple[str, ...]] = NOT_LOOKED  # "repo=path"
    use_hub_kernels: Fact[bool] = NOT_LOOKED
    proxies: Fact[tuple[str, ...]] = NOT_LOOKED  # names of the variables


@dataclass(frozen=True, slots=True)
class Deep:
    """What only an import can tell (`scan --deep`)."""

    torch_imports: Fact[bool] = NOT_LOOKED
    torch_error: Fact[str] = NOT_LOOKED
    cuda_available: Fact[bool] = NOT_LOOKED
    cuda_error: Fact[str] = NOT_LOOKED
    gpu_kernel_runs: Fact[bool] = NOT_LOOKED
    gpu_kernel_error: Fact[str] = NOT_LOOKED
    torch_archs: Fact[tuple[str, ...]] = NOT_LOOKED  # torch.cuda.get_arch_list(), as torch.archs
    flash_attn_imports: Fact[bool] = NOT_LOOKED
    flash_attn_error: Fact[str] = NOT_LOOKED
    flash_attn_3_imports: Fact[bool] = NOT_LOOKED
    flash_attn_3_error: Fact[str] = NOT_LOOKED
    flash_attn_4_imports: Fact[bool] = NOT_LOOKED
    flash_attn_4_error: Fact[str] = NOT_LOOKED


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything known about one machine and one Python environment."""

    system: System = System()
    python: Python = Python()
    driver: Driver = Driver()
    gpus: Fact[tuple[Gpu, ...]] = NOT_LOOKED
    visibility: Visibility = Visibility()
    toolkit: Toolkit = Toolkit()
    torch: Torch = Torch()
    flash_attn: FlashAttention = FlashAttention()  # FA2, `flash_attn`
    flash_attn_3: FlashAttention = FlashAttention()  # `flash_attn_interface`
    flash_attn_4: FlashAttention = FlashAttention()  # `flash_attn.cute`
    extensions: Fact[tuple[Extension, ...]] = NOT_LOOKED
    packages: Packages = field(default_factory=Packages)
    requirements: Requirements = Requirements()
    huggingface: HuggingFace = HuggingFace()
    deep: Deep = Deep()

    def fact(self, path: str) -> Fact[Any]:
        """The fact at a dotted path such as `torch.cuda` or `packages.kernels.version`.

        Raises KeyError when the schema has no such path.
        """
        return lookup(self, path)

    def to_json(self) -> dict[str, Any]:
        """The JSON form; `from_json` is its inverse."""
        return {"schema": SCHEMA, **encode(self)}

    @staticmethod
    def from_json(document: object) -> Environment:
        """Read the JSON form. Raises EnvironmentFileError with one clear line."""
        return _from_document(document)


def lookup(root: object, path: str) -> Fact[Any]:
    """The fact at a dotted path below a section, a list item or a whole Environment."""
    node: object = root
    for name in path.split("."):
        if isinstance(node, Packages):
            node = node.get(name)
        elif name in _field_names(node.__class__):
            node = getattr(node, name)
        else:
            raise KeyError(path)
    return node if isinstance(node, Fact) else known(node, "recorded")


def fact_type(path: str, root: type = Environment) -> Any:
    """The Python type of the value at a dotted path (the `T` of its `Fact[T]`). Raises KeyError."""
    kind: Any = root
    for name in path.split("."):
        if kind is Packages:
            kind = Package
        elif dataclasses.is_dataclass(kind) and name in hints(kind):
            kind = hints(kind)[name]
        else:
            raise KeyError(path)
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Fact else kind


def fact_paths(root: type = Environment, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every fact path of the schema with its value type. Packages appear as `packages.*`."""
    for name, hint in hints(root).items():
        path = prefix + name
        if hint is Packages:
            yield from fact_paths(Package, f"{path}.*.")
        elif dataclasses.is_dataclass(hint):
            yield from fact_paths(typing.cast(type, hint), f"{path}.")
        else:
            yield path, typing.get_args(hint)[0] if typing.get_origin(hint) is Fact else hint


def blank(section: type[S], fact: Fact[Any]) -> S:
    """A section whose facts are all `fact`: what is left of a probe that failed or found nothing."""
    if section is Packages:
        return typing.cast(S, Packages({}, fact.is_absent, fact.note))
    return section(**dict.fromkeys(_field_names(section), fact))


_NAMES: dict[Any, tuple[str, ...]] = {}
_HINTS: dict[Any, dict[str, Any]] = {}


def _field_names(kind: Any) -> tuple[str, ...]:
    if kind not in _NAMES:
        _NAMES[kind] = tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
    return _NAMES[kind]


def hints(kind: Any) -> dict[str, Any]:
    """The fields of a section or item with their types, resolved."""
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


def encode(value: object) -> Any:
    """JSON form of any value of this module."""
    if isinstance(value, Fact):
        if value.state is State.UNKNOWN:
            return {"unknown": value.note}
        if value.state is State.ABSENT:
            return {"absent": value.note}
        return {"value": encode(value.value), "source": value.note}
    if isinstance(value, Packages):
        return {"complete": value.complete, "note": value.note, "items": {n: encode(p) for n, p in value.items.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _field_names(type(value))}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def decode(kind: Any, value: object, where: str) -> Any:
    """The value of type `kind` that `encode` wrote. Raises EnvironmentFileError that names `where`."""
    origin = typing.get_origin(kind)
    if origin is Fact:
        return _decode_fact(typing.get_args(kind)[0], value, where)
    if kind is Packages:
        return _decode_packages(value, where)
    if dataclasses.is_dataclass(kind):
        return _decode_record(typing.cast(type, kind), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise EnvironmentFileError(f"{where}: expected a list, found {_short(value)}")
        item = typing.get_args(kind)[0]
        return tuple(decode(item, v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if type(value) is not kind:
        raise EnvironmentFileError(f"{where}: expected {kind.__name__}, found {_short(value)}")
    return value


def _decode_fact(kind: Any, value: object, where: str) -> Fact[Any]:
    match value:
        case {"value": inner, "source": str(source)}:
            return known(decode(kind, inner, where), source)
        case {"absent": str(note)}:
            return absent(note)
        case {"unknown": str(note)}:
            return unknown(note)
    raise EnvironmentFileError(
        f'{where}: a fact is {{"value", "source"}}, {{"absent"}} or {{"unknown"}}, found {_short(value)}'
    )


def _decode_packages(value: object, where: str) -> Packages:
    match value:
        case {"complete": bool(complete), "note": str(note), "items": dict(items)}:
            decoded = {str(n): decode(Package, p, f"{where}.{n}") for n, p in items.items()}
            return Packages(decoded, complete, note)
    raise EnvironmentFileError(f"{where}: expected complete, note and items, found {_short(value)}")


def _decode_record(kind: type, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise EnvironmentFileError(f"{where}: expected an object, found {_short(value)}")
    types_of = hints(kind)
    alien = sorted(set(value) - set(types_of))
    if alien:
        raise EnvironmentFileError(f"{where}: unknown key {alien[0]!r}")
    try:
        return kind(**{n: decode(types_of[n], v, f"{where}.{n}" if where else n) for n, v in value.items()})
    except TypeError as error:  # a required field of a plain record is missing
        raise EnvironmentFileError(f"{where}: {error}") from None


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _from_document(document: object) -> Environment:
    if not isinstance(document, dict):
        raise EnvironmentFileError("not a kerneldoctor environment: the top level is no JSON object")
    schema = document.get("schema")
    if schema == "kerneldoctor.report/1":  # a whole report holds its environment
        return _from_document(document.get("environment"))
    if not isinstance(schema, str) or not schema.startswith("kerneldoctor.environment/"):
        raise EnvironmentFileError('not a kerneldoctor environment: no "schema": "kerneldoctor.environment/…"')
    if schema != SCHEMA:
        raise EnvironmentFileError(
            f"this file has schema {schema}, this kerneldoctor reads {SCHEMA}: upgrade kerneldoctor"
        )
    body = {name: value for name, value in document.items() if name != "schema"}
    environment: Environment = decode(Environment, body, "")
    return environment
