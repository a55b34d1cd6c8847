"""The program as people and scripts meet it: real processes, exit codes, one line for what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kerneldoctor
from kerneldoctor.report.redact import Identity, redact_value
from tests.report.samples import BROKEN, HANGING, HEALTHY, RULES

ROOT = Path(kerneldoctor.__file__).parent.parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "KERNELDOCTOR_DEBUG")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "80", **more}


def kd(
    *arguments: str | Path, stdin: str = "", cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kerneldoctor", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, env=environment(**more), cwd=cwd, check=False
    )


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(env: object = HEALTHY, name: str = "env.json") -> Path:
        path = tmp_path / name
        document = env.to_json() if hasattr(env, "to_json") else env
        path.write_text(document if isinstance(document, str) else json.dumps(document), "utf-8")
        return path

    return save


Saved = Callable[..., Path]


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def one_line(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """Wrong use ends with this code, one line on stderr that says what, and nothing on stdout."""
    assert result.returncode == code, result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.startswith("kerneldoctor: ")
    assert not result.stdout
    for word in words:
        assert word in result.stderr


class TestScan:
    def test_a_healthy_machine_passes(self, saved: Saved) -> None:
        result = kd("scan", "--env", saved(HEALTHY), "--rules", RULES)
        assert result.returncode == 0
        # Much of these facts is unknown, and the headline owns up to it.
        assert re.match(r"Nothing certainly wrong, but \d+ faults may be there: \d+ checks fine", result.stdout)
        assert not result.stderr

    def test_faults_fail(self, saved: Saved) -> None:
        result = kd("scan", "--env", saved(BROKEN), "--rules", RULES)
        assert result.returncode == 1
        assert "[TST1001]" in result.stdout

    def test_never_fails_on_findings_when_asked(self, saved: Saved) -> None:
        assert kd("scan", "--env", saved(BROKEN), "--rules", RULES, "--fail-on", "never").returncode == 0

    def test_what_could_not_be_seen_is_exit_code_3(self, saved: Saved) -> None:
        result = kd("scan", "--env", saved(HANGING))
        assert result.returncode == 3
        assert result.stdout.startswith("Could not determine which GPUs there are (no answer within 8 s)")

    def test_json_is_a_report_and_feeds_itself(self, saved: Saved) -> None:
        first = kd("scan", "--env", saved(BROKEN), "--rules", RULES, "--format", "json")
        report = json.loads(first.stdout)
        assert report["schema"] == "kerneldoctor.report/1"
        again = kd("scan", "--env", "-", "--rules", RULES, "--format", "json", stdin=first.stdout)
        assert json.loads(again.stdout) == report
        assert again.returncode == 1

    def test_this_machine_captured_and_replayed(self, tmp_path: Path) -> None:
        home = tmp_path / "home" / "zaphod"
        home.mkdir(parents=True)
        who = {"HOME": str(home), "USER": "zaphod", "HF_TOKEN": "hf_" + "q" * 34}
        capture = tmp_path / "machine.json"
        live = kd("scan", "--capture", capture, "--format", "json", **who)
        assert live.returncode in (0, 1), live.stderr
        text = capture.read_text("utf-8")
        assert "zaphod" not in text + live.stdout
        assert "qqqq" not in text + live.stdout
        replayed = kd("scan", "--replay", capture, "--format", "json")
        seen, again = json.loads(live.stdout), json.loads(replayed.stdout)
        assert again["environment"] == seen["environment"]
        assert again["findings"] == seen["findings"]

    def test_output_goes_to_the_file_and_only_there(self, saved: Saved, tmp_path: Path) -> None:
        result = kd("scan", "--env", saved(), "--rules", RULES, "-o", tmp_path / "report.txt", FORCE_COLOR="1")
        assert result.stdout == result.stderr == ""
        text = (tmp_path / "report.txt").read_text("utf-8")
        assert text.startswith("Nothing certainly wrong")
        assert "\x1b" not in text
        dash = kd("scan", "--env", saved(), "--rules", RULES, "-o", "-", cwd=tmp_path)
        assert dash.stdout == text
        assert not (tmp_path / "-").exists()

    def test_ignored_findings_are_listed_apart_with_their_reason(self, saved: Saved) -> None:
        ignore = ("--ignore", "TST1001=ticket 7;until=2999-01-01", "--ignore", "gpu-without-code=card goes back")
        result = kd("scan", "--env", saved(BROKEN), "--rules", RULES, *ignore)
        assert "[TST1001]" not in result.stdout
        assert "ignored   TST1001: ticket 7, until 2999-01-01" in result.stdout
        assert "ignored   TST2001: card goes back" in result.stdout

    def test_an_expired_ignore_fails_again(self, saved: Saved) -> None:
        ignore = ("--ignore", "TST1001=ticket 7;until=2020-01-01", "--ignore", "TST2001=x")
        result = kd("scan", "--env", saved(BROKEN), "--rules", RULES, *ignore)
        assert result.returncode == 1
        assert "(expired: counts again)" in result.stdout

    def test_no_escape_codes_in_a_pipe(self, saved: Saved) -> None:
        assert "\x1b" not in kd("scan", "--env", saved(BROKEN), "--rules", RULES).stdout


class TestTerminal:
    def page(self, *arguments: str | Path, **more: str) -> str:
        """What a person sees: stdout is a terminal."""
        master, slave = os.openpty()
        command = [sys.executable, "-m", "kerneldoctor", *map(str, arguments)]
        env = environment(TERM="xterm-256color", **more)
        process = subprocess.Popen(command, stdout=slave, stdin=subprocess.DEVNULL, env=env)
        os.close(slave)
        seen = bytearray()
        with contextlib.suppress(OSError):  # Linux answers EIO when the other end has closed
            while chunk := os.read(master, 65536):
                seen += chunk
        os.close(master)
        process.wait()
        return seen.decode()

    def test_color_on_a_terminal(self, saved: Saved) -> None:
        assert "\x1b[" in self.page("scan", "--env", saved())

    def test_no_color_when_told(self, saved: Saved) -> None:
        assert "\x1b" not in self.page("scan", "--env", saved(), "--no-color")
        assert "\x1b" not in self.page("scan", "--env", saved(), NO_COLOR="1")
        assert "\x1b" not in self.page("scan", "--env", saved(), "--format", "json")

    def test_the_page_is_as_wide_as_the_terminal(self, saved: Saved) -> None:
        pages = {width: self.page("scan", "--env", saved(), "--no-color", COLUMNS=width) for width in ("60", "140")}
        assert "built for CUDA 13.0, GPU code for 7.5 8.0 8.6 9.0 10.0 12.0+PTX" not in pages["60"]
        assert "built for CUDA 13.0, GPU code for 7.5 8.0 8.6 9.0 10.0 12.0+PTX" in pages["140"]


class TestBadUse:
    def test_env_file_missing(self, tmp_path: Path) -> None:
        one_line(kd("scan", "--env", tmp_path / "none.json"), 2, "none.json", "No such file")

    def test_env_file_is_a_folder(self, tmp_path: Path) -> None:
        one_line(kd("scan", "--env", tmp_path), 2, str(tmp_path))

    @pytest.mark.parametrize("option", ["--env", "--replay"])
    def test_what_is_no_file_is_not_waited_for(self, tmp_path: Path, option: str) -> None:
        os.mkfifo(tmp_path / "pipe")
        one_line(kd("scan", option, tmp_path / "pipe"), 2, "pipe", "no regular file")
        one_line(kd("scan", option, "/dev/zero"), 2, "/dev/zero", "no regular file")

    def test_env_file_cut_off(self, saved: Saved) -> None:
        path = saved(json.dumps(HEALTHY.to_json())[:-40])
        one_line(kd("scan", "--env", path), 2, "env.json:1:", "cut off")

    @pytest.mark.parametrize("text", ["[]", '"text"', "{}", '{"schema": "other/1"}', "null", "12"])
    def test_env_file_is_not_ours(self, saved: Saved, text: str) -> None:
        one_line(kd("scan", "--env", saved(text)), 2, "env.json: not a kerneldoctor environment")

    def test_env_file_is_no_text(self, tmp_path: Path) -> None:
        (tmp_path / "env.json").write_bytes(b"\xff\xfe\x00\x01")
        one_line(kd("scan", "--env", tmp_path / "env.json"), 2, "env.json", "UTF-8")

    def test_env_file_of_a_newer_version(self, saved: Saved) -> None:
        newer = {**HEALTHY.to_json(), "schema": "kerneldoctor.environment/2"}
        one_line(kd("scan", "--env", saved(newer)), 2, "env.json", "environment/2", "upgrade kerneldoctor")

    def test_env_file_with_a_wrong_value_names_the_fact(self, saved: Saved) -> None:
        wrong = HEALTHY.to_json()
        wrong["torch"]["cuda"] = {"value": 13.0, "source": "x"}
        one_line(kd("scan", "--env", saved(wrong)), 2, "env.json", "torch.cuda")

    def test_a_capture_and_saved_facts_are_told_apart(self, saved: Saved) -> None:
        capture = saved({"schema": "kerneldoctor.capture/1", "environ": {}, "answers": {}})
        one_line(kd("scan", "--env", capture), 2, "use --replay")
        one_line(kd("scan", "--replay", saved(HEALTHY)), 2, "use --env")

    @pytest.mark.parametrize(
        "document",
        [
            {"schema": "kerneldoctor.capture/1"},
            {"schema": "kerneldoctor.capture/9", "environ": {}, "answers": {}},
            {"schema": "kerneldoctor.capture/1", "environ": {"A": 1}, "answers": {}},
            {"schema": "kerneldoctor.capture/1", "environ": {}, "answers": {"now": 3}},
            [],
        ],
    )
    def test_capture_that_is_none(self, saved: Saved, document: object) -> None:
        one_line(kd("scan", "--replay", saved(document)), 2, "env.json")

    @pytest.mark.parametrize(
        "arguments",
        [
            ("scan", "--format", "yaml"),
            ("scan", "--fail-on", "sometimes"),
            ("scan", "--bogus"),
            ("scan", "surplus"),
            ("scna",),
            ("explain",),
            ("completion", "tcsh"),
            ("scan", "--env", "a", "--deep"),
            ("scan", "--replay", "a", "--capture", "b"),
            ("scan", "--ignore", "KD4001"),
            ("scan", "--ignore", "KD4001="),
            ("scan", "--ignore", "KD4001=x;until=tomorrow"),
            ("scan", "--ignore", "KD4001=x;owner=me"),
            ("scan", "--capture", "-"),
            ("scan", "--ignore", "KD0000=no such rule"),
            ("scan", "--rules", "/nonexistent"),
            ("scan", "--python", "/nonexistent/python"),
            ("scan", "--python", "/bin/true"),
            ("rules", "--check", "/nonexistent"),
        ],
    )
    def test_wrong_arguments(self, arguments: tuple[str, ...]) -> None:
        one_line(kd(*arguments), 2)

    @pytest.mark.parametrize("option", ["--output", "--capture"])
    def test_a_file_that_cannot_be_written_leaves_nothing_behind(self, tmp_path: Path, option: str) -> None:
        one_line(kd("scan", option, tmp_path / "no" / "such" / "folder"), 2, "cannot write", "folder")
        one_line(kd("scan", option, tmp_path), 2, "cannot write")
        assert list(tmp_path.iterdir()) == []

    def test_a_full_disk(self, saved: Saved) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full here")
        one_line(kd("scan", "--env", saved(), "--output", "/dev/full"), 2, "/dev/full", "No space left")

    def test_a_broken_rule_is_named_with_file_and_line(self, tmp_path: Path) -> None:
        good = (RULES / "TST3001-torch-sees-no-gpu.md").read_text("utf-8")
        (tmp_path / "TST3001-torch-sees-no-gpu.md").write_text(good.replace("is = false", "iss = false"), "utf-8")
        for arguments in (("scan", "--rules", tmp_path), ("rules", "--check", tmp_path)):
            one_line(kd(*arguments), 2, "TST3001-torch-sees-no-gpu.md:13:", "deep.cuda_available")


class TestRules:
    def test_explain_takes_id_name_and_alias(self) -> None:
        pages = {
            kd("explain", n, "--rules", RULES).stdout
            for n in ("tst1001", "kernels-out-of-range", "https://example.org/issues/7")
        }
        assert len(pages) == 1
        assert pages.pop().startswith("TST1001 kernels-out-of-range\n")

    def test_explain_as_json(self) -> None:
        assert json.loads(kd("explain", "TST1001", "--rules", RULES, "--format", "json").stdout)["id"] == "TST1001"

    def test_explain_offers_the_nearest(self) -> None:
        one_line(kd("explain", "kernel-out-of-rang", "--rules", RULES), 2, "TST1001 (kernels-out-of-range)")

    def test_every_shipped_rule_is_listed(self) -> None:
        listed = kd("rules").stdout.splitlines()
        as_data = json.loads(kd("rules", "--format", "json").stdout)
        assert [line.split()[0] for line in listed] == [rule["id"] for rule in as_data]
        assert "KD4001" in {rule["id"] for rule in as_data}

    def test_check_names_what_to_mend(self) -> None:
        result = kd("rules", "--check", RULES)
        assert result.returncode == 2
        assert f"{RULES}/TST2001-gpu-without-code.md: the body lacks the section '# What you see'" in result.stdout
        as_data = kd("rules", "--check", RULES, "--format", "json")
        assert as_data.returncode == 2
        assert json.loads(as_data.stdout)["complaints"] == result.stdout.splitlines()

    def test_check_of_good_rules(self, tmp_path: Path) -> None:
        for path in sorted((ROOT / "rules").rglob("KD4001-*.md")):
            (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
        result = kd("rules", "--check", tmp_path)
        assert (result.returncode, result.stdout) == (0, "1 rule checked, nothing to mend\n")


class TestProgram:
    def test_version_is_the_one_of_the_project(self) -> None:
        import tomllib

        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        assert kd("--version").stdout == f"kerneldoctor {project['version']}\n"

    @pytest.mark.parametrize("command", [(), ("scan",), ("explain",), ("rules",), ("completion",)])
    def test_help(self, command: tuple[str, ...]) -> None:
        result = kd(*command, "--help")
        assert result.returncode == 0
        assert result.stdout.startswith(" ".join(("Usage: kerneldoctor", *command)))

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion_script(self, shell: str) -> None:
        assert "_KERNELDOCTOR_COMPLETE" in kd("completion", shell).stdout

    def test_completion_answers(self) -> None:
        result = kd(_KERNELDOCTOR_COMPLETE="bash_complete", COMP_WORDS="kerneldoctor sc", COMP_CWORD="1")
        assert "scan" in result.stdout

    def test_a_reader_that_leaves_is_no_error(self, saved: Saved) -> None:
        command = f"{sys.executable} -m kerneldoctor scan --env {saved()} --verbose | head -c 1"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False)
        assert result.stderr == ""

    @pytest.mark.parametrize(("closing", "says"), [(">&-", "is closed"), (">/dev/full", "No space left on device")])
    def test_a_standard_output_that_takes_nothing_is_one_line(self, saved: Saved, closing: str, says: str) -> None:
        command = f"{sys.executable} -m kerneldoctor scan --env {saved()} {closing}"
        one_line(
            subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment(), check=False),
            2, "standard output", says,
        )  # fmt: skip

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_what_we_started_ends_with_us(self, tmp_path: Path, number: int, code: int) -> None:
        note, python = tmp_path / "pid", tmp_path / "python"
        python.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {note}\nwait\n")
        python.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, "-m", "kerneldoctor", "scan", "--python", str(python)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        while not (note.exists() and note.read_text().endswith("\n")):
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert (out, err.strip()) == (b"", b"")
        # Python itself dies of SIGINT in the end where that came within an exec(), which the import of ours uses.
        assert process.returncode in (code, -number)
        end = time.monotonic() + 5
        while alive(int(note.read_text())) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive(int(note.read_text()))

    def test_nothing_of_the_current_folder_is_run(self, saved: Saved, tmp_path: Path) -> None:
        path = saved()
        for name in ("json", "typing", "__future__", "click", "dataclasses", "rich", "kerneldoctor_x"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the current folder ran')")
        result = kd("scan", "--env", path, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert kd("scan", "--python", sys.executable, cwd=tmp_path).returncode in (0, 1)

    def test_a_current_folder_that_is_gone(self, saved: Saved) -> None:
        command = f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -m kerneldoctor scan"
        for more, code in ((f"--env {saved()}", 0), ("--fail-on never", 0), ("-o report.txt --fail-on never", 2)):
            result = subprocess.run(
                ["bash", "-c", f"{command} {more}"], capture_output=True, text=True, env=environment(), check=False,
                cwd=saved().parent,
            )  # fmt: skip
            assert result.returncode == code, result.stderr

    def test_messages_are_redacted_as_reports_are(self, tmp_path: Path) -> None:
        home = tmp_path / "home" / "zaphod"
        home.mkdir(parents=True)
        who = {"HOME": str(home), "USER": "zaphod"}
        one_line(kd("scan", "--env", home / "none.json", **who), 2, "cannot read ~/none.json")
        assert str(home) in kd("scan", "--env", home / "none.json", "--no-redact", **who).stderr

    def test_interrupt_is_quiet(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "kerneldoctor", "scan", "--env", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
        )  # fmt: skip
        time.sleep(1.5)  # it waits for standard input
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err.strip()) == (130, b"", b"")

    @pytest.mark.parametrize("locale", ["C", "POSIX"])
    def test_a_locale_without_unicode(self, saved: Saved, locale: str) -> None:
        odd = HEALTHY.to_json()
        odd["system"]["distribution"] = {"value": "Distribución ✓", "source": "x"}
        more = {"LC_ALL": locale, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        result = kd("scan", "--env", saved(odd), **more)
        assert result.returncode == 0, result.stderr
        assert "Distribuci\\xf3n" in result.stdout

    def test_our_own_bug_is_one_line_and_exit_code_4(self, tmp_path: Path) -> None:
        # Breaks the tool from outside, as no user can.
        (tmp_path / "sitecustomize.py").write_text("import kerneldoctor.api as a\ndef f(*x, **y): 1 / 0\na.scan = f\n")
        paths = f"{tmp_path}{os.pathsep}{ROOT}"
        result = kd("scan", PYTHONPATH=paths)
        one_line(result, 4, "ZeroDivisionError", "report it", "--capture")
        debug = kd("scan", PYTHONPATH=paths, KERNELDOCTOR_DEBUG="1")
        assert "Traceback" in debug.stderr
        assert debug.returncode == 4
        assert debug.stderr.endswith(result.stderr)


class TestImports:
    """What is imported decides start-up, and a tool that imports torch cannot look at a broken torch."""

    HEAVY = ("torch", "kernels", "transformers", "huggingface_hub", "numpy", "flash_attn", "triton")

    def modules(self, *arguments: str | Path) -> set[str]:
        code = (
            "import sys\nfrom kerneldoctor.cli import main\n"
            "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    print('\\0' + ' '.join(sys.modules))\n"
        )
        command = [sys.executable, "-c", code, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
        return {name.partition(".")[0] for name in result.stdout.rpartition("\0")[2].split()} | set(
            result.stdout.rpartition("\0")[2].split()
        )

    @pytest.mark.parametrize("form", ["console", "json"])
    def test_scan_imports_nothing_that_it_looks_at(self, form: str) -> None:
        loaded = self.modules("scan", "--format", form)
        assert "kerneldoctor.probes.runner" in loaded
        assert loaded.isdisjoint(self.HEAVY)

    def test_the_hub_room_is_left_alone_where_there_is_no_kernel_to_ask_for(self, tmp_path: Path) -> None:
        (tmp_path / "bare.json").write_text('{"schema": "kerneldoctor.environment/1"}')
        for form in ("console", "json"):
            loaded = self.modules("scan", "--env", tmp_path / "bare.json", "--format", form)
            assert "kerneldoctor.report.model" in loaded
            assert "kerneldoctor.hub" not in loaded

    def test_only_a_coloured_page_needs_rich(self) -> None:
        assert "rich" not in self.modules("scan", "--format", "json")
        assert "rich" not in self.modules("explain", "KD4001")
        assert "rich.console" not in self.modules("scan")

    def test_version_and_help_load_the_command_line_only(self) -> None:
        for argument in ("--version", "--help"):
            ours = {name for name in self.modules(argument) if name.startswith("kerneldoctor.")}
            others = {name for name in ours if not name.startswith("kerneldoctor.cli")}
            assert others == {"kerneldoctor.errors", "kerneldoctor.terminal"}

    def test_importing_the_package_loads_nothing(self) -> None:
        code = "import sys, kerneldoctor; print([m for m in sys.modules if m.startswith('kerneldoctor.')])"
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
        )
        assert result.stdout == "[]\n"


def test_redaction_is_on_by_default_for_this_machine(tmp_path: Path) -> None:
    home = tmp_path / "home" / "zaphod"
    home.mkdir(parents=True)
    hidden = kd("scan", "--verbose", HOME=str(home), USER="zaphod").stdout
    shown = kd("scan", "--verbose", "--no-redact", HOME=str(home), USER="zaphod").stdout
    assert "zaphod" not in hidden
    assert "zaphod" in shown


def test_saved_facts_of_somebody_else_lose_their_home(saved: Saved) -> None:
    assert "alice" not in kd("scan", "--env", saved(BROKEN), "--format", "json").stdout
    assert redact_value(BROKEN, Identity()).python.executable.value == "/home/<user>/venv/bin/python"
