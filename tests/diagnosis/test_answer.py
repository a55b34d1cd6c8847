"""What an answer is made of: certainty, order, lines, what to ask for, and what is dropped."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldoctor.diagnosis.answer import Diagnosis, diagnose_text

SYMBOL = (
    "ImportError: /env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: "
    "undefined symbol: _ZN3c104cuda9SetDeviceEi"
)
DRIVER = "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 12040)."


def rules(diagnosis: Diagnosis) -> list[str]:
    return [answer.finding.rule for answer in diagnosis.answers]


def test_words_and_facts_together_are_confirmed_and_show_their_lines() -> None:
    found = diagnose_text(f"torch: 2.13.0+cu130\nUbuntu 22.04\n\n{DRIVER}\n")
    best = found.answers[0]
    assert (best.finding.rule, best.finding.certainty, best.basis) == ("KD1001", "confirmed", "text and facts")
    assert 4 in [line.number for line in best.lines]
    assert best.ask is None


def test_facts_alone_are_enough_where_they_are_certain() -> None:
    found = diagnose_text("RTX 5090, torch 2.5.1+cu121, Linux x86_64. Nothing works.")
    assert (rules(found)[0], found.answers[0].basis) == ("KD4005", "facts")
    assert found.answers[0].finding.certainty == "confirmed"


def test_words_that_others_write_too_are_possible_and_say_what_would_settle_it() -> None:
    found = diagnose_text("RuntimeError: FlashAttention only supports Ampere GPUs or newer.")
    best = found.answers[0]
    assert best.finding.certainty == "possible"
    assert best.ask is not None
    assert "gpu.compute_capability" in best.ask.facts
    assert found.ask == best.ask


def test_a_rule_that_the_facts_deny_is_dropped_and_named() -> None:
    text = (
        "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\nGPU: NVIDIA A100-SXM4-80GB\nflash-attn 2.8.3"
    )
    found = diagnose_text(text)
    assert "KD2020" not in rules(found)
    assert "KD2020" in [refuted.rule for refuted in found.refuted]


def test_a_cause_stands_before_its_consequence() -> None:
    text = (
        "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the "
        "package for FlashAttention2 doesn't seem to be installed.\ntransformers==5.17.0\nkernels==0.17.2\n"
    )
    found = diagnose_text(text)
    assert rules(found)[:2] == ["KD5001", "KD9504"]
    assert found.answers[1].finding.explained_by == "KD5001"


def test_the_copy_of_flash_attention_is_told_by_its_path() -> None:
    text = "RuntimeError: FlashAttention only supports Ampere GPUs or newer.\nException raised from mha_fwd at {}:370"
    own = diagnose_text(text.format("/root/csrc/flash_attn/flash_api.cpp"))
    bundled = diagnose_text(text.format(r"C:\a\xformers\third_party\flash-attention\csrc\flash_attn\flash_api.cpp"))
    assert rules(own)[0] == "KD2020"
    assert rules(bundled) == ["KD2028"]


@pytest.mark.parametrize(
    "text",
    [
        f"I no longer get `{SYMBOL}` since I reinstalled it.",
        f"If you see `{SYMBOL}`, reinstall flash-attn.",
    ],
)
def test_a_message_that_is_only_spoken_of_confirms_nothing(text: str) -> None:
    assert all(answer.finding.certainty == "possible" for answer in diagnose_text(text).answers)
    assert diagnose_text(SYMBOL).answers[0].finding.certainty == "confirmed"


def test_no_remedy_lacks_a_fact_that_its_command_needs() -> None:
    for answer in diagnose_text(SYMBOL).answers:
        assert all("(unknown)" not in a.command + a.snippet + a.pin for a in answer.finding.remedies)
        assert "(unknown)" not in answer.finding.title


def test_a_remedy_for_another_torch_is_not_offered() -> None:
    text = (
        'RuntimeError: torch_call_dispatcher( "aten::sum", "IntList_out") API call failed\n'
        "kernels-community/flash-attn2@v3 in training, torch: {}, 14 query heads, 2 KV heads"
    )
    pins = {
        torch: str(diagnose_text(text.format(torch)).answers[0].finding.remedies)
        for torch in ("2.13.0+cu130", "2.10.0+cu128")
    }
    assert "0510be1e482269a46fadf30069aca3ede496ff9b" in pins["2.13.0+cu130"]
    assert "0510be1e482269a46fadf30069aca3ede496ff9b" not in pins["2.10.0+cu128"]


def test_the_official_wheel_is_named_where_the_report_gives_only_releases() -> None:
    found = diagnose_text(f"Ubuntu 22.04, Python 3.10, RTX 3090, torch 2.7.1+cu126, flash-attn 2.8.3\n{SYMBOL}")
    remedies = found.answers[0].finding.remedies
    assert "torch2.7cxx11abiTRUE-cp310" in remedies[0].command
    assert not any("(unknown)" in str(remedy) or "official wheel fits" in remedy.title for remedy in remedies)


def test_where_nothing_is_known_nothing_is_guessed() -> None:
    found = diagnose_text("It worked last week. torch 2.8.0, H100. Any idea?")
    assert not found.determined
    assert found.ask is not None


def test_several_gpus_of_one_kind_are_one_answer() -> None:
    gpus = "\n".join(f"GPU {i}: NVIDIA GeForce RTX 5090" for i in range(4))
    text = f"PyTorch version: 2.5.1+cu121\nCUDA used to build PyTorch: 12.1\nGPU models and configuration: {gpus}\n"
    found = diagnose_text(text)
    assert rules(found).count("KD4005") == 1
    assert len(found.answers[0].subjects) == 4


def test_two_torch_versions_are_reported_as_a_contradiction() -> None:
    found = diagnose_text("torch version: 2.6.0+cu124\nflash-attn 2.8.3\ntorch.__version__: 2.9.1+cu128\n")
    assert "torch.version" in [contradiction.path for contradiction in found.contradictions]


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=400), st.binary(max_size=400)))
def test_no_text_makes_it_fail(text: str | bytes) -> None:
    diagnose_text(text)


def test_a_shown_crash_is_an_error_and_a_mere_risk_is_not() -> None:
    crash = diagnose_text("ptxas fatal : Value 'sm_120' is not defined for option 'gpu-name'").answers[0]
    assert (crash.finding.rule, crash.finding.severity) == ("KD6004", "error")


def test_a_confirmed_answer_without_a_remedy_asks_for_what_the_remedy_lacks() -> None:
    found = diagnose_text("libcudart.so.13: cannot open shared object file\nimport vllm._C")
    assert found.answers[0].finding.remedies or found.answers[0].ask is not None


def test_no_remedy_types_a_name_that_is_not_known() -> None:
    found = diagnose_text(
        "kernels/utils.py in install_kernel\nLocalEntryNotFoundError: outgoing traffic has been disabled"
    )
    assert found.answers[0].finding.rule == "KD3011"
    assert all("the kernel" not in advice.command for advice in found.answers[0].finding.remedies)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Error 802: system not yet initialized, 8 x H100", "systemctl status nvidia-fabricmanager"),
        ("something hangs", "torch.utils.collect_env"),
    ],
)
def test_what_to_ask_for_is_at_hand(text: str, command: str) -> None:
    ask = diagnose_text(text).ask
    assert ask is not None
    assert command in ask.command


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("On my laptop (RTX 2060) I get: RuntimeError: only supports Ampere GPUs or newer.", "gpu", "RTX 2060"),
        ("Windows 11, torch 2.7.0+cu128. `pip install flash-attn` fails", "torch.version", "2.7.0+cu128"),
        ("torch 2.9.1+cu130, pilote 535.183.01, trop ancien", "driver.version", "535.183.01"),
        ("драйвер 470.256, torch 2.8.0", "driver.version", "470.256"),
        ("build/torch28-cxx11-cu128-x86_64-linux/a.so fails\ntorch 2.9.1+cu128", "torch.version", "2.9.1+cu128"),
    ],
)
def test_facts_beside_a_message_or_in_another_language(text: str, path: str, value: str) -> None:
    environment = diagnose_text(text).environment
    if path == "gpu":
        assert [gpu.name.value for gpu in environment.gpus.value or ()] == [value]
    else:
        assert environment.fact(path).value == value


def test_random_bytes_have_no_facts() -> None:
    noise = bytes((i * 7919 + i // 3 * 104729) % 256 for i in range(60_000))
    assert diagnose_text(noise + b"\nL4 \xff\xfe\xfd\n").environment.gpus.is_unknown


def test_utf_16_of_either_order_is_read_without_a_mark() -> None:
    for coding in ("utf-16-le", "utf-16-be"):
        assert rules(diagnose_text(DRIVER.encode(coding)))[0] == "KD1001"
