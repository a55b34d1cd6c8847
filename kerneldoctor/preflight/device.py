"""Which device of a machine is a rank's own, and the facts as they count on it. Starts nothing on any device."""

from __future__ import annotations

from ..engine.case import Case
from ..engine.facts.driver import visible_nvidia_gpus
from ..environment import Environment
from ..errors import UndeterminedError
from ..report.checks import Check
from .launch import Launch
from .machine import GROUP, machine_checks
from .policy import Policy


class Machine:
    """The facts, and which device of the machine is this rank's own."""

    def __init__(self, environment: Environment, asked: str, launch: Launch | None) -> None:
        from ..engine.loading import shipped_tables

        self.case = Case(environment, shipped_tables())
        self.environment = environment
        self.device, self.gpu, self._trouble = asked, "", ""
        self._own_device(launch)
        self._with_device()

    def checks(self, policy: Policy) -> tuple[Check, ...]:
        """The demands on the machine, and whether there is a device for this rank."""
        found = machine_checks(policy, self.case)
        if self._trouble:
            check = Check("device", GROUP, "there is a device", "undetermined", "error", self._trouble, kind="device")
            return (*found, check) if policy.run == "smoke" else found
        return found

    @property
    def usable(self) -> str:
        """Why nothing can be run, or ""."""
        return self._trouble

    def _own_device(self, launch: Launch | None) -> None:
        """The GPU of LOCAL_RANK, where a launcher shows more than one to every rank."""
        local = launch.local_rank if launch is not None else None
        backend = self.case.fact("torch.backend").value
        if self.device != "auto" or local is None or backend not in ("cuda", "rocm"):
            return
        count = self.case.fact("visibility.count")
        listed = visible_nvidia_gpus(self.case)
        seen = count.value if count.value is not None else len(listed.value or ()) if listed.is_known else None
        if seen and seen > 1 and local >= seen:
            self._trouble = f"LOCAL_RANK is {local}, but only {seen} GPUs are visible, from 0 on"
        elif seen is None or seen > 1:
            self.device = f"cuda:{local}"
        gpus = listed.value or ()
        index = 0 if seen == 1 else local
        if index < len(gpus):
            self.gpu = str(gpus[index].uuid.value or "")[:12]

    def _with_device(self) -> None:
        from ..smoke.devices import facts_on, find_devices

        try:
            devices = find_devices(self.device, self.case)
        except UndeterminedError as error:
            self._trouble = self._trouble or str(error)
            return
        self.environment = facts_on(devices, self.environment)
        self.device = devices[0] if len(devices) == 1 else self.device
