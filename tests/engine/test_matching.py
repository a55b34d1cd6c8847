"""From rules to findings: certainty, missing facts, remedies, order, folding, scope."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import kerneldoctor.engine.facts  # noqa: F401 - registers the derived facts
from kerneldoctor.engine.case import Case, Kernel, Workload
from kerneldoctor.engine.loading import rule_from_json
from kerneldoctor.engine.matching import judge
from kerneldoctor.engine.model import Rule
from kerneldoctor.environment import (
    Driver,
    Environment,
    Extension,
    Fact,
    FlashAttention,
    Gpu,
    Nvcc,
    Package,
    Packages,
    Toolkit,
    Torch,
    absent,
    known,
    unknown,
)


def rule(identity: str = "KD1001", **fields: Any) -> Rule:
    head: dict[str, Any] = {
        "id": identity, "name": "x", "title": "CUDA {torch.cuda}", "diagnosis": "d", "severity": "error",
        "confidence": "reported", "component": "torch", "added": "2026-12-01", "review_by": "2027-12-01",
        "when": {"fact": "torch.cuda", "in": ">=13"}, **fields,
    }  # fmt: skip
    return rule_from_json(head)


def machine(**facts: Any) -> Environment:
    return Environment(torch=replace(Torch(), **facts))


CUDA13 = machine(cuda=known("13.0", "torch/version.py"))


def test_a_rule_that_holds_is_confirmed_and_names_the_fact_with_its_source() -> None:
    [finding] = judge([rule()], Case(CUDA13)).findings
    assert finding.certainty == "confirmed"
    assert finding.title == "CUDA 13.0"
    assert [(f.fact, f.value, f.source) for f in finding.facts] == [("torch.cuda", "13.0", "torch/version.py")]


def test_a_rule_decided_against_counts_as_checked_and_fine() -> None:
    judgement = judge([rule()], Case(machine(cuda=known("12.8", "t"))))
    assert (judgement.findings, judgement.fine) == ((), ("KD1001",))


def test_half_of_the_facts_make_a_possible_finding_that_names_the_other_half() -> None:
    both = {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "driver.version", "in": "<580"}]}
    [finding] = judge([rule(when=both)], Case(CUDA13)).findings
    assert finding.certainty == "possible"
    assert finding.missing == ("driver.version",)


def test_a_blank_machine_makes_no_possible_finding_but_says_what_is_not_determined() -> None:
    both = {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "driver.version", "in": "<580"}]}
    judgement = judge([rule(when=both)], Case(Environment()))
    assert judgement.findings == ()
    assert judgement.undetermined == {"KD1001": ("torch.cuda", "driver.version")}


def test_a_release_that_no_table_holds_is_not_determined_and_never_fine() -> None:
    about = {"fact": "transformers.accepts_kernels", "is": False}
    packages = {
        name: Package(version=known(v, "METADATA")) for name, v in (("transformers", "9.0"), ("kernels", "1.0"))
    }
    judgement = judge([rule(when=about)], Case(Environment(packages=Packages(packages, True, "t"))))
    assert judgement.fine == ()
    assert judgement.undetermined == {"KD1001": ("transformers.accepts_kernels",)}


def test_rules_about_a_kernel_or_workload_wait_until_one_is_named() -> None:
    about = {"all": [{"fact": "kernel.build_id", "is": "48628c8"}, {"fact": "workload.backward", "is": True}]}
    rules = [rule(when=about)]
    assert judge(rules, Case(CUDA13)).out_of_scope == ("KD1001",)
    kernel = replace(Kernel(), build_id=known("48628c8", "t"))
    [finding] = judge(rules, Case(CUDA13, kernel=kernel, workload=Workload())).findings
    assert finding.certainty == "possible"
    assert finding.missing == ("workload.backward",)


def test_a_rule_for_each_gpu_names_the_gpu() -> None:
    gpus = tuple(
        replace(Gpu(), index=known(i, "NVML"), name=known(n, "NVML"), compute_capability=known(c, "NVML"))
        for i, (n, c) in enumerate([("T4", "7.5"), ("H200", "9.0")])
    )
    env = Environment(gpus=known(gpus, "NVML"))
    old = rule(each="gpus", when={"fact": "gpu.compute_capability", "in": "<8"}, title="{gpu.name} is too old")
    [finding] = judge([old], Case(env)).findings
    assert (finding.subject, finding.title) == ("GPU 0: T4", "T4 is too old")
    assert judge([old], Case(Environment(gpus=absent("no GPU")))).fine == ("KD1001",)
    judgement = judge([old], Case(Environment(gpus=unknown("NVML hung"))))
    assert judgement.undetermined == {"KD1001": ("gpu.compute_capability",)}
    assert judgement.reasons == {"gpu.compute_capability": "NVML hung"}  # of an item, the reason of its list


@pytest.mark.parametrize(
    ("index", "subject"), [(known(1, "NVML"), "GPU 1"), (unknown("NVML stopped"), "")], ids=["1", "none"]
)
def test_a_gpu_without_a_name_is_still_called_something(index: Fact[int], subject: str) -> None:
    gpu = replace(Gpu(), index=index, name=unknown("NVML stopped"), compute_capability=known("7.5", "PCI"))
    old = rule(each="gpus", when={"fact": "gpu.compute_capability", "in": "<8"}, title="{gpu.name} is too old")
    [finding] = judge([old], Case(Environment(gpus=known((gpu,), "NVML")))).findings
    assert (finding.subject, finding.title) == (subject, f"{subject or 'this GPU'} is too old")


def test_why_a_derived_fact_is_unknown_is_told() -> None:
    packages = {
        name: Package(version=known(v, "METADATA")) for name, v in (("transformers", "5.17.0"), ("kernels", "9"))
    }
    env = Environment(packages=Packages(packages, True, "site-packages"))
    table = {"kernels": ({"version": "0.1.0", "source": "s"},), "transformers": ({"version": "5.17.0", "source": "s"},)}
    judgement = judge([rule(when={"fact": "kernels.repo_type", "is": "model"})], Case(env, table))
    assert judgement.undetermined == {"KD1001": ("kernels.repo_type",)}
    assert "newer than the newest release known here" in judgement.reasons["kernels.repo_type"]


def test_names_of_facts_may_hold_digits_and_lists_of_things_are_counted() -> None:
    env = Environment(
        torch=replace(Torch(), cuda=known("13.0", "t"), archs=known(("8.0", "9.0"), "t")),
        flash_attn_4=FlashAttention(version=known("4.0.0b3", "METADATA")),
        toolkit=Toolkit(nvccs=known((Nvcc("/a", "12.8"), Nvcc("/b", "13.0")), "PATH")),
    )
    text = "{flash_attn_4.version} for {torch.archs} with {toolkit.nvccs}"
    [finding] = judge([rule(diagnosis=text)], Case(env)).findings
    assert finding.diagnosis == "4.0.0b3 for 8.0, 9.0 with 2 nvccs"


def test_an_extension_is_named_by_its_module() -> None:
    broken = replace(Extension("flash_attn_2_cuda"), problem=known("empty", "stat"))
    env = Environment(extensions=known((broken,), "files"))
    [finding] = judge([rule(each="extensions", when={"fact": "extension.problem", "is": "empty"})], Case(env)).findings
    assert finding.subject == "flash_attn_2_cuda"


def test_only_remedies_that_suit_the_machine_are_given_the_certain_ones_first() -> None:
    remedies = [
        {"title": "doubtful", "when": {"fact": "python.version", "in": ">=3.12"}, "command": "a"},
        {"title": "wrong", "when": {"fact": "torch.cuda", "in": "<13"}, "command": "b"},
        {"title": "right", "when": {"fact": "torch.cuda", "in": ">=13"}, "command": "pip install x=={torch.cuda}"},
    ]
    [finding] = judge([rule(remedy=remedies)], Case(CUDA13)).findings
    assert [(r.title, r.command, r.certain) for r in finding.remedies] == [
        ("right", "pip install x==13.0", True),
        ("doubtful", "a", False),
    ]


@pytest.mark.parametrize("text", ["title", "command", "snippet", "pin"])
@pytest.mark.parametrize("fact", ["driver.version", "torch.hip"])
def test_a_remedy_that_lacks_a_fact_is_not_given(text: str, fact: str) -> None:
    """Nobody can type `pip install (unknown)`."""
    environment = Environment(torch=Torch(cuda=known("13.0", "t"), hip=absent("t")))
    remedies = [{"title": "mend", text: f"mend it with {{{fact}}}"}, {"title": "live with it"}]
    [finding] = judge([rule(remedy=remedies)], Case(environment)).findings
    assert [r.title for r in finding.remedies] == ["live with it"]


def test_what_only_accompanies_a_remedy_is_left_out_where_it_lacks_a_fact() -> None:
    remedy = {
        "title": "mend",
        "command": "mend",
        "verify": "see {driver.version}",
        "undo": "go back to {driver.version}",
        "note": "It takes long. The driver is {driver.version}. CUDA is {torch.cuda}.",
    }
    [finding] = judge([rule(remedy=[remedy])], Case(CUDA13)).findings
    [told] = finding.remedies
    assert (told.verify, told.undo, told.note) == ("", "", "It takes long. CUDA is 13.0.")


def test_worst_first_and_a_consequence_after_its_cause() -> None:
    rules = [
        rule("KD1003", severity="info"),
        rule("KD1004", severity="error"),
        rule("KD1005", severity="error", explains=["KD1004"]),
        rule("KD1002", severity="warning"),
    ]
    findings = judge(rules, Case(CUDA13)).findings
    assert [f.rule for f in findings] == ["KD1005", "KD1004", "KD1002", "KD1003"]
    assert findings[1].explained_by == "KD1005"


def test_a_cause_that_is_only_possible_does_not_hide_a_confirmed_consequence() -> None:
    both = {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "driver.version", "in": "<580"}]}
    rules = [rule("KD1005", when=both, explains=["KD1004"]), rule("KD1004")]
    findings = judge(rules, Case(CUDA13)).findings
    assert {f.rule: f.explained_by for f in findings} == {"KD1004": "", "KD1005": ""}


def test_a_package_that_a_complete_listing_lacks_is_absent_and_else_unknown() -> None:
    needs = rule(when={"fact": "packages.kernels.version", "present": False})
    listed = {"numpy": Package(version=known("2.4", "METADATA"))}
    [finding] = judge([needs], Case(Environment(packages=Packages(listed, True, "site-packages")))).findings
    assert finding.certainty == "confirmed"
    assert judge([needs], Case(Environment(packages=Packages(listed, False, "a log")))).findings == ()


def test_a_withdrawn_rule_is_silent() -> None:
    assert judge([rule(withdrawn="2026-12-01")], Case(CUDA13)).findings == ()


def test_an_unknown_fact_in_a_text_reads_so() -> None:
    [finding] = judge([rule(diagnosis="driver {driver.version}, {torch.hip}")], Case(
        Environment(torch=replace(Torch(), cuda=known("13.0", "t"), hip=absent("t")), driver=Driver())
    )).findings  # fmt: skip
    assert finding.diagnosis == "driver (unknown), (none)"


def test_a_title_that_may_hold_leaves_out_what_is_not_known() -> None:
    both = {"all": [{"fact": "torch.cuda", "in": ">=13"}, {"fact": "driver.version", "in": "<580"}]}
    [finding] = judge(
        [rule(when=both, title="The driver {driver.version} is too old for {torch.cuda}")], Case(CUDA13)
    ).findings
    assert finding.title == "The driver is too old for 13.0"
