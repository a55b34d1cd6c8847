"""A worker that speaks the real protocol and does to its own process what a kernel could do; needs no torch.

Run as `PYTHON scripted_worker.py JOB.json`. The plan comes from KERNELDOCTOR_TEST_PLAN: JSON of case id -> deed,
"@import" and "@load" for deeds before the cases, "@exit" for one after `done`.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

PROTOCOL = pathlib.Path(os.environ["KERNELDOCTOR_TEST_PROTOCOL"])
sys.path.insert(0, str(PROTOCOL.parent))
import protocol  # type: ignore  # noqa: E402


def block_for_ever() -> None:
    """As a driver call that never comes back: in native code, deaf to SIGTERM."""
    libc = ctypes.PyDLL(None)  # PyDLL keeps the GIL
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    while True:
        libc.sleep(1000)


def hog() -> None:
    held = []
    while True:
        held.append(b"x" * (64 << 20))


def daemon() -> None:
    """Leaves a process behind that has left group and session."""
    subprocess.Popen(["sleep", "1000"], start_new_session=True)


def shout() -> None:
    for _ in range(2000):
        os.write(1, b"rubbish \xff\x00" * 1000)
        os.write(2, b'{"event": "result", "id": "a", "outcome": "passed"}\n')


DEEDS = {
    "pass": lambda: None,
    "segfault": lambda: ctypes.string_at(0),
    "abort": lambda: (os.write(2, b"kernel.cu:12: CUDA error: assertion failed\n"), os.abort()),
    "exit0": lambda: os._exit(0),
    "exit7": lambda: os._exit(7),
    "hang": block_for_ever,
    "sleep": lambda: time.sleep(1000),
    "hog": hog,
    "daemon": daemon,
    "shout": shout,
    "kill-parent": lambda: (os.kill(os.getppid(), signal.SIGKILL), time.sleep(1000)),
    "kill-group": lambda: os.killpg(os.getpgrp(), signal.SIGKILL),
    "kill9": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def main() -> None:
    job = protocol.Job.from_json(pathlib.Path(sys.argv[1]).read_text())
    plan = json.loads(os.environ["KERNELDOCTOR_TEST_PLAN"])
    journal = open(job.journal, "a", buffering=1)  # noqa: SIM115
    say = lambda event: journal.write(protocol.event_line(event))  # noqa: E731
    say(protocol.Hello(job.nonce, os.getpid(), "3", sys.executable, {"torch": "0"}))
    say(protocol.Stage(job.nonce, "import-torch"))
    DEEDS[plan.get("@import", "pass")]()
    say(protocol.Stage(job.nonce, "load-kernel"))
    again = pathlib.Path(os.environ.get("KERNELDOCTOR_TEST_STATE", "/nowhere"))
    if "@load-again" in plan and again.exists():
        DEEDS[plan["@load-again"]]()
    if again.parent.is_dir():
        again.touch()
    if plan.get("@load", "") == "refuse":
        say(protocol.Refused(job.nonce, "import-error", "ImportError: no", "load-kernel"))
        sys.exit(protocol.EXIT_REFUSED)
    DEEDS[plan.get("@load", "pass")]()
    say(protocol.Loaded(job.nonce, "k", None, ("f",), ("c",)))
    cases = job.cases or tuple(protocol.Case(i, "c", {}, 0) for i in plan if i[0] != "@")
    say(protocol.Planned(job.nonce, cases))
    for case in cases:
        deed = plan[case.id]
        if deed == "before":
            os.abort()
        say(protocol.Stage(job.nonce, "forward", case.id))
        if deed == "poison":
            say(protocol.Result(job.nonce, case.id, "raised", "illegal address", "forward", 0.1, poisoned=True))
            os._exit(protocol.EXIT_POISONED)
        if deed != "after":
            DEEDS.get(deed, DEEDS["pass"])()
        if deed.startswith("backward-"):
            found = "out is off" if deed.endswith("-wrong") else ""
            say(protocol.Compared(job.nonce, case.id, found, {"out": protocol.TensorError(0.1, 0.1, 0.1)}))
            say(protocol.Stage(job.nonce, "backward", case.id))
            os.abort()
        outcome = deed if deed in ("wrong", "raised", "oom", "unsupported", "skipped") else "passed"
        say(protocol.Result(job.nonce, case.id, outcome, "", "compare", 0.1))
        if deed == "after":
            os.abort()
    say(protocol.Done(job.nonce, 1, {"import-torch": 0.1}))
    DEEDS[plan.get("@exit", "pass")]()


main()
