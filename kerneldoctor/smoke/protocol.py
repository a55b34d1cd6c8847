"""The words that the parent and the child of a smoke run speak: one job in, one JSON event a line out.

Standard library only, and Python 3.10 syntax: the child runs it under another interpreter, by path. It must not judge:
an outcome is what happened to one case; the verdict over all of them is the parent's.

Order of events in the journal of one child:

    hello                          the child lives, and its versions as far as they are known without torch
    stage(name="import-torch") …   written BEFORE each risky step: the last one names where a silent child died
    versions                       torch is there; what it says of itself and of the device
    loaded | refused               the kernel module is there with these exports, or will never be (then: end)
    planned                        the cases that will run, in order
    { stage(case=…) …  compared?  result } *  one result for each planned case
    done                           everything was said; a journal without it belongs to a child that died

The parent starts the child as `PYTHON worker.py JOB.json` and trusts the journal alone, never stdout or stderr.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Union

PROTOCOL_VERSION = 1

#: Exit codes of the child. Any other one (0 without a `done` event included) is the kernel's doing.
EXIT_DONE = 0
#: The kernel was not loaded; the journal's `refused` event says why.
EXIT_REFUSED = 10
#: The job could not be read: a fault of the parent. One line on stderr, no journal.
EXIT_BAD_JOB = 11
#: The device context is broken for good (illegal address and its like). The case it happened in has its result; start
#: a new child with the cases that have none.
EXIT_POISONED = 12

#: passed       right in every tensor that was compared
#: wrong        ran, and a tensor is off, not finite, not repeatable, or memory was written that is not the kernel's
#: raised       ended in an exception
#: oom          host or device memory ran out
#: unsupported  the kernel itself says that it has no such feature, or its signature has no parameter for it
#: skipped      not run here, for a reason that lies with the machine or the request, not with the kernel
#: Only the parent can give the other three outcomes of a case: crashed, hung, refused.
CaseOutcome = Literal["passed", "wrong", "raised", "oom", "unsupported", "skipped"]

#: Why a kernel was not loaded. `import-error` covers every exception of the kernel's own import.
RefusalReason = Literal[
    "no-torch",
    "no-kernels",
    "no-transformers",
    "no-trl",
    "no-model",
    "no-attention",
    "no-device",
    "kernels-out-of-range",
    "untrusted",
    "no-variant",
    "not-found",
    "wrong-architecture",
    "missing-dependency",
    "hub-unreachable",
    "out-of-memory",
    "import-error",
    "tampers",  # it replaces something with which it would be judged
]

Json = Any
_dumps = json.dumps  # as it was before any kernel was imported


class ProtocolError(ValueError):
    """A job that cannot be used; the message says which field."""


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """Which kernel to load, and how.

    mode "hub":    `repo` with exactly one of `revision` (branch, tag or commit) and `version`; LOCAL_KERNELS is
                   honoured because the kernels library does.
    mode "local":  `path` of a directory in Hub layout: the repo, its `build/`, or one variant.
    mode "module": `module` is an importable name ("flash_attn", "fa3_fwd_interface").

    mode "builtin": `module` is one of torch's own attentions ("eager", "sdpa", "sdpa-flash", "flex"), to be measured.

    measure: it is to be measured, see measure.contracts, instead of tried.
    through: transformers or TRL load it, under the name `attention` (attn_implementation), into a small model: that of
             `model` (a config.json or a name), or the default one, with the heads and the dtype of `workload`.
    """

    mode: Literal["hub", "local", "module", "builtin"]
    repo: str | None = None
    revision: str | None = None
    version: int | None = None
    path: str | None = None
    module: str | None = None
    trust_remote_code: bool = False
    through: Literal["transformers", "trl"] | None = None
    attention: str | None = None
    model: str | None = None
    workload: dict[str, Json] | None = None
    measure: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """One call to judge. `params` are what the contract understands, JSON scalars and lists only."""

    id: str
    contract: str
    params: dict[str, Json]
    seed: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Lets the child choose the cases once it knows the exports; spares a second import of torch.

    set:      "quick" (at most 16), "full", or "workload" (then `workload` is needed).
    backward: False leaves every backward out (inference only).
    only:     keeps just the cases with these ids (reproduction: `--case ID --seed N`).
    seed:     the seed of every chosen case.
    workload: {"heads", "kv_heads", "head_dim", "dtype", "window"?, "softcap"?, "causal"?}; see cases.Workload.
    """

    set: Literal["quick", "full", "workload"] = "quick"
    backward: bool = True
    only: tuple[str, ...] = ()
    seed: int = 0
    workload: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What one child is to do.

    nonce:        stands in every event; a line without it was written by somebody else.
    device:       a torch device: "cpu", "cuda:0", "xpu:0", "mps".
    cases:        run exactly these, in this order (a restart passes those that have no result yet).
    selection:    used when `cases` is empty. Both empty: load, list the exports, stop.
    journal:      file that the events are appended to; its folder exists.
    memory_limit: bytes of address space; only applied on the CPU, where CUDA's reservations do not need it.
    """

    nonce: str
    kernel: KernelRequest
    device: str
    journal: str
    cases: tuple[Case, ...] = ()
    selection: Selection | None = None
    memory_limit: int | None = None

    def to_json(self) -> str:
        """The job as one JSON document."""
        return json.dumps({"protocol": PROTOCOL_VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Reads a job; ProtocolError when it is not one or speaks another version."""
        try:
            raw = json.loads(text)
            if raw.pop("protocol", None) != PROTOCOL_VERSION:
                raise ProtocolError(f"the job is not of protocol {PROTOCOL_VERSION}")
            selection = raw.get("selection")
            return cls(
                **{
                    **raw,
                    "kernel": KernelRequest(**raw["kernel"]),
                    "cases": tuple(Case(**case) for case in raw.get("cases", ())),
                    "selection": None if selection is None else Selection(**_tuples(selection, "only")),
                }
            )
        except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ProtocolError(f"the job cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class TensorError:
    """How far one tensor is from the fp32 reference.

    relative:  root mean square of the error over that of the reference (None: not finite).
    baseline:  the same number for PyTorch's own math in the same low precision.
    worst:     largest absolute error of one element, at index `at`; `ratio` says how many times over the tolerance
               the worst check of this tensor is (above 1: wrong).
    """

    relative: float | None
    baseline: float | None
    worst: float | None
    at: tuple[int, ...] = ()
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """The child lives. `versions` holds what importlib.metadata knows, before anything was imported."""

    event: ClassVar[str] = "hello"
    nonce: str
    pid: int
    python: str
    executable: str
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """The child is about to do `name`; for a case: make-inputs, reference, forward, backward, compare, …"""

    event: ClassVar[str] = "stage"
    nonce: str
    name: str
    case: str | None = None


@dataclass(frozen=True, slots=True)
class Versions:
    """torch was imported. `device` holds name, capability and total_memory of the device (empty on the CPU)."""

    event: ClassVar[str] = "versions"
    nonce: str
    torch: str
    cuda: str | None = None
    device: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The kernel module is there.

    exports:   public names, those of a `layers` namespace as "layers.Name".
    contracts: names of the contracts that fit these exports (none: "loaded, no contract").
    variant:   build directory name, build_id: id from metadata.json or of the native library; None when not known.
    commit:    full commit of the snapshot it came from, when it came from the Hub cache.
    through:   of a kernel that another library loaded: which library, what was asked, what runs, who chose it.
    """

    event: ClassVar[str] = "loaded"
    nonce: str
    module: str
    file: str | None
    exports: tuple[str, ...]
    contracts: tuple[str, ...]
    variant: str | None = None
    build_id: str | None = None
    commit: str | None = None
    source: Literal["hub", "local", "module"] = "hub"
    through: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The kernel was not loaded; no case ran. `message` is "Type: text" of the exception."""

    event: ClassVar[str] = "refused"
    nonce: str
    reason: RefusalReason
    message: str
    stage: str
    traceback_tail: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    """The cases that will run, in order. Empty: nothing was asked, or no contract fits."""

    event: ClassVar[str] = "planned"
    nonce: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """The forward of a case was compared. Written before its backward is called, which may take the child along.

    found: what was wrong with it, "" when it was right.
    """

    event: ClassVar[str] = "compared"
    nonce: str
    id: str
    found: str = ""
    errors: dict[str, TensorError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What happened to one case.

    detail:    one sentence: which tensor is off and where, the exception, or why it is unsupported.
    direction: "forward" or "backward", where it went wrong; None when it passed.
    forward:   whether every output of the forward was compared and right; None when they were not compared.
    errors:    by tensor name: out, lse, dq, dk, dv, … whatever was compared before it stopped.
    seconds:   wall time of the whole case, reference included; `timings` splits it by stage.
    notes:     what was looked at beyond the numbers and what could not be ("guards: 3 inputs, 4 outputs").
    measured:  of a case that measures: by "forward", "backward" and "step", what was measured before it stopped.
    """

    event: ClassVar[str] = "result"
    nonce: str
    id: str
    outcome: CaseOutcome
    detail: str
    stage: str
    seconds: float
    direction: Literal["forward", "backward"] | None = None
    errors: dict[str, TensorError] = field(default_factory=dict)
    traceback_tail: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    poisoned: bool = False
    forward: bool | None = None
    measured: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was said. peak_memory in bytes: of the device, on the CPU the process's peak resident size."""

    event: ClassVar[str] = "done"
    nonce: str
    peak_memory: int | None
    timings: dict[str, float] = field(default_factory=dict)


Event = Union[Hello, Stage, Versions, Loaded, Refused, Planned, Compared, Result, Done]  # noqa: UP007 - 3.10 has no other way
_EVENTS: Mapping[str, type[Any]] = {
    kind.event: kind for kind in (Hello, Stage, Versions, Loaded, Refused, Planned, Compared, Result, Done)
}


def event_line(event: Event) -> str:
    """The event as one line of JSON, line end included."""
    return _dumps({"event": event.event, **asdict(event)}) + "\n"


def parse_event(line: str, nonce: str) -> Event | None:
    """The event of one journal line; None for anything that is not a whole event of this very job.

    Unknown fields of a known event are dropped, so that a newer child can be read.
    """
    try:
        raw = json.loads(line)
        if not isinstance(raw, dict) or raw.get("nonce") != nonce:
            return None
        kind = _EVENTS[raw.pop("event")]
        known = {f.name for f in fields(kind)}
        return _shape(kind, {name: value for name, value in raw.items() if name in known})
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def read_journal(path: Path, nonce: str, start: int = 0) -> tuple[list[Event], int]:
    """Events of the journal from byte `start` on, and the byte to go on from; a last line without its end waits."""
    with path.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole, newline, _ = data.rpartition(b"\n")
    lines = whole.decode("utf-8", "replace").split("\n") if newline else []
    events = [event for line in lines if (event := parse_event(line, nonce)) is not None]
    return events, start + (len(whole) + 1 if newline else 0)


def _shape(kind: type[Any], raw: dict[str, Json]) -> Event:
    if kind is Planned:
        raw["cases"] = tuple(Case(**case) for case in raw["cases"])
    if kind in (Compared, Result):
        raw["errors"] = {name: TensorError(**_tuples(error, "at")) for name, error in raw.get("errors", {}).items()}
    event: Event = kind(**_tuples(raw, "exports", "contracts", "notes"))
    return event


def _tuples(raw: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: tuple(value) if name in names else value for name, value in raw.items()}
