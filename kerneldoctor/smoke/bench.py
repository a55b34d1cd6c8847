"""Runs one case of one contract and says what happened: the only place that turns what a kernel does into an outcome.

It must not choose cases, nor write to the journal by itself: the worker hands in how a stage is announced.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import again, device_memory, fences, numerics
from .contracts._calling import find, refuses
from .contracts._contract import Contract, Draw, Unsupported
from .protocol import Case, CaseOutcome, Compared, Result, TensorError
from .torch_math import gradients, have_same_bits, plain_math, widened

if TYPE_CHECKING:
    import torch

    from .contracts._contract import Tensors

_TAIL = 6000  # characters of a traceback that are worth sending


class Wrong(Exception):
    """The kernel ran and what it did is wrong; nothing that follows would tell more."""


class Skip(Exception):
    """The case cannot be judged here, for a reason that is not the kernel's."""


class Bench:
    """One case on its way. A contract's `examine` drives it; `standard` is what most of them want.

    found collects what is wrong, a sentence each; errors how far off it is; notes what else was looked at; measured
    what a case that measures has to say.
    """

    def __init__(
        self,
        case: Case,
        contract: Contract,
        kernel: Any,
        device: str,
        announce: Callable[[str], None],
        compared: Callable[[str, dict[str, TensorError]], None],
    ) -> None:
        self.case, self.contract, self.kernel, self.device = case, contract, kernel, device
        self.params = case.params
        self.errors: dict[str, TensorError] = {}
        self.found: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.timings: dict[str, float] = {}
        self.measured: dict[str, Any] = {}
        self.stage, self.direction = "make-inputs", "forward"
        self.forward_is_right: bool | None = None  # not compared yet
        self._announce, self._compared = announce, compared
        self._fenced: dict[str, fences.Fenced] = {}
        self._fences: device_memory.Fences | None = None
        self._sizes: list[int] = []

    @contextmanager
    def at(self, stage: str) -> Iterator[None]:
        """Announces a stage and waits for the device at its end, so that an error belongs to the right stage."""
        self.stage = stage
        self._announce(stage)
        start = time.perf_counter()
        try:
            yield
            fences.synchronize(self.device)
        finally:
            self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - start

    def standard(self) -> None:
        """Forward once, backward once when asked, everything compared; twice where bits are claimed to repeat."""
        inputs = self.make_inputs()
        wanted = self.wanted()
        reference, grads, baselines = self.references(inputs, wanted)
        self.fence_outputs(inputs, reference)
        leaves = self.leaves(inputs, wanted)
        outputs = self.forward({**inputs, **leaves})
        self.check_memory("forward")
        self.check_behind(
            "forward", outputs, inputs, lambda copies: self.forward({**copies, **self.leaves(copies, wanted)})
        )
        self.judge({name: outputs[name] for name in outputs if name in reference}, reference, baselines)
        self.check_types(outputs, baselines[0])
        if not self.found:
            again.call_again(self, inputs, leaves, outputs, (reference, baselines))
        self.close_forward()
        if not wanted:
            return
        self.direction = "backward"
        self.refuse_declared()
        made = self.backward(outputs, leaves, grads)
        self.check_memory("backward")
        self.check_behind("backward", made, inputs, lambda copies: self._backward_again(copies, wanted, grads))
        self.judge(made, reference, baselines)
        if self.params.get("deterministic"):
            self.same_bits(made, self._backward_again(inputs, wanted, grads), "a second deterministic backward")

    def close_forward(self) -> None:
        """Every output of the forward was compared: says what came of it, before anything else can happen."""
        self.forward_is_right = not self.found
        self._compared(self.sentences(), self.errors)

    def refuse_declared(self) -> None:
        """Raises Unsupported for a layer that says itself that it has no backward, as the kernels library reads it."""
        name = self.params.get("function")
        if name is not None and not getattr(find(self.kernel, name), "has_backward", True):
            raise Unsupported(f"{name} says that it has no backward (has_backward = False)")

    def sentences(self) -> str:
        """What was found wrong, as far as it fits in a line."""
        return "; ".join(sentence for _, sentence in self.found[:4])

    def make_inputs(self) -> Tensors:
        """The contract's inputs, each within a fence."""
        with self.at("make-inputs"):
            made = self.contract.inputs(self.params, Draw(self.case.seed, self.device, self._keep))
            named = {id(fenced.tensor): fenced for fenced in self._fenced.values()}
            self._fenced = {name: named[id(tensor)] for name, tensor in made.items() if id(tensor) in named}
        return made

    def wanted(self) -> tuple[str, ...]:
        """The inputs whose gradients this case compares."""
        return self.contract.gradients(self.params)

    def references(self, inputs: Tensors, wanted: tuple[str, ...]) -> tuple[Tensors, Tensors, list[Tensors]]:
        """(fp32 outputs and gradients, the random gradients of the outputs, the same at the cost of low precision)."""
        try:
            with self.at("reference"), plain_math(self.device):
                return self._references(inputs, wanted)
        except (RuntimeError, MemoryError) as error:
            if fences.is_out_of_memory(error):
                raise Skip("not enough memory for the reference") from error
            raise Skip(f"the reference could not be computed: {_line(error)}") from error

    def _references(self, inputs: Tensors, wanted: tuple[str, ...]) -> tuple[Tensors, Tensors, list[Tensors]]:
        low = self._differentiated(inputs, wanted, None)
        grads = low.pop("grads")
        exact = self._differentiated({n: widened(t) for n, t in inputs.items()}, wanted, grads)
        exact.pop("grads")
        return exact, grads, [low, self.contract.cost(inputs, grads, self.params)]

    def _differentiated(self, inputs: Tensors, wanted: tuple[str, ...], grads: Tensors | None) -> dict[str, Any]:
        import torch

        leaves = {name: inputs[name].detach().clone().requires_grad_(True) for name in wanted}
        # What the kernel may change (a KV cache) is changed in a copy here.
        copies = {name: inputs[name].clone() for name in self.contract.changes if name in inputs}
        outputs = self.contract.math({**inputs, **copies, **leaves}, self.params)
        differentiable = {name: out for name, out in outputs.items() if out.requires_grad}
        if grads is None:
            source = torch.Generator().manual_seed(self.case.seed + 1)
            grads = {
                name: torch.randn(out.shape, generator=source).to(out.device, out.dtype)
                for name, out in differentiable.items()
            }
        made: dict[str, Any] = {name: out.detach() for name, out in outputs.items()}
        if wanted:
            given = [grads[name].to(out.dtype) for name, out in differentiable.items()]
            found = gradients(list(differentiable.values()), given, list(leaves.values()))
            made |= {f"d{name}": grad for name, grad in zip(leaves, found, strict=True) if grad is not None}
        return {**made, "grads": grads}

    def fence_outputs(self, inputs: Tensors, reference: Tensors) -> None:
        """Poisons the memory that the kernel will be given for its outputs, and fences it where that can be done."""
        width = max((t.element_size() for t in inputs.values() if t.is_floating_point()), default=4)
        sizes = sorted(t.numel() * width for name, t in reference.items() if name not in self.contract.changes)
        with self.at("fence-outputs"):
            self._sizes, self._fences = sizes, device_memory.Fences(self.device, sizes)
        self.notes.append(f"fences: {len(self._fenced)} inputs, {self._fences.holes} outputs")

    def leaves(self, inputs: Tensors, wanted: tuple[str, ...]) -> Tensors:
        """The inputs to differentiate by, in the same memory."""
        return {name: inputs[name].detach().requires_grad_(True) for name in wanted}

    def forward(self, tensors: Tensors) -> Tensors:
        """One call of the kernel."""
        with self.at("forward"), fences.poisoned_outputs(self.device):
            return self.contract.call(self.kernel, tensors, self.params)

    def backward(self, outputs: Tensors, leaves: Tensors, grads: Tensors) -> Tensors:
        """Gradients of the kernel's outputs by the leaves."""
        pairs = [
            (outputs[name], grad) for name, grad in grads.items() if name in outputs and outputs[name].requires_grad
        ]
        if not pairs:
            name = self.params.get("function", self.contract.name)
            raise Unsupported(f"the output of {name} carries no gradient: it has no backward")
        with self.at("backward"), fences.poisoned_outputs(self.device):
            # Copies: some kernels make their gradient where the one that they are given lies.
            given = [grad.to(out.dtype, copy=True) for out, grad in pairs]
            found = gradients([out for out, _ in pairs], given, list(leaves.values()))
        missing = [f"d{name}" for name, grad in zip(leaves, found, strict=True) if grad is None]
        if missing:
            raise Wrong(f"{', '.join(missing)}: no gradient came back")
        return {f"d{name}": grad for name, grad in zip(leaves, found, strict=True)}

    def _backward_again(self, inputs: Tensors, wanted: tuple[str, ...], grads: Tensors) -> Tensors:
        leaves = self.leaves(inputs, wanted)
        with self.at("repeat-backward"):
            outputs = self.contract.call(self.kernel, {**inputs, **leaves}, self.params)
        return self.backward(outputs, leaves, grads)

    def check_types(self, outputs: Tensors, plain: Tensors) -> None:
        """Notes outputs that come in another dtype than the same math in plain PyTorch gives."""
        for name in self.contract.same_dtype:
            if name in outputs and outputs[name].dtype != plain[name].dtype:
                self.wrong(f"{name} is {_named(outputs[name])} where the inputs ask for {_named(plain[name])}")

    def judge(self, got: Tensors, reference: Tensors, baselines: list[Tensors], when: str = "") -> None:
        """Compares tensors by name and notes what is wrong. `when`: in another call, whose errors are not kept."""
        with self.at("compare"), plain_math(self.device):
            for name, tensor in got.items():
                error, why = numerics.compare(
                    tensor,
                    reference[name],
                    [b[name] for b in baselines if name in b],
                    position=self.contract.position(name, tuple(tensor.shape)),
                    floor=self.contract.floor(name, self.params),
                    gradient=self.direction == "backward",
                    slack=self.contract.slack,
                )
                if not when:
                    self.errors[name] = error
                if why:
                    self.wrong(f"{name} {why} {when}".rstrip())

    def same_bits(self, first: Tensors, second: Tensors, what: str) -> None:
        """Notes outputs that did not come out the same twice."""
        for name, tensor in first.items():
            if not have_same_bits(tensor, second[name]):
                self.wrong(f"{name}: {what} gave other bits")

    def check_memory(self, after: str) -> None:
        """Raises Wrong when something was written that is not the kernel's to write."""
        damage = [
            f"{name} {what}"
            for name, fenced in self._fenced.items()
            if (what := fenced.damage(may_change=name in self.contract.changes))
        ]
        if self._fences and (what := self._fences.damage()):
            damage.append(what)
        if damage:
            raise Wrong(f"the {after} wrote where it may not: {'; '.join(damage)}")

    def check_behind(self, after: str, made: Tensors, inputs: Tensors, again: Callable[[Tensors], Tensors]) -> None:
        """Raises Wrong when a tensor that the kernel allocated was written beyond its end, within its block.

        Something that lay in the block before would look the same, so it is done once more and every allocation noted.
        """
        if self._fences is None or not self._fences.behind(made):
            return
        # What the kernel made may lie in its inputs (`changes`), and is still to be compared.
        copies = {name: tensor.clone() for name, tensor in inputs.items()}
        self._fences = None  # what it holds would be found again
        with self.at("fence-outputs"):
            self._fences = device_memory.Fences(self.device, self._sizes)
        with device_memory.recorded_allocations(self.device) as allocated:
            found = self._fences.behind(again(copies))
        damage = [f"{name}: {behind}" for name, behind in found.items() if behind.is_sure(allocated)]
        if damage:
            raise Wrong(f"the {after} wrote where it may not: {'; '.join(damage)}")

    def wrong(self, sentence: str) -> None:
        """Notes something that is wrong, with the direction it was found in."""
        self.found.append((self.direction, sentence))

    def _keep(self, values: torch.Tensor, layout: str) -> torch.Tensor:
        fenced = fences.Fenced(values, layout)
        self._fenced[str(len(self._fenced))] = fenced
        return fenced.tensor


def run_case(
    case: Case,
    contract: Contract,
    kernel: Any,
    device: str,
    announce: Callable[[str], None],
    nonce: str,
    tell: Callable[[Compared], None] = lambda event: None,
) -> Result:
    """Runs the case to its end, whatever the kernel does within this process."""

    def compared(found: str, errors: dict[str, TensorError]) -> None:
        tell(Compared(nonce, case.id, found, dict(errors)))

    bench, start = Bench(case, contract, kernel, device, announce, compared), time.perf_counter()
    outcome: CaseOutcome
    tail, detail = "", ""
    try:
        contract.examine(bench)
        outcome = "wrong" if bench.found else "passed"
    except Unsupported as error:
        outcome, detail = "unsupported", str(error)
    except Wrong as error:
        bench.wrong(str(error))
        outcome = "wrong"
    except Skip as error:
        outcome, detail, tail = "skipped", str(error), _tail(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a kernel may raise anything, SystemExit included
        outcome, detail, tail = _outcome_of(error), _line(error), _tail(error)
    if bench.found:
        # What was found wrong before it stopped weighs more than why it stopped.
        outcome, detail = "wrong", bench.sentences()
    if outcome == "oom":
        gc.collect()  # what the exception's frames held is free for the next case
    broken = outcome != "passed" and fences.broken_for_good(device)
    return Result(
        nonce=nonce,
        id=case.id,
        outcome=outcome,
        detail=detail,
        stage=bench.stage,
        seconds=time.perf_counter() - start,
        direction=None if outcome in ("passed", "skipped") else _direction(bench),
        errors=bench.errors,
        traceback_tail=tail,
        timings=bench.timings,
        notes=tuple(bench.notes),
        poisoned=broken,
        forward=bench.forward_is_right,
        measured=bench.measured,
    )


def _direction(bench: Bench) -> Any:
    return bench.found[0][0] if bench.found else bench.direction


def _outcome_of(error: BaseException) -> CaseOutcome:
    if fences.is_out_of_memory(error):
        return "oom"
    return "unsupported" if refuses(error) else "raised"


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:600]


def _tail(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_TAIL:]


def _named(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
