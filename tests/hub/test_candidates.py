"""What comes of listed builds: the known matrix of flash-attn2, and everything that the resolver does not say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kerneldoctor.engine.case import Workload
from kerneldoctor.environment import CachedKernel, Environment, Fact, System, absent, unknown
from kerneldoctor.hub.beyond import VerdictCode
from kerneldoctor.hub.candidates import Candidate, Candidates, VersionCandidates, candidates
from kerneldoctor.hub.index import index_listing
from kerneldoctor.hub.issues import KnownIssue
from kerneldoctor.hub.listing import Build, Listing, Version
from kerneldoctor.hub.metadata import Metadata
from kerneldoctor.hub.whatif import Changes, apply

from .machines import FLASH, RULES, STABLE, TABLES, gpu, live, machine, packages, seen

TRAINING = Workload(backward=seen(True), q_heads=seen(14), kv_heads=seen(2))
INFERENCE = replace(TRAINING, backward=seen(False))


def judge(environment: Environment, listing: Listing | None = None, workload: Workload | None = None) -> Candidates:
    found = listing or index_listing(FLASH)
    assert found is not None
    return candidates(found, environment, TABLES, RULES, workload)


def version(environment: Environment, name: str = "v3", listing: Listing | None = None) -> VersionCandidates:
    found = judge(environment, listing).version(name)
    assert found is not None
    return found


def only(environment: Environment, listing: Listing, workload: Workload | None = None) -> Candidate:
    (found,) = judge(environment, listing, workload).versions
    assert len(found.candidates) == 1
    return found.candidates[0]


def errors(candidate: Candidate | None) -> list[KnownIssue]:
    assert candidate is not None
    return [issue for issue in candidate.issues if issue.severity == "error"]


def codes(candidate: Candidate | None) -> list[VerdictCode]:
    assert candidate is not None
    return [verdict.code for verdict in candidate.verdicts]


class TestFlashAttn2:
    """The matrix that people run into, from the bundled index."""

    @pytest.mark.parametrize("name", ["v1", "v2", "v3"])
    def test_torch_2_9_has_nothing_to_take(self, name: str) -> None:
        found = version(machine("2.9.1+cu128"), name)
        assert (found.preferred, found.usable) == (None, False)

    @pytest.mark.parametrize("torch", ["2.12.1", "2.13.0"])
    def test_torch_for_cuda_12_8_takes_an_older_build_of_v2_without_code_for_blackwell(self, torch: str) -> None:
        blackwell, hopper = (version(machine(f"{torch}+cu128", gpus), "v2") for gpus in ("12.0", "9.0"))
        for found in (blackwell, hopper):
            assert found.preferred is not None
            assert found.preferred.build.name.endswith("-cxx11-cu126-x86_64-linux")
        assert codes(blackwell.preferred) == [VerdictCode.NO_GPU_CODE]
        assert (blackwell.usable, hopper.usable) == (False, True)

    @pytest.mark.parametrize("torch", ["2.12.1", "2.13.0"])
    def test_torch_for_cuda_12_8_takes_the_stale_build_of_v3(self, torch: str) -> None:
        found = version(machine(f"{torch}+cu128", "12.0")).preferred
        assert found is not None
        assert (found.build.name, found.build.build_id) == (STABLE.format(128), "48628c8")
        assert [(issue.rule, issue.certainty) for issue in errors(found)] == [("KD3101", "possible")]

    def test_torch_2_13_for_cuda_13_takes_the_mended_build(self) -> None:
        found = version(machine("2.13.0+cu130", "12.0"))
        assert found.preferred is not None
        assert (found.preferred.build.name, found.preferred.build.build_id) == (STABLE.format(130), "4eec01c")
        assert (errors(found.preferred), found.usable) == ([], True)

    def test_torch_2_14_needs_v3(self) -> None:
        found = judge(machine("2.14.1+cu130"))
        assert {v.version.name: v.usable for v in found.versions if v.version.complete} == {
            "v3": True, "v2": False, "v1": False,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("torch", "takes"),
        [("2.10.0", None), ("2.11.0", "cu128"), ("2.12.1", "cu126"), ("2.13.0", "cu126"), ("2.14.1", None)],
    )
    def test_pin_v2_on_cuda_12_8_is_right_for_torch_2_11_only(self, torch: str, takes: str | None) -> None:
        found = version(machine(f"{torch}+cu128"), "v2").preferred
        assert (found and found.variant and found.variant.backend_tag) == takes

    def test_version_4_is_known_in_parts_and_is_never_a_whole_listing(self) -> None:
        found = version(machine(), "v4")
        assert (found.version.complete, found.preferred, found.usable) == (False, None, None)


class TestPartialListings:
    PARTIAL = Version("v9", "", (Build(STABLE.format(130)),), "partial", "2026-09-01", False)

    def test_a_build_that_fits_is_not_yet_the_one_that_is_taken(self) -> None:
        (found,) = judge(machine(), Listing(FLASH, "index", "", (self.PARTIAL,))).versions
        assert (found.candidates[0].accepted, found.preferred, found.usable) == (True, None, None)

    def test_no_fitting_build_among_those_seen_proves_nothing(self) -> None:
        (found,) = judge(machine("2.9.1+cu128"), Listing(FLASH, "index", "", (self.PARTIAL,))).versions
        assert found.usable is None

    def test_the_cache_holds_what_would_be_loaded_offline(self) -> None:
        cached = replace(self.PARTIAL, name="v3", how="cache")
        (found,) = judge(machine(), Listing(FLASH, "cache", "", (cached,))).versions
        assert found.preferred is not None


class TestKnownFaults:
    BAD = Build(STABLE.format(130), "48628c8", "live")

    def test_a_build_id_seen_there_and_a_workload_that_meets_it_are_certain(self) -> None:
        found = only(machine(), live(self.BAD), TRAINING)
        assert [(issue.rule, issue.certainty) for issue in errors(found)] == [("KD3101", "confirmed")]
        # kernels would call this version compatible with the system: it looks at names only.
        assert (found.accepted, found.preferred, found.usable) == (True, True, False)

    def test_without_a_workload_the_fault_is_named_and_the_build_not_given_up(self) -> None:
        found = only(machine(), live(self.BAD))
        assert [issue.depends_on_workload for issue in errors(found)] == [True]
        assert found.usable is True

    def test_a_workload_that_does_not_meet_it_clears_the_build(self) -> None:
        assert errors(only(machine(), live(self.BAD), INFERENCE)) == []

    def test_a_build_id_seen_in_another_commit_makes_it_possible_at_most(self) -> None:
        elsewhere = replace(self.BAD, build_id_elsewhere=True)
        found = only(machine(), live(elsewhere), TRAINING)
        assert [(i.certainty, "kernel.build_id" in i.missing) for i in errors(found)] == [("possible", True)]
        assert found.usable is None

    def test_of_the_bundled_ids_only_that_of_a_build_which_cannot_be_made_again_proves_something(self) -> None:
        listing = index_listing(FLASH)
        v3 = listing.version("v3") if listing else None
        assert v3 is not None
        elsewhere = {build.name: build.build_id_elsewhere for build in v3.builds if build.build_id}
        assert elsewhere == {STABLE.format(128): False, STABLE.format(130): True}

    def test_a_build_of_that_kind_whose_id_was_not_seen_may_have_the_fault(self) -> None:
        found = only(machine(), live(STABLE.format(130)), TRAINING)
        assert [(i.rule, i.certainty, i.missing) for i in errors(found)] == [
            ("KD3101", "possible", ("kernel.build_id",))
        ]
        assert found.usable is None

    def test_the_repository_alone_speaks_against_no_build(self) -> None:
        assert only(machine(), live("torch213-cxx11-cu130-x86_64-linux", version="v2")).issues == ()


class TestGpus:
    def test_each_gpu_without_code_is_named(self) -> None:
        both = seen((gpu("9.0", 0, "H100"), gpu("7.0", 1, "V100")))
        found = only(machine(gpus=both), live(STABLE.format(130)))
        assert [(v.code, v.subject, v.wanted) for v in found.verdicts] == [(VerdictCode.NO_GPU_CODE, "V100", "7.0")]
        assert found.verdicts[0].basis.startswith("derived from the sources")

    def test_without_a_gpu_nothing_runs(self) -> None:
        assert codes(only(machine(gpus=absent("test")), live(STABLE.format(130)))) == [VerdictCode.NO_GPU]

    def test_unknown_gpus_leave_it_open(self) -> None:
        found = only(machine(gpus=unknown("not asked")), live(STABLE.format(130)))
        assert (found.usable, [m.fact for m in found.missing]) == (None, ["gpus"])

    def test_unknown_architectures_leave_it_open(self) -> None:
        found = only(machine(), live(STABLE.format(130), repo="someone/else"))
        assert found.usable is None
        assert "kernel.archs" in [m.fact for m in found.missing]

    def test_a_kernel_that_compiles_itself_runs_until_kernels_checks_its_metadata(self) -> None:
        listing = live("torch213-cxx11-cu130-x86_64-linux", repo="kernels-community/deep-gemm", version="v2")
        before, since = (only(machine(gpus="10.0", kernels=release), listing) for release in ("0.16.0", "0.17.2"))
        assert (codes(before), codes(since)) == ([], [VerdictCode.NO_GPU_CODE])

    def test_a_driver_that_does_not_carry_torch_stops_every_build(self) -> None:
        found = only(machine(driver="535.104.05"), live(STABLE.format(130)))
        assert VerdictCode.DRIVER_TOO_OLD in codes(found)


class TestWhatElseIsNeeded:
    FA4 = live("torch-cuda", repo="kernels-community/flash-attn4", version="v0")

    def test_missing_python_packages_are_named_by_distribution(self) -> None:
        found = only(machine(einops="0.8.1"), self.FA4)
        assert [(v.code, v.wanted) for v in found.verdicts] == [
            (VerdictCode.PYTHON_DEPENDS_MISSING, "apache-tvm-ffi nvidia-cutlass-dsl")
        ]

    def test_packages_that_were_not_listed_leave_it_open(self) -> None:
        partly = replace(machine(), packages=replace(packages(kernels="0.17.2"), complete=False))
        assert only(partly, self.FA4).usable is None

    @pytest.mark.parametrize(
        ("libc", "version", "stops"),
        [("glibc", "2.27", True), ("glibc", "2.28", False), ("musl", "1.2.4", True)],
    )
    def test_the_c_library(self, libc: str, version: str, stops: bool) -> None:
        system = System(os=seen("linux"), machine=seen("x86_64"), libc=seen(libc), libc_version=seen(version))
        found = only(machine(system=system), live(STABLE.format(130)))
        assert (VerdictCode.LIBC_TOO_OLD in codes(found)) is stops

    def test_a_torch_that_runs_settles_an_unknown_c_library(self) -> None:
        system = System(os=seen("linux"), machine=seen("x86_64"), wsl=seen(False))
        assert only(machine(system=system), live(STABLE.format(130))).usable is True

    @pytest.mark.parametrize(("kernels", "reads"), [("0.13.0", True), ("0.14.0", False), ("0.17.2", False)])
    def test_metadata_of_the_first_era(self, kernels: str, reads: bool) -> None:
        old = Version("v1", "", (Build("torch-universal"),), "observed", "2026-03", True)
        found = only(machine(kernels=kernels), Listing(FLASH, "index", "", (old,)))
        assert (VerdictCode.METADATA_UNREADABLE not in codes(found)) is reads


class TestMetadata:
    """What a build says of itself counts before what is derived from sources, also where nothing else is known."""

    THIRD = "someone/thing"

    def of(self, repo: str = THIRD, name: str = STABLE.format(130), **said: Any) -> Listing:
        return live(Build(name, metadata=seen(Metadata("thing", "_thing_cuda_0a1b2c3", 1, **said))), repo=repo)

    @pytest.mark.parametrize(
        ("archs", "usable", "verdicts"), [(("9.0a",), True, []), (("8.0", "12.0"), False, [VerdictCode.NO_GPU_CODE])]
    )
    def test_third_party_builds_get_a_verdict(
        self, archs: tuple[str, ...], usable: bool, verdicts: list[VerdictCode]
    ) -> None:
        found = only(machine(), self.of(archs=archs))
        assert (found.usable, codes(found)) == (usable, verdicts)

    def test_a_list_in_the_metadata_replaces_the_derived_one(self) -> None:
        listing = self.of(FLASH, archs=("7.0",))
        assert codes(only(machine(gpus="7.0"), listing)) == []
        assert only(machine(gpus="9.0"), listing).verdicts[0].basis == "metadata.json"

    def test_compiled_code_without_a_list_is_not_decided(self) -> None:
        found = only(machine(), self.of())
        assert (found.usable, [m.why for m in found.missing]) == (
            None,
            ["its metadata.json names no GPU architectures"],
        )
        assert only(machine(), self.of(name="torch-cuda")).usable is True

    @pytest.mark.parametrize(("gpus", "usable"), [("gfx942", True), ("gfx1100", False), ("", None)])
    def test_amd_gpus_that_are_named(self, gpus: str, usable: bool | None) -> None:
        unseen = machine("2.13.0", unknown("test"))
        named, _ = apply(unseen, Changes("2.13.0", "rocm7.1", [gpus] if gpus else ()), TABLES)
        build = "torch213-cxx11-rocm71-x86_64-linux"
        assert only(named, self.of(name=build, backend="rocm", archs=("gfx90a", "gfx942"))).usable is usable

    @pytest.mark.parametrize(("kernels", "reads"), [("0.13.0", True), ("0.14.0", False), ("0.17.2", False)])
    @pytest.mark.parametrize(
        ("fact", "code"),
        [
            (seen(Metadata(archs=("9.0",), lacks=("name", "id"))), VerdictCode.METADATA_INCOMPLETE),
            (absent("test"), VerdictCode.METADATA_MISSING),
        ],
    )
    def test_what_the_release_cannot_read_stops_it(
        self, kernels: str, reads: bool, fact: Fact[Any], code: VerdictCode
    ) -> None:
        found = only(machine(kernels=kernels), live(Build("torch-cuda", metadata=fact), repo=self.THIRD))
        assert (code not in codes(found)) is reads

    def test_metadata_that_was_read_counts_before_the_date_of_its_era(self) -> None:
        old = replace(self.of(name="torch-cuda").versions[0], how="observed", as_of="2026-03")
        assert codes(only(machine(), Listing(self.THIRD, "index", "", (old,)))) == []

    @pytest.mark.parametrize(("kernels", "stops"), [("0.16.2", False), ("0.17.2", True), ("0.18.0", False)])
    def test_the_minimum_release_counts_where_it_is_enforced(self, kernels: str, stops: bool) -> None:
        found = only(machine(kernels=kernels), self.of(name="torch-cuda", minver="0.18.0"))
        assert (VerdictCode.KERNELS_TOO_OLD in codes(found)) is stops

    def test_names_of_the_builder_become_distributions(self) -> None:
        found = only(machine(), self.of(name="torch-cuda", python_depends=("tvm-ffi", "einops")))
        assert [(v.code, v.wanted) for v in found.verdicts] == [
            (VerdictCode.PYTHON_DEPENDS_MISSING, "apache-tvm-ffi einops")
        ]

    def test_a_commit_is_judged_as_the_version_that_its_metadata_names(self) -> None:
        build = Build(STABLE.format(130), metadata=seen(Metadata("flash-attn2", "_f_cuda_4eec01c", 3)))
        (found,) = judge(machine(gpus="7.0"), live(build, version="f" * 40)).versions
        assert codes(found.candidates[0]) == [VerdictCode.NO_GPU_CODE]


class TestWhatIsSaidOfEachBuild:
    def test_names_that_kernels_does_not_read_are_refused_without_a_reason(self) -> None:
        found = only(machine(), live("garbage--name"))
        assert (found.variant, found.accepted, found.reason, found.usable) == (None, False, None, False)

    def test_an_empty_version_is_of_no_use(self) -> None:
        assert judge(machine(), live()).usable is False

    def test_the_machine_of_a_kernels_that_is_missing_is_judged_by_one_that_transformers_accepts(self) -> None:
        found = judge(machine(kernels="", transformers="5.17.0"), live(STABLE.format(130)))
        assert (found.rules.release, found.kernels_installed) == ("0.16.2", False)

    def test_ten_thousand_variants(self) -> None:
        names = [f"torch-stable-abi2{n}-cu130-x86_64-linux" for n in range(10_000)]
        (found,) = judge(machine(), live(*names)).versions
        assert found.preferred is not None
        assert found.preferred.build.name == "torch-stable-abi213-cu130-x86_64-linux"
        assert len(found.candidates) == 10_000


class TestCache:
    COMMIT = "a" * 40

    def snapshot(self, complete: bool | None, *branches: str) -> CachedKernel:
        return CachedKernel(FLASH, self.COMMIT, branches, (STABLE.format(130),), (), complete)

    @pytest.mark.parametrize(
        ("hub", "complete", "branches", "offline"),
        [
            ("1.33.0", True, ("v3",), True),
            ("1.33.0", False, ("v3",), False),  # huggingface_hub 1.22 and later refuses a part
            ("1.21.0", False, ("v3",), True),
            ("1.33.0", True, (), False),  # fetched by commit: the branch is not found offline
            ("1.33.0", None, ("v3",), None),
        ],
    )
    def test_on_disk_and_whether_that_is_enough_offline(
        self, hub: str, complete: bool | None, branches: tuple[str, ...], offline: bool | None
    ) -> None:
        environment = machine(cached=(self.snapshot(complete, *branches),), huggingface_hub=hub)
        (found,) = judge(environment, live(STABLE.format(130))).versions
        assert (found.cached, found.loads_offline) == (True, offline)

    def test_another_commit_on_disk_does_not_count(self) -> None:
        other = replace(self.snapshot(True), commit="b" * 40)
        (found,) = judge(machine(cached=(other,)), live(STABLE.format(130))).versions
        assert (found.cached, found.loads_offline) == (False, False)

    def test_a_cache_that_was_not_looked_at(self) -> None:
        environment = replace(machine(), huggingface=replace(machine().huggingface, cached_kernels=unknown("test")))
        (found,) = judge(environment, live(STABLE.format(130))).versions
        assert (found.cached, found.loads_offline) == (None, None)
