"""`kerneldoctor diff`: two saved machines, what differs between them and what of it matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kerneldoctor
from kerneldoctor import api, api_diff
from kerneldoctor.cli import cli
from kerneldoctor.diff.facts import differences, flat
from kerneldoctor.environment import Environment, Extension, absent, unknown
from kerneldoctor.errors import UsageError
from tests.hub.machines import gpu, machine, seen
from tests.hub.server import serve

ROOT = Path(kerneldoctor.__file__).parent.parent
GOOD = machine("2.13.0+cu130", "9.0", transformers="5.22.2")
OLD_DRIVER = machine("2.13.0+cu130", "9.0", transformers="5.22.2", driver="550.54.14")


@pytest.fixture
def save(tmp_path: Path) -> Any:
    def write(name: str, environment: Environment) -> str:
        path = tmp_path / name
        path.write_text(json.dumps(environment.to_json()), "utf-8")
        return str(path)

    return write


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["diff", *arguments], standalone_mode=False)


def document(result: Result) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


def test_the_finding_of_one_side_and_the_fact_behind_it_come_first(save: Any) -> None:
    a = save("a.json", replace(GOOD, system=replace(GOOD.system, kernel=seen("6.8.0"))))
    b = save("b.json", OLD_DRIVER)
    result = run(a, b)
    assert result.return_value == 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith("findings differ: ")
    assert "  error Driver 550.54.14 is too old for torch's CUDA 13.0 [KD1001]" in lines
    at = lines.index("Facts behind that")
    assert lines[at + 1].startswith("  driver.version  [KD1001")
    assert lines[at + 2 : at + 4] == ["    A  580.95.05", "    B  550.54.14"]


def test_the_same_findings_are_0_whatever_else_differs(save: Any) -> None:
    other = machine("2.13.0+cu130", "9.0", transformers="5.22.2", left_pad="1.0")
    home = replace(other.huggingface, cache_free_bytes=seen(7))
    found = document(run(save("a.json", GOOD), save("b.json", replace(other, huggingface=home)), "--format", "json"))
    assert (found["exit_code"], found["findings"]["only_a"], found["findings"]["only_b"]) == (0, [], [])
    weights = {d["path"]: d["weight"] for d in found["facts"]}
    assert weights["huggingface.cache_free_bytes"] == "noise"
    assert weights["packages.left-pad"] == "other"


def test_noise_and_what_no_rule_reads_are_folded_until_asked_for(save: Any) -> None:
    other = machine("2.13.0+cu130", "9.0", transformers="5.22.2", left_pad="1.0")
    a, b = save("a.json", GOOD), save("b.json", other)
    assert "packages.left-pad" not in run(a, b).stdout
    assert "1 fact more that no rule reads" in run(a, b).stdout
    assert "  packages.left-pad\n    A  none\n    B  1.0\n" in run(a, b, "--all").stdout


def test_a_machine_and_itself(save: Any) -> None:
    a = save("a.json", GOOD)
    result = run(a, a)
    assert (result.return_value, result.stdout.splitlines()[0]) == (0, "no difference is known between the two")


def test_a_whole_report_is_compared_with_bare_facts(save: Any, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps(api.scan(env=OLD_DRIVER).to_json()), "utf-8")
    found = api_diff.diff(save("a.json", GOOD), str(report))
    assert "KD1001" in {finding.rule for finding in found.only_b}
    assert found.exit_code == 1


def test_a_fault_that_is_sure_on_one_side_only_counts(save: Any) -> None:
    broken = replace(GOOD, flash_attn=replace(GOOD.flash_attn, kind=seen("incomplete")))
    found = api_diff.diff(save("a.json", broken), save("b.json", GOOD))
    surer = {one.rule: (one.certainty, other.certainty) for one, other in found.surer}
    assert surer["KD2016"] == ("confirmed", "possible")
    assert found.exit_code == 1
    first = next(d for d in found.facts if d.path == "flash_attn.kind")
    assert (first.weight, first.one_sided) == ("decides", True)
    assert "KD2016" in first.rules
    assert "confirmed in A, possible in B" in run(save("a.json", broken), save("b.json", GOOD)).stdout


def test_what_would_load_is_compared(save: Any) -> None:
    a, b = save("a.json", machine("2.13.0+cu130")), save("b.json", machine("2.9.0+cu128"))
    result = run(a, b, "--offline", "--kernel", "kernels-community/flash-attn2@v2")
    assert "What would load" in result.stdout
    assert "torch213-cxx11-cu130-x86_64-linux" in result.stdout
    assert "has no build for this machine" in result.stdout


def test_a_kernel_that_was_named_is_spoken_of_also_where_nothing_differs(save: Any) -> None:
    a = save("a.json", GOOD)
    found = run(a, a, "--offline", "--kernel", "nobody/knows@v9", "--kernel", "sdpa").stdout
    assert "  nobody/knows@v9\n    on both  cannot be told: no listing of nobody/knows" in found
    assert "  sdpa\n    on both  comes with transformers and torch\n" in found


def test_a_version_that_the_hub_does_not_have_is_wrong_use(save: Any, tmp_path: Path) -> None:
    a = save("a.json", GOOD)
    with serve() as hub:
        hub.repo("me/attention").commit({"README.md": b"x"}, "v1")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "TRANSFORMERS_"))}
        done = subprocess.run(
            [sys.executable, "-m", "kerneldoctor", "diff", a, a, "--kernel", "me/attention@v9"], capture_output=True,
            text=True, env={**kept, **hub.environment(), "HOME": str(tmp_path)}, cwd=ROOT, check=False, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "me/attention has no revision 'v9' on the Hub: it has v1" in done.stderr


class TestFacts:
    def of(self, a: Environment, b: Environment) -> dict[str, tuple[Any, Any]]:
        return {d.path: (d.a.value, d.b.value) for d in differences(a, b, {}, frozenset())}

    def test_a_gpu_more_is_a_gpu_that_is_not_there_on_the_other_side(self) -> None:
        two = replace(GOOD, gpus=seen((gpu("9.0"), gpu("8.0", 1))))
        found = self.of(GOOD, two)
        assert found["gpus[1].compute_capability"] == (None, "8.0")
        assert "gpus[0].compute_capability" not in found

    def test_extensions_are_matched_by_module(self) -> None:
        one, other = Extension("a_cuda", version=seen("1")), Extension("b_cuda", version=seen("2"))
        a, b = replace(GOOD, extensions=seen((other,))), replace(GOOD, extensions=seen((one, other)))
        assert set(self.of(a, b)) == {
            path for path, fact in flat(b) if path.startswith("extensions[a_cuda]") and not fact.is_unknown
        }

    def test_two_reasons_for_not_knowing_are_no_difference_but_absent_and_unknown_are(self) -> None:
        a, b = (replace(GOOD, toolkit=replace(GOOD.toolkit, cuda_home=unknown(why))) for why in ("x", "y"))
        assert self.of(a, b) == {}
        c = replace(GOOD, toolkit=replace(GOOD.toolkit, cuda_home=absent("looked")))
        (only,) = differences(a, c, {}, frozenset())
        assert (only.path, only.one_sided) == ("toolkit.cuda_home", True)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gone.json", None, "No such file"),
        ("text.json", "hello", "not JSON"),
        ("other.json", "[]", "not a kerneldoctor environment"),
        ("capture.json", '{"schema": "kerneldoctor.capture/1"}', "this is a capture"),
        ("deep.json", "[" * 100_000, "nested too deep"),
    ],
)
def test_a_file_that_is_none_of_ours_is_wrong_use(
    save: Any, tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content, "utf-8")
    with pytest.raises(UsageError, match=words):
        api_diff.diff(save("a.json", GOOD), str(path))


def test_both_from_standard_input_is_refused() -> None:
    with pytest.raises(UsageError, match="standard input holds one machine"):
        api_diff.diff("-", "-")
