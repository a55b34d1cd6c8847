"""Two steps of TRL's SFTTrainer with a kernel, in each way in which it lays out a batch, against sdpa with padding.

Child side. The toy set is one batch, so that padded, padding-free and packed steps see the same tokens and must make
the same loss. It must not know how kernels are loaded.
"""

from __future__ import annotations

import copy
import tempfile
from typing import TYPE_CHECKING, Any, ClassVar

from .. import numerics
from ..bench import Bench, Skip, Wrong
from ..contracts._contract import Contract
from ..torch_math import plain_math
from .batch import make_sequences
from .gradients import gradients_of, judge_gradients
from .loading import Subject

if TYPE_CHECKING:
    from ..contracts._contract import Tensors

_STEPS = 2
_RATE = 1e-3  # of learning: enough for the second step to tell whether the first one's gradients were right
_LOSS_FLOOR = 2e-3  # of the loss
_BASELINES = ("sdpa", "eager")


class InTrainer(Contract):
    """The losses of two steps, padded, padding-free or packed."""

    name: ClassVar[str] = "trl"
    description: ClassVar[str] = "two steps of TRL's SFTTrainer on a toy set, against sdpa"
    exports: ClassVar[tuple[str, ...]] = ()

    def examine(self, bench: Any) -> None:
        """Trains with the kernel and without, and compares the losses step by step."""
        _Toy(bench, bench.kernel).compare()


class _Toy:
    """One toy set and its trainings."""

    def __init__(self, bench: Bench, subject: Subject) -> None:
        self._bench, self._subject = bench, subject
        lengths = [int(length) for length in bench.params["lengths"]]
        words = int(subject.config.vocab_size)
        self._rows = [row.tolist() for row in make_sequences(lengths, words, bench.case.seed, "cpu")]

    def compare(self) -> None:
        """The losses, step by step."""
        bench, subject = self._bench, self._subject
        bench.direction = "backward"
        try:
            with bench.at("reference"), plain_math(subject.device):
                exact = self._trained(subject.like("eager", exact=True), "padded-right")
                baselines = [self._trained(subject.like(name), "padded-right") for name in _BASELINES]
        except (RuntimeError, ValueError) as error:
            raise Skip(f"the reference could not be trained: {type(error).__name__}: {error}"[:500]) from error
        before = dict(subject.calls.counts)
        with bench.at("backward"):
            got = self._trained(subject.tried(), str(bench.params["layout"]))
        made = subject.calls.since(before)
        if not made:
            raise Wrong(f"no function of {subject.attention} was called: {subject.runs} runs in the trainer")
        bench.notes.append(f"called {', '.join(f'{name} {count} times' for name, count in made.items())}")
        with bench.at("compare"), plain_math(subject.device):
            self._judge(got, exact, baselines)
            judge_gradients(bench, got, exact, baselines)
        first = bench.errors["loss of step 1"].ratio
        bench.forward_is_right = first is not None and first <= 1  # nothing was learnt before it

    def _judge(self, got: Tensors, exact: Tensors, baselines: list[Tensors]) -> None:
        for name in (f"loss of step {step + 1}" for step in range(_STEPS)):
            floor = _LOSS_FLOOR * float(exact[name].abs())
            self._bench.errors[name], why = numerics.compare(
                got[name], exact[name], [baseline[name] for baseline in baselines], floor=floor
            )
            if why:
                self._bench.wrong(f"{name} {why}")

    def _trained(self, model: Any, layout: str) -> Tensors:
        """The loss of each step, and the gradients of the first one."""
        import torch
        from datasets import Dataset, disable_progress_bars
        from trl import SFTTrainer

        disable_progress_bars()
        before, seen = copy.deepcopy(model.state_dict()), _Gradients()
        with tempfile.TemporaryDirectory() as folder:
            trainer = SFTTrainer(
                model=model, args=_arguments(folder, layout, self._rows, self._subject),
                train_dataset=Dataset.from_dict({"input_ids": self._rows}), processing_class=_tokenizer(model),
                callbacks=[seen.callback()],
            )  # fmt: skip
            trainer.train()
        model.load_state_dict(before)
        model.zero_grad(set_to_none=True)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        if len(losses) != _STEPS:
            raise Wrong(f"the trainer made {len(losses)} losses in {_STEPS} steps")
        return {f"loss of step {step + 1}": torch.tensor([loss]) for step, loss in enumerate(losses)} | seen.first


class _Gradients:
    """Keeps the gradients of the first step, which the losses of two steps tell little of."""

    def __init__(self) -> None:
        self.first: Tensors = {}

    def callback(self) -> Any:
        """What a trainer calls before it lets the optimizer step."""
        from transformers import TrainerCallback

        def look(callback: Any, args: Any, state: Any, control: Any, **given: Any) -> None:
            if not self.first:
                self.first = {name: grad.clone() for name, grad in gradients_of(given["model"]).items()}

        return type("Looking", (TrainerCallback,), {"on_pre_optimizer_step": look})()


def _arguments(folder: str, layout: str, rows: list[list[int]], subject: Subject) -> Any:
    """Settings of one training: the whole set in each step, nothing by chance or kept; checkpointing as TRL has it."""
    from trl import SFTConfig

    packing = layout == "packing"
    return SFTConfig(
        output_dir=folder, max_steps=_STEPS, learning_rate=_RATE, lr_scheduler_type="constant", logging_steps=1,
        per_device_train_batch_size=1 if packing else len(rows),
        max_length=sum(len(row) for row in rows) if packing else None,
        packing=packing, padding_free=layout == "padding-free", report_to=[],
        save_strategy="no", bf16=False, fp16=False, disable_tqdm=True, use_cpu=subject.device == "cpu", seed=0,
        dataloader_pin_memory=False, optim="adamw_torch", max_grad_norm=0.0,
    )  # fmt: skip


def _tokenizer(model: Any) -> Any:
    """The trainer asks for one even where the words are numbers already."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {f"w{number}": number for number in range(int(model.config.vocab_size))}
    inner = Tokenizer(WordLevel(words, unk_token="w1"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="w0", eos_token="w2", unk_token="w1")
