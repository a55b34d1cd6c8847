"""--format and --report as people and CI meet them: files whole and in time, one exit code whatever the format."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kerneldoctor.cli import cli
from kerneldoctor.cli_reports import FORMATS, Wanted, parse_report
from kerneldoctor.errors import UsageError
from tests.report.samples import BROKEN, HANGING, HEALTHY, RULES
from tests.test_cli import ROOT, kd, one_line


@pytest.fixture
def saved(tmp_path: Path) -> dict[str, Path]:
    files = {}
    for name, facts in (("healthy", HEALTHY), ("broken", BROKEN), ("hanging", HANGING)):
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps(facts.to_json()), "utf-8")
    return files


def run(*arguments: str | Path) -> int:
    """The command in this process: what it returns is what the program exits with."""
    code = cli.main([*map(str, arguments)], standalone_mode=False)
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(("name", "code"), [("healthy", 0), ("broken", 1), ("hanging", 3)])
def test_the_exit_code_is_the_same_in_every_format(
    name: str, code: int, saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for form in FORMATS:
        assert run("scan", "--env", saved[name], "--rules", RULES, "--format", form) == code
        assert capsys.readouterr().out


@pytest.mark.parametrize(("name", "code"), [("healthy", 0), ("broken", 1), ("hanging", 3)])
def test_several_files_are_written_beside_the_page(
    name: str, code: int, saved: dict[str, Path], tmp_path: Path
) -> None:
    reports = [part for form in FORMATS for part in ("--report", f"{form}={tmp_path / form}.out")]
    result = kd("scan", "--env", saved[name], "--rules", RULES, *reports)
    assert result.returncode == code, result.stderr
    text = {form: (tmp_path / f"{form}.out").read_text("utf-8") for form in FORMATS}
    assert text["console"] == result.stdout
    assert json.loads(text["json"])["schema"] == "kerneldoctor.report/1"
    assert json.loads(text["sarif"])["runs"][0]["invocations"][0]["exitCode"] == code
    assert ElementTree.fromstring(text["junit"].encode()).tag == "testsuites"
    assert text["github"].endswith(f"exit code {code}\n")
    assert text["markdown"].startswith("### kerneldoctor scan\n")
    assert text["html"].startswith("<!DOCTYPE html>\n<html lang=")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("sarf=x", "there is no format 'sarf'; the nearest is sarif. Formats: console, json"),
        ("junit", "FORMAT=FILE is expected"),
        ("junit=", "FORMAT=FILE is expected"),
        ("junit=-", "a file is needed; --format junit writes to standard output"),
        ("junit=none/x.xml", "there is no folder"),
        ("junit=.", "it is a folder"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    value: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as error:
        parse_report(value)
    assert words in str(error.value)


def test_a_value_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    assert parse_report(f"JUnit={tmp_path}/a=b.xml") == Wanted("junit", f"{tmp_path}/a=b.xml")


@pytest.mark.parametrize("order", [("--report", "--output"), ("--output", "--report"), ("--report", "--report")])
def test_two_results_for_one_file_are_refused(order: tuple[str, str], saved: dict[str, Path], tmp_path: Path) -> None:
    given = {"--report": f"junit={tmp_path}/x", "--output": f"{tmp_path}/./x"}
    values = [given[order[0]], given[order[1]] if order[0] != order[1] else f"sarif={tmp_path}/x"]
    with pytest.raises(UsageError, match="two results cannot be written to one file"):
        run("scan", "--env", saved["healthy"], order[0], values[0], order[1], values[1])


def test_a_file_that_cannot_be_written_costs_no_other(saved: dict[str, Path], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / ("n" * 300)
    result = kd("scan", "--env", saved["healthy"], "--report", f"sarif={bad}", "--report", f"junit={good}")
    assert result.returncode == 2
    assert "File name too long" in result.stderr
    assert result.stdout
    assert good.is_file()


def test_wrong_use_is_one_line(saved: dict[str, Path]) -> None:
    one_line(kd("scan", "--env", saved["healthy"], "--report", "htlm=x"), 2, "the nearest is html")


def test_a_job_gets_its_summary(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert run("scan", "--env", saved["broken"], "--rules", RULES, "--format", "json") == 1
    assert summary.read_text("utf-8") == "before\n"
    capsys.readouterr()
    assert run("scan", "--env", saved["broken"], "--rules", RULES, "--format", "github") == 1
    assert summary.read_text("utf-8").startswith("before\n### kerneldoctor scan\n")
    assert capsys.readouterr().out.startswith("::error title=")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert run("scan", "--env", saved["broken"], "--rules", RULES, "--format", "github") == 1
    assert "no summary of the job" in capsys.readouterr().err


def test_a_summary_that_is_full_stays_readable(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("x" * (1024 * 1024 - 500), "utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run("scan", "--env", saved["broken"], "--rules", RULES, "--format", "github")
    assert 1024 * 1024 - 10 <= summary.stat().st_size <= 1024 * 1024


def test_this_machine_is_redacted_in_every_file(tmp_path: Path) -> None:
    home = tmp_path / "home" / "zaphod"
    home.mkdir(parents=True)
    reports = [part for form in FORMATS for part in ("--report", f"{form}={tmp_path / form}.out")]
    kd("scan", *reports, HOME=str(home), USER="zaphod", HF_HOME=str(home / "hf"))
    for form in FORMATS:
        text = (tmp_path / f"{form}.out").read_text("utf-8")
        assert "zaphod" not in text, form


def test_a_kernel_asked_for_stands_in_the_page(saved: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run("scan", "--env", saved["healthy"], "--kernel", "kernels-community/flash-attn2@v3", "--format", "markdown")
    assert "#### Kernels\n\n| kernel | here | pin |" in capsys.readouterr().out


def test_a_try_that_gets_to_no_answer_says_so_in_every_file(tmp_path: Path) -> None:
    """No such interpreter has torch: no child is started for that."""
    reports = [part for form in FORMATS for part in ("--report", f"{form}={tmp_path / form}.out")]
    bare = tmp_path / "home" / "zaphod" / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    who = {"HOME": str(bare.parent), "USER": "zaphod", "PYTHONPATH": str(ROOT)}
    result = kd("try", "--module", "math", "--python", bare / "bin/python", *reports, **who)
    one_line(result, 3, "no torch is installed")
    run_of = json.loads((tmp_path / "sarif.out").read_text("utf-8"))["runs"][0]
    assert run_of["invocations"][0]["exitCode"] == 3
    assert json.loads((tmp_path / "json.out").read_text("utf-8"))["exit_code"] == 3
    root = ElementTree.parse(tmp_path / "junit.out").getroot()
    assert (root.attrib["tests"], root.attrib["errors"]) == ("1", "1")
    for form in FORMATS:
        text = (tmp_path / f"{form}.out").read_text("utf-8")
        assert "no torch is installed" in text
        assert "zaphod" not in text


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
_MEASURE = """<!DOCTYPE html><body><script>
const frame = document.createElement("iframe");
frame.style.cssText = "border:0;height:900px;width:WIDTHpx"; frame.srcdoc = PAGE;
frame.onload = () => {
  const root = frame.contentDocument.documentElement;
  document.title = [root.scrollWidth - root.clientWidth, root.querySelectorAll("h1").length,
    frame.contentWindow.performance.getEntriesByType("resource").length,
    frame.contentWindow.getComputedStyle(frame.contentDocument.body).fontFamily.includes("system-ui")].join(" ");
};
document.body.append(frame);
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_the_page_within_its_width(width: int, saved: dict[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("scan", "--env", saved["broken"], "--rules", RULES, "--format", "html", "--output", page)
    measure = tmp_path / "measure.html"
    quoted = json.dumps(page.read_text("utf-8")).replace("</", "<\\/")
    measure.write_text(_MEASURE.replace("WIDTH", str(width)).replace("PAGE", quoted), "utf-8")
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=3000", "--dump-dom", measure.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "<title>0 1 0 true</title>" in done.stdout, done.stdout[-300:]
