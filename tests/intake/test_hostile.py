"""Texts that were made to hurt: no error, bounded time and memory, and a fault at the end of a long log is found."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldoctor.intake import _RECOGNISERS, read

from .printers import PRINTERS
from .test_honesty import HERE

FAULT = (
    "ImportError: /x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEa\n"
)


@given(st.binary(max_size=4000) | st.text(max_size=4000))
@settings(deadline=None)
def test_no_text_raises(text: str | bytes) -> None:
    read(text)


PIECES = [line for printer in PRINTERS.values() for line in printer(HERE)[0].splitlines()]
PIECES += [
    FAULT,
    "```",
    "<details>",
    "> > ",
    "\x1b[31m",
    "\0",
    "Package Version",
    "GPU 0:",
    "Machine 2:",
    ">>> torch.__version__",
    '{"schema": "kerneldoctor.environment/1"',
]


@given(st.lists(st.sampled_from(PIECES), max_size=60), st.sampled_from(["\n", " ", "", "\r", "\\n"]))
@settings(deadline=None, max_examples=200)
def test_no_mixture_of_formats_raises(pieces: list[str], joint: str) -> None:
    read(joint.join(pieces))


WORDS = ["".join(chr(97 + i // 26**k % 26) for k in range(4)) for i in range(90_000)]

CUE_WORDS = sorted({cue.encode() for recogniser in _RECOGNISERS for cue in recogniser.cues})

BOMBS = {
    "short different lines": "".join(f"{word} torch\n" for word in WORDS).encode(),
    "different lines of cues": "".join(f"{word} gpu: error torch cuda python\n" for word in WORDS[:30_000]).encode(),
    "different versions": "".join(
        f"{word} torch 2.{ord(word[0]) % 9} python 3.1\n" for word in WORDS[:30_000]).encode(),
    "one long word": b"a" * 1_000_000,
    "spaces": b" " * 1_000_000 + b"torch",
    "quotes": b"> " * 500_000,
    "quoted lines": b"> > > torch\n" * 80_000,
    "escapes": b"\x1b[" * 500_000,
    "escape strings": b"\x1b]" * 500_000,
    "NUL bytes": b"\0" * 1_000_000,
    "invalid UTF-8": b"\xff\xfetorch 2.9\n" * 80_000,
    "binary": random.Random(1).randbytes(1_000_000),
    "ELF": b"\x7fELF" + b"\0libtorch.so\0undefined symbol: _ZN3c10\0" * 25_000,
    "fences": b"```\n~~~\n<details>\n" * 60_000,
    "versions": (b"torch " + b"1." * 2000 + b"\n") * 250,
    "dots": (b"torch version " + b"." * 2000 + b"\n") * 500,
    "colons": b"torch: : : : : : : : : : : : : : : :\n" * 27_000,
    "a long line of faults": b"torch 2.9 error: undefined symbol " * 30_000,
    "carriage returns": b"\rDownloading torch 10%|###   | error" * 27_000,
    "cache names": (b"kernels--" + b"a-" * 1500 + b"\n") * 330,
    "wheels": (b"a_" * 1800 + b"-1.0.whl install\n") * 280,
    "brackets": b"[(<{" * 250_000,
    "escaped line breaks": b'{"log": "' + b"\\n torch 2.9 error" * 55_000 + b'"}',
    "nested JSON": b'{"schema": "kerneldoctor.environment/1", ' * 24_000,
    "package rows": b"Package Version\n------- ------\n" + b"torch 2.9.0\n" * 80_000,
    "paths": (b"/a" * 1000 + b"/site-packages/x.cpython-312.so\n") * 500,
    "commas": b"NVIDIA H100, " * 76_000,
    "wheels in a row": b"torch-2.9.0-cp312-cp312-linux_x86_64.whl " * 24_000,
    "backticks": b"`" * 300_000,
    "letters and dots": b"a.b.c." * 50_000,
    "requirements in one line": b"torch==" * 40_000,
    "carriage returns only": b"torch 2.9 error\r" * 20_000,
    "a long freeze": "".join(f"pkg{i}==1.{i}.0\n" for i in range(20_000)).encode(),
    "nested details": b"<details><summary>x</summary>\n" * 10_000,
    "a conda file": b"  - torch=2.9=py312_cuda12.8\n" * 10_000,
    "all cues in one line": b" ".join(CUE_WORDS * 200),
    "all cues in lines": b"\n".join(word + b" 2.9 " + cue for word, cue in itertools.product(
        (w.encode() for w in WORDS[:60]), CUE_WORDS)),
}  # fmt: skip


@pytest.mark.parametrize("bomb", BOMBS)
def test_time_stays_linear(bomb: str) -> None:
    began = time.process_time()
    read(BOMBS[bomb])
    assert time.process_time() - began < 30  # a pattern that blows up takes for ever; the benchmark holds the speed


def test_a_fault_at_the_end_of_a_long_log_is_found() -> None:
    log = "".join(f"2026-01-01T00:00:00.123Z step {i} loss 0.{i} warning: retrying, error {i}\n" for i in range(60_000))
    pasted = read(log + FAULT)
    assert pasted.error_text[-1].text.rstrip().endswith("_ZN3c104cuda9SetDeviceEa")
    assert pasted.environment.extensions.is_known


def test_a_fault_in_the_middle_of_a_long_log_of_other_errors_is_found() -> None:
    words = random.Random(2)

    def noise(count: int) -> str:
        return "".join(f"error in part {words.randbytes(6).hex()}xyz\n" for _ in range(count))

    pasted = read(noise(8000) + FAULT + noise(8000))
    block = next(b for b in pasted.error_text if "SetDevice" in b.text)
    assert block.first_line + block.text[: block.text.index("ImportError")].count("\n") == 8001


def test_utf_16_of_powershell_is_read() -> None:
    assert read("torch 2.9.0+cu128\r\n".encode("utf-16")).environment.fact("torch.cuda").value == "12.8"


def test_error_text_keeps_line_numbers_and_whole_tracebacks() -> None:
    frames = "".join(f'  File "/x/layer.py", line {i}, in forward\n    y = f(x)\n' for i in range(40))
    text = (
        "hello\n" * 30
        + "Traceback (most recent call last):\n"
        + frames
        + "RuntimeError: no kernel image\n"
        + "bye\n" * 30
    )
    (block,) = read(text).error_text
    lines = block.text.split("\n")
    assert lines[31 - block.first_line] == "Traceback (most recent call last):"
    assert "RuntimeError: no kernel image" in lines
    assert len(lines) < 100
