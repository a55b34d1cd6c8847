"""A machine as `kernels` would see it, from the facts of an Environment."""

import dataclasses

import pytest

from kerneldoctor.environment import (
    Environment,
    Fact,
    Package,
    Packages,
    Python,
    System,
    Toolkit,
    Torch,
    absent,
    fact_type,
    known,
    unknown,
)
from kerneldoctor.hub.system import FACT_PATHS, SystemDescription, describe


def machine(**changes: object) -> Environment:
    base = Environment(
        system=System(os=known("linux", "t"), machine=known("x86_64", "t"), distribution=known("Ubuntu 24.04", "t")),
        python=Python(version=known("3.12.4", "t"), free_threaded=known(False, "t")),
        torch=Torch(
            version=known("2.13.0+cu130", "t"),
            backend=known("cuda", "t"),
            cuda=known("13.0", "t"),
            cxx11_abi=known(True, "t"),
        ),
        packages=Packages({}, True, "listed"),
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def test_a_cuda_machine() -> None:
    found = describe(machine())
    assert (found.torch.value, found.backend.value, found.backend_version.value) == ((2, 13), "cuda", (13, 0))
    assert (found.cxx11.value, found.machine.value, found.os.value) == (True, "x86_64", "linux")
    assert (found.neuron.value, found.tpu.value, found.free_threaded.value) == (False, False, False)
    assert found.tvm_ffi.is_absent
    assert found.macos.is_absent


@pytest.mark.parametrize(
    ("torch", "backend", "version"),
    [
        (
            Torch(version=known("2.14.0", "t"), backend=known("rocm", "t"), hip=known("7.14.1-4e9", "t")),
            "rocm",
            (7, 14),
        ),
        (Torch(version=known("2.9.0", "t"), backend=known("xpu", "t"), xpu=known("20250302", "t")), "xpu", (2025, 3)),
        (Torch(version=known("2.9.0", "t"), backend=known("cpu", "t")), "cpu", None),
    ],
)
def test_the_backend_is_what_torch_was_built_for(torch: Torch, backend: str, version: tuple[int, int] | None) -> None:
    found = describe(machine(torch=torch))
    assert (found.backend.value, found.backend_version.value) == (backend, version)


def test_a_torch_without_gpu_code_is_metal_on_an_apple_chip_and_unsure_on_an_intel_mac() -> None:
    torch = Torch(version=known("2.13.0", "t"), backend=known("cpu", "t"))
    apple = System(os=known("darwin", "t"), machine=known("arm64", "t"), distribution=known("macOS 26.1.2", "t"))
    intel = dataclasses.replace(apple, machine=known("x86_64", "t"))
    found = describe(machine(torch=torch, system=apple))
    assert (found.backend.value, found.macos.value) == ("metal", (26, 1))
    assert describe(machine(torch=torch, system=intel)).backend.is_unknown


@pytest.mark.parametrize(("kernel", "macos"), [("24.6.0", (15, 0)), ("25.1.0", (26, 0)), ("19.6.0", None)])
def test_the_darwin_kernel_tells_the_macos_where_no_file_does(kernel: str, macos: tuple[int, int] | None) -> None:
    mac = System(os=known("darwin", "t"), machine=known("arm64", "t"), kernel=known(kernel, "uname"))
    assert describe(machine(system=mac)).macos.value == macos


def test_metadata_without_the_package_is_no_torch() -> None:
    gone = absent("no torch folder")
    torch = Torch(version=known("2.13.0", "t"), backend=gone, package_missing=known(True, "no torch folder"))
    found = describe(machine(torch=torch, toolkit=Toolkit(cudart=absent("ldconfig"))))
    assert found.torch.is_absent
    assert found.backend.value == "cpu"


@pytest.mark.parametrize(
    ("cudart", "backend", "version"),
    [
        (known("/usr/local/cuda/lib64/libcudart.so.12.4.127", "t"), "cuda", known((12, 4), "t")),
        (known("/usr/local/cuda-12.6/lib64/libcudart.so.12", "t"), "cuda", known((12, 6), "t")),
        (known("/usr/lib/libcudart.so.12", "t"), "cuda", unknown("")),
        (absent("ldconfig"), "cpu", absent("ldconfig")),
        (unknown("no ldconfig"), None, unknown("")),
    ],
)
def test_without_torch_a_libcudart_decides(
    cudart: Fact[str], backend: str | None, version: Fact[tuple[int, int]]
) -> None:
    nothing = absent("no torch")
    bare = machine(
        torch=Torch(version=nothing, backend=nothing, cuda=nothing, cxx11_abi=nothing), toolkit=Toolkit(cudart=cudart)
    )
    found = describe(bare)
    assert found.torch.is_absent
    assert found.backend.value == backend
    assert (found.backend_version.state, found.backend_version.value) == (version.state, version.value)


@pytest.mark.parametrize(("version", "refused"), [("3.14.0", True), ("3.15.0", False)])
def test_a_free_threaded_python_counts_until_3_15(version: str, refused: bool) -> None:
    python = Python(version=known(version, "t"), free_threaded=known(True, "t"))
    assert describe(machine(python=python)).free_threaded.value is refused


def test_plugins_are_seen_by_their_distributions() -> None:
    items = {
        "torch-neuronx": Package(version=known("2.9", "t")),
        "apache-tvm-ffi": Package(version=known("0.1.9", "t")),
    }
    found = describe(machine(packages=Packages(items, True, "listed")))
    assert (found.neuron.value, found.tvm_ffi.value) == (True, (0, 1))


def test_a_list_of_packages_with_gaps_leaves_tvm_ffi_open() -> None:
    found = describe(machine(packages=Packages({}, False, "two packages were pasted")))
    assert found.tvm_ffi.is_unknown
    assert found.tpu.value is False  # too rare to leave every other answer open


@pytest.mark.parametrize("text", ["", "two", "v2.13"])
def test_a_version_that_cannot_be_read_is_unknown_not_wrong(text: str) -> None:
    found = describe(machine(torch=Torch(version=known(text, "t"), backend=known("cuda", "t"), cuda=known("x", "t"))))
    assert found.torch.is_unknown
    assert found.backend_version.is_unknown


def test_an_empty_environment_is_unknown_throughout() -> None:
    found = describe(Environment())
    states = {name: getattr(found, name) for name in SystemDescription.__dataclass_fields__}
    assert {name for name, fact in states.items() if not fact.is_unknown} == {"neuron", "tpu"}


@pytest.mark.parametrize("path", FACT_PATHS.values())
def test_every_fact_that_we_ask_for_exists(path: str) -> None:
    fact_type(path)
