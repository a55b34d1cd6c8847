"""Nothing private survives, and what is not private does."""

from __future__ import annotations

import json
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kerneldoctor
from kerneldoctor.environment import Environment, known
from kerneldoctor.report.console import Style, render
from kerneldoctor.report.redact import (
    Identity,
    Redactor,
    captured_variable,
    identity_from,
    redact_capture,
    redact_json,
    redact_value,
)
from tests.report.samples import BROKEN, HEALTHY, make_report

ALICE = Identity(users=("alice",), hosts=("gpu-17.corp.example", "gpu-17"), homes=("/home/alice", "/mnt/nfs/u/alice"))
redact = Redactor(ALICE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/venv/bin/python", "~/venv/bin/python"),
        ("/home/alice", "~"),
        ("see /home/alice.", "see ~."),
        ("PATH=/home/alice/bin:/usr/bin", "PATH=~/bin:/usr/bin"),
        ("/home/alice2/venv", "/home/<user>/venv"),
        ("/home/bob/venv", "/home/<user>/venv"),
        ("C:\\Users\\Bob\\venv", "C:\\Users\\<user>\\venv"),
        ("/Users/bob", "/Users/<user>"),
        ("/home/ubuntu/venv", "/home/ubuntu/venv"),
        ("/mnt/nfs/u/alice/x", "~/x"),
        ("/scratch/alice/cache", "/scratch/<user>/cache"),
        ("/tmp/pip-alice_x", "/tmp/pip-<user>_x"),
        ("Alice and alice@gpu-17", "<user> and <user>@<host>"),
        ("malice, alices", "malice, alices"),
        ("gpu-17.corp.example:8080", "<host>:8080"),
        ("GPU-17 and gpu-170", "<host> and gpu-170"),
        ("https://alice:pa:ss@proxy.example:3128/x", "https://<credentials>@proxy.example:3128/x"),
        ("https://p@ss@proxy.example", "https://<credentials>@proxy.example"),
        ("https://x.example/a?sig=abc&n=1", "https://x.example/a?sig=<secret>&n=1"),
        ("https://x.example/a?X-Amz-Security-Token=abc#f", "https://x.example/a?X-Amz-Security-Token=<secret>#f"),
        ("HF_TOKEN=abc kerneldoctor", "HF_TOKEN=<secret> kerneldoctor"),
        ("export WANDB_API_KEY='0123abc'", "export WANDB_API_KEY='<secret>'"),
        ('{"hub_token": "abc def"}', '{"hub_token": "<secret>"}'),
        ("Authorization: Basic YWJj", "Authorization: Basic <secret>"),
        ("bearer abcdefghijklmnopqrst", "bearer <secret>"),
        ("hf_" + "a" * 34, "<token>"),
        ("x=ghp_" + "A1" * 18, "x=<token>"),
        ("sk-proj-" + "a1" * 20, "<token>"),
        ("GPU-8f3b1c2d-11aa-22bb-33cc-445566778899", "GPU-8f3b1c2d"),
        ("MIG-GPU-8f3b1c2d-11aa-22bb-33cc-445566778899/1/0", "MIG-GPU-8f3b1c2d/1/0"),
    ],
)
def test_private_parts_are_replaced(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'tokenizers==0.22.1' hf_transfer hf_xet",
        'from_pretrained(name, token=True, attn_implementation="kernels-community/flash-attn2@v3")',
        "token is set; author=somebody",
        "nvidia-cublas-cu12 12.8.4.1; sk-learn",
        "libcudart.so.12 => /usr/local/cuda/lib64/libcudart.so.12",
        "0510be1e482269a46fadf30069aca3ede496ff9b",
        "https://github.com/huggingface/kernels-community/issues/1085",
        "https://download.pytorch.org/whl/cu130",
        "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "torch-stable-abi210-cu130-x86_64-linux",
        "export HF_TOKEN=$MY_TOKEN",
    ],
)
def test_what_is_not_private_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("user", ["root", "ubuntu", "user", "torch", "version", "cuda", "a", "go"])
def test_names_that_say_nothing_do_not_shred_the_report(user: str) -> None:
    text = "user a of torch version 2.11 in /opt/go/a/cuda: root, ubuntu"
    identity = identity_from({"USER": user, "HOME": f"/home/{user}"}, [f"/home/{user}"], ["localhost"])
    assert Redactor(identity)(text) == text
    assert Redactor(identity)(f"/home/{user}/x") == "~/x"


def test_a_three_letter_name_goes_where_it_is_a_folder_or_an_account() -> None:
    short = Redactor(Identity(users=("max",)))
    assert short("/data/max/x, max@node: max_seqlen is the max") == "/data/<user>/x, <user>@node: max_seqlen is the max"


@pytest.mark.parametrize("home", ["/", "", "/usr", "/tmp"])
def test_a_home_that_is_no_home_is_left_alone(home: str) -> None:
    identity = identity_from({"HOME": home}, [home], [])
    assert Redactor(identity)("/usr/lib/x /tmp/y") == "/usr/lib/x /tmp/y"


def test_root_home() -> None:
    assert Redactor(identity_from({}, ["/root"], []))("/root/x /rootfs") == "~/x /rootfs"


def test_a_host_named_after_its_owner_goes_whole() -> None:
    assert Redactor(Identity(users=("alice",), hosts=("alice-laptop",)))("on alice-laptop") == "on <host>"


def test_names_in_other_spellings() -> None:
    zoe = Redactor(Identity(users=("zoë",)))
    assert zoe("/data/zoë/x") == "/data/<user>/x"
    assert zoe("/data/zo%C3%AB/x") == "/data/<user>/x"
    assert zoe("/data/zoë/x".encode().decode("latin-1")) == "/data/<user>/x"


WORDS = st.text(string.ascii_letters + string.digits + " /=:.,;-_\"'\n@?&", max_size=30)
SEPARATOR = st.sampled_from(["", " ", "/", '"', "=", ":", "\n", "(", "@"])
SECRETS = st.one_of(
    st.text(string.ascii_letters + string.digits, min_size=20, max_size=40).map(lambda s: "hf_" + s),
    st.text(string.ascii_letters + string.digits, min_size=36, max_size=36).map(lambda s: "ghp_" + s),
    st.text(string.ascii_letters + string.digits, min_size=20, max_size=48).map(lambda s: "sk-" + s),
)


@given(WORDS, SEPARATOR, SECRETS, SEPARATOR, WORDS)
def test_a_token_never_survives(before: str, left: str, secret: str, right: str, after: str) -> None:
    boundary = left or " "
    assert secret not in redact(f"{before}{boundary}{secret}{right}{after}")


@given(WORDS, st.sampled_from([" ", "/", '"', "=", ":", "@", "(", "-", "_"]), WORDS)
def test_user_and_home_never_survive(before: str, separator: str, after: str) -> None:
    for secret in ("alice", "/home/alice", "gpu-17.corp.example"):
        assert secret not in redact(f"{before}{separator}{secret}{separator}{after}")


@given(st.text(max_size=60) | WORDS)
def test_redacting_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS | SECRETS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | SECRETS, inner, max_size=4),
    max_leaves=15,
)


@given(JSON)
def test_json_stays_json_and_keeps_its_shape(document: Any) -> None:
    cleaned = json.loads(json.dumps(redact_json(document, redact)))
    if isinstance(document, list):
        assert len(cleaned) == len(document)
    elif not isinstance(document, (str, dict)):
        assert cleaned == document
    assert type(cleaned) is type(document)


def test_a_report_holds_nothing_private_in_any_format() -> None:
    private = replace(
        BROKEN,
        python=replace(BROKEN.python, executable=known("/data/alice/venv/bin/python", "ran on gpu-17")),
        huggingface=replace(BROKEN.huggingface, endpoint=known("https://u:pw@hub.example/?token=abc", "HF_ENDPOINT")),
    )
    report = redact_value(make_report(private), ALICE)
    for text in (json.dumps(report.to_json()), render(report, Style(width=120, verbose=True))):
        assert not [secret for secret in ("alice", "gpu-17", "u:pw", "abc", "11aa-22bb") if secret in text]
        assert "RTX 5090" in text


def test_a_command_stays_a_command() -> None:
    private = replace(BROKEN, python=replace(BROKEN.python, executable=known("/data/alice/venv/bin/python", "x")))
    report = redact_value(make_report(private), ALICE)
    # "<user>" would be a redirection to the shell.
    assert report.findings[0].remedies[0].command.startswith("/data/$USER/venv/bin/python -m pip")


def test_redaction_keeps_every_fact_of_a_machine_without_private_parts() -> None:
    uuids = tuple(replace(g, uuid=known("GPU-8f3b1c20", "NVML")) for g in HEALTHY.gpus.value or ())
    public = replace(HEALTHY, gpus=known(uuids, "NVML"), python=BROKEN.python.__class__())
    assert redact_value(public, ALICE) == public
    assert redact_value(Environment(), ALICE) == Environment()


def test_a_capture_holds_every_variable_that_a_probe_reads() -> None:
    sources = sorted((Path(kerneldoctor.__file__).parent / "probes").glob("*.py"))
    read = {
        name
        for path in sources
        for pair in re.findall(
            r'environ\.get\("(\w+)"|environ\["(\w+)"\]|"(\w+)" in (?:\w+\.)*environ', path.read_text()
        )
        for name in pair
        if name
    }
    assert "HF_ENDPOINT" in read
    assert sorted(name for name in read if not captured_variable(name)) == []


def test_a_capture_keeps_switches_and_no_secrets() -> None:
    environ = {
        "HF_TOKEN": "hf_" + "a" * 34,
        "HF_HOME": "/home/alice/.cache/huggingface",
        "https_proxy": "http://alice:pw@proxy.corp.example:3128",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "SECRET_PROJECT": "apollo",
    }
    answers = {'run ["/home/alice/venv/bin/python"]': {"is": [0, "alice on gpu-17", "", ""]}}
    kept = {name: value for name, value in environ.items() if captured_variable(name)}
    document = {"schema": "kerneldoctor.capture/1", "environ": kept, "answers": answers}
    cleaned = redact_capture(document, ALICE)
    assert cleaned["environ"] == {
        "HF_TOKEN": "<secret>",
        "HF_HOME": "/home/user/.cache/huggingface",
        "https_proxy": "<secret>",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }
    assert cleaned["answers"] == {'run ["/home/user/venv/bin/python"]': {"is": [0, "<user> on <host>", "", ""]}}
    assert redact_capture(document, None)["environ"]["HF_TOKEN"] == "<secret>"
    assert redact_capture(document, None)["environ"]["HF_HOME"] == "/home/alice/.cache/huggingface"
