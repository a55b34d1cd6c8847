"""Why a kernel was not loaded, from what was raised; and what a module offers. Without torch."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from kerneldoctor.smoke.loading import _build_id, _package_name, classify, public_names
from kerneldoctor.smoke.protocol import RefusalReason


def named(name: str, message: str, base: type[Exception] = Exception) -> Exception:
    """An exception of a library that is not here, known by the name of its class."""
    return type(name, (base,), {})(message)


# The words are those of kernels 0.17.2 and huggingface_hub 2.4.
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            ValueError("Kernel repository 'a/b' is not from a trusted publisher. Set trust_remote_code=True or add …"),
            "untrusted",
        ),
        (
            FileNotFoundError("Cannot find a build variant for this system in a/b (revision: v1):\n\ntorch210"),
            "no-variant",
        ),
        (FileNotFoundError("Kernel at path /x does not have build: torch29-cxx11-cu128-x86_64-linux"), "no-variant"),
        (
            ImportError("Kernel module `x` requires Python dependency `einops`. Please install with: pip …"),
            "missing-dependency",
        ),
        (ModuleNotFoundError("No module named 'einops'"), "missing-dependency"),
        (named("RepositoryNotFoundError", "404", named("HfHubHTTPError", "").__class__), "not-found"),
        (named("RevisionNotFoundError", "404"), "not-found"),
        (named("LocalEntryNotFoundError", "offline", FileNotFoundError), "hub-unreachable"),
        (named("OfflineModeIsEnabled", "Cannot reach …", ConnectionError), "hub-unreachable"),
        (named("ConnectError", "Name or service not known", named("TransportError", "").__class__), "hub-unreachable"),
        (MemoryError(), "out-of-memory"),
        (ImportError("libcudart.so.11.0: cannot open shared object file: No such file or directory"), "import-error"),
        (ImportError("x.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceEab"), "import-error"),
        (OSError("cannot load library"), "import-error"),
        (SystemExit(1), "import-error"),
    ],
)
def test_a_failed_load_has_a_reason(error: BaseException, reason: RefusalReason) -> None:
    assert classify(error) == reason


def module(**names: object) -> types.ModuleType:
    made = types.ModuleType("kernel")
    made.__dict__.update(names)
    return made


def test_a_list_of_exports_is_believed() -> None:
    kernel = module(__all__=["flash_attn_func", "layers"], flash_attn_func=len, helper=len)
    assert public_names(kernel) == ("flash_attn_func", "layers")


def test_without_a_list_what_can_be_called_is_offered() -> None:
    assert public_names(module(f=len, _g=len, constant=3, path=Path)) == ("f", "path")


def test_the_build_is_named_by_its_library_or_by_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text('{"id": "_k_cpu_0123abc", "name": "my-kernel"}')
    assert _build_id(tmp_path) == "_k_cpu_0123abc"
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "_k_cuda_48628c8.abi3.so").touch()
    assert _build_id(tmp_path) == "48628c8"
    assert _package_name(tmp_path) == "my_kernel"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": 3}', "\x00"])
def test_unreadable_metadata_names_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata.json").write_text(text)
    assert _build_id(tmp_path) is None
    assert _package_name(tmp_path) == tmp_path.name.replace("-", "_")
