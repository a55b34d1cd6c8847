"""Asks the kernels library of the target interpreter whether a build is signed by a publisher that it trusts.

Parent side; nothing of the build is imported. Verification needs the network (the transparency log's keys).
"""

from __future__ import annotations

import json
import re
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

    Raises UndeterminedError where it cannot be checked (no network, no sigstore, kernels without `kernels.verify`).
    """
    nonce = secrets.token_hex(8)
    done = run_command((python, "-c", _SCRIPT, str(folder), nonce), timeout)
    if done.trouble == "timeout":
        raise UndeterminedError(f"the signature could not be checked within {timeout:g} s")
    for line in done.stdout.splitlines():
        if line.startswith(_MARK + nonce):
            return _refusal(json.loads(line.removeprefix(_MARK + nonce)))
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    why = _why(said[-1], python) if said else f"{python}: {done.trouble or f'exit code {done.code}'}"
    raise UndeterminedError(f"the signature cannot be checked: {why}")


def _why(last: str, python: str) -> str:
    """From the last line of a traceback; whoever reads it is told what to do."""
    missing = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", last)
    if missing is not None and missing[1] == "kernels.verify":
        return f"the kernels of {python} cannot verify signatures; newer ones can: pip install --upgrade kernels"
    if missing is not None:
        name = missing[1].partition(".")[0]
        return f"{name} is not installed for {python}: pip install {name}"
    network = "; sigstore's keys come from the network (https://tuf-repo-cdn.sigstore.dev)"
    return f"{last[:300]}{network if 'TUFError' in last else ''}"


def _refusal(said: dict[str, str]) -> Refusal | None:
    if said["kind"] == "Success":
        return None
    reason = f" ({' '.join(said['reason'].split())[:200]})" if said["reason"] else ""
    why = _WORDS.get(said["kind"], said["kind"])
    return Refusal("signature", f"{why}{reason}", "use a signed build, or leave out --verify")
