from __future__ import annotations

from pathlib import Path

import pytest

from kerneldoctor.errors import ProbeError
from kerneldoctor.host import RealHost
from kerneldoctor.probes import libtorch

from .native import LIBC10, SET_DEVICE, library, torch_package

NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


@pytest.mark.parametrize(
    "name",
    [
        SET_DEVICE,
        NEW,
        "_ZNK2at10TensorBase8data_ptrIfEEPT_v",
        "_ZNKR5torch8autograd8Variable3fooEv",
        "_ZTVN5torch8autograd4NodeE",
        "_ZTIN3c105ErrorE",
        "_ZThn16_N5torch3jit5GraphD1Ev",
        "_ZGVN3c106detail1xE",
        "_ZN6caffe28TypeMeta1xEv",
        "_ZN4c10d12ProcessGroupD2Ev",
        "_Z16THPVariable_WrapN2at10TensorBaseE",
        "THPVariableClass",
        "aoti_torch_get_current_cuda_stream",
        "torch_call_dispatcher",
    ],
)
def test_symbols_of_torch(name: str) -> None:
    assert libtorch.is_torch_symbol(name)


@pytest.mark.parametrize(
    "name",
    [
        "_ZN5flash9run_mha_fERNS_16Flash_fwd_paramsE",
        "_ZNSt6vectorIN2at6TensorESaIS1_EED1Ev",  # of libstdc++, whatever it is filled with
        "_ZN9flash_c103fooEv",
        "_ZN6torchX3fooEv",
        "_Z3runN2at6TensorE",  # of the extension, whatever it takes
        "cudaLaunchKernel",
        "PyModule_Create2",
        "torchvision_version",
        "",
    ],
)
def test_symbols_of_others(name: str) -> None:
    assert not libtorch.is_torch_symbol(name)


@pytest.mark.parametrize(
    ("names", "new"),
    [
        ([NEW], True),
        ([OLD], False),
        (["_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"], False),
        (["_ZN5torch3jit17parseSchemaOrNameERKSsb"], False),
        ([SET_DEVICE], None),
        (["_ZN3c107ClassSs3fooEv"], None),  # "ClassSs" is a name of 7 letters
        (["_ZN3c105fooS2_Ss"], False),
        ([], None),
    ],
)
def test_the_string_in_a_mangled_name_tells_the_abi(names: list[str], new: bool | None) -> None:
    assert libtorch.uses_new_string(names) is new


@pytest.mark.parametrize("abi", [0, 1])
def test_the_abi_of_a_compiled_libc10(tmp_path: Path, abi: int) -> None:
    package = torch_package(tmp_path, abi=abi)
    assert libtorch.new_abi(str(package / "lib/libc10.so")) is bool(abi)


def test_a_libc10_that_does_not_tell(tmp_path: Path) -> None:
    assert libtorch.new_abi(str(library(tmp_path / "libc10.so", "int f() { return 1; }"))) is None
    (tmp_path / "libc10.so").write_bytes(b"")
    with pytest.raises(ProbeError, match="is empty"):
        libtorch.new_abi(str(tmp_path / "libc10.so"))


def test_missing_symbols_are_those_that_no_library_defines(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    files = libtorch.libraries(RealHost(), str(package))
    wanted = [SET_DEVICE, NEW, OLD, "_ZN2at7versionEv", "aoti_torch_zeros", "aoti_torch_gone"]
    assert libtorch.missing_symbols(wanted, files, ()) == [SET_DEVICE, OLD, "aoti_torch_gone"]


def test_a_library_that_came_along_may_define_the_rest(tmp_path: Path) -> None:
    files = libtorch.libraries(RealHost(), str(torch_package(tmp_path)))
    own = library(tmp_path / "libown.so", "namespace c10 { namespace cuda { void SetDevice(int) {} } }")
    (tmp_path / "libbroken.so").write_bytes(b"")
    others = [str(tmp_path / "libbroken.so"), str(tmp_path / "libnone.so"), str(own)]
    assert libtorch.missing_symbols([SET_DEVICE, OLD], files, others) == [OLD]


def test_without_all_of_torch_nothing_is_called_missing(tmp_path: Path) -> None:
    package = torch_package(tmp_path, c10=LIBC10)
    library_file = package / "lib/libtorch_cpu.so"
    library_file.write_bytes(library_file.read_bytes()[:500])
    with pytest.raises(ProbeError, match="truncated"):
        libtorch.missing_symbols([OLD], libtorch.libraries(RealHost(), str(package)), ())
    library_file.unlink()
    with pytest.raises(ProbeError, match=r"no libtorch_cpu\.so"):
        libtorch.libraries(RealHost(), str(package))


def test_test_libraries_and_the_bundled_runtime_are_not_torch(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    for name in ("libtorch_global_deps.so", "libtorchbind_test.so", "libgomp.so.1", "libtorch_cuda.so"):
        (package / "lib" / name).touch()
    names = [Path(p).name for p in libtorch.libraries(RealHost(), str(package))]
    assert names == ["libtorch_cpu.so", "libc10.so", "libtorch_cuda.so"]
