"""Runs under the target interpreter, by path, and tells what only an import can: it may crash or hang without harm.

It must not import anything of ours, nor need a Python newer than 3.8. Nothing is printed: modules print too. Each
answer is one JSON line with the caller's nonce in a journal file, and the stage is written before each risky step,
so that the caller can name it when nothing follows.

usage: deep_child.py JOURNAL NONCE SECONDS_A_STEP STEP...
"""

from __future__ import annotations

import sys

if sys.path and sys.path[0].replace("\\", "/").endswith("kerneldoctor/probes"):
    del sys.path[0]  # put there because the script lies there; it holds a torch.py

import faulthandler
import importlib
import importlib.util
import json
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

ATTENTION = {
    "flash_attn": ("flash_attn", "flash_attn_func"),
    "flash_attn_3": ("flash_attn_interface", "flash_attn_func"),
    "flash_attn_4": ("flash_attn.cute", "flash_attn_func"),
}
TEXT_LIMIT = 500  # characters from the end of an error; the end names the symbol


class Journal:
    """The file that the caller reads."""

    def __init__(self, path: str, nonce: str, seconds: float) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._hangs = open(path + ".hang", "w")  # noqa: SIM115 - open until the end; a watchdog thread writes to it
        self._nonce, self._seconds = nonce, seconds

    def write(self, **line: Any) -> None:
        """Append one line, whole or not at all."""
        os.write(self._file, (json.dumps(dict(line, nonce=self._nonce)) + "\n").encode())

    def stage(self, step: str, doing: str) -> None:
        """Say what comes next, and end this process (exit code 1, stack in PATH.hang) when it takes too long."""
        self.write(step=step, doing=doing, seconds=self._seconds, began=time.monotonic())
        faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._hangs)


def text(error: BaseException) -> str:
    """An error as Python prints it, the end of it."""
    message = str(error).strip()
    return f"{type(error).__name__}: {message[-TEXT_LIMIT:]}" if message else type(error).__name__


def import_torch() -> dict[str, Any]:
    """Import it; its own error otherwise."""
    importlib.import_module("torch")
    return {"imports": True}


def ask_cuda() -> dict[str, Any]:
    """Whether CUDA can be used, torch's own reason when not, and the GPU code that torch says it holds."""
    torch: Any = importlib.import_module("torch")
    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()  # get_arch_list() is empty without a GPU
    answer: dict[str, Any] = {"archs": flags.split() if flags else []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answer["available"] = bool(torch.cuda.is_available())
    if not answer["available"]:
        try:
            torch.cuda.init()
        except Exception as error:  # noqa: BLE001 - whatever torch raises here is the answer
            answer["error"] = text(error)
        else:
            answer["error"] = str(caught[-1].message)[-TEXT_LIMIT:] if caught else "torch sees no GPU"
    return answer


def run_kernel() -> dict[str, Any]:
    """One small kernel on the current GPU, with its result."""
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return {"skipped": "CUDA is not available"}
    numbers = torch.arange(64, device="cuda", dtype=torch.float32)
    total = float((numbers * 2 + 1).sum().item())
    torch.cuda.synchronize()
    return {"runs": total == 4096.0, "error": None if total == 4096.0 else f"wrong result: {total!r}, not 4096.0"}


def import_attention(step: str) -> dict[str, Any]:
    """Import one generation of FlashAttention and its function; "missing" when there is no such package."""
    module, function = ATTENTION[step]
    top = module.split(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or (spec.origin is None and module == top):  # a namespace is not FA2, it may be FA4's
        return {"missing": True}
    if module != top and not any(
        os.path.isdir(os.path.join(folder, module.split(".")[1])) for folder in spec.submodule_search_locations or []
    ):
        return {"missing": True}
    getattr(importlib.import_module(module), function)
    return {"imports": True}


STEPS: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": import_torch,
    "cuda": ask_cuda,
    "kernel": run_kernel,
    "flash_attn": lambda: import_attention("flash_attn"),
    "flash_attn_3": lambda: import_attention("flash_attn_3"),
    "flash_attn_4": lambda: import_attention("flash_attn_4"),
}
DOING = {"torch": "importing torch", "cuda": "asking torch for CUDA", "kernel": "running one kernel on the GPU"}


def main(arguments: list[str]) -> None:
    """Do the steps in order; an error of one is its answer."""
    path, nonce, seconds, *steps = arguments
    journal = Journal(path, nonce, float(seconds))
    for step in steps:
        journal.stage(step, DOING.get(step) or "importing " + ATTENTION[step][0])
        try:
            answer = STEPS[step]()
        except BaseException as error:  # noqa: BLE001 - SystemExit too: the outermost frame around foreign code
            answer = {"raised": text(error)}
        faulthandler.cancel_dump_traceback_later()
        journal.write(step=step, answer=answer)
        if step == "torch" and "raised" in answer:
            break  # every other step would meet the same error
    journal.write(finished=True)
    os._exit(0)  # what the imported modules do at exit is of no interest and may hang


if __name__ == "__main__":
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash here is expected; a core file of torch is not
    except (ImportError, ValueError, OSError):
        pass
    main(sys.argv[1:])
