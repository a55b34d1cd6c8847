"""What the commands do, for Python programs: ask the rooms in order and hand over the result.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import __version__
from .environment import Environment
from .errors import EnvironmentFileError, ProbeError, UsageError
from .files import write_text as write_text
from .values import dataclass

if TYPE_CHECKING:
    from .address import Address
    from .engine.model import Rule
    from .host import Host, RecordedHost, RecordingHost
    from .probes.scene import Target
    from .report.model import Ignore, Report
    from .report.redact import Identity

    Seen = tuple[Environment, Address]  # facts, and how a shell reaches what they are about

T = TypeVar("T")


def scan(
    *,
    python: str | None = None,
    deep: bool = False,
    env: str | Environment | None = None,
    capture: str | None = None,
    replay: str | None = None,
    rules: Sequence[str | Path] = (),
    ignore: Iterable[Ignore | str] = (),
    redact: bool = True,
    today: datetime.date | None = None,
) -> Report:
    """Look at this machine and say what is wrong with it for GPU kernels.

    python: the interpreter whose environment is looked at; ours by default. deep: also import torch and flash-attn,
    in a child process (up to 90 s). env: judge a saved Environment or report (a path, or "-" for standard input)
    instead of this machine. capture: write what was seen to this file. replay: look at a captured machine. rules:
    folders of more rules. ignore: findings to live with, as Ignore or "ID=reason[;until=YYYY-MM-DD]". redact: take
    users, hosts, homes and secrets out of the report and the capture. today: the date for ignore entries and reviews.

    Raises UsageError (and its kinds RuleError, EnvironmentFileError) for what cannot be done as asked.
    """
    # The machine is asked first, since it is slow to answer; the rules are read meanwhile.
    find_facts = _start_looking(python, deep, env, capture, replay, redact)
    from .engine import facts  # noqa: F401 - registers the derived facts that rules name
    from .engine.case import Case
    from .engine.loading import all_rules, shipped_tables
    from .engine.matching import judge
    from .processes import end_commands
    from .report.addressed import addressed
    from .report.model import build_report
    from .report.redact import redact_value

    known_rules = all_rules(tuple(Path(folder) for folder in rules))
    ignores = [_known_ignore(parse_ignore(i) if isinstance(i, str) else i, known_rules) for i in ignore]
    try:
        environment, identity, address = find_facts()
    except KeyboardInterrupt:
        end_commands()
        raise
    judgement = judge(known_rules, Case(environment, shipped_tables()))
    day = (today or datetime.date.today()).isoformat()
    report = addressed(build_report(environment, judgement, known_rules, ignores, __version__, day), address)
    return redact_value(report, identity) if redact else report


def parse_ignore(text: str) -> Ignore:
    """An ignore entry from "ID=reason[;until=YYYY-MM-DD]". Raises UsageError."""
    from .report.model import Ignore

    rule, _, rest = text.partition("=")
    reason, *more = re.split(r";\s*(?=[A-Za-z_-]+\s*=)", rest)  # a reason may hold semicolons
    if not rule.strip() or not reason.strip():
        raise UsageError(
            f'--ignore {text!r}: a reason is required, as in "KD1001=known, see ticket 7;until=2027-01-31"'
        )
    given: dict[str, str] = {}
    for key, value in (part.split("=", 1) for part in more):
        if key.strip().lower() != "until" or given:
            raise UsageError(f"--ignore {text!r}: after the reason only one ;until=YYYY-MM-DD is understood, no {key}=")
        given["until"] = _day(value.strip(), text)
    return Ignore(rule.strip(), reason.strip(), **given)


def _day(value: str, text: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        raise UsageError(f"--ignore {text!r}: {value!r} is no date of the form YYYY-MM-DD") from None


def find_rule(name: str, folders: Sequence[str | Path] = ()) -> Rule:
    """The rule with an id, name or alias. Raises UsageError that offers the nearest one."""
    from .engine.loading import all_rules

    return _find(name, all_rules(tuple(Path(folder) for folder in folders)))


def list_rules(folders: Sequence[str | Path] = ()) -> tuple[Rule, ...]:
    """The shipped rules and those of the folders, by id. Raises RuleError."""
    from .engine.loading import all_rules

    return all_rules(tuple(Path(folder) for folder in folders))


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """What the linter says of a folder of rules."""

    rules: int
    complaints: tuple[str, ...]  # "folder/file: what to mend"


def check_rules(folder: str | Path, today: datetime.date | None = None) -> RuleCheck:
    """Validate a folder of rules, as they will be used: together with the shipped ones.

    Raises RuleError (with file and line) for a rule that cannot even be read, and for a folder without rules.
    """
    from .engine import facts  # noqa: F401 - registers the derived facts that rules may name
    from .engine.lint import lint
    from .engine.loading import load_rules, shipped_rules, shipped_tables

    rules = load_rules(Path(folder))
    complaints = lint(rules, shipped_tables(), today or datetime.date.today(), shipped_rules())
    return RuleCheck(len(rules), tuple(f"{folder}/{complaint}" for complaint in complaints))


def usual_kernels(environment: Environment) -> tuple[str, ...]:
    """What a scan looks up unasked: flash_attention_2 where torch and transformers are installed."""
    both = (environment.torch.version, environment.packages.get("transformers").version)
    return ("flash_attention_2",) if all(fact.is_known for fact in both) else ()


def _start_looking(
    python: str | None, deep: bool, env: str | Environment | None, capture: str | None, replay: str | None, redact: bool
) -> Callable[[], tuple[Environment, Identity, Address]]:
    """Begin to find the facts. The function returned waits for them; where there is a capture, it writes that."""
    if env is not None:
        if python or deep or capture or replay:
            raise UsageError(
                "--env judges saved facts: it cannot be combined with --python, --deep, --capture or --replay"
            )
        return lambda: _saved(env)
    if capture == "-":
        raise UsageError("--capture needs the name of a file: standard output holds the report")
    if replay is not None:
        if python or capture:
            raise UsageError("--replay looks at a recorded machine: it cannot be combined with --python or --capture")
        return lambda: _replayed(replay, deep)
    from .host import RealHost, RecordingHost

    host = RealHost()
    if capture is None:
        environment = _start_probing(host, python, deep)
        return lambda: _with_identity(environment(), find_identity(host))
    recording = RecordingHost(host)
    recorded = _start_probing(recording, python, deep)
    return lambda: _captured(recorded(), recording, find_identity(host), capture, redact)


def _start_probing(host: Host, python: str | None, deep: bool) -> Callable[[], Seen]:
    from .probes.interpreter import find_target

    if python is not None:  # a child process describes it
        described = _in_background(lambda: find_target(host, python))
        from .probes.runner import run_probes

        return lambda: _with_address(host, described(), lambda target: run_probes(host, target, deep))
    from .probes.runner import start_probes

    target = find_target(host, None)
    environment = start_probes(host, target, deep)
    return lambda: _with_address(host, target, lambda _: environment())


def _with_address(host: Host, target: Target, look: Callable[[Target], Environment]) -> Seen:
    from .probes.shell import find_address

    environment = look(target)
    return environment, find_address(host, target, environment)


def _with_identity(seen: Seen, identity: Identity) -> tuple[Environment, Identity, Address]:
    environment, address = seen
    return environment, identity, address


def _in_background(work: Callable[[], T]) -> Callable[[], T]:
    """Start the work in a thread. The function returned waits for it, and returns or raises what the work did."""
    results: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            failures.append(error)

    # A daemon: wrong use that is noticed meanwhile must not wait for it.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait() -> T:
        thread.join()
        if failures:
            raise failures[0]
        return results[0]

    return wait


def _saved(env: str | Environment) -> tuple[Environment, Identity, Address]:
    """Somebody else's machine: there, the usual words are as good as any."""
    from .address import Address
    from .report.redact import Identity

    return (env if isinstance(env, Environment) else load_environment(env)), Identity(), Address()


def _replayed(path: str, deep: bool) -> tuple[Environment, Identity, Address]:
    recorded = _load_recorded(path)
    return _with_identity(_start_probing(recorded, None, deep)(), find_identity(recorded))


def _captured(
    seen: Seen, recording: RecordingHost, identity: Identity, path: str, redact: bool
) -> tuple[Environment, Identity, Address]:
    """Write down every answer that the machine gave."""
    import json

    from .report.redact import captured_variable, redact_capture

    document = redact_capture(recording.capture(captured_variable), identity if redact else None)
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return _with_identity(seen, identity)


def load_environment(path: str) -> Environment:
    """A saved Environment, or the one inside a saved report. Raises EnvironmentFileError that names the file."""
    document = _load_json(path, 'saved facts, written by "kerneldoctor scan --format json"')
    if isinstance(document, dict) and str(document.get("schema")).startswith("kerneldoctor.capture/"):
        raise EnvironmentFileError(f"{path}: this is a capture: use --replay {path}")
    try:
        return Environment.from_json(document)
    except EnvironmentFileError as error:
        raise EnvironmentFileError(f"{path}: {error}") from None


def _load_recorded(path: str) -> RecordedHost:
    from .host import RecordedHost

    document = _load_json(path, 'a capture, written by "kerneldoctor scan --capture"')
    if isinstance(document, dict) and str(document.get("schema")).startswith(
        ("kerneldoctor.report/", "kerneldoctor.env")
    ):
        raise EnvironmentFileError(f"{path}: these are saved facts, no capture: use --env {path}")
    match document:
        case {"schema": _, "environ": dict(environ), "answers": dict(answers)} if all(
            isinstance(value, str) for value in environ.values()
        ) and all(isinstance(answer, dict) and answer.keys() & {"is", "trouble"} for answer in answers.values()):
            try:
                return RecordedHost(document)
            except EnvironmentFileError as error:
                raise EnvironmentFileError(f"{path}: {error}") from None
    raise EnvironmentFileError(f"{path}: not a capture of kerneldoctor: schema, environ and answers are missing or odd")


def _load_json(path: str, what: str) -> Any:
    from .files import read_json

    try:
        return read_json(path, what)
    except UsageError as error:
        raise EnvironmentFileError(str(error)) from None


def find_identity(host: Host) -> Identity:
    """Who runs this and where. No name service is asked: it could hang."""
    from .report.redact import identity_from

    home = host.environ.get("HOME", "")
    homes, names = {home}, set()
    try:
        homes.add(host.stat(home).real if home else "")
    except ProbeError:
        homes.discard("")
    for path in ("/proc/sys/kernel/hostname", "/etc/hostname"):
        try:
            names.add(host.read(path, 256).decode("utf-8", "replace").strip())
        except ProbeError:
            continue
    return identity_from(host.environ, homes, names)


def _known_ignore(ignore: Ignore, rules: tuple[Rule, ...]) -> Ignore:
    """The entry under its rule's id, so that a name or an alias works as well."""
    return replace(ignore, rule=_find(ignore.rule, rules).id)


def _find(name: str, rules: tuple[Rule, ...]) -> Rule:
    names = {key.lower(): rule for rule in reversed(rules) for key in (*rule.aliases, rule.name, rule.id)}
    rule = names.get(name.strip().lower())
    if rule is not None:
        return rule
    import difflib

    near = difflib.get_close_matches(name.strip().lower(), names, 1, 0.5)
    hint = f"; the nearest is {names[near[0]].id} ({names[near[0]].name})" if near else ""
    raise UsageError(f"no rule is called {name!r}{hint}; see `kerneldoctor rules`")
