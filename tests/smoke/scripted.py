"""Orders for the scripted worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from kerneldoctor.smoke import protocol
from kerneldoctor.smoke.runner import Order

WORKER = Path(__file__).with_name("scripted_worker.py")


def environment(plan: Mapping[str, str]) -> dict[str, str]:
    return {"KERNELDOCTOR_TEST_PLAN": json.dumps(plan), "KERNELDOCTOR_TEST_PROTOCOL": str(protocol.__file__)}


def plan_order(plan: Mapping[str, str]) -> Order:
    """An order whose kernel does what the plan says: case id to deed."""
    return Order(
        kernel=protocol.KernelRequest("module", module="k"),
        device="cpu",
        python=sys.executable,
        selection=protocol.Selection(),
        environ=environment(plan),
        worker=WORKER,
    )
