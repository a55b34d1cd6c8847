"""Names of build folders, of every era."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldoctor.hub.variant import Framework, Variant, parse_variant, parse_variants

TORCH, STABLE, TVM, NOARCH = Framework.TORCH, Framework.TORCH_STABLE_ABI, Framework.TVM_FFI, Framework.NOARCH


@pytest.mark.parametrize(
    ("name", "framework", "version", "cxx11", "backend", "backend_version", "machine", "os"),
    [
        ("torch28-cxx11-cu128-x86_64-linux", TORCH, (2, 8), True, "cuda", (12, 8), "x86_64", "linux"),
        ("torch28-cxx98-cu126-aarch64-linux", TORCH, (2, 8), False, "cuda", (12, 6), "aarch64", "linux"),
        ("torch210-cu128-x86_64-windows", TORCH, (2, 10), None, "cuda", (12, 8), "x86_64", "windows"),
        ("torch-stable-abi210-cu130-x86_64-linux", STABLE, (2, 10), None, "cuda", (13, 0), "x86_64", "linux"),
        ("tvm-ffi01-cu130-x86_64-linux", TVM, (0, 1), None, "cuda", (13, 0), "x86_64", "linux"),
        ("torch29-metal-aarch64-darwin", TORCH, (2, 9), None, "metal", None, "aarch64", "darwin"),
        ("torch28-cxx11-rocm63-x86_64-linux", TORCH, (2, 8), True, "rocm", (6, 3), "x86_64", "linux"),
        ("torch28-cxx11-xpu20251-x86_64-linux", TORCH, (2, 8), True, "xpu", (2025, 1), "x86_64", "linux"),
        ("torch210-cann81-aarch64-linux", TORCH, (2, 10), None, "cann", (8, 1), "aarch64", "linux"),
        ("torch211-neuron-x86_64-linux", TORCH, (2, 11), None, "neuron", None, "x86_64", "linux"),
        ("torch213-tpu-x86_64-linux", TORCH, (2, 13), None, "tpu", None, "x86_64", "linux"),
        ("torch29-cxx11-cpu-x86_64-linux", TORCH, (2, 9), True, "cpu", None, "x86_64", "linux"),
        # read as the library reads them, not as they were meant
        ("torch214-rocm714-x86_64-linux", TORCH, (2, 14), None, "rocm", (71, 4), "x86_64", "linux"),
        ("torch214-cu1300-x86_64-linux", TORCH, (2, 14), None, "cuda", (130, 0), "x86_64", "linux"),
        ("torch-cuda", NOARCH, None, None, "cuda", None, "", ""),
        ("torch-universal", NOARCH, None, None, "universal", None, "", ""),
        ("torch-npu", NOARCH, None, None, "npu", None, "", ""),
        ("torch-ext", NOARCH, None, None, "ext", None, "", ""),
    ],
)
def test_a_name_is_read_by_its_parts_and_printed_back(
    name: str,
    framework: Framework,
    version: tuple[int, int] | None,
    cxx11: bool | None,
    backend: str,
    backend_version: tuple[int, int] | None,
    machine: str,
    os: str,
) -> None:
    found = parse_variant(name)
    assert found == Variant(name, framework, version, cxx11, backend, backend_version, machine, os)
    assert str(found) == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "-", "torch28", "torch2-cu128-x86_64-linux", "torch28-cu128-x86_64", "torch28-cu8-x86_64-linux"),
        *("torch28-cxx12-cu128-x86_64-linux", "torch28-cuda-x86_64-linux", "torch28-xpu-x86_64-linux"),
        *("torch-stable-abi", "torch-stable-abi2-cu130-x86_64-linux", "tvm-ffi-cu130-x86_64-linux", "jax-cuda"),
        *("flash_attn2", "TORCH28-cu128-x86_64-linux", "torch\u0662\u0668-cu128-x86_64-linux", f"torch-{'x' * 300}"),
    ],
)
def test_a_folder_that_the_library_ignores_is_none(name: str) -> None:
    assert parse_variant(name) is None


def test_zeros_are_lost_so_that_the_library_would_ask_for_another_folder() -> None:
    found = parse_variant("torch2010-cu128-x86_64-linux")
    assert found is not None
    assert (found.name, str(found)) == ("torch2010-cu128-x86_64-linux", "torch210-cu128-x86_64-linux")


def test_a_listing_keeps_its_order_and_says_what_it_could_not_read() -> None:
    variants, unread = parse_variants(["torch-cuda", "notes", "torch28-cxx11-cu128-x86_64-linux"])
    assert [v.name for v in variants] == ["torch-cuda", "torch28-cxx11-cu128-x86_64-linux"]
    assert unread == ("notes",)


backends = st.one_of(
    st.tuples(st.sampled_from(["cuda", "rocm", "cann"]), st.tuples(st.integers(1, 99), st.integers(0, 9))),
    st.tuples(st.just("xpu"), st.tuples(st.integers(2024, 2030), st.integers(0, 9))),
    st.tuples(st.sampled_from(["cpu", "metal", "neuron", "tpu"]), st.none()),
)
compiled = st.builds(
    lambda framework, version, cxx11, backend, machine, os: Variant(
        "", framework, version, cxx11 if framework is TORCH else None, *backend, machine, os
    ),
    st.sampled_from([TORCH, STABLE, TVM]),
    st.tuples(st.integers(0, 9), st.integers(0, 99)),
    st.sampled_from([None, True, False]),
    backends,
    st.sampled_from(["x86_64", "aarch64", "arm64"]),
    st.sampled_from(["linux", "windows", "darwin"]),
)


@given(compiled)
def test_printing_is_the_inverse_of_reading(variant: Variant) -> None:
    found = parse_variant(str(variant))
    assert found is not None
    assert str(found) == found.name == str(variant)
    assert (found.framework, found.framework_version, found.cxx11) == (
        variant.framework,
        variant.framework_version,
        variant.cxx11,
    )
    assert (found.backend, found.backend_version, found.os) == (variant.backend, variant.backend_version, variant.os)


@given(st.one_of(st.text(max_size=40), st.text("torch-sablei2tvm fcu10x89_", max_size=40)))
def test_any_text_is_a_variant_or_none(name: str) -> None:
    found = parse_variant(name)
    if found is not None:
        again = parse_variant(str(found))
        assert again is not None
        assert str(again) == str(found)
