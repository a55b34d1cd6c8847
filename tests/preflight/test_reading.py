"""Policies, right and wrong: every mistake is named with its line, all of them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneldoctor.errors import UsageError
from kerneldoctor.preflight.policy import Policy
from kerneldoctor.preflight.reading import find_config, read_policy

WHOLE = """
[tool.other]
kernels = 1

[tool.kerneldoctor]
kernels = [
  "kernels-community/flash-attn2@v3",
  {reference = "some/relu@v1", lock = false, trust-remote-code = true},
]
run = "variants"
fail-on = "warning"
ignore = [{rule = "KD5001", reason = "known", until = 2027-03-01}]
allowed-publishers = ["kernels-community"]
timeout = 90
python = "env/bin/python"
device = "cpu"
rules = ["ours"]

[tool.kerneldoctor.workload]
heads = 14
kv-heads = 2
head-dim = 64
dtype = "bfloat16"
training = true

[tool.kerneldoctor.minimum]
torch = "2.10"
huggingface_hub = "1.3"

[tool.kerneldoctor.required-gpu]
name = ["H100", "H200"]
compute-capability = ">=9.0"
memory-gib = 79
"""


def write(folder: Path, text: str, name: str = "kerneldoctor.toml") -> str:
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


def mistakes(path: str, flags: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(UsageError) as caught:
        read_policy(path, flags or {})
    return str(caught.value).splitlines()


def test_every_key_is_read_and_paths_are_meant_from_the_file(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, WHOLE, "pyproject.toml"))
    first, second = policy.kernels
    assert (first.reference, first.lock, first.trust) == ("kernels-community/flash-attn2@v3", None, False)
    assert (second.reference, second.lock, second.trust) == ("some/relu@v1", "", True)
    assert (policy.run, policy.fail_on, policy.timeout, policy.device) == ("variants", "warning", 90.0, "cpu")
    assert [(i.rule, i.reason, i.until) for i in policy.ignore] == [("KD5001", "known", "2027-03-01")]
    assert policy.allowed_publishers == ("kernels-community",)
    assert policy.python == str(tmp_path / "env/bin/python")
    assert policy.rules == (str(tmp_path / "ours"),)
    assert policy.workload.shape == {"heads": 14, "kv_heads": 2, "head_dim": 64, "dtype": "bfloat16"}
    assert policy.workload.training is True
    assert policy.minimum == {"torch": "2.10", "huggingface-hub": "1.3"}
    assert policy.gpu is not None
    assert (policy.gpu.names, policy.gpu.compute_capability, policy.gpu.memory_gib) == (("H100", "H200"), ">=9.0", 79.0)
    assert policy.source == str(tmp_path / "pyproject.toml")


def test_flags_win_and_change_single_keys_of_tables(tmp_path: Path) -> None:
    path = write(tmp_path, WHOLE, "pyproject.toml")
    policy = read_policy(path, {"run": "scan", "workload": {"training": False}, "minimum": {"torch": "2.11"}})
    assert policy.run == "scan"
    assert policy.workload.training is False
    assert policy.workload.heads == 14
    assert policy.minimum == {"torch": "2.11", "huggingface-hub": "1.3"}


def test_without_anything_the_scan_alone_is_made(tmp_path: Path) -> None:
    assert read_policy(None, {}, str(tmp_path)) == Policy(run="scan")


def test_a_lock_beside_the_policy_is_used_unless_it_is_declined(tmp_path: Path) -> None:
    write(tmp_path, "{}", "kerneldoctor.lock")
    kernels = 'kernels = ["a/b@v1"]\n'
    assert read_policy(write(tmp_path, kernels)).lock == str(tmp_path / "kerneldoctor.lock")
    assert read_policy(write(tmp_path, f"{kernels}lock = false")).lock == ""


def test_the_nearest_configuration_is_found_from_below_but_not_beyond_the_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / "deep" / "er").mkdir(parents=True)
    (repository / ".git").mkdir()
    write(tmp_path, "", "kerneldoctor.toml")
    assert find_config(str(repository / "deep" / "er")) == ""
    path = write(repository, "[tool.kerneldoctor]\n", "pyproject.toml")
    assert find_config(str(repository / "deep" / "er")) == path
    write(repository / "deep", "[tool.black]\n", "pyproject.toml")
    assert find_config(str(repository / "deep")) == path


def test_an_unknown_key_is_named_with_the_nearest_and_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, 'run = "scan"\n\nallowed_publisher = ["x"]\n[workload]\nhead = 4\n')
    assert mistakes(path) == [
        f"{path}:3: no key is called 'allowed_publisher'; the nearest is 'allowed-publishers'",
        f"{path}:5: no key is called 'head' in workload; the nearest is 'heads'",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kernels = "a/b"', "kernels is the text 'a/b', and must be a list of references"),
        ("kernels = [7]", "kernels is the number 7, and must be a reference, or a table with one"),
        ("kernels = [{lock = false}]", "a kernel has no reference"),
        ('timeout = "10m"', "timeout is the text '10m', and must be a number of seconds"),
        ("timeout = nan", "timeout is the number nan, and must be a number of seconds"),
        ("timeout = 0", "timeout is the number 0, and must be a number of seconds from 1 to 86400"),
        ('run = "smoek"', "run is the text 'smoek', and must be one of scan, variants, smoke; the nearest is 'smoke'"),
        ("run = true", "run is true, and must be one of scan, variants, smoke"),
        ("workload = 3", "workload is the number 3, and must be a table"),
        ("workload = {heads = 2.5}", "workload.heads is the number 2.5, and must be a whole number from 1 to 1024"),
        ("workload = {heads = 14, kv-heads = 3}", "workload: 14 query heads cannot share 3 kv-heads evenly"),
        ('workload = {training = "yes"}', "workload.training is the text 'yes', and must be true or false"),
        ("minimum = {torch = 2.10}", "minimum.torch is the number 2.1, and must be a release in quotes"),
        ('minimum = {torch = "new"}', "minimum.torch is the text 'new', and must be a release"),
        ('required-gpu = {compute-capability = "new"}', "required-gpu.compute-capability is the text 'new'"),
        ('ignore = ["KD5001"]', "ignore is the text 'KD5001', and must be a table"),
        ('ignore = [{rule = "KD5001"}]', "an ignore entry needs a rule and a reason"),
        ('ignore = [{rule = "KD5001", reason = "r", until = "soon"}]', "ignore.until is the text 'soon'"),
        ('allowed-publishers = "kernels-community"', "allowed-publishers is the text 'kernels-community'"),
        ("required-gpu = {name = 3}", "required-gpu.name is the number 3, and must be a text, or a list of texts"),
        ('minimum = {torch = "2.13.0+cu130"}', "must be a release without +cu130, by which none is newer"),
        ('minimum = {drivr = "570"}', "minimum.drivr: the nearest that can be asked is 'driver'"),
        ('allowed-publishers = ["some/relu"]', "takes publishers, not repositories: 'some' instead of 'some/relu'"),
        (
            'kernels = ["some/relu@v1", {reference = "some/relu@v1", lock = false}]',
            "kernels has some/relu@v1 twice, with different options",
        ),
        ("rules = [1]", "rules is the list [1], and must be a list of texts"),
        ('lock = "gone.lock"', "lock: there is no file"),
    ],
)
def test_a_wrong_value_says_what_it_is_and_what_is_wanted(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, f"\n{text}\n")
    (line,) = mistakes(path)
    assert line.startswith(f"{path}:2: ")
    assert said in line


@pytest.mark.parametrize("reference", ["flash-attn2", "sdpa", "fa2"])
def test_a_name_that_is_no_kernel_is_refused(tmp_path: Path, reference: str) -> None:
    (line,) = mistakes(write(tmp_path, f'kernels = ["{reference}"]'))
    assert reference in line


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, 'kernel = 1\ntimeout = "x"\nlock = "gone"\n[minimum]\ntorch = 2.1\n')
    found = mistakes(path, {"run": "all"})
    assert [line.partition(": ")[0] for line in found] == [f"{path}:{n}" for n in (1, 2, 3, 5)] + [
        "run is the text 'all', and must be one of scan, variants, smoke"
    ]


def test_every_mistake_of_an_entry_is_told(tmp_path: Path) -> None:
    found = mistakes(write(tmp_path, 'ignore = [{rule = "KD5001", reason = "", until = "tomorrow"}]'))
    assert len([line for line in found if "ignore.until is the text 'tomorrow'" in line]) == 1
    assert len([line for line in found if "needs a rule and a reason" in line]) == 1


def test_the_table_of_the_other_file_is_named_as_such(tmp_path: Path) -> None:
    (line,) = mistakes(write(tmp_path, '[tool.kerneldoctor]\nrun = "scan"\n'))
    assert "[tool.kerneldoctor] is for pyproject.toml; here its keys stand at the top" in line


def test_a_kernel_that_is_named_twice_is_one(tmp_path: Path) -> None:
    policy = read_policy(write(tmp_path, 'kernels = ["some/relu@v1", {reference = "some/relu@v1"}, "some/relu@v2"]'))
    assert [kernel.reference for kernel in policy.kernels] == ["some/relu@v1", "some/relu@v2"]
    assert read_policy(write(tmp_path, 'minimum = {torchao = "0.1"}')).minimum == {"torchao": "0.1"}


@pytest.mark.parametrize("content", [b"\xff\xfe", b"kernels = [", b"[tool]\nkerneldoctor = 1", b"a = " + b"[" * 5000])
def test_what_is_no_configuration_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    (line,) = mistakes(str(path))
    assert line.startswith(str(path))


def test_a_folder_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.toml"):
        (line,) = mistakes(str(path))
        assert str(path) in line
