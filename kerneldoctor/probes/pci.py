"""Lists the graphics and accelerator devices on the PCI bus by vendor. It works without any driver."""

from __future__ import annotations

import os
import re
from typing import cast

from ..errors import ProbeError
from ..host import Host
from ..values import dataclass

NVIDIA, AMD, INTEL = "10de", "1002", "8086"
_FOLDER = "/sys/bus/pci/devices"
_MODALIAS = re.compile(r"pci:v0000([0-9A-F]{4})d0000([0-9A-F]{4})sv\w{8}sd\w{8}bc([0-9A-F]{2})sc([0-9A-F]{2})")
_DISPLAY, _ACCELERATOR = "03", "12"  # base classes; Instinct and Gaudi cards are "processing accelerators"


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One graphics or accelerator device. Numbers are lower-case hexadecimal."""

    address: str  # "0000:65:00.0"
    vendor: str
    device: str

    @property
    def bus(self) -> str:
        """The bus number; what is built into the processor sits on bus 00."""
        return self.address.split(":")[-2] if self.address.count(":") else ""


def list_gpus(host: Host) -> tuple[PciDevice, ...]:
    """Graphics and accelerator devices in address order. Raises ProbeError where the bus cannot be listed."""
    # One observation: a server has hundreds of PCI devices, too many answers for a capture.
    rows = host.observe("pci", "", _look)
    return tuple(PciDevice(*row) for row in cast("list[list[str]]", rows))


def _look() -> list[list[str]]:
    try:
        addresses = sorted(os.listdir(_FOLDER))
    except OSError as error:
        raise ProbeError(f"{_FOLDER}: {error.strerror}") from None
    found = []
    for address in addresses:
        try:
            with open(f"{_FOLDER}/{address}/modalias", encoding="ascii") as file:
                match = _MODALIAS.match(file.read(256))
        except (OSError, UnicodeDecodeError):  # a device that went away
            continue
        if match and match[3] in (_DISPLAY, _ACCELERATOR):
            found.append([address, match[1].lower(), match[2].lower()])
    return found
