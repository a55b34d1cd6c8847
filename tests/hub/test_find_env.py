"""Changes that would give a usable build: the smallest first, and only to wheels that exist and run here."""

from __future__ import annotations

from dataclasses import replace

from kerneldoctor.environment import Environment, Extension, absent, unknown
from kerneldoctor.hub.find_env import Option, find_environments
from kerneldoctor.hub.index import index_listing
from kerneldoctor.hub.listing import Listing

from .machines import FLASH, RULES, STABLE, TABLES, live, machine, seen


def options(
    environment: Environment, listing: Listing | None = None, version: str = "", limit: int = 5
) -> tuple[Option, ...]:
    found = listing or index_listing(FLASH)
    assert found is not None
    return find_environments(found, environment, TABLES, RULES, None, version, limit)


def changes(option: Option) -> list[str]:
    return [f"{c.package} {c.after}" for c in option.changes]


def test_where_it_works_already_nothing_changes() -> None:
    (found,) = options(machine())
    assert (found.changes, found.commands, found.usable) == ((), (), True)


def test_the_nearest_torch_of_the_same_cuda_comes_first() -> None:
    found = options(machine("2.9.1+cu128"))
    assert changes(found[0]) == ["torch 2.10.0+cu128"]
    assert found[0].commands == ('pip install "torch==2.10.0"',)  # the wheel of PyPI
    assert changes(found[1]) == ["torch 2.11.0+cu128"]
    assert found[1].commands == (
        'pip install "torch==2.11.0+cu128" --index-url https://download.pytorch.org/whl/cu128',
    )


def test_another_cuda_for_the_same_release_is_named_with_its_label_because_pip_would_keep_the_installed_one() -> None:
    found = options(machine("2.13.0+cu126", "12.0"))
    assert changes(found[0]) == ["torch 2.13.0+cu130"]
    assert found[0].commands == (
        'pip install "torch==2.13.0+cu130" --index-url https://download.pytorch.org/whl/cu130',
    )


def test_a_driver_that_does_not_carry_cuda_13_is_offered_none_of_it() -> None:
    found = options(machine("2.9.1+cu128", driver="570.133.20"))
    assert found
    assert not [c for option in found for c in changes(option) if "+cu13" in c]


def test_wheels_without_code_for_the_gpu_are_not_offered() -> None:
    found = options(machine("2.9.1+cu128", "12.0"), limit=20)
    assert found
    assert not [c for option in found for c in changes(option) if c.endswith("+cu126")]


def test_kernels_comes_before_torch_where_it_is_enough() -> None:
    found = options(machine(kernels="0.14.1"), live(STABLE.format(130)))
    assert changes(found[0]) == ["kernels 0.17.2"] or changes(found[0])[0].startswith("kernels 0.15")
    assert found[0].commands[0].startswith('pip install "kernels==0.1')


def test_kernels_and_transformers_agree_in_every_option() -> None:
    found = options(machine(transformers="5.22.2", kernels="0.15.2"))
    assert changes(found[0]) == ["kernels 0.17.2"]
    assert changes(found[1]) == ["transformers 5.14.1"]


def test_transformers_without_a_listed_kernels_moves_to_one_that_has() -> None:
    found = options(machine(transformers="5.24.0", huggingface_hub="2.4.0"))
    assert changes(found[0]) == ["transformers 5.22.2"]


def test_huggingface_hub_goes_with_them_where_it_must() -> None:
    found = options(machine(transformers="5.16.1", kernels="0.17.2", huggingface_hub="2.4.0"), limit=1)
    assert found[0].commands[0].count("==") >= 1
    packages = [c.package for c in found[0].changes]
    assert "transformers" in packages or "huggingface_hub" in packages


def test_python_packages_that_a_kernel_imports_are_enough_where_only_they_are_missing() -> None:
    listing = live("torch-cuda", repo="kernels-community/flash-attn4", version="v0")
    (found,) = options(machine(einops="0.8.1"), listing)
    assert found.commands == ("pip install apache-tvm-ffi nvidia-cutlass-dsl",)


def test_only_the_version_asked_for_counts() -> None:
    found = options(machine("2.10.0+cu128"), version="v2")
    assert {option.version for option in found} == {"v2"}
    assert changes(found[0]) == ["torch 2.11.0+cu128"]


def test_an_option_that_changes_more_than_another_is_left_out() -> None:
    found = options(machine("2.9.1+cu128"), limit=20)
    assert all({c.package for c in option.changes} == {"torch"} for option in found)


def test_compiled_packages_that_must_be_installed_again_are_named() -> None:
    extension = Extension("flash_attn_2_cuda", seen("flash-attn"))
    found = options(replace(machine("2.9.1+cu128"), extensions=seen((extension,))))
    assert found[0].rebuild == ("flash-attn",)


def test_without_a_known_gpu_options_are_not_certain_and_say_so() -> None:
    found = options(machine("2.9.1+cu128", unknown("not asked")))
    assert found
    assert {option.usable for option in found} == {None}
    assert "gpus" in found[0].missing


def test_faults_that_hang_on_the_workload_are_named() -> None:
    found = options(machine("2.12.1+cu128", "12.0"), version="v3")
    assert (found[0].changes, "KD3101" in found[0].issues) == ((), True)


def test_nothing_is_offered_where_nothing_helps() -> None:
    assert options(machine(), live("torch-stable-abi210-xpu20253-x86_64-linux")) == ()


def test_a_build_with_a_known_error_is_said_to_be_one_and_a_clean_one_offered_beside_it() -> None:
    found = options(machine("2.13.0+cu128", "12.0"), version="v3")
    assert (found[0].changes, found[0].flawed, found[0].usable) == ((), True, True)
    assert "KD3101" in found[0].issues
    assert changes(found[1]) == ["torch 2.13.0+cu130"]
    assert not any(option.flawed for option in found[1:])


def test_where_there_is_no_gpu_the_wheels_for_the_cpu_count() -> None:
    bare = machine("", absent("test"), kernels="")
    found = options(bare, live("torch213-cxx11-cpu-x86_64-linux", version="v2"), version="v2")
    assert found[0].build == "torch213-cxx11-cpu-x86_64-linux"
    assert found[0].commands[0].endswith("--index-url https://download.pytorch.org/whl/cpu")
    assert not any("cpu" in command for option in options(machine("2.9.1+cu128")) for command in option.commands)
