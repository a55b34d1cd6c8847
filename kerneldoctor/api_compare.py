"""What `compare` does, for Python programs: fetch the kernels, check and measure each alone, rank.

No parsing of arguments and no printing here; expected trouble is a KerneldoctorError.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .environment import Environment
from .errors import UndeterminedError, UsageError
from .smoke.wish import Bounds, Cases, Listener, What, Wish

if TYPE_CHECKING:
    from .compare.model import Comparison, Implementation
    from .compare.running import Measuring
    from .engine.case import Case
    from .smoke.protocol import KernelRequest

__all__ = ["Measures", "compare_kernels"]
USUAL = "flash_attention_2"
_PACKAGE = "flash_attn"


@dataclass(frozen=True, slots=True)
class Measures:
    """What is measured. Options that are not named come from `model`, then from the default of the device.

    shape: heads, kv_heads, head_dim, dtype, batch. model: a config.json or a model's name. backward: also the backward
    and a whole step. repeats: rounds over all implementations. built_in: which of torch's own; none named: the usual.
    """

    shape: Mapping[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] | None = None
    causal: bool = True
    backward: bool = True
    model: str | None = None
    repeats: int = 2
    built_in: tuple[str, ...] = ()


ALL_MEASURES, USUAL_BOUNDS, NOBODY = Measures(), Bounds(total=3600.0), Listener()


def compare_kernels(
    references: Sequence[str] = (),
    *,
    local: Sequence[str] = (),
    python: str | None = None,
    device: str = "auto",
    measures: Measures = ALL_MEASURES,
    trust_remote_code: Sequence[str] = (),
    bounds: Bounds = USUAL_BOUNDS,
    rules: Sequence[str | Path] = (),
    listener: Listener = NOBODY,
    environment: Environment | None = None,
) -> Comparison:
    """Measure attention implementations side by side: torch's own, the flash-attn package, and the kernels named.

    references: owner/name@revision or flash_attention_2; local: folders in Hub layout. Without either, whatever
    flash_attention_2 would load is taken along if it can be had. Every implementation is checked before it is timed,
    and each runs in a process of its own. The other options are those of try_kernel.

    Raises UsageError for what cannot be done as asked, UndeterminedError where nothing can be measured here.
    """
    from .host import RealHost
    from .probes.interpreter import find_target
    from .probes.runner import run_probes

    if measures.repeats < 1:
        raise UsageError("at least one round is needed")
    host = RealHost()
    target = find_target(host, python)
    facts = environment or run_probes(host, target)
    wish = Wish(What(), device, Cases(), tuple(trust_remote_code), False, bounds, tuple(rules), listener)
    return _Comparing(wish, target.executable, facts, measures).go(tuple(references), tuple(local))


class _Comparing:
    """One call of compare_kernels."""

    def __init__(self, wish: Wish, python: str, facts: Environment, measures: Measures) -> None:
        from .engine.case import Case
        from .engine.loading import shipped_tables
        from .smoke.devices import find_devices

        self._tables = shipped_tables()
        self._case: Case = Case(facts, self._tables)
        if wish.device == "all":
            raise UsageError("--device all: figures are of one device; name it")
        self._device = find_devices(wish.device, self._case)[0]
        self._wish, self._python, self._facts, self._measures = wish, python, facts, measures
        self._notes: list[str] = []
        self._workload = self._make_workload()

    def go(self, references: tuple[str, ...], local: tuple[str, ...]) -> Comparison:
        """Everything, in order: what can be had, who else is there, checks and rounds, ranks."""
        import shutil
        import tempfile

        from .compare.candidates import built_ins, told_apart

        began = time.monotonic()
        implementations = [*built_ins(self._device, self._measures.built_in), *self._kernels(references, local)]
        scratch = Path(tempfile.mkdtemp(prefix="kerneldoctor-"))
        try:
            measuring, disturbances = self._measure(told_apart(implementations), scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return self._result(measuring, disturbances, time.monotonic() - began)

    def _make_workload(self) -> Any:
        from .compare.workload import make_workload

        measures, of_model = self._measures, {}
        if measures.model is not None:
            from .smoke.model_config import workload_of_model

            self._wish.listener.step(f"reading the config of {measures.model}")
            of_model = workload_of_model(measures.model, self._python)
            left = [name for name in ("window", "softcap") if of_model.get(name)]
            if left:
                self._notes.append(f"measured without the model's {' and '.join(left)}")
        asked = {
            **measures.shape,
            "lengths": measures.lengths,
            "causal": measures.causal,
            "backward": measures.backward,
        }
        return make_workload(self._device, asked, of_model, Path(measures.model).name if measures.model else "")

    # --- what can be had --------------------------------------------------------------------------------------------

    def _kernels(self, references: tuple[str, ...], local: tuple[str, ...]) -> list[Implementation]:
        """Those that were named, or what flash_attention_2 means here; and flash-attn, where it is installed."""
        found = [self._prepared(What(reference), True) for reference in dict.fromkeys(references)]
        found += [self._prepared(What(local=folder), True) for folder in dict.fromkeys(local)]
        if not found and not self._measures.built_in:
            usual = self._prepared(What(USUAL), False)
            if usual.request is not None:
                found.append(usual)
            else:
                self._notes.append(f"{USUAL} is left out: {usual.trouble}")
        installed = self._case.fact("flash_attn.version").is_known
        there = any(one.request is not None and one.request.module == _PACKAGE for one in found)
        if installed and not there and not self._measures.built_in and self._device != "cpu":
            found.append(self._prepared(What(module=_PACKAGE), False))
        return found

    def _prepared(self, what: What, asked: bool) -> Implementation:
        """A kernel, fetched and looked at, or why it cannot be had."""
        from .api_prepare import prepare_kernel
        from .compare.candidates import kernel_name
        from .compare.model import Implementation

        name = what.reference or what.module or Path(str(what.local)).name
        wish, start = replace(self._wish, what=what, device=self._device), time.monotonic()
        try:
            made = prepare_kernel(wish, self._python, self._facts)
        except UndeterminedError as error:
            return Implementation(name, "kernel", asked, trouble=str(error))
        if made.fetched is None:
            why = "; ".join(refusal.why for refusal in made.refusals)
            return Implementation(
                kernel_name(made.subject), "kernel", asked, None, {}, made.subject, "refused", why, notes=made.notes
            )
        package = made.subject.source == "module"
        seconds = time.monotonic() - start if made.subject.source in ("live", "index", "cache") else None
        return Implementation(
            made.fetched.request.module or name if package else kernel_name(made.subject),
            "package" if package else "kernel", asked, self._request(made.fetched.request), made.fetched.environ,
            made.subject, fetch_seconds=seconds, notes=made.notes,
        )  # fmt: skip

    def _request(self, request: KernelRequest) -> KernelRequest:
        return replace(request, measure=True)

    # --- measuring --------------------------------------------------------------------------------------------------

    def _measure(self, implementations: tuple[Implementation, ...], scratch: Path) -> tuple[Measuring, tuple[str, ...]]:
        from .compare.gpu_watch import GpuWatch
        from .compare.running import Measuring, Setting
        from .smoke.runner import Limits

        bounds = self._wish.bounds
        limits = Limits(bounds.case, bounds.load, bounds.total, bounds.memory)
        setting = Setting(
            self._device, self._python, limits, self._measures.repeats, scratch, self._wish.listener.progress
        )
        measuring = Measuring(implementations, self._workload, setting)
        with GpuWatch(self._uuid(), scratch) as watch:
            before = watch.before()
            measuring.go()
            return measuring, (*before, *watch.during(measuring.windows))

    def _uuid(self) -> Any:
        """Of the GPU that is measured; None on the CPU."""
        from .engine.facts.driver import visible_nvidia_gpus
        from .environment import unknown

        if self._device == "cpu":
            return None
        gpus = visible_nvidia_gpus(self._case)
        number = int(self._device.partition(":")[2] or 0)
        if not gpus.is_known or number >= len(gpus.value or ()):
            return unknown(gpus.note or "it is no GPU that NVML names")
        return (gpus.value or ())[number].uuid

    def _result(self, measuring: Measuring, disturbances: tuple[str, ...], seconds: float) -> Comparison:
        from .compare.model import Comparison
        from .compare.peaks import build_cost, peak_of
        from .compare.ranking import rank

        versions = next((run.versions for run in measuring.runs if run.versions is not None), None)
        device = versions.device if versions is not None else {}
        name = str(device.get("name") or "")
        peak = peak_of(name, self._tables)
        entries = measuring.entries(peak)
        found = [
            rank(entries, length, direction)
            for direction in self._workload.directions
            for length in self._workload.lengths
        ]
        return Comparison(
            self._workload, self._device, name or "CPU", device.get("total_memory"),
            versions.torch if versions is not None else "",
            next((run.packages for run in measuring.runs if run.packages), {}),
            entries, tuple(one for one in found if one is not None), peak, build_cost(self._tables),
            self._measures.repeats, seconds, disturbances, tuple(self._notes),
        )  # fmt: skip
