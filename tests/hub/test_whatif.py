"""Another torch, GPU or release: what is asked for, what follows from it, and what nobody could know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneldoctor.environment import Environment, absent, known, unknown
from kerneldoctor.errors import UsageError
from kerneldoctor.hub.whatif import Changes, apply

from .machines import TABLES, machine


def changed(environment: Environment | None = None, **options: object) -> Environment:
    return apply(environment or machine(), Changes(**options), TABLES)[0]  # type: ignore[arg-type]


def notes(**options: object) -> tuple[str, ...]:
    return apply(machine(), Changes(**options), TABLES)[1]  # type: ignore[arg-type]


class TestOffline:
    OFFLINE = replace(machine(), huggingface=replace(machine().huggingface, offline=known(True, "HF_HUB_OFFLINE")))

    @pytest.mark.parametrize("change", [{"gpu": ("H100",)}, {"torch": "2.12"}, {"platform": "aarch64-linux"}])
    def test_the_switch_of_this_shell_says_nothing_of_another_machine(self, change: dict[str, object]) -> None:
        found, said = apply(self.OFFLINE, Changes(**change), TABLES)  # type: ignore[arg-type]
        assert found.huggingface.offline.is_unknown
        assert any("offline mode is on here" in note for note in said)

    def test_another_kernels_release_is_still_on_this_machine(self) -> None:
        found, said = apply(self.OFFLINE, Changes(kernels="0.16.2"), TABLES)
        assert found.huggingface.offline.value is True
        assert said == ()


class TestTorch:
    @pytest.mark.parametrize(
        ("torch", "cuda", "version", "number"),
        [
            ("2.13", None, "2.13.0+cu130", "13.0"),  # the wheel of PyPI
            ("2.9", None, "2.9.1+cu128", "12.8"),
            ("2.13.0+cu126", None, "2.13.0+cu126", "12.6"),
            ("2.13", "12.6", "2.13.0+cu126", "12.6"),
            ("2.13", "cu132", "2.13.0+cu132", "13.2"),
            ("2.14.0.dev20261101+cu130", None, "2.14.0.dev20261101+cu130", "13.0"),
        ],
    )
    def test_a_release_brings_its_cuda(self, torch: str, cuda: str | None, version: str, number: str) -> None:
        found = changed(torch=torch, cuda=cuda).torch
        assert (found.version.value, found.cuda.value, found.backend.value) == (version, number, "cuda")
        assert found.version.note == "what if: --torch"

    def test_what_was_known_of_the_old_torch_is_forgotten(self) -> None:
        found = changed(torch="2.12")
        assert found.torch.archs.is_unknown
        assert found.torch.git_version.is_unknown
        assert found.deep.torch_imports.is_unknown

    @pytest.mark.parametrize(("torch", "new_abi"), [("2.6+cu124", False), ("2.6+cu126", True), ("2.7", True)])
    def test_the_cxx_abi_follows_from_the_release(self, torch: str, new_abi: bool) -> None:
        assert changed(torch=torch).torch.cxx11_abi.value is new_abi

    @pytest.mark.parametrize(
        ("platform", "torch", "backend"),
        [
            ("x86_64-windows", "2.13", "cpu"),  # PyPI has no CUDA wheel for Windows
            ("aarch64-linux", "2.10", "cpu"),
            ("aarch64-linux", "2.11", "cuda"),
            ("aarch64-darwin", "2.13", "cpu"),
        ],
    )
    def test_the_wheel_of_pypi_depends_on_the_platform(self, platform: str, torch: str, backend: str) -> None:
        assert changed(torch=torch, platform=platform).torch.backend.value == backend

    def test_another_cuda_keeps_the_release(self) -> None:
        found = changed(cuda="12.6").torch
        assert (found.version.value, found.cuda.value) == ("2.13.0+cu126", "12.6")

    @pytest.mark.parametrize(
        ("cuda", "backend", "version"),
        [
            ("cpu", "cpu", "2.13.0+cpu"),
            ("rocm6.4", "rocm", "2.13.0+rocm6.4"),
            ("xpu", "xpu", "2.13.0+xpu"),
            ("xpu2025.3", "xpu", "2.13.0+xpu"),
        ],
    )
    def test_other_backends(self, cuda: str, backend: str, version: str) -> None:
        found = changed(cuda=cuda).torch
        assert (found.backend.value, found.version.value, found.cuda.is_absent) == (backend, version, True)

    def test_wheels_that_nobody_published_are_noted_and_taken_as_they_stand(self) -> None:
        (note,) = notes(torch="2.13", cuda="12.8")
        assert "no wheel of torch 2.13 was published for CUDA 12.8 (cu126, cu130, cu132)" in note
        assert changed(torch="2.13", cuda="12.8").torch.version.value == "2.13.0+cu128"

    def test_releases_that_are_not_known_are_noted(self) -> None:
        assert "torch 2.99 is no release that is known here" in notes(torch="2.99", cuda="13.0")[0]

    def test_a_python_without_wheels_is_noted(self) -> None:
        assert "no wheel for Python 3.9" in notes(torch="2.13", python="3.9")[0]


class TestGpu:
    @pytest.mark.parametrize(
        ("text", "capability"),
        [
            ("RTX 5090", "12.0"),
            ("sm_120", "12.0"),
            ("12.0", "12.0"),
            ("120", "12.0"),
            ("H100", "9.0"),
            ("sm_90a", "9.0"),
            ("NVIDIA A100-SXM4-80GB", "8.0"),
            ("8.6", "8.6"),
        ],
    )
    def test_names_and_capabilities(self, text: str, capability: str) -> None:
        (found,) = changed(gpu=(text,)).gpus.value or ()
        assert (found.compute_capability.value, found.vendor.value) == (capability, "nvidia")
        assert found.memory_bytes.is_unknown

    def test_several(self) -> None:
        found = changed(gpu=("H100", "T4"))
        assert [g.index.value for g in found.gpus.value or ()] == [0, 1]
        assert found.visibility.count.value == 2

    def test_none(self) -> None:
        assert changed(gpu=("none",)).gpus.is_absent

    def test_the_driver_of_a_machine_without_one_says_nothing_of_another_machine(self) -> None:
        assert changed(machine(driver="580.95.05"), gpu=("H100",)).driver.version.value == "580.95.05"
        without = changed(machine(), gpu=("none",))
        without = apply(without, Changes(platform="aarch64-linux"), TABLES)[0]
        assert changed(without, gpu=("H100",)).driver.version.is_unknown


class TestReleases:
    def test_kernels_and_transformers(self) -> None:
        found = changed(kernels="0.16.1", transformers="5.22.0").packages
        assert found.get("kernels").version.value == "0.16.1"
        assert found.get("transformers").version.value == "5.22.0"
        assert found.get("huggingface-hub").version.value == "1.33.0"

    def test_a_minor_release_is_its_newest_patch(self) -> None:
        assert changed(transformers="5.16").packages.get("transformers").version.value == "5.16.1"

    def test_releases_that_were_not_listed_are_noted_with_the_day(self) -> None:
        assert notes(kernels="0.18.2") == (
            "kernels 0.18.2 was not listed on 2026-12-01: what it does is not known here",
        )

    def test_python(self) -> None:
        found = changed(python="3.13t").python
        assert (found.version.value, found.free_threaded.value, found.abi_tag.value) == ("3.13", True, "cp313t")


class TestPlatform:
    def test_another_platform_keeps_nothing_of_this_one(self) -> None:
        found = changed(platform="aarch64-linux")
        assert (found.system.machine.value, found.system.os.value) == ("aarch64", "linux")
        assert found.system.libc_version.is_unknown
        assert found.driver.version.is_unknown

    def test_the_same_platform_changes_nothing(self) -> None:
        assert changed(platform="x86_64-linux") == machine()

    def test_apples_machine_is_called_as_python_calls_it(self) -> None:
        assert changed(platform="aarch64-macos").system.machine.value == "arm64"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"torch": "x"}, "--torch"),
        ({"torch": "2.13; rm"}, "--torch"),
        ({"cuda": "1"}, "--cuda"),
        ({"torch": "2.13+cu130", "cuda": "12.8"}, "leave one of them out"),
        ({"gpu": ("Voodoo 2",)}, "--gpu"),
        ({"kernels": "latest"}, "kernels release"),
        ({"kernels": "0.3"}, "older than what is known"),
        ({"transformers": "five"}, "--transformers"),
        ({"platform": "sparc"}, "--platform"),
        ({"torch": "7"}, "--torch"),
        ({"torch": "2.13", "cuda": "9"}, "--cuda"),
        ({"gpu": ("A100,Voodoo",)}, "--gpu"),
        ({"platform": "sparc-solaris"}, "--platform"),
        ({"python": "2.7"}, "--python-version"),
    ],
)
def test_rubbish_is_refused_in_one_line(options: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        changed(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("torch", [absent("no torch"), unknown("not looked at")])
def test_cuda_alone_needs_a_torch_to_be_for(torch: object) -> None:
    from dataclasses import replace

    without = replace(machine(), torch=replace(machine().torch, version=torch))
    with pytest.raises(UsageError, match="add --torch"):
        changed(without, cuda="12.8")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("A100,H100",), [("nvidia", "8.0"), ("nvidia", "9.0")]),
        (("rtx5090",), [("nvidia", "12.0")]),
        (("5090",), [("nvidia", "12.0")]),
        (("rtx3090ti",), [("nvidia", "8.6")]),
        (("120",), [("nvidia", "12.0")]),
        (("AMD Instinct MI300X",), [("amd", None)]),
    ],
)
def test_usual_spellings_of_gpus(names: tuple[str, ...], expected: list[tuple[str, str | None]]) -> None:
    gpus = changed(gpu=names).gpus.value or ()
    found = [(gpu.vendor.value, gpu.compute_capability.value) for gpu in gpus]
    assert found == expected


@pytest.mark.parametrize(
    ("options", "torch", "cuda"),
    [
        ({"torch": "2.13", "cuda": "13"}, "2.13.0+cu130", "13.0"),
        ({"torch": "2.13", "cuda": "12"}, "2.13.0+cu126", "12.6"),
        ({"torch": "2.13", "cuda": "12.8.1"}, "2.13.0+cu128", "12.8"),
        ({"torch": "2"}, f"{TABLES['torch_releases'][-1]['torch']}+", None),
    ],
)
def test_short_releases(options: dict[str, str], torch: str, cuda: str | None) -> None:
    found = changed(**options).torch
    assert str(found.version.value).startswith(torch)
    assert cuda in (None, found.cuda.value)


@pytest.mark.parametrize(
    ("platform", "os", "cpu"),
    [("linux", "linux", "x86_64"), ("windows", "windows", "x86_64"), ("macos", "darwin", "arm64"),
     ("win_amd64", "windows", "x86_64"), ("linux-aarch64", "linux", "aarch64")],
)  # fmt: skip
def test_short_platforms(platform: str, os: str, cpu: str) -> None:
    found = changed(platform=platform).system
    assert (found.os.value, found.machine.value) == (os, cpu)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (Changes(transformers="4.40"), "older than what is known here (4.55.0 to "),
        (Changes(torch="1.13", cuda="11.7"), "older than what is known here (2.6.0 to "),
        (Changes(torch="2.13+rocm6.4"), "whether a wheel of torch 2.13 was published for ROCm 6.4 is not known"),
    ],
)
def test_what_the_tables_do_not_hold_is_said_to_be_so(changes: Changes, says: str) -> None:
    assert any(says in note for note in apply(machine(), changes, TABLES)[1])
