"""Tells what only an import can, by a child process under the target interpreter (`scan --deep`).

The child may crash or hang: it is then named by the stage it was in, and the steps behind go on in another child.
Nothing that the child prints is believed; it writes a journal with a nonce.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..environment import Deep, Fact, absent, blank, known, unknown
from ..errors import ProbeError
from ..host import CommandResult
from . import fatbin
from .scene import Scene

CHILD = str(Path(__file__).with_name("deep_child.py"))
TOTAL_SECONDS = 60.0
STEP_SECONDS = 30.0  # a cold `import torch` from a network disk takes up to 20
STEPS = ("torch", "cuda", "kernel", "flash_attn", "flash_attn_3", "flash_attn_4")
JOURNAL_LIMIT = 256 * 1024  # bytes
TEXT_LIMIT = 500

Answers = dict[str, dict[str, Any]]


def probe(scene: Scene) -> dict[str, object]:
    """The `deep` section."""
    return {"deep": look(scene)}


def look(scene: Scene, total: float = TOTAL_SECONDS, step: float = STEP_SECONDS) -> Deep:
    """Import torch and each FlashAttention in a child, for at most `total` seconds, `step` for each import."""
    python = scene.target.executable
    try:
        answers: Answers = scene.host.observe("deep", python, lambda: _ask(scene, total, step))
    except ProbeError as error:
        return blank(Deep, unknown(str(error)))
    return _deep(answers)


def _ask(scene: Scene, total: float, step: float) -> Answers:
    """Answers by step. A child that ends early is followed by one for the steps behind, torch first."""
    answers: Answers = {}
    rest, deadline = list(STEPS), time.monotonic() + total
    while rest:
        left = deadline - time.monotonic()
        if left <= 0:
            answers |= {name: {"unknown": f"not reached within {total:g} s"} for name in rest}
            break
        found, stopped = _run_child(scene, rest, left, min(step, left))
        answers |= {name: answer for name, answer in found.items() if name in rest}
        if stopped is None:
            break
        rest = rest[rest.index(stopped) + 1 :]
        if not _imports(answers.get("torch", {})):
            break  # the others would meet the same
    return answers


def _imports(answer: Mapping[str, Any]) -> bool:
    return bool(answer.get("imports"))


def _run_child(scene: Scene, steps: list[str], total: float, step: float) -> tuple[Answers, str | None]:
    """The answers of one child, and the step at which it ended, None when it came through."""
    nonce = secrets.token_hex(16)
    with _folder() as folder:
        journal = os.path.join(folder, "journal")
        # -B: looking must not leave compiled files behind. No -I: PYTHONPATH and the user's site-packages count.
        argv = (scene.target.executable, "-B", CHILD, journal, nonce, f"{step:.3f}", *steps)
        result = scene.host.run(argv, total)
        lines, hung = list(_lines(journal, nonce)), os.path.exists(journal + ".hang")
        hung = hung and os.path.getsize(journal + ".hang") > 0
    answers: Answers = {
        line["step"]: line["answer"] for line in lines if "answer" in line and line.get("step") in steps
    }
    if any(line.get("finished") for line in lines):
        return answers, None
    stage = next((line for line in reversed(lines) if "doing" in line and line.get("step") in steps), None)
    if stage is None:
        raise ProbeError(f"{scene.target.executable} did not start the check: {_how_it_ended(result)}")
    answers[stage["step"]] = {"raised": _story(result, stage, hung, total)}
    return answers, stage["step"]


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="kerneldoctor-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ProbeError(f"no folder for temporary files: {error.strerror or error}") from None


def _lines(journal: str, nonce: str) -> Iterator[dict[str, Any]]:
    try:
        with open(journal, "rb") as file:
            written = file.read(JOURNAL_LIMIT).splitlines()
    except OSError:
        return
    for raw in written:
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue  # cut off by the crash
        if isinstance(line, dict) and line.get("nonce") == nonce:
            yield line


def _story(result: CommandResult, stage: Mapping[str, Any], hung: bool, total: float) -> str:
    doing = stage["doing"]
    if hung or result.trouble == "timeout":
        return f"no answer within {stage['seconds'] if hung else total:.3g} s while {doing}"
    return f"{_how_it_ended(result)} while {doing}{_last_words(result)}"


def _how_it_ended(result: CommandResult) -> str:
    if result.code is None:
        return {"timeout": "no answer", "missing": "no such program"}.get(result.trouble, "it may not be run")
    if result.code >= 0:
        return f"exited with code {result.code}"
    try:
        return f"killed by {signal.Signals(-result.code).name}"
    except ValueError:
        return f"killed by signal {-result.code}"


def _last_words(result: CommandResult) -> str:
    said = " ".join(result.stderr.split())
    return f": {said[-TEXT_LIMIT:]}" if said else ""


def _deep(answers: Answers) -> Deep:
    torch = answers.get("torch", {})
    not_reached = unknown(torch.get("unknown") or "torch itself does not import")
    cuda, kernel = answers.get("cuda"), answers.get("kernel")
    return Deep(
        **_import_facts("torch", torch, unknown("not reached")),
        **(_cuda_facts(cuda) if cuda else dict.fromkeys(("cuda_available", "cuda_error", "torch_archs"), not_reached)),
        **_kernel_facts(kernel, not_reached),
        **_import_facts("flash_attn", answers.get("flash_attn"), not_reached),
        **_import_facts("flash_attn_3", answers.get("flash_attn_3"), not_reached),
        **_import_facts("flash_attn_4", answers.get("flash_attn_4"), not_reached),
    )


_SOURCE = "import in a child process"


def _import_facts(name: str, answer: Mapping[str, Any] | None, otherwise: Fact[Any]) -> dict[str, Fact[Any]]:
    imports, error = otherwise, otherwise
    if answer is None:
        pass
    elif answer.get("missing"):
        imports = error = absent("no such package")
    elif "unknown" in answer:
        imports = error = unknown(answer["unknown"])
    elif _imports(answer):
        imports, error = known(True, _SOURCE), absent(_SOURCE)
    elif "raised" in answer:
        imports, error = known(False, _SOURCE), known(str(answer["raised"]), _SOURCE)
    return {f"{name}_imports": imports, f"{name}_error": error}


def _cuda_facts(answer: Mapping[str, Any]) -> dict[str, Fact[Any]]:
    if "unknown" in answer:
        return dict.fromkeys(("cuda_available", "cuda_error", "torch_archs"), unknown(answer["unknown"]))
    source = "torch.cuda.is_available()"
    if "raised" in answer:
        said = str(answer["raised"])
        return {
            "cuda_available": known(False, source),
            "cuda_error": known(said, source),
            "torch_archs": unknown(said),
        }
    error = answer.get("error")
    archs = fatbin.in_order(a for flag in answer.get("archs", []) if (a := fatbin.from_flag(flag)) is not None)
    return {
        "cuda_available": known(bool(answer.get("available")), source),
        "cuda_error": known(str(error), "torch.cuda.init()") if error else absent(source),
        "torch_archs": known(archs, "torch.cuda.get_arch_list()") if archs else absent("torch names no CUDA code"),
    }


def _kernel_facts(answer: Mapping[str, Any] | None, otherwise: Fact[Any]) -> dict[str, Fact[Any]]:
    runs, error = otherwise, otherwise
    source = "one kernel in a child process"
    if answer is None:
        pass
    elif "skipped" in answer:
        runs = error = absent(str(answer["skipped"]))
    elif "unknown" in answer:
        runs = error = unknown(answer["unknown"])
    else:
        said = answer.get("raised") or answer.get("error")
        runs = known(bool(answer.get("runs")), source)
        error = known(str(said), source) if said else absent(source)
    return {"gpu_kernel_runs": runs, "gpu_kernel_error": error}
