"""Which build would be taken, why not the others, and what cannot be told."""

import dataclasses

import pytest

from kerneldoctor.environment import absent, known, unknown
from kerneldoctor.errors import UsageError
from kerneldoctor.hub.acceptance import ReasonCode
from kerneldoctor.hub.eras import Feature, first_release, rules_of
from kerneldoctor.hub.resolve import Resolution, resolve
from kerneldoctor.hub.system import SystemDescription
from kerneldoctor.hub.variant import parse_variants

NO = known(False, "test")
NONE = absent("test")


def linux(torch: tuple[int, int], cuda: tuple[int, int]) -> SystemDescription:
    return SystemDescription(
        torch=known(torch, "test"),
        cxx11=known(True, "test"),
        backend=known("cuda", "test"),
        backend_version=known(cuda, "test"),
        neuron=NO,
        tpu=NO,
        machine=known("x86_64", "test"),
        os=known("linux", "test"),
        macos=NONE,
        tvm_ffi=NONE,
        free_threaded=NO,
    )


def resolved(names: list[str], system: SystemDescription, kernels: str = "0.17.2") -> Resolution:
    return resolve(parse_variants(names)[0], system, kernels)


def names_for(torch: int, *tags: str) -> list[str]:
    return [f"torch{torch}-cxx11-{tag}-x86_64-linux" for tag in tags]


# The CUDA builds for x86_64 Linux of kernels-community/flash-attn2, as listed on the Hub in July to October 2026.
FLASH_ATTN2 = {
    "v1": names_for(210, "cu126", "cu128", "cu130")
    + names_for(211, "cu126", "cu128", "cu130")
    + names_for(212, "cu126", "cu130", "cu132"),
    "v2": names_for(211, "cu126", "cu128", "cu130")
    + names_for(212, "cu126", "cu130", "cu132")
    + names_for(213, "cu126", "cu130", "cu132"),
    "v3": [f"torch-stable-abi210-{tag}-x86_64-linux" for tag in ("cu126", "cu128", "cu130", "cu132")],
}


@pytest.mark.parametrize(
    ("version", "torch", "cuda", "taken"),
    [
        ("v1", (2, 9), (12, 8), None),
        ("v2", (2, 9), (12, 8), None),
        ("v3", (2, 9), (12, 8), None),
        ("v3", (2, 9), (13, 0), None),
        ("v2", (2, 11), (12, 8), "torch211-cxx11-cu128-x86_64-linux"),
        ("v2", (2, 12), (12, 8), "torch212-cxx11-cu126-x86_64-linux"),
        ("v2", (2, 13), (12, 8), "torch213-cxx11-cu126-x86_64-linux"),
        ("v3", (2, 12), (12, 8), "torch-stable-abi210-cu128-x86_64-linux"),
        ("v3", (2, 13), (12, 8), "torch-stable-abi210-cu128-x86_64-linux"),
        ("v3", (2, 13), (13, 0), "torch-stable-abi210-cu130-x86_64-linux"),
        ("v3", (2, 13), (13, 2), "torch-stable-abi210-cu132-x86_64-linux"),
        ("v2", (2, 14), (13, 0), None),
        ("v3", (2, 14), (13, 0), "torch-stable-abi210-cu130-x86_64-linux"),
    ],
)
def test_the_known_matrix_of_flash_attn2(
    version: str, torch: tuple[int, int], cuda: tuple[int, int], taken: str | None
) -> None:
    preferred = resolved(FLASH_ATTN2[version], linux(torch, cuda)).preferred
    assert (preferred.name if preferred else None) == taken


@pytest.mark.parametrize(
    ("kernels", "taken", "reason_for_cu126"),
    [
        ("0.12.3", None, ReasonCode.CUDA_NOT_EXACT),
        ("0.13.0", "torch213-cxx11-cu126-x86_64-linux", None),
    ],
)
def test_an_older_cuda_minor_does_only_from_0_13_on(
    kernels: str, taken: str | None, reason_for_cu126: ReasonCode | None
) -> None:
    found = resolved(names_for(213, "cu126"), linux((2, 13), (12, 8)), kernels)
    assert (found.preferred.name if found.preferred else None) == taken
    assert [item.reason.code for item in found.rejected] == ([reason_for_cu126] if reason_for_cu126 else [])


@pytest.mark.parametrize("release", ["0.4.4", "0.6.2", "0.9.0", "0.10.4", "0.11.1"])
def test_releases_before_the_backport_skip_noarch_folders_and_say_so(release: str) -> None:
    found = resolved(["torch-cuda", "torch-universal"], linux((2, 8), (12, 8)), release)
    assert [v.name for v in found.accepted] == ["torch-universal"]
    assert [(item.reason.code, item.reason.wanted) for item in found.rejected] == [(ReasonCode.NAME_NOT_READ, "0.11.2")]


@pytest.mark.parametrize(
    ("name", "change", "code", "wanted", "found"),
    [
        ("torch213-cu130-aarch64-linux", {}, ReasonCode.MACHINE, "aarch64", "x86_64"),
        ("torch213-cu130-x86_64-windows", {}, ReasonCode.OS, "windows", "linux"),
        ("torch212-cu130-x86_64-linux", {}, ReasonCode.TORCH_VERSION, "2.12", "2.13"),
        ("torch213-cxx98-cu130-x86_64-linux", {}, ReasonCode.ABI, "cxx98", "cxx11"),
        ("torch-stable-abi214-cu130-x86_64-linux", {}, ReasonCode.STABLE_ABI_TOO_NEW, "2.14", "2.13"),
        ("tvm-ffi01-cu130-x86_64-linux", {}, ReasonCode.TVM_FFI_VERSION, "0.1", "none"),
        ("torch213-cu128-x86_64-linux", {}, ReasonCode.CUDA_MAJOR, "12.8", "13.0"),
        ("torch213-cu132-x86_64-linux", {}, ReasonCode.CUDA_TOO_NEW, "13.2", "13.0"),
        ("torch213-rocm72-x86_64-linux", {}, ReasonCode.BACKEND, "rocm72", "cu130"),
        ("torch-rocm", {}, ReasonCode.BACKEND, "rocm", "cuda"),
        ("torch-ext", {}, ReasonCode.BACKEND, "ext", "cuda"),
        (
            "torch213-cu130-x86_64-linux",
            {"free_threaded": known(True, "test")},
            ReasonCode.FREE_THREADED,
            "abi3",
            "free-threaded",
        ),
        ("torch213-cu130-x86_64-linux", {"torch": NONE}, ReasonCode.TORCH_VERSION, "2.13", "none"),
    ],
)
def test_each_refusal_has_one_reason_with_what_was_wanted_and_found(
    name: str, change: dict[str, object], code: ReasonCode, wanted: str, found: str
) -> None:
    system = dataclasses.replace(linux((2, 13), (13, 0)), **change)  # type: ignore[arg-type]
    [item] = resolved([name], system).rejected
    assert (item.reason.code, item.reason.wanted, item.reason.found) == (code, wanted, found)


def test_metal_needs_macos_26_only_since_0_17() -> None:
    mac = dataclasses.replace(
        linux((2, 13), (13, 0)),
        backend=known("metal", "test"),
        backend_version=NONE,
        machine=known("arm64", "test"),
        os=known("darwin", "test"),
        macos=known((15, 6), "test"),
    )
    name = "torch213-metal-aarch64-darwin"
    assert resolved([name], mac, "0.16.2").preferred
    [item] = resolved([name], mac).rejected
    assert (item.reason.code, item.reason.wanted, item.reason.found) == (ReasonCode.MACOS, "26.0", "15.6")
    assert resolved([name], dataclasses.replace(mac, macos=known((26, 0), "test"))).preferred


def test_a_release_that_raises_on_this_torch_takes_nothing() -> None:
    cpu = dataclasses.replace(linux((2, 9), (12, 8)), backend=known("cpu", "test"), backend_version=NONE)
    found = resolved(["torch-universal", *names_for(29, "cpu")], cpu, "0.10.5")
    assert {item.reason.code for item in found.rejected} == {ReasonCode.RELEASE_WITHOUT_BACKEND}
    assert [v.name for v in resolved(["torch-universal", *names_for(29, "cpu")], cpu, "0.11.0").accepted] == [
        "torch29-cxx11-cpu-x86_64-linux",
        "torch-universal",
    ]


# --- unknown facts ---


def test_an_unknown_fact_leaves_open_only_what_hangs_on_it() -> None:
    system = dataclasses.replace(linux((2, 13), (13, 0)), backend_version=unknown("not in the pasted text"))
    found = resolved(["torch213-cu130-x86_64-linux", "torch212-cu130-x86_64-linux", "torch-cuda"], system)
    assert [v.name for v in found.accepted] == ["torch-cuda"]
    assert found.preferred is None  # the open build would come first
    assert [(u.variant.name, [m.fact for m in u.missing]) for u in found.undetermined] == [
        ("torch213-cu130-x86_64-linux", ["torch.cuda"])
    ]
    assert [item.variant.name for item in found.rejected] == ["torch212-cu130-x86_64-linux"]
    assert found.missing == ("torch.cuda",)
    assert found.undetermined[0].missing[0].why == "not in the pasted text"


def test_an_open_build_that_would_come_later_does_not_shake_the_preferred_one() -> None:
    system = dataclasses.replace(linux((2, 13), (13, 0)), tvm_ffi=unknown("not looked at"))
    found = resolved(["tvm-ffi01-cu130-x86_64-linux", "torch213-cu130-x86_64-linux"], system)
    assert found.preferred is not None
    assert found.preferred.name == "torch213-cu130-x86_64-linux"
    assert found.missing == ("packages.apache-tvm-ffi.version",)


def test_another_gpu_vendor_is_refused_even_where_its_release_is_unknown() -> None:
    system = dataclasses.replace(
        linux((2, 13), (13, 0)), backend=known("rocm", "test"), backend_version=unknown("no version")
    )
    found = resolved(["torch213-cu130-x86_64-linux", "torch213-rocm72-x86_64-linux"], system)
    assert [(r.variant.name, r.reason.found) for r in found.rejected] == [("torch213-cu130-x86_64-linux", "rocm")]
    assert found.missing == ("torch.hip",)


@pytest.mark.parametrize(
    ("kernels", "taken"),
    [("0.4.0", []), ("0.9.1", []), ("0.12.3", [])]
    + [(release, ["torch-universal"]) for release in ("0.13.0", "0.15.2", "0.17.2")],
)
def test_of_a_machine_of_which_nothing_is_known_nothing_is_claimed(kernels: str, taken: list[str]) -> None:
    names = ["torch213-cxx11-cu130-x86_64-linux", "torch-universal", "torch212-cxx11-metal-aarch64-darwin"]
    found = resolved(names, SystemDescription(), kernels)
    assert not found.rejected
    assert [v.name for v in found.accepted] == taken
    assert found.missing


# --- order ---


def test_no_tag_beats_a_newer_cuda_since_0_15_1() -> None:
    names = ["torch213-cu130-x86_64-linux", "torch213-cxx11-cu132-x86_64-linux"]
    system = linux((2, 13), (13, 2))
    assert [v.name for v in resolved(names, system).accepted] == names
    assert [v.name for v in resolved(names, system, "0.14.1").accepted] == names[::-1]


def test_a_tie_is_told_because_the_listing_decides_it() -> None:
    system = dataclasses.replace(linux((2, 13), (13, 0)), tvm_ffi=known((0, 1), "test"))
    names = ["torch-cuda", "tvm-ffi01-cu130-x86_64-linux"]
    for listed in (names, names[::-1]):
        found = resolved(listed, system)
        assert found.preferred is not None
        assert [found.preferred.name, *(v.name for v in found.tied)] == listed
    assert resolved(names, dataclasses.replace(system, backend_version=known((13, 2), "t"))).tied  # still cu130
    assert not resolved(["torch213-cu130-x86_64-linux", *names], system).tied


# --- releases ---


def test_a_release_newer_than_the_tables_gets_the_newest_rules_and_says_so() -> None:
    rules = rules_of("0.18.2")
    assert rules.features == rules_of("0.17.2").features
    assert rules.extrapolated
    assert not rules_of("0.17.2").extrapolated


@pytest.mark.parametrize("kernels", ["", "latest", "0.3.9", "0.17.x"])
def test_what_is_no_known_release_is_wrong_use(kernels: str) -> None:
    with pytest.raises(UsageError, match=r"0\.17\.2|0\.4\.0"):
        rules_of(kernels)


def test_every_feature_names_the_release_that_brought_it_for_good() -> None:
    for feature in Feature:
        if feature is not Feature.XPU_UNVERSIONED:  # came and went
            assert rules_of(first_release(feature)).has(feature)
            assert rules_of("0.17.2").has(feature)
