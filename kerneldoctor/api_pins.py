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
from .pins.calls import kernels_refusal, transformers_refusal
from .pins.model import Pin, Trust
from .pins.search import search
from .pins.verdict import JudgedPin, Outlook, PinReport, State, must_be_commit
from .values import dataclass

if TYPE_CHECKING:
    from .engine.case import Row, Workload
    from .hub.answer import Answer
    from .hub.candidates import Candidate, VersionCandidates
    from .hub.surroundings import Hindrance
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
    """One machine, asked about many pins; of each reference the Hub is asked once."""

    def __init__(
        self, environment: Environment, changes: Changes | None, asking: api_hub.Asking,
        rules: Sequence[str | Path], workload: Workload | None,
    ) -> None:  # fmt: skip
        from .engine.loading import shipped_tables

        self._environment, self._changes, self._asking = environment, changes, asking
        self._rules, self._workload = rules, workload
        self._there, _ = api_hub.changed(environment, changes, shipped_tables())
        self._answers: dict[str, Answer | Outlook] = {}
        self._kernels = self._kernels_release()
        self.has_target = environment.torch.version.is_known or bool(changes and changes.torch)
        self.notes: list[str] = []
        self.target = ""

    def outlook(self, pin: Pin) -> Outlook:
        """What would come of a pin."""
        if pin.kind == "wrong" or pin.kind == "broken":
            return Outlook(pin.kind, pin.why)
        if pin.kind == "builtin":
            return Outlook("fine", "comes with transformers and torch")
        if refused := self._refusal(pin):
            return self._mended(pin, Outlook("raises", refused))
        if pin.kind in ("other", "registered", "not_read", "locked") or not self.has_target:
            return Outlook("undetermined" if pin.call == "text" else "not-judged", pin.why)
        return self._judged(pin)

    def _refusal(self, pin: Pin) -> str:
        """Why the call itself would raise."""
        if pin.reader == "transformers" or pin.kind == "locked":
            return transformers_refusal(pin, str(self._there.packages.get("transformers").version.value or ""))
        return kernels_refusal(pin, self._kernels) if self._kernels is not None else ""

    def _kernels_release(self) -> Row | None:
        """What the kernels release does that builds are judged by; None where nothing is known of it."""
        from .engine.case import Case
        from .engine.loading import shipped_tables
        from .hub.candidates import kernels_release, release_row

        tables = shipped_tables()
        try:
            return release_row(tables, kernels_release(Case(self._there, tables))[0])
        except UsageError:
            return None

    def _mended(self, pin: Pin, refused: Outlook) -> Outlook:
        """A call that raises with what to write; a kernel that is not there at all comes first."""
        if pin.reader == "transformers":
            return replace(refused, pin=f'attn_implementation="{pin.reference}"')
        if not pin.reference or not self.has_target:
            return refused
        answer = self._answer(pin.reference)
        if isinstance(answer, Outlook):
            return answer if answer.state == "missing" else refused
        return replace(refused, pin=_line(answer, pin))

    def _judged(self, pin: Pin) -> Outlook:
        if pin.kind == "name" and (outlook := self._of_name(pin.reference)) is not None:
            return outlook
        reference = pin.reference
        if pin.reader == "kernels" and pin.kind == "unpinned":
            reference = f"{reference}@main"  # what the releases take that do not demand a version
        answer = self._answer(reference)
        return answer if isinstance(answer, Outlook) else _of_builds(answer, pin)

    def _answer(self, reference: str) -> Answer | Outlook:
        if reference not in self._answers:
            if len(self._answers) >= MOST:
                return Outlook("undetermined", f"more than {MOST} different kernels: name the folders that matter")
            self._answers[reference] = self._ask(reference)
        return self._answers[reference]

    def _ask(self, reference: str) -> Answer | Outlook:
        from .hub.live import RepositoryMissingError, RevisionMissingError
        from .report.reasons import unused_gpu_text
        from .report.variants import machine_text

        start = time.monotonic()
        try:
            answer = api_hub.variants(
                reference, environment=self._environment, changes=self._changes, asking=self._asking,
                rules=self._rules, workload=self._workload,
            )  # fmt: skip
        except (RepositoryMissingError, RevisionMissingError) as error:
            return Outlook("missing", str(error))
        except (UndeterminedError, UsageError) as error:
            return Outlook("undetermined", str(error))
        finally:
            self._be_patient_once(time.monotonic() - start)
        self.target = machine_text(answer)
        unused = unused_gpu_text(answer.environment)
        self.notes += [note for note in answer.notes if note not in self.notes]
        self.notes += [f"what would load runs {unused}"] if unused else []
        return answer

    def _be_patient_once(self, seconds: float) -> None:
        """A Hub that let us wait to the end is not asked about the other kernels."""
        if self._asking.source == "auto" and seconds > 0.9 * self._asking.timeout:
            self._asking = replace(self._asking, source="index")
            self.notes.append("the Hub did not answer in time: it was not asked again")

    def _of_name(self, name: str) -> Outlook | None:
        """What flash_attention_2 comes to; None where that is a kernel of the Hub."""
        try:
            meant, notes = api_hub.resolve(name, environment=self._environment, changes=self._changes)
        except UsageError as error:
            return Outlook("undetermined", str(error))
        self.notes += notes
        if meant.source == "package":
            return Outlook("fine", "the installed flash-attn package is taken")
        if meant.source == "none":
            text = f"transformers {meant.transformers} would raise: see kerneldoctor resolve {name}"
            return Outlook("raises", text)
        return None


def _of_builds(answer: Answer, pin: Pin) -> Outlook:
    """What would come of a pin whose kernel was looked up."""
    version, line = answer.version, _line(answer, pin)
    advice = "" if answer.pin is not None and answer.pin.version == answer.asked else line
    if pin.reader == "transformers" and answer.meaning.obstacle is not None and answer.meaning.works is False:
        return Outlook("raises", _through_transformers(answer))
    if version is None:
        return _not_listed(answer, advice)
    commit = version.version.commit if len(version.version.commit) == 40 else ""
    if stopped := _stopped(answer, version, pin):
        return replace(stopped, commit=commit, pin=line if stopped.state == "not-trusted" else "")
    return _of_version(answer, version, advice, commit)


def _of_version(answer: Answer, version: VersionCandidates, advice: str, commit: str) -> Outlook:
    from .report.variants import version_sentence

    text = f"{_named(version)} {version_sentence(version, answer.environment)}"
    chosen = version.preferred
    rules = tuple(issue.rule for issue in chosen.issues if issue.severity == "error") if chosen is not None else ()
    state: State = "undetermined" if version.usable is None else "no-build"
    if version.usable:
        state = "perhaps-bad" if rules else "fine"
    elif version.usable is False and _is_known_bad(chosen):
        state = "known-bad"
    return Outlook(state, text, rules, advice if rules or state == "no-build" else "", commit)


def _not_listed(answer: Answer, advice: str) -> Outlook:
    """No version of that name: transformers asks for one that is not there, or the listing does not go so far."""
    from .report.variants import headline

    if not answer.asked:
        usable = answer.usable
        return Outlook("undetermined" if usable is None else "fine" if usable else "no-build", headline(answer))
    gone = answer.candidates.listing.source == "live"
    return Outlook("missing" if gone else "undetermined", headline(answer), pin=advice if gone else "")


def _stopped(answer: Answer, version: VersionCandidates, pin: Pin) -> Outlook | None:
    """What keeps a build that fits from being loaded by this very call."""
    from .hub.surroundings import Hindrance
    from .report.loading import hindrance, hindrance_text

    found = hindrance(answer, version)
    if found not in (None, Hindrance.NOT_TRUSTED):
        state: State = "hindered" if found is not None and found.loads is False else "undetermined"
        return Outlook(state, f"{_named(version)} {hindrance_text(answer, version)}")
    trust = _trust(answer, pin, found) if version.usable else "given"
    if trust == "given":
        return None
    text = hindrance_text(answer, version) or "is from outside kernels-community: transformers wants to be allowed it"
    if trust == "unknown":
        return Outlook("undetermined", f"{_named(version)} {text}; whether the call allows it does not stand here")
    return Outlook("not-trusted", f"{_named(version)} {text}")


def _trust(answer: Answer, pin: Pin, found: Hindrance | None) -> Trust:
    """Whether what must be allowed is: kernels is told in its own call, transformers by allow_all_kernels."""
    if pin.reader == "kernels":
        return "given" if found is None else pin.trust
    match answer.pin.consent if answer.pin is not None else "none":
        case "none":
            return "given" if found is None else pin.trust
        case "allow":
            return pin.trust
    return "withheld"


def _through_transformers(answer: Answer) -> str:
    from .report.naming import mend_text, obstacle_text

    mend = mend_text(answer.meaning)
    return obstacle_text(answer.meaning) + (f"; {mend}" if mend else "")


def _named(version: VersionCandidates) -> str:
    name = version.version.name
    return name[:10] if len(name) == 40 else name


def _is_known_bad(chosen: Candidate | None) -> bool:
    return chosen is not None and any(issue.blocks for issue in chosen.issues)


def _line(answer: Answer, pin: Pin) -> str:
    """What to write for the version to be recommended, in the form that the place asks for."""
    from .report.variants import pin_lines

    if answer.pin is None:
        return ""
    return pin_lines(answer.pin, answer.candidates.listing.repo)[-1 if pin.reader == "kernels" else 0]
