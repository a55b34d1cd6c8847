"""Which one command to ask a reporter for, given the facts that are missing. Words and commands; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine.case import Case
from ..values import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """What to ask the reporter for."""

    what: str  # "the driver and the GPUs"
    command: str
    facts: tuple[str, ...]  # the facts that it would give


_SCAN = ("machine, driver, torch and packages in one report", "kerneldoctor scan --format json")
REPLAY = Ask(
    "what the recorded machine says: save the capture to a file", "kerneldoctor scan --replay capture.json", ()
)
_ENVIRONMENT = (
    "torch, driver, GPUs and the installed versions",
    "python -m torch.utils.collect_env; python -m pip list",
)
_LISTING = ("the installed versions", "python -m pip list")
# By a fact path, or the head of one: what to call it, and the command that shows it.
_SOURCES: dict[str, tuple[str, str]] = {
    "driver.fabric_manager": ("whether the fabric manager runs", "systemctl status nvidia-fabricmanager --no-pager"),
    "driver.device_nodes": ("the device files of the driver", "ls -l /dev/nvidia*"),
    "system.wsl": ("the kernel, and the device files of the driver", "uname -a; ls -l /dev/nvidia*"),
    "driver": ("driver, GPUs and what CUDA the driver offers", "nvidia-smi"),
    "gpu": ("driver, GPUs and what CUDA the driver offers", "nvidia-smi"),
    "gpus": ("driver, GPUs and what CUDA the driver offers", "nvidia-smi"),
    "visibility": ("which GPUs the process may see", 'echo "$CUDA_VISIBLE_DEVICES"; nvidia-smi -L'),
    "torch": ("the torch build, its CUDA, the driver and the GPUs", "python -m torch.utils.collect_env"),
    "system": ("the torch build, its CUDA, the system and the C library", "python -m torch.utils.collect_env"),
    "python": ("the torch build, its CUDA, the system and the C library", "python -m torch.utils.collect_env"),
    "toolkit": ("the CUDA compiler in use", "nvcc --version"),
    "packages": _LISTING,
    "flash_attn": _LISTING,
    "flash_attn_3": _LISTING,
    "flash_attn_4": _LISTING,
    "transformers": _LISTING,
    "kernels": _LISTING,
    "xformers": _LISTING,
    "transformer_engine": _LISTING,
    "huggingface": ("the switches of the Hub libraries", "env | grep -E '^(HF_|KERNELS_|LOCAL_KERNELS|DO_NOT_TRACK)'"),
    "extension": _SCAN,
    "extensions": _SCAN,
    "kernel": (
        "which build was loaded",
        "python -c \"import kernels; print(kernels.get_kernel('{kernel.repo}', version=1).__file__)\"",
    ),
    "workload": (
        "heads, head dimension and dtype of the model",
        "python -c \"from transformers import AutoConfig; print(AutoConfig.from_pretrained('MODEL'))\"",
    ),
}


def ask_for(missing: Iterable[str], case: Case) -> Ask | None:
    """The command that would give the most of the missing facts; a whole scan where nothing particular is missing."""
    wanted = tuple(dict.fromkeys(missing))
    if not wanted:  # of what every reporter has at hand
        return Ask(*_ENVIRONMENT, ())
    groups: dict[tuple[str, str], list[str]] = {}
    for path in wanted:
        groups.setdefault(_SOURCES.get(path) or _SOURCES.get(path.partition(".")[0], _SCAN), []).append(path)
    (what, command), facts = max(groups.items(), key=lambda group: len(group[1]))
    if len(groups) > 2:
        (what, command), facts = _SCAN, list(wanted)
    repo = case.fact("kernel.repo").value or "OWNER/NAME"
    return Ask(what, command.replace("{kernel.repo}", str(repo)), tuple(facts))
