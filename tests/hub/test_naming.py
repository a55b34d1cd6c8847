"""What a name means for a transformers release, step by step, and how that changed over the releases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerneldoctor.environment import Environment, FlashAttention, HuggingFace, absent
from kerneldoctor.hub.naming import Meaning, StepCode, meaning
from kerneldoctor.hub.reference import parse_reference
from kerneldoctor.report.naming import conclusion, step_text

from .machines import FLASH, TABLES, machine, seen

MISSING = FlashAttention(*[absent("test")] * 8)


def stack(transformers: str, kernels: str, torch: str = "2.13.0+cu130", hub: str = "1.33.0") -> Environment:
    environment = machine(torch, transformers=transformers, kernels=kernels, huggingface_hub=hub)
    return replace(environment, flash_attn=MISSING, flash_attn_3=MISSING, flash_attn_4=MISSING)


def follow(name: str, environment: Environment) -> Meaning:
    return meaning(parse_reference(name), environment, TABLES)


def codes(found: Meaning) -> list[StepCode]:
    return [step.code for step in found.steps]


class TestFlashAttention:
    @pytest.mark.parametrize(
        ("transformers", "kernels", "torch", "name"),
        [
            ("5.12.1", "0.14.1", "2.11.0+cu128", f"{FLASH}@main"),
            ("5.13.0", "0.15.2", "2.11.0+cu128", f"{FLASH}@v1"),
            ("5.16.1", "0.16.2", "2.11.0+cu128", f"{FLASH}@v3"),
            ("5.22.2", "0.17.2", "2.9.1+cu128", f"{FLASH}@v3"),
            ("5.22.2", "0.17.2", "2.10.0+cu128", f"{FLASH}@v4"),
            ("5.22.2", "0.17.2", "2.10.0.dev20251101+cu128", f"{FLASH}@v4"),
        ],
    )
    def test_the_default_moves_with_transformers_and_torch(
        self, transformers: str, kernels: str, torch: str, name: str
    ) -> None:
        found = follow("flash_attention_2", stack(transformers, kernels, torch))
        assert (found.source, found.name) == ("hub", name)
        assert found.works

    def test_the_package_comes_first_and_the_kernel_is_named_all_the_same(self) -> None:
        package = FlashAttention(seen("2.8.3"), seen("flash-attn"), kind=seen("complete"))
        found = follow("flash_attention_2", replace(stack("5.21.1", "0.17.2"), flash_attn=package))
        assert (found.source, found.name) == ("package", f"{FLASH}@v3")
        assert StepCode.NO_PACKAGE not in codes(found)

    def test_with_rocm_another_repository_takes_its_place(self) -> None:
        environment = stack("5.22.2", "0.17.2", "2.13.0")
        rocm = replace(environment.torch, backend=seen("rocm"), hip=seen("7.1"))
        found = follow("flash_attention_2", replace(environment, torch=rocm))
        assert found.name == "kernels-community/aiter-flash-attn@v2"
        assert found.steps[-1].fields["condition"] == "v2"

    def test_a_kernels_outside_the_range_counts_as_missing(self) -> None:
        found = follow("flash_attention_2", stack("5.16.1", "0.17.2"))
        refused = next(step for step in found.steps if step.code is StepCode.KERNELS_REFUSED)
        assert (found.source, found.works, found.name) == ("none", False, f"{FLASH}@v3")
        assert (refused.fields["range"], refused.fields["fits"]) == (">=0.16.0,<0.17.0", "kernels==0.16.2")

    def test_where_huggingface_hub_must_change_too_it_is_named(self) -> None:
        found = follow("flash_attention_2", stack("5.16.1", "0.17.2", hub="2.4.0"))
        refused = next(step for step in found.steps if step.code is StepCode.KERNELS_REFUSED)
        assert refused.fields["fits"].startswith("kernels==0.16.2 huggingface_hub==1.")

    def test_a_range_that_no_listed_release_meets_is_dated_and_a_set_that_works_is_named(self) -> None:
        found = follow("flash_attention_2", stack("5.24.0", "0.17.2", hub="2.4.0"))
        text = [step_text(step) for step in found.steps]
        assert "no release in that range was listed on 2026-12-01" in text[2]
        assert "transformers==5.22.2 kernels==0.17.2" in text[3]

    def test_model_classes_that_do_not_import_stop_everything(self) -> None:
        found = follow("flash_attention_2", stack("5.12.1", "0.17.2"))
        assert StepCode.IMPORT_FAILS in codes(found)
        assert found.works is False
        assert "do not import" in conclusion(found)

    def test_before_4_56_nothing_took_its_place(self) -> None:
        found = follow("flash_attention_2", stack("4.55.4", "0.9.0"))
        assert (found.source, found.repo) == ("none", "")
        assert StepCode.NO_REPLACEMENT in codes(found)

    @pytest.mark.parametrize("release", ["5.25.0.dev0", "6.0.0"])
    def test_a_release_that_is_not_known_is_not_guessed(self, release: str) -> None:
        found = follow("flash_attention_2", stack(release, "0.17.2"))
        assert (found.source, found.works, found.revision) == ("unknown", None, "")
        assert StepCode.TRANSFORMERS_UNKNOWN in codes(found)

    def test_without_transformers_the_chain_ends_there(self) -> None:
        found = follow("flash_attention_2", stack("", "0.17.2"))
        assert (found.source, found.works) == ("unknown", None)

    def test_the_switch_that_people_try_does_not_reach_it(self) -> None:
        off = replace(stack("5.21.1", "0.17.2"), huggingface=HuggingFace(use_hub_kernels=seen(False)))
        assert StepCode.SWITCH_WITHOUT_EFFECT in codes(follow("flash_attention_2", off))

    def test_the_eras_follow_each_other_and_hold_every_release(self) -> None:
        eras = follow("flash_attention_2", machine()).eras
        assert (eras[0].first, eras[0].repo) == ("4.55.0", "")
        assert [e.version for e in eras if e.repo == FLASH] == [
            "main", "main", "v1", "v1", "v3", "v3", "v3",
            "v4 from torch 2.10 on, else v3", "v4 from torch 2.10 on, else v3",
        ]  # fmt: skip
        assert eras[-1].last == TABLES["transformers"][-1]["version"]


class TestRepositories:
    @pytest.mark.parametrize(
        ("name", "transformers", "revision"),
        [
            (f"{FLASH}@v2", "5.22.2", "v2"),
            (FLASH, "5.22.2", "v4"),
            (FLASH, "5.16.1", "v3"),
            (FLASH, "5.12.1", "main"),
            ("kernels-community/flash-attn4", "5.16.1", "v0"),  # by the 4 in its name
            ("someone/my-flash-4", "5.16.1", "v0"),
            ("someone/my-flash-4", "5.22.2", "v1"),  # by name no longer
            ("kernels-community/relu", "5.22.2", "v1"),
        ],
    )
    def test_which_revision_is_taken(self, name: str, transformers: str, revision: str) -> None:
        assert follow(name, stack(transformers, "0.17.2")).revision == revision

    def test_which_version_is_taken_is_unknown_without_transformers(self) -> None:
        found = follow(FLASH, stack("", "0.17.2"))
        assert (found.revision, found.works) == ("", None)

    def test_a_version_that_hangs_on_an_unknown_torch_is_unknown(self) -> None:
        without = replace(stack("5.22.2", "0.17.2"), torch=Environment().torch)
        assert follow(FLASH, without).revision == ""

    def test_the_old_prefix_is_taken_off_with_a_warning_since_5_19(self) -> None:
        assert StepCode.PAGED_WARNS in codes(follow(f"paged|{FLASH}", stack("5.24.0", "0.17.2")))
        assert StepCode.PAGED_WARNS in codes(follow(f"paged|{FLASH}", stack("5.19.0", "0.17.2")))
        assert StepCode.PAGED_WARNS not in codes(follow(f"paged|{FLASH}", stack("5.18.0", "0.17.2")))

    @pytest.mark.parametrize(
        ("name", "transformers", "kernels", "works"),
        [
            (FLASH, "5.24.0", "0.17.2", False),  # outside its range: ImportError for a named kernel as well
            (f"{FLASH}@v9", "5.24.0", "0.17.2", False),
            (f"paged|{FLASH}:f", "5.24.0", "0.17.2", False),
            ("none/none", "5.22.2", "0.18.2", False),
            (FLASH, "5.22.2", "", False),
            (f"{FLASH}@v3", "5.22.2", "0.17.2", True),
            (f"{FLASH}@v3", "", "0.17.2", None),  # what would load it is not there
            ("none/none@abc", "9.9", "0.17.2", None),
        ],
    )
    def test_what_transformers_refuses_is_refused_for_a_named_kernel_too(
        self, name: str, transformers: str, kernels: str, works: bool | None
    ) -> None:
        found = follow(name, stack(transformers, kernels))
        assert found.works is works
        assert ("would load" in conclusion(found)) is bool(works)

    @pytest.mark.parametrize("name", ["flash_attention_2", FLASH])
    @pytest.mark.parametrize(
        ("transformers", "kernels", "demanded"),
        [
            ("4.57.6", "0.17.2", True),
            ("5.12.1", "0.15.1", True),
            ("5.12.1", "0.14.1", False),
            ("5.13.0", "0.15.2", False),
        ],
    )
    def test_kernels_demands_a_version_that_older_transformers_do_not_name(
        self, name: str, transformers: str, kernels: str, demanded: bool
    ) -> None:
        found = follow(name, stack(transformers, kernels, "2.11.0+cu128"))
        assert (StepCode.VERSION_DEMANDED in codes(found)) is demanded
        assert found.works is not demanded


def test_builtin_attention_loads_no_kernel() -> None:
    found = follow("sdpa", machine())
    assert (found.source, found.works) == ("builtin", True)


@pytest.mark.parametrize("transformers", ["", "4.55.4", "4.57.6", "5.12.1", "5.16.1", "5.22.2", "5.24.0", "9.9"])
@pytest.mark.parametrize("name", ["flash_attention_2", "flash_attention_3", "flash_attention_4", FLASH, "sdpa"])
def test_every_step_has_words(name: str, transformers: str) -> None:
    found = follow(name, stack(transformers, "0.17.2"))
    assert conclusion(found)
    for step in found.steps:
        assert "{" not in step_text(step)
