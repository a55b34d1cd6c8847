"""One machine, looked at for a preflight: its scan, the demands on it, and the kernels of the policy.

Judges nothing itself, and meets no other rank but the one that fetches for this machine.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..address import Address
from ..environment import Environment
from ..errors import KerneldoctorError, UndeterminedError
from ..lock import Locked, fingerprint
from ..report.checks import Check, Checks
from .device import Machine
from .lookup import Kernels
from .machine import GROUP, settled
from .policy import Around, Policy
from .ranks import Rank

if TYPE_CHECKING:
    from ..report.model import Report
    from .assembly import Assembly
    from .launch import Launch

Answer = TypeVar("Answer")
_TICK = 0.2  # seconds between two looks at whether the job still goes on


class Looking:
    """One rank's look. `base` and `notes` are there once `rank` has returned."""

    def __init__(
        self, policy: Policy, around: Around, locks: Mapping[str, tuple[Locked, ...]], end: float,
        launch: Launch | None = None, assembly: Assembly | None = None,
    ) -> None:  # fmt: skip
        self._policy, self._around, self._locks, self._end = policy, around, locks, end
        self._launch, self._assembly = launch, assembly
        self.base: Checks | None = None
        self.notes = ["these are saved facts: nothing was run"] if around.env is not None else []

    def rank(self) -> Rank:
        """Everything that this rank finds."""
        from ..api_hub import look_from_shell
        from ..report.redact import redact_value

        began = time.monotonic()
        self.step("looking at the machine")
        environment, identity, address = look_from_shell(self._around.env, self._policy.python)
        self._scan(environment, address)
        assert self.base is not None
        machine = Machine(environment, self._policy.device, self._launch)
        own = [*self._ignores, *machine.checks(self._policy)]
        builds: dict[str, str] = {}
        if self._policy.run != "scan":
            kernels = Kernels(self, self._policy, self._around, self._locks, machine)
            own += kernels.checks()
            builds = kernels.builds
        own = [_addressed(settled(check, self._policy.fail_on), address) for check in own]
        checks = (*own, *self.base.checks)
        if self._around.redact:
            checks = redact_value(checks, identity)
            self.base = redact_value(self.base, identity)
            self.notes = redact_value(self.notes, identity)
        return Rank(
            self._launch.rank if self._launch else 0, platform.node(), machine.device, machine.gpu,
            fingerprint(machine.environment), builds, checks, time.monotonic() - began,
        )  # fmt: skip

    def _scan(self, environment: Environment, address: Address) -> None:
        from ..api import list_rules, scan
        from ..report.addressed import addressed
        from ..report.checks import of_report

        policy = self._policy
        report = scan(env=environment, rules=policy.rules, ignore=policy.ignore, redact=False, today=self._around.today)
        report = addressed(report, address)
        self.base = of_report(report, policy.fail_on, list_rules(policy.rules))
        self._ignores = tuple(_ignore_checks(report, policy))

    # --- what the kernels need to know -------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """Seconds until everything must be found."""
        return self._end - time.monotonic()

    def step(self, text: str) -> None:
        """Say what is done next, here and to the other ranks."""
        self._around.step(text)
        if self._assembly is not None:
            self._assembly.stage(text)

    def over(self) -> str:
        """Why nothing more is worth beginning, or ""."""
        return self._assembly.over() if self._assembly is not None else ""

    def go_on(self) -> None:
        """Raises UndeterminedError where nothing more is worth beginning."""
        if why := self.over():
            raise UndeterminedError(why)

    def unless_over(self, ask: Callable[[], Answer]) -> Answer:
        """The answer to something that may take long; it is left behind once the job ends (UndeterminedError)."""
        if self._assembly is None:
            return ask()
        found: list[Answer | KerneldoctorError] = []
        thread = threading.Thread(target=lambda: found.append(_answered(ask)), name="preflight", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_TICK)
            if thread.is_alive():
                self.go_on()
        (answer,) = found
        if isinstance(answer, KerneldoctorError):
            raise answer
        return answer

    @property
    def fetches(self) -> bool:
        """Whether this rank asks the Hub itself."""
        return self._launch is None or self._launch.fetches

    def announce(self, what: Mapping[str, Any]) -> None:
        """Tell the other ranks of this machine what the cache holds."""
        if self._assembly is not None:
            self._assembly.fetched(self._node, what)

    def brought(self) -> Mapping[str, Any]:
        """What the rank that fetches for this machine says. Raises UndeterminedError."""
        assert self._assembly is not None
        return self._assembly.await_fetched(self._node, self._end)

    @property
    def _node(self) -> str:
        return (self._launch.node if self._launch else "") or platform.node()


def _answered(ask: Callable[[], Answer]) -> Answer | KerneldoctorError:
    try:
        return ask()
    except KerneldoctorError as error:
        return error


def _addressed(check: Check, address: Address) -> Check:
    """With commands that reach the environment that was looked at."""
    return replace(check, remedies=tuple((words, address.commands(command)) for words, command in check.remedies))


def _ignore_checks(report: Report, policy: Policy) -> Iterator[Check]:
    """An entry past its date hides nothing any more, and somebody meant to look again on that day."""
    for use in report.ignores:
        ignore = use.ignore
        if use.state == "expired":
            detail = f"it held until {ignore.until} ({ignore.reason}): the finding counts again"
            yield Check(
                f"ignore:{ignore.rule}", GROUP, f"the ignore entry for {ignore.rule} has expired", "failed", "warning",
                detail, (("Mend it, or decide anew until when to live with it", ""),), kind="ignore-expired",
                file=policy.source,
            )  # fmt: skip
        elif use.state == "unused":
            yield Check(
                f"ignore:{ignore.rule}", GROUP, f"the ignore entry for {ignore.rule} matches nothing", "failed", "info",
                f"it can go ({ignore.reason})", kind="ignore-unused", file=policy.source,
            )  # fmt: skip
