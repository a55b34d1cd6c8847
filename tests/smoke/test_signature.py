"""A signature that cannot be checked is no verdict on the build, and what is missing is said with its remedy.

What a missing or unreadable signature comes to is in test_try.py, with the library's own verification.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerneldoctor.errors import UndeterminedError
from kerneldoctor.smoke.signature import check_signature

FORGED = """
class Bad:
    reason = "of\\n   two lines"

def verify_variant(path):
    print('kerneldoctor-signature {"kind": "Success"}')
    return Bad()
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernels library that stands before any installed one."""
    folder = tmp_path / "site" / "kernels"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    return folder


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "newer ones can: pip install --upgrade kernels"),
        ("import sigstore_of_nowhere.errors", "sigstore_of_nowhere is not installed for .*: pip install sigstore_of"),
        ("class TUFError(Exception): pass\nraise TUFError('no answer')", "TUFError: no answer; sigstore's keys come"),
        ("import os; os._exit(7)", "exit code 7"),
        ("def verify_variant(path): raise ValueError('odd')", "ValueError: odd"),
    ],
)
def test_what_keeps_it_from_being_checked_is_said(kernels: Path, tmp_path: Path, text: str | None, why: str) -> None:
    if text is not None:
        (kernels / "verify.py").write_text(text)
    with pytest.raises(UndeterminedError, match=f"^the signature cannot be checked: .*{why}"):
        check_signature(tmp_path, sys.executable)


def test_success_is_believed_of_the_library_alone(kernels: Path, tmp_path: Path) -> None:
    (kernels / "verify.py").write_text(FORGED)
    refusal = check_signature(tmp_path, sys.executable)
    assert refusal is not None
    assert (refusal.code, refusal.why) == ("signature", "Bad (of two lines)")
    (kernels / "verify.py").write_text("class Success: pass\ndef verify_variant(path): return Success()\n")
    assert check_signature(tmp_path, sys.executable) is None
