"""Asks the kernels library of the target interpreter whether a build is signed by a publisher that it trusts.

Parent side; nothing of the build is imported. Verification needs the network (the transparency log's keys).
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from ..errors import UndeterminedError
from ..processes import NOT_FROM_HERE, run_command
from .trial import Refusal

_MARK = "kerneldoctor-signature "
_SCRIPT = f"""{NOT_FROM_HERE}
import json, pathlib
from kernels.verify import verify_variant
found = verify_variant(pathlib.Path(sys.argv[1]))
said = {{"kind": type(found).__name__, "reason": str(getattr(found, "reason", "") or "")}}
sys.stdout.write("\\n{_MARK}" + sys.argv[2] + json.dumps(said) + "\\n")
"""
_WORDS = {
    "SignatureBundleMissing": "it is not signed",
    "SignatureBundleInvalid": "its signature cannot be read",
    "SignatureVerificationFailure": "its signature is not one of a trusted publisher",
    "MetadataMissing": "there is no metadata.json",
    "MetadataInvalid": "metadata.json cannot be read",
    "DigestMissing": "metadata.json holds no digest, so the signature covers no file",
    "DigestVerificationFailure": "files differ from the signed digest",
}


def check_signature(folder: Path, python: str, timeout: float = 60.0) -> Refusal | None:
    """Why the build's signature does not do; None when it does.

    Raises UndeterminedError where it cannot be checked (no network, kernels without `kernels.verify`).
    """
    nonce = secrets.token_hex(8)
    done = run_command((python, "-c", _SCRIPT, str(folder), nonce), timeout)
    if done.trouble == "timeout":
        raise UndeterminedError(f"the signature could not be checked within {timeout:g} s")
    for line in done.stdout.splitlines():
        if line.startswith(_MARK + nonce):
            return _refusal(json.loads(line.removeprefix(_MARK + nonce)))
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    raise UndeterminedError(f"the signature cannot be checked: {said[-1][:300] if said else done.trouble or done.code}")


def _refusal(said: dict[str, str]) -> Refusal | None:
    if said["kind"] == "Success":
        return None
    reason = f" ({said['reason'][:200]})" if said["reason"] else ""
    why = _WORDS.get(said["kind"], said["kind"])
    return Refusal("signature", f"{why}{reason}", "use a signed build, or leave out --verify")
