"""What a model with a kernel is held to: the same model without it, each sequence alone, in fp32 and in its own dtype.

Child side. That each sequence runs alone makes the reference right by construction: how transformers masks padding and
packing for sdpa and eager is not relied on. It must not know how kernels are loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from .. import numerics
from ..bench import Bench, Skip, Wrong
from ..contracts._contract import Contract
from ..torch_math import plain_math
from .batch import Batch, lay_out, make_sequences
from .config import has_other_layers
from .gradients import gradients_of, judge_gradients
from .loading import Subject

if TYPE_CHECKING:
    import torch

    from ..contracts._contract import Tensors

_BASELINES = ("sdpa", "eager")
_NEW_TOKENS = 12
_LOSS_FLOOR = 2e-3  # of the loss: it is one number, and the baselines may have been lucky
_MIXED = 3.0  # times what low precision costs: further off than that is no rounding
_TIE = 4.0  # times what low precision costs: two logits that near are as good as each other


class InModel(Contract):
    """A model with the kernel, in one layout of a batch."""

    name: ClassVar[str] = "transformers"
    description: ClassVar[str] = "attn_implementation of a small random model, against sdpa and eager"
    exports: ClassVar[tuple[str, ...]] = ()

    def examine(self, bench: Any) -> None:
        """Trains or generates, and compares."""
        scene = _Scene(bench, bench.kernel)
        scene.generate() if bench.params["does"] == "generate" else scene.train()


class _Scene:
    """One case on the bench."""

    def __init__(self, bench: Bench, subject: Subject) -> None:
        self._bench, self._subject = bench, subject
        with bench.at("make-inputs"):
            lengths = [int(length) for length in bench.params["lengths"]]
            words = int(subject.config.vocab_size)
            sequences = make_sequences(lengths, words, bench.case.seed, subject.device)
            self._batch: Batch = lay_out(str(bench.params["layout"]), sequences)

    # --- a training step --------------------------------------------------------------------------------------------

    def train(self) -> None:
        """One forward and backward: logits where there is no padding, the loss, every parameter's gradient."""
        bench, backward = self._bench, bool(self._bench.params.get("backward"))
        exact, baselines = self._references(lambda model: _alone(model, self._batch.sequences, backward))
        self._skip_where_model_mixes(exact, baselines)
        model = self._subject.tried()
        model.zero_grad(set_to_none=True)
        output = self._watched(lambda: self._forward(model))
        got = {"logits": self._batch.rows(output.logits.detach()), "loss": output.loss.detach().reshape(1)}
        self._judge(got, exact, baselines)
        self._note_same_layout(got, exact)
        self._say_packing_lost()
        bench.close_forward()
        if not backward:
            return
        bench.direction = "backward"
        with bench.at("backward"):
            output.loss.backward()
        self._judge_gradients(model, exact, baselines)
        model.zero_grad(set_to_none=True)

    def _forward(self, model: Any) -> Any:
        params = self._bench.params
        if params.get("checkpointing"):
            model.gradient_checkpointing_enable()
        call = _compiled(model) if params.get("compile") else model
        try:
            return call(**self._batch.inputs, labels=self._batch.labels, use_cache=False)
        finally:
            # The backward recomputes with what was recorded; only the next case must not be checkpointed.
            if params.get("checkpointing"):
                model.gradient_checkpointing_disable()

    def _watched(self, forward: Callable[[], Any]) -> Any:
        """The forward; raises Wrong where the kernel was not called in it."""
        bench, calls = self._bench, self._subject.calls
        before = dict(calls.counts)
        if bench.params.get("compile"):
            with bench.at("forward"), calls.unwatched():
                output = forward()
            bench.notes.append("compiled: calls of the kernel cannot be counted")
            return output
        with bench.at("forward"):
            output = forward()
        made = calls.since(before)
        if not made:
            raise Wrong(self._not_called())
        bench.notes.append(f"called {', '.join(f'{name} {count} times' for name, count in made.items())}")
        return output

    def _not_called(self) -> str:
        asked, runs = self._subject.attention, self._subject.runs
        if asked == runs:
            return f"no function of {asked} was called, although the model names it"
        return f"{asked} was asked for and {runs} runs: transformers took it in its place"

    # --- generation -------------------------------------------------------------------------------------------------

    def generate(self) -> None:
        """Greedy decoding with the cache; each step's logits against a forward over all tokens so far."""
        bench, model = self._bench, self._subject.tried().eval()
        try:
            made = self._watched(lambda: self._generated(model))
        finally:
            model.train()
        longest = self._batch.inputs["input_ids"].shape[1]
        tokens = made.sequences[:, longest:]
        whole = [_join(sequence, tokens[row]) for row, sequence in enumerate(self._batch.sequences)]
        got = {"logits": _steps(made.logits).to(self._subject.dtype)}
        exact, baselines = self._references(lambda other: _decoded(other, whole, tokens.shape[1]))
        self._judge(got, exact, baselines)
        self._judge_tokens(tokens.reshape(-1), exact["logits"], baselines)
        bench.close_forward()

    def _generated(self, model: Any) -> Any:
        import torch

        ids = self._batch.inputs["input_ids"]
        mask = self._batch.inputs.get("attention_mask", torch.ones_like(ids))
        return model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=_NEW_TOKENS, min_new_tokens=_NEW_TOKENS,
            do_sample=False, use_cache=True,
            return_dict_in_generate=True, output_logits=True, pad_token_id=0, eos_token_id=None,
        )  # fmt: skip

    def _judge_tokens(self, tokens: torch.Tensor, exact: torch.Tensor, baselines: list[Tensors]) -> None:
        """A token that is not the reference's is right only where the two are as near as rounding brings them."""
        gaps = exact.max(-1).values - exact.gather(-1, tokens[:, None])[:, 0]
        cost = max((float((b["logits"].float() - exact).abs().max()) for b in baselines), default=0.0)
        ties, wrong = int(((gaps > 0) & (gaps <= _TIE * cost)).sum()), int((gaps > _TIE * cost).sum())
        same = len(tokens) - ties - wrong
        near = f", {ties} chosen between two that are nearly as likely" if ties else ""
        self._bench.notes.append(f"{same} of {len(tokens)} greedy tokens are those of fp32{near}")
        if wrong:
            self._bench.wrong(f"{wrong} of {len(tokens)} greedy tokens are others than those of fp32")

    # --- what it is compared with -----------------------------------------------------------------------------------

    def _references(self, run: Callable[[Any], Tensors]) -> tuple[Tensors, list[Tensors]]:
        """The same in fp32, and at the cost of low precision with sdpa and eager."""
        subject = self._subject
        try:
            with self._bench.at("reference"), plain_math(subject.device):
                exact = run(subject.like("eager", exact=True))
                return exact, [run(subject.like(name)) for name in _supported(subject)]
        except (RuntimeError, MemoryError) as error:
            raise Skip(f"the reference could not be computed: {type(error).__name__}: {error}"[:500]) from error

    def _judge(self, got: Tensors, exact: Tensors, baselines: list[Tensors]) -> None:
        bench = self._bench
        with bench.at("compare"), plain_math(self._subject.device):
            for name, tensor in got.items():
                floor = _LOSS_FLOOR * float(exact[name].abs()) if name == "loss" else 0.0
                bench.errors[name], why = numerics.compare(
                    tensor, exact[name], [b[name] for b in baselines], floor=floor
                )
                if why:
                    bench.wrong(f"{name} {why}")

    def _judge_gradients(self, model: Any, exact: Tensors, baselines: list[Tensors]) -> None:
        with self._bench.at("compare"), plain_math(self._subject.device):
            judge_gradients(self._bench, gradients_of(model), exact, baselines)

    def _skip_where_model_mixes(self, exact: Tensors, baselines: list[Tensors]) -> None:
        """Skips packing in a model whose other layers do not keep sequences apart: it is off with sdpa likewise."""
        subject = self._subject
        if not self._packed or not has_other_layers(subject.config) or "sdpa" not in _supported(subject):
            return
        import torch

        try:
            with self._bench.at("reference"), torch.no_grad():
                logits = subject.like("sdpa")(**self._batch.inputs, use_cache=False).logits
        except (RuntimeError, ValueError) as error:
            raise Skip(f"the model itself takes no packed sequences, with sdpa either: {error}"[:500]) from error
        alike = _distance(self._batch.rows(logits), exact["logits"])
        cost = max((_distance(b["logits"], exact["logits"]) for b in baselines), default=0.0)
        if alike > _MIXED * cost:
            raise Skip(f"the model itself mixes packed sequences: its logits are off by {alike:.2g} with sdpa, too")

    def _say_packing_lost(self) -> None:
        """Adds the cause where the kernel was not told of the sequences: only its function for one length was called.

        Said beside what is wrong alone: a layout that came out right needs no cause.
        """
        called = next((note for note in self._bench.notes if note.startswith("called ")), "")
        known = any("varlen" in name for name in self._subject.calls.counts)
        if self._bench.found and self._packed and known and "varlen" not in called:
            self._bench.wrong(
                f"{called} and no varlen function: transformers did not pass the packing on to the kernel"
            )

    @property
    def _packed(self) -> bool:
        return str(self._bench.params["layout"]).startswith("packed")

    def _note_same_layout(self, got: Tensors, exact: Tensors) -> None:
        """How far sdpa itself is in this layout, where it could be wrong: packing without a mask."""
        if self._bench.params["layout"] != "packed" or "sdpa" not in _supported(self._subject):
            return
        import torch

        with self._bench.at("reference"), torch.no_grad():
            model = self._subject.like("sdpa")
            inputs = {name: self._batch.inputs[name] for name in ("input_ids", "position_ids")}
            kept, default = (
                _distance(self._batch.rows(model(**inputs, **options).logits), exact["logits"])
                for options in ({"use_cache": False}, {})
            )
        own = _distance(got["logits"], exact["logits"])
        self._bench.notes.append(
            f"logits off by {own:.2g}; sdpa packed likewise by {kept:.2g}, and by {default:.2g} with use_cache left on"
        )


def _supported(subject: Subject) -> list[str]:
    """sdpa and eager, as far as the architecture has them."""
    found = []
    for name in _BASELINES:
        try:
            subject.like(name)
        except ValueError:
            continue
        found.append(name)
    return found


def _compiled(model: Any) -> Any:
    import torch

    torch.compiler.reset()
    return torch.compile(model)


def _alone(model: Any, sequences: tuple[torch.Tensor, ...], backward: bool) -> Tensors:
    """Logits, loss and gradients with each sequence in a forward of its own."""
    import torch

    targets = sum(len(sequence) - 1 for sequence in sequences)
    rows, losses = [], []
    with torch.set_grad_enabled(backward):
        for sequence in sequences:
            logits = model(input_ids=sequence[None], use_cache=False).logits[0]
            rows.append(logits)
            losses.append(torch.nn.functional.cross_entropy(logits[:-1].float(), sequence[1:], reduction="sum"))
        loss = torch.stack(losses).sum() / targets
    made = {"logits": torch.cat(rows).detach(), "loss": loss.detach().reshape(1)}
    if not backward:
        return made
    model.zero_grad(set_to_none=True)
    loss.backward()
    made |= gradients_of(model)
    model.zero_grad(set_to_none=True)
    return made


def _join(sequence: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.cat([sequence, tokens])


def _steps(logits: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The logits of every step, sequence by sequence."""
    import torch

    return torch.stack(logits, dim=1).flatten(0, 1)


def _decoded(model: Any, sequences: list[torch.Tensor], steps: int) -> Tensors:
    """The logits that each of the last `steps` tokens was chosen from, in one forward for each sequence alone."""
    import torch

    rows = []
    with torch.no_grad():
        for sequence in sequences:
            logits = model(input_ids=sequence[None], use_cache=False).logits[0]
            rows.append(logits[len(sequence) - steps - 1 : -1])
    return {"logits": torch.cat(rows)}


def _distance(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got.float() - exact).norm() / exact.norm())
