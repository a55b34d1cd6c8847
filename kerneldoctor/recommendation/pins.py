"""The chosen candidate in every form that people type: for Python, a shell and pyproject.toml. Decides nothing."""

from __future__ import annotations

from ..hub.download import is_commit
from ..smoke.trial import Pin
from .model import Candidate, PinForms, Policy


def pin_forms(chosen: Candidate, policy: Policy) -> PinForms:
    """What to type for it; where it was not run, the comment says so."""
    tested = chosen.passes(policy.inference)
    if chosen.kind != "kernel":
        name = chosen.name_to_type
        forms = {"attn_implementation": f'attn_implementation="{name}"', "trl": f"--attn_implementation {name}"}
        comment = "" if chosen.kind == "floor" else "the installed package"
        return PinForms(forms if name else {}, _with(comment, chosen, policy, tested), tested, False)
    pin = Pin(chosen.repo, chosen.revision, chosen.version, chosen.attention, policy.inference, chosen.trust)
    branch = "" if chosen.version == chosen.revision else chosen.version
    lines = _kernels_lock(chosen)
    return PinForms(
        pin.forms(), _with(branch, chosen, policy, tested), tested, is_commit(chosen.revision), lines
    )  # fmt: skip


def _with(comment: str, chosen: Candidate, policy: Policy, tested: bool) -> str:
    parts = [comment] if comment else []
    if chosen.kind != "floor":
        parts += [] if tested else ["untested"]
        parts += ["for inference only"] if policy.inference else []
    return ", ".join(parts)


def _kernels_lock(chosen: Candidate) -> tuple[str, ...]:
    """What `kernels lock` reads: version numbers alone, up to kernels 0.17.2 (https://pypi.org/project/kernels/0.17.2/,
    cli/lock.py), so the commit is only that of the branch on the day of locking.
    """
    number = chosen.version.removeprefix("v")
    if not chosen.version.startswith("v") or not number.isdecimal():
        return ()
    return "[tool.kernels.dependencies]", f'"{chosen.repo}" = {number}'
