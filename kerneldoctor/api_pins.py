"""What `pins` does, for Python programs: search a code base, and say what would come of each pin on one machine.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import __version__, api_hub
from .environment import Environment
from .errors import UndeterminedError, UsageError
from .pins.model import Pin
from .pins.search import search
from .pins.verdict import JudgedPin, Outlook, PinReport, State, must_be_commit
from .values import dataclass

if TYPE_CHECKING:
    from .engine.case import Workload
    from .hub.answer import Answer
    from .hub.candidates import Candidate, VersionCandidates
    from .hub.whatif import Changes

MOST = 200  # different kernels of one code base that are judged
NO_TARGET = (
    "no torch is installed here, so that no build was judged: name the machine that will run it with --env FILE "
    "(a saved scan) or --torch, --cuda and --gpu"
)


@dataclass(frozen=True, slots=True)
class Demands:
    """What a pin must be, beside usable."""

    commit: bool = False  # no branch, version or bare name
    lenient: bool = False  # what cannot be told does not count


NO_DEMANDS = Demands()


def find_pins(
    paths: Sequence[str],
    *,
    environment: Environment,
    changes: Changes | None = None,
    asking: api_hub.Asking = api_hub.USUAL_ASKING,
    rules: Sequence[str | Path] = (),
    workload: Workload | None = None,
    demands: Demands = NO_DEMANDS,
) -> PinReport:
    """Every place below `paths` that asks for an attention or a kernel, judged for a machine.

    environment, changes, asking, rules, workload: as for `variants`. Raises UsageError for a path that is not there.
    """
    found = search(paths)
    oracle = _Oracle(environment, changes, asking, rules, workload)
    judged = tuple(JudgedPin(pin, oracle.outlook(pin), demands.commit and must_be_commit(pin)) for pin in found.pins)
    asks = any(j.outlook.state == "not-judged" and j.pin.reference for j in judged)
    notes = (*oracle.notes, *((NO_TARGET,) if asks and not oracle.has_target else ()))
    return PinReport(
        found, judged, oracle.target, tuple(dict.fromkeys(notes)), demands.lenient,
        datetime.date.today().isoformat(), __version__,
    )  # fmt: skip


class _Oracle:
    """One machine, asked about many pins; each reference once."""

    def __init__(
        self, environment: Environment, changes: Changes | None, asking: api_hub.Asking,
        rules: Sequence[str | Path], workload: Workload | None,
    ) -> None:  # fmt: skip
        self._environment, self._changes, self._asking = environment, changes, asking
        self._rules, self._workload = rules, workload
        self._known: dict[str, Outlook] = {}
        self.has_target = environment.torch.version.is_known or bool(changes and changes.torch)
        self.notes: list[str] = []
        self.target = ""

    def outlook(self, pin: Pin) -> Outlook:
        """What would come of a pin."""
        if pin.kind == "wrong":
            return Outlook("wrong", pin.why)
        if pin.kind == "builtin":
            return Outlook("fine", "comes with transformers and torch")
        if pin.kind in ("other", "not_read", "locked") or not self.has_target:
            return Outlook("not-judged", pin.why)
        if pin.reference not in self._known and len(self._known) >= MOST:
            return Outlook("undetermined", f"more than {MOST} different kernels: name the folders that matter")
        if pin.reference not in self._known:
            self._known[pin.reference] = self._ask(pin)
        return self._known[pin.reference]

    def _ask(self, pin: Pin) -> Outlook:
        from .hub.live import RepositoryMissingError, RevisionMissingError

        start = time.monotonic()
        try:
            return (pin.kind == "name" and self._of_name(pin.reference)) or self._of_builds(pin.reference)
        except (RepositoryMissingError, RevisionMissingError) as error:
            return Outlook("missing", str(error))
        except (UndeterminedError, UsageError) as error:
            return Outlook("undetermined", str(error))
        finally:
            self._be_patient_once(time.monotonic() - start)

    def _be_patient_once(self, seconds: float) -> None:
        """A Hub that let us wait to the end is not asked about the other kernels."""
        if self._asking.source == "auto" and seconds > 0.9 * self._asking.timeout:
            self._asking = replace(self._asking, source="index")
            self.notes.append("the Hub did not answer in time: it was not asked again")

    def _of_name(self, name: str) -> Outlook | None:
        """What flash_attention_2 comes to; None where that is a kernel of the Hub."""
        meant, notes = api_hub.resolve(name, environment=self._environment, changes=self._changes)
        self.notes += notes
        if meant.source == "package":
            return Outlook("fine", "the installed flash-attn package is taken")
        if meant.source == "none":
            return Outlook(
                "no-build", f"transformers {meant.transformers} would raise: see kerneldoctor resolve {name}"
            )
        return None

    def _of_builds(self, reference: str) -> Outlook:
        from .report.variants import headline, machine_text, pin_lines, version_sentence

        answer = api_hub.variants(
            reference, environment=self._environment, changes=self._changes, asking=self._asking, rules=self._rules,
            workload=self._workload,
        )  # fmt: skip
        self.target = machine_text(answer)
        self.notes += [note for note in answer.notes if note not in self.notes]
        version, repo = answer.version, answer.candidates.listing.repo
        usable = version.usable if version is not None else answer.usable
        text = (
            headline(answer)
            if version is None
            else f"{_named(version)} {version_sentence(version, answer.environment)}"
        )
        advice = _instead(answer, pin_lines(answer.pin, repo)[0] if answer.pin is not None else "")
        chosen = version.preferred if version is not None else None
        rules = tuple(issue.rule for issue in chosen.issues if issue.severity == "error") if chosen is not None else ()
        state: State = "undetermined" if usable is None else "no-build"
        if usable:
            state = "perhaps-bad" if rules else "fine"
        elif usable is False and _is_known_bad(chosen):
            state = "known-bad"
        commit = version.version.commit if version is not None and len(version.version.commit) == 40 else ""
        return Outlook(state, text, rules, advice if rules or state == "no-build" else "", commit)


def _named(version: VersionCandidates) -> str:
    name = version.version.name
    return name[:10] if len(name) == 40 else name


def _is_known_bad(chosen: Candidate | None) -> bool:
    return chosen is not None and any(issue.blocks for issue in chosen.issues)


def _instead(answer: Answer, line: str) -> str:
    """What to write, unless that is what stands there."""
    named = answer.pin is not None and answer.pin.version == answer.asked
    return "" if named else line
