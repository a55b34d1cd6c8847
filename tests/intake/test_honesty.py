"""What a text only mentions is no fact; what contradicts itself is said; several machines are kept apart."""

from __future__ import annotations

import pytest

from kerneldoctor.intake import Source, read

from .printers import GPUS, Machine, collect_env, nvidia_smi, pip_list

HERE = Machine(
    torch="2.9.1", cuda="12.8", gpu=GPUS[0], gpus=1, driver="570.133.20", driver_cuda="12.8", python="3.12.11",
    flash_attn="2.8.3", kernels="0.16.0", transformers="5.16.1", hub="1.20.0",
)  # fmt: skip
THERE = Machine(
    torch="2.8.0", cuda="12.6", gpu=GPUS[2], gpus=1, driver="550.54.15", driver_cuda="12.4", python="3.11.9",
    flash_attn=None, kernels="0.12.0", transformers="4.57.0", hub="0.36.0",
)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "It works on torch 2.8 with the same script.",
        "Should I upgrade to torch 2.10?",
        "I tried torch 2.7 and 2.8.",
        "This needs torch 2.9 or newer.",
        "torch >= 2.8 is required",
        "The wheel was built for torch 2.8.",
        "If you use torch 2.6 this does not happen.",
        "Before the update I was on torch 2.7.",
        "torch 2.8, 2.9 and 2.10 all show it",
        "Does anyone have it running with torch 2.9?",
        "I switched to torch 2.6 and it went away.",
        "pip install torch==2.6 would be a solution",
        "ImportError: this module needs torch==2.6",
        "does it work with torch 2.9?",
        "Is an RTX 4090 with torch 2.8 supported, or only H100?",
        "With torch 2.9, would it work?",
        "After downgrading to torch 2.7 everything is ok.",
        "No such issue on H100 (torch 2.9.1).",
        "Same code with torch 2.8 ran for weeks.",
    ],
)
def test_a_version_that_is_asked_about_tried_or_required_is_not_this_machines(text: str) -> None:
    pasted = read(text)
    assert pasted.environment.fact("torch.version").is_unknown
    assert all(s.source >= Source.ASKED for s in pasted.sightings if s.path == "torch.version")


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("RTX 5090, cu128, torch 2.9 nightly, py3.12", "torch.version", "2.9"),
        ("RTX 5090, cu128, torch 2.9 nightly, py3.12", "torch.cuda", "12.8"),
        ("RTX 5090, cu128, torch 2.9 nightly, py3.12", "python.version", "3.12"),
        ("It crashes on an H100 with driver 550.54.", "driver.version", "550.54"),
        ("I am on Ubuntu 22.04 and Python 3.11.4.", "system.distribution", "Ubuntu 22.04"),
        ("python 3.10.18\ncuda 12.8\ntorch 2.8.0+cu128\nflash-attn 2.8.3\n", "flash_attn.version", "2.8.3"),
        ("It works on torch 2.8 but fails with torch 2.9.1.", "torch.version", "2.9.1"),
        ("Running in WSL2 here.", "system.wsl", True),
        ("I installed torch 2.3.0+cu121 and all other requirements.", "torch.cuda", "12.1"),
        ("Google Colab, T4", "system.notebook", "colab"),
        ("we train on 8x H200 with flash-attn 2.7.4.post1", "packages.flash-attn.version", "2.7.4.post1"),
        ("Torch is 2.7.1, glibc 2.28", "system.libc_version", "2.28"),
        ("I have an RTX 4090 with torch 2.8, cu126, why does it fail?", "torch.cuda", "12.6"),
        ("On H100 with torch 2.8.0 I get an ImportError, what's wrong?", "torch.version", "2.8.0"),
        ("RTX 4090, torch 2.8, cu126. Any idea?", "torch.cuda", "12.6"),
        ("Why does flash-attn 2.8.3 fail on my RTX 5090 with torch 2.7.1?", "torch.version", "2.7.1"),
        ("With torch 2.7.4 the loss is normal, with torch 2.8.3 it is NaN.", "torch.version", "2.8.3"),
        ("Using torch 2.9.1 + transformers 5.2, is this expected?", "torch.version", "2.9.1"),
    ],
)
def test_a_plain_statement_is_taken(text: str, path: str, value: object) -> None:
    assert read(text).environment.fact(path).value == value


def test_a_tools_report_outweighs_a_sentence_and_the_contradiction_is_kept() -> None:
    pasted = read("I use torch 2.8.\n\n" + pip_list(HERE)[0])
    assert pasted.environment.fact("packages.torch.version").value == "2.9.1+cu128"
    pasted = read("I use torch 2.8.\n\n" + collect_env(HERE)[0])
    assert pasted.environment.fact("torch.version").value == "2.9.1+cu128"
    (contradiction,) = [c for c in pasted.contradictions if c.path == "torch.version"]
    assert [s.value for s in contradiction.values] == ["2.9.1+cu128", "2.8"]
    assert "a tool's report" in contradiction.reason
    assert "a sentence" in contradiction.reason


def test_less_exact_values_are_no_contradiction() -> None:
    pasted = read("H100, torch 2.9, Python 3.12, driver 570\n\n" + collect_env(HERE)[0])
    assert pasted.contradictions == ()
    assert pasted.environment.fact("torch.version").value == "2.9.1+cu128"
    assert pasted.environment.fact("python.version").value == "3.12.11"


def test_sentences_that_disagree_settle_nothing() -> None:
    assert read("torch 2.8 here.\n\nOn my desk torch 2.9 is used.").environment.fact("torch.version").is_unknown


def test_two_equal_reports_of_two_machines_are_kept_apart() -> None:
    pasted = read(collect_env(HERE)[0] + "\n" + collect_env(THERE)[0])
    assert pasted.machines == 2
    assert pasted.environment.fact("torch.version").value == "2.9.1+cu128"
    assert pasted.environment.fact("driver.version").value == "570.133.20"
    assert {c.path for c in pasted.contradictions} >= {"torch.version", "driver.version"}


def test_the_failing_machine_is_the_one_that_is_read() -> None:
    text = f"Working machine:\n\n{collect_env(THERE)[0]}\nBroken machine:\n\n{collect_env(HERE)[0]}"
    pasted = read(text)
    assert pasted.environment.fact("torch.version").value == "2.9.1+cu128"
    assert pasted.environment.gpus.value[0].name.value == "NVIDIA H100 80GB HBM3"  # type: ignore[index]


def test_someone_elses_comment_is_another_machine() -> None:
    text = (
        f"alice opened this issue on Aug 3\n\n{collect_env(HERE)[0]}\n\nbob commented on Aug 4\n\n"
        f"Same here.\n{collect_env(THERE)[0]}\n\nalice commented on Aug 5\n\n{nvidia_smi(HERE)[0]}"
    )
    pasted = read(text)
    assert pasted.environment.fact("torch.version").value == "2.9.1+cu128"
    assert pasted.environment.fact("driver.cuda").value == "12.8"
    assert pasted.machines == 2


def test_one_machine_reported_twice_is_one() -> None:
    pasted = read(collect_env(HERE)[0] + "\n" + collect_env(HERE)[0])
    assert pasted.machines == 1
    assert pasted.contradictions == ()


def test_a_filtered_or_cut_list_is_not_whole() -> None:
    whole = pip_list(HERE)[0]
    assert read(whole).environment.packages.complete
    assert not read("$ pip list | grep -v xformers\n" + whole).environment.packages.complete
    lines = whole.splitlines()
    assert not read("\n".join([*lines[:9], "...", *lines[-3:]])).environment.packages.complete
    assert not read("\n".join(lines[:7]) + "\n...\n").environment.packages.complete


def test_the_cuda_that_a_driver_offers_is_not_taken_for_torchs() -> None:
    environment = read("RTX 4090, driver 580.95.05, CUDA 13.0, torch 2.9.1").environment
    assert environment.fact("driver.cuda").value == "13.0"
    assert environment.fact("torch.cuda").is_unknown
    assert read("torch 2.8, CUDA 12.6").environment.fact("torch.cuda").value == "12.6"
    assert read("torch 2.8, nvcc says CUDA 12.6").environment.fact("torch.cuda").is_unknown


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My RTX 4090 gives an illegal memory access. On A100 it trains.", "RTX 4090"),
        ("Crash on RTX 3090. On my H100 box it's fine.", "RTX 3090"),
        ("A100 trains fine, L40S gives NaN.", "L40S"),
        ("My laptop (RTX 3070) trains OK; the server (H100) throws this", "H100"),
        ("8xH100 SXM5 node", "H100 SXM5"),
        ("I have a 4090.", "RTX 4090"),
        ("my rtx 3080ti", "rtx 3080ti"),
        ("2x A100-80GB", "A100-80GB"),
    ],
)
def test_gpus_are_known_by_what_people_call_them(text: str, name: str) -> None:
    (gpu,) = read(text).environment.gpus.value or ()
    assert gpu.name.value == name
