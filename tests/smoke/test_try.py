"""`kerneldoctor try` from end to end on the CPU: a loopback Hub, the real kernels library, kernels good and broken.

Each run is a process of its own, as people start it; what it leaves behind is looked for afterwards.
"""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Hub, serve
from tests.kernels.layout import FAULTS, VARIANT, attention, metadata, publish, repository, source, write

from .place import Place, left_processes, of_kind

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]
REPO = "kernels-test/attention"


@pytest.fixture(scope="module")
def running() -> Iterator[Hub]:
    with serve() as hub:
        yield hub


@pytest.fixture
def place(running: Hub, tmp_path: Path) -> Place:
    return Place.make(running, tmp_path, "cpu")


# --- a good kernel --------------------------------------------------------------------------------------------------


def test_a_good_kernel_passes_with_the_pin_that_was_measured(place: Place) -> None:
    commit = publish(place.hub, REPO, repository(attention()), "v1")
    found = place.attempt(f"{REPO}@v1")
    assert found["verdict"] == {"kind": "passed", "text": "passed (16 of 16)"}
    assert found["exit_code"] == 0
    assert found["resolved"] | {"folder": ""} == {
        "repo": REPO, "revision": "v1", "commit": commit, "variant": VARIANT, "build_id": "0123abc",
        "source": "live", "folder": "",
    }  # fmt: skip
    assert found["pin"]["attn_implementation"] == f'attn_implementation="{REPO}@{commit}"'
    assert found["pin"]["get_kernel"] == f'get_kernel("{REPO}", revision="{commit}")'
    assert found["device"]["processes"] == 1
    kinds = {(case["contract"], case["params"]["heads"] // case["params"]["kv_heads"] > 1) for case in found["cases"]}
    assert {("flash_attn_func", True), ("flash_attn_func", False), ("flash_attn_varlen_func", True)} <= kinds
    assert all(
        {"out", "dq", "dk", "dv"} <= case["errors"].keys() for case in found["cases"] if "dropout" not in case["id"]
    )


def test_the_page_ends_with_verdict_and_pin(place: Place) -> None:
    commit = publish(place.hub, REPO, repository(attention()), "v1")
    code, out, err = place.run("try", f"{REPO}@v1", "--device", "cpu", "--case", "dense-mha-bf16-d64", "--seed", "7")
    assert code == 0
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == f"{REPO}@v1"
    at = lines.index("passed (1 of 1)")
    assert lines[at + 1] == f'  pin     attn_implementation="{REPO}@{commit}"  # v1'


def test_inference_leaves_the_backward_out_and_says_so_in_the_pin(place: Place) -> None:
    publish(place.hub, REPO, repository(attention("gqa-backward-raises")), "v1")
    found = place.attempt(f"{REPO}@v1", "--inference")
    assert found["verdict"]["kind"] == "passed"
    assert found["pin"]["inference_only"] is True
    assert all("dq" not in case["errors"] for case in found["cases"])


def test_the_workload_of_a_model_makes_the_cases(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    config = place.folder / "config.json"
    config.write_text(json.dumps({"num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896}))
    found = place.attempt(f"{REPO}@v1", "--model", str(config))
    assert found["verdict"]["kind"] == "passed"
    assert {(c["params"]["heads"], c["params"]["kv_heads"], c["params"]["head_dim"]) for c in found["cases"]} == {
        (14, 2, 64)
    }
    found = place.attempt(f"{REPO}@v1", "--heads", "6", "--kv-heads", "3", "--head-dim", "96", "--dtype", "float16")
    assert {(c["params"]["heads"], c["params"]["head_dim"], c["params"]["dtype"]) for c in found["cases"]} == {
        (6, 96, "float16")
    }


@pytest.mark.parametrize("inside", ["", "build", f"build/{VARIANT}"])
def test_a_folder_is_tried_whichever_of_its_levels_is_named(place: Place, inside: str) -> None:
    path = write(place.folder / "kernel", repository(attention())) / inside
    found = place.attempt("--local", str(path), "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["text"] == "passed (1 of 1)"
    assert found["resolved"]["source"] == "local"
    assert found["pin"] is None


def test_local_kernels_takes_the_place_of_the_repository(place: Place) -> None:
    publish(place.hub, REPO, repository(attention("import-error")), "v1")
    path = write(place.folder / "kernel", repository(attention()))
    place.environ["LOCAL_KERNELS"] = f"{REPO}={path}"
    found = place.attempt(f"{REPO}@v1", "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["text"] == "passed (1 of 1)"
    assert found["resolved"]["source"] == "local"


def test_an_installed_package_is_tried_by_its_name(place: Place) -> None:
    (place.folder / "lib").mkdir()
    (place.folder / "lib" / "my_attention.py").write_bytes(attention()["__init__.py"])
    place.environ["PYTHONPATH"] = str(place.folder / "lib")
    found = place.attempt("--module", "my_attention", "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["text"] == "passed (1 of 1)"
    code, line = complaint(place, "--module", "my_attention", "--verify", "--device", "cpu")
    assert (code, "no signature" in line) == (2, True)


def test_an_unknown_kernel_is_loaded_and_listed_and_never_passed(place: Place) -> None:
    publish(place.hub, REPO, repository(source("def sort_by_colour(x): return x")), "v1")
    found = place.attempt(f"{REPO}@v1")
    assert found["verdict"]["text"] == "loaded, no contract"
    assert "sort_by_colour" in found["load"][0]["exports"]
    assert found["exit_code"] == 3


# --- broken from inside ---------------------------------------------------------------------------------------------

# fault -> verdict, then the outcome of the cases that meet it and a word of their detail.
BROKEN = {
    "gqa-backward-raises": ("partial", "raised", "aten::sum"),
    "gqa-dk-wrong": ("partial", "wrong", "dk"),
    "nan-gradient": ("partial", "wrong", "dq"),
    "causal-ignored": ("failed", "wrong", "out"),
    "wrong-past-length": ("failed", "wrong", "out"),
    "no-backward": ("partial", "unsupported", "does not support backward"),
    "segfault": ("failed", "crashed", "SIGSEGV"),
    "abort-in-backward": ("partial", "crashed", "SIGABRT"),
    "exit": ("failed", "crashed", "exit code 0"),
    "hang": ("failed", "hung", "no answer within"),
    "memory-hog": ("failed", "oom", ""),
    "prints-rubbish": ("passed", "", ""),
    "import-error": ("refused", "", ""),
    "import-segfault": ("failed", "", ""),
}


def test_every_fault_is_tried() -> None:
    assert set(BROKEN) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_kernel_is_named_for_what_it_is_and_every_other_case_is_judged(place: Place, fault: str) -> None:
    publish(place.hub, REPO, repository(attention(fault)), "v1")
    verdict, outcome, word = BROKEN[fault]
    # Short only where it is waited for: on a busy machine an honest case takes seconds.
    found = place.attempt(f"{REPO}@v1", "--timeout", "20" if fault == "hang" else "120", "--memory", "6")
    assert found["verdict"]["kind"] == verdict, found["verdict"]
    if fault.startswith("import"):
        assert found["cases"] == []
        return
    bad = of_kind(found, outcome) if outcome else []
    assert len(found["cases"]) == 16
    others = [(case["id"], case["outcome"], case["detail"]) for case in found["cases"] if case not in bad]
    assert {outcome for _, outcome, _ in others} <= {"passed"}, others
    assert bool(bad) == bool(outcome)
    assert all(word in case["detail"] for case in bad), [case["detail"] for case in bad]
    assert (found["pin"] is None) == (verdict == "failed")


def test_a_failure_says_how_to_see_it_again_and_which_rule_knows_it(place: Place) -> None:
    publish(place.hub, REPO, repository(attention("gqa-backward-raises")), "v1")
    found = place.attempt(f"{REPO}@v1", "--case", "dense-gqa-causal-bf16-d128")
    assert [note["rule"] for note in found["findings"] if note["basis"] == "symptom"] == ["KD3101"]
    found = place.attempt(f"{REPO}@v1")
    (command,) = [step for step in found["next"] if step.startswith("see it again: ")]
    again = command.removeprefix("see it again: kerneldoctor try ").split()
    assert place.attempt(*again)["cases"][0]["outcome"] == "raised"


# --- refused before the import --------------------------------------------------------------------------------------

IMPORTED = source("import os; open(os.environ['HF_HOME'] + '/imported', 'w')")


def refused(place: Place, *arguments: str) -> tuple[str, str]:
    found = place.attempt(*arguments)
    assert found["verdict"]["kind"] == "refused"
    assert found["exit_code"] == 1
    assert not (place.folder / "hf" / "imported").exists()
    (refusal,) = found["refusals"]
    return refusal["code"], refusal["why"]


def test_a_wrong_digest_names_the_file(place: Place) -> None:
    files = {**repository(IMPORTED), f"build/{VARIANT}/_ops.py": b"# not in the digest"}
    publish(place.hub, REPO, files, "v1")
    assert refused(place, f"{REPO}@v1") == ("digest", "_ops.py is in no digest")


def test_a_file_that_changed_in_the_cache_is_named(place: Place) -> None:
    publish(place.hub, REPO, repository(IMPORTED, metadata(IMPORTED, digest=None)), "v1")
    place.run("try", f"{REPO}@v1", "--device", "cpu", "--case", "none")
    (blob,) = [p for p in (place.folder / "hf").rglob("__init__.py") if p.is_symlink()]
    blob.resolve().write_bytes(b"import os")
    (place.folder / "hf" / "imported").unlink()
    code, why = refused(place, f"{REPO}@v1")
    assert (code, why) == ("digest", "__init__.py is not what was built")


@pytest.mark.parametrize("described", [b"{", b"{}"])
def test_unreadable_metadata_is_a_refusal(place: Place, described: bytes) -> None:
    publish(place.hub, REPO, repository(IMPORTED, described), "v1")
    assert refused(place, f"{REPO}@v1")[0] == "metadata"


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        (None, "it is not signed"),
        (b"{}", "its signature cannot be read (failed to load bundle: 2 validation errors for Bundle mediaType"),
        (b"\x00" * 64, "its signature cannot be read (failed to load bundle: 1 validation error for Bundle Invalid"),
    ],
)
def test_what_carries_no_readable_signature_is_refused_where_one_is_demanded(
    place: Place, signature: bytes | None, why: str
) -> None:
    files = dict(repository(IMPORTED))
    if signature is not None:
        files[f"build/{VARIANT}/metadata.json.sigstore"] = signature
    publish(place.hub, REPO, files, "v1")
    code, said = refused(place, f"{REPO}@v1", "--verify")
    assert code == "signature"
    assert said.startswith(why)


def test_a_missing_dependency_is_named_with_its_install(place: Place) -> None:
    publish(place.hub, REPO, repository(IMPORTED, metadata(IMPORTED, python_depends=["helion"])), "v1")
    assert refused(place, f"{REPO}@v1") == ("missing-dependency", "it needs helion, not installed")


def test_other_kernels_that_it_loads_are_said_to_be_unchecked(place: Place) -> None:
    others = [{"repo-id": "kernels-test/other", "version": 3}]
    described = metadata(IMPORTED, kernel_depends=others, python_depends=["helion"])
    publish(place.hub, REPO, repository(IMPORTED, described), "v1")
    notes = place.attempt(f"{REPO}@v1")["notes"]
    assert "it loads other kernels in turn, which were not checked beforehand: kernels-test/other@v3" in notes


def test_a_kernel_for_a_newer_kernels_release_is_refused(place: Place) -> None:
    publish(place.hub, REPO, repository(IMPORTED, metadata(IMPORTED, kernels_minver="99.0.0")), "v1")
    assert refused(place, f"{REPO}@v1")[0] == "minver"


def test_an_untrusted_publisher_is_refused_until_trusted_by_name(place: Place) -> None:
    commit = publish(place.hub, "stranger/attention", repository(attention()), "v1", trusted=False)
    assert refused(place, "stranger/attention@v1")[0] == "untrusted"
    case = ("--case", "dense-mha-bf16-d64")
    found = place.attempt("stranger/attention@v1", "--trust-remote-code", "stranger/attention", *case)
    assert found["verdict"]["text"] == "passed (1 of 1)"
    assert f'revision="{commit}", trust_remote_code=["stranger/attention"]' in found["pin"]["get_kernel"]


def test_no_fitting_build_says_why_and_what_would_fit(place: Place) -> None:
    publish(place.hub, REPO, repository(IMPORTED, variant="torch29-cxx11-cpu-x86_64-linux"), "v1")
    publish(place.hub, REPO, repository(attention()), "v2")
    code, why = refused(place, f"{REPO}@v1")
    assert code == "no-variant"
    assert "torch 2.9" in why
    (step,) = place.attempt(f"{REPO}@v1")["next"]
    assert step.endswith(f"kerneldoctor try {REPO}@v2")
    del place.hub.repos[REPO]


# --- questions that cannot be answered ------------------------------------------------------------------------------


def complaint(place: Place, *arguments: str) -> tuple[int, str]:
    code, out, err = place.run("try", *arguments)
    assert out == ""
    assert len(err.splitlines()) == 1, err
    return code, err


def test_no_such_version_lists_those_that_exist(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    code, line = complaint(place, f"{REPO}@v9", "--device", "cpu")
    assert code == 2
    assert "v1" in line


def test_an_unreachable_hub_is_undetermined_unless_the_build_is_cached(place: Place) -> None:
    commit = publish(place.hub, REPO, repository(attention()), "v1")
    case = ("--case", "dense-mha-bf16-d64", "--device", "cpu")
    assert place.run("try", f"{REPO}@v1", *case)[0] == 0
    place.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
    code, line = complaint(place, f"{REPO}@v1", *case)
    assert code == 3
    assert commit in line
    found = place.attempt(f"{REPO}@{commit}", *case[:2])
    assert found["verdict"]["text"] == "passed (1 of 1)", found["verdict"]
    assert found["resolved"]["source"] == "cache"
    place.environ["HF_HOME"] = str(place.folder / "empty")
    code, line = complaint(place, f"{REPO}@v1", *case)
    assert code == 3
    assert REPO in line


def test_offline_the_cache_is_tried_without_a_question(place: Place) -> None:
    commit = publish(place.hub, REPO, repository(attention()), "v1")
    case = ("--case", "dense-mha-bf16-d64")
    assert place.run("try", f"{REPO}@v1", *case, "--device", "cpu")[0] == 0
    place.environ["HF_HUB_OFFLINE"] = "1"
    before = len(place.hub.requests)
    assert place.attempt(f"{REPO}@{commit}", *case)["verdict"]["text"] == "passed (1 of 1)"
    assert len(place.hub.requests) == before


def test_a_gpu_that_is_not_there_is_undetermined(place: Place) -> None:
    code, line = complaint(place, f"{REPO}@v1", "--device", "cuda")
    assert code == 3
    assert "--device cuda" in line


def test_a_case_that_does_not_exist_is_wrong_use(place: Place) -> None:
    publish(place.hub, REPO, repository(attention()), "v1")
    code, line = complaint(place, f"{REPO}@v1", "--device", "cpu", "--case", "dense-mha-bf16-d65")
    assert code == 2
    assert "dense-mha-bf16-d64" in line


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--heads", "8", "--kv-heads", "3"), "evenly among 3 KV heads"),
        (("--kv-heads", "2"), "--heads"),
        (("--heads", "8", "--cases", "full"), "--cases"),
        (("--model", "./nothing.json"), "--model"),
        (("--device", "tpu"), "--device"),
    ],
)
def test_what_makes_no_sense_is_wrong_use(place: Place, arguments: tuple[str, ...], word: str) -> None:
    device = () if "--device" in arguments else ("--device", "cpu")
    code, line = complaint(place, f"{REPO}@v1", *device, *arguments)
    assert code == 2
    assert word in line


# --- another interpreter, and signals -------------------------------------------------------------------------------


def test_an_interpreter_without_kerneldoctor_does(place: Place) -> None:
    import torch

    publish(place.hub, REPO, repository(attention()), "v1")
    python = _bare_interpreter(place.folder / "other", Path(torch.__file__).parents[1])
    gone = subprocess.run([python, "-c", "import kerneldoctor"], cwd=place.folder, capture_output=True, check=False)
    assert gone.returncode == 1
    found = place.attempt(f"{REPO}@v1", "--python", python, "--case", "dense-mha-bf16-d64")
    assert found["verdict"]["text"] == "passed (1 of 1)"


def _bare_interpreter(folder: Path, packages: Path) -> str:
    """An environment that has everything of ours except kerneldoctor."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    for entry in packages.iterdir():
        if "kerneldoctor" not in entry.name and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    return str(folder / "bin" / "python")


def test_an_interpreter_without_torch_is_undetermined(place: Place) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place.folder / "empty"], check=True)
    code, line = complaint(place, f"{REPO}@v1", "--python", str(place.folder / "empty" / "bin" / "python"))
    assert code == 3
    assert "no torch" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_behind(place: Place, number: int) -> None:
    publish(place.hub, REPO, repository(attention("hang")), "v1")
    process = place.start("try", f"{REPO}@v1", "--device", "cpu", "--case", "dense-gqa-window-causal-bf16-d128")
    while not left_processes(place.folder / "tmp"):
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(8)  # it hangs in the kernel by now, or still in the import: both must end
    process.send_signal(number)
    process.communicate(timeout=15)
    assert process.returncode in (-number, 128 + number)
    place.nothing_is_left()
