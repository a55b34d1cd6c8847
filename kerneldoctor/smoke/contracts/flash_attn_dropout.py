"""The contract of dropout in attention: right on average, of the right strength, the same mask in both directions.

One run with dropout can be compared with nothing. Over several seeds its mean is attention without dropout, for the
output and all three gradients alike, because each is linear in the mask. It must not import torch at module level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import attention
from ._attention import draft
from ._contract import Draft, Params, Unsupported
from .flash_attn_func import GQA, FlashAttnFunc

if TYPE_CHECKING:
    import torch

    from ._contract import Tensors

RUNS = 24
#: Mean squared deviation of the mean, in units of its own variance: 1 when right. Over some hundred rows it scatters by
#: a few hundredths.
MEAN_LIMIT = 1.5
#: Sample variance over the variance that this probability must give.
SPREAD = (0.8, 1.25)
#: <dout, out> = <dv, v> holds exactly for one mask; relative to the size of its terms.
DUALITY_LIMIT = 0.05


class FlashAttnDropout(FlashAttnFunc):
    """flash_attn_func with dropout_p > 0."""

    name = "flash_attn_dropout"
    description = "dropout in dense attention: unbiased, of the right strength, the same mask forward and backward"
    exact_repeat = False
    training_only = True

    def drafts(self, device: str) -> list[Draft]:
        """One in the quick set."""
        common = {"batch": 1, "seqlen_q": 131, "seqlen_k": 195, **GQA}
        return [
            draft("dropout-gqa-bf16-d64-p0.25", 15, **common, dropout=0.25),
            draft("dropout-gqa-fp16-d128-p0.5", None, **{**common, "head_dim": 128, "dtype": "float16"}, dropout=0.5),
        ]

    def for_workload(self, workload: Any, device: str) -> list[Draft]:
        """A workload names no dropout."""
        return []

    def examine(self, bench: Any) -> None:
        """Several seeds, their mean and spread against what they must be."""
        import torch

        inputs = bench.make_inputs()
        wanted = bench.wanted()
        reference, grads, _ = bench.references(inputs, wanted)
        dout = grads.get("out", torch.zeros_like(reference["out"]))
        samples: dict[str, list[torch.Tensor]] = {}
        for run in range(RUNS):
            torch.manual_seed(bench.case.seed + run)
            leaves = bench.leaves(inputs, wanted)
            bench.direction = "forward"
            outputs = bench.forward({**inputs, **leaves})
            bench.check_memory("forward")
            made: Tensors = {"out": outputs["out"].detach()}
            if wanted:
                bench.direction = "backward"
                made |= bench.backward(outputs, leaves, grads)
                bench.check_memory("backward")
            for name, tensor in made.items():
                if not bool(torch.isfinite(tensor).all()):
                    bench.wrong(f"{name} is not finite with dropout")
                    return
                samples.setdefault(name, []).append(tensor.float())
        with bench.at("compare"):
            self._judge(bench, {name: torch.stack(s) for name, s in samples.items()}, reference, inputs, dout)

    def _judge(self, bench: Any, samples: Tensors, reference: Tensors, inputs: Tensors, dout: torch.Tensor) -> None:
        bench.direction = "forward"
        out = samples["out"]
        must = _variance(inputs, bench.params)
        if bool((out.var(0).mean() < must.mean() * 0.01).item()):
            raise Unsupported(f"dropout_p={bench.params['dropout']} changes nothing: it is accepted and ignored")
        spread = float((out.var(0) / must).mean())
        if not SPREAD[0] <= spread <= SPREAD[1]:
            bench.wrong(f"out varies {spread:.2f} times as much as dropout of {bench.params['dropout']} makes it")
        for name, runs in samples.items():
            bench.direction = "forward" if name == "out" else "backward"
            variance = must if name == "out" else runs.var(0)
            off = float(((runs.mean(0) - reference[name]) ** 2).mean() / (variance / RUNS).mean())
            if off > MEAN_LIMIT:
                bench.wrong(f"{name} is biased: its mean over {RUNS} seeds is {off**0.5:.2g} deviations off")
        if "dv" in samples:
            self._same_mask(bench, samples, inputs, dout)

    def _same_mask(self, bench: Any, samples: Tensors, inputs: Tensors, dout: torch.Tensor) -> None:
        """For one mask, sum(dout * out) = sum(dv * v), for each KV head and column."""
        v = inputs["v"].float()
        group = dout.shape[2] // v.shape[2]
        forward = (dout.float() * samples["out"]).unflatten(3, (v.shape[2], group))
        backward = samples["dv"] * v
        left, right = forward.sum((2, 4)), backward.sum(2)
        size = (forward.square().sum((2, 4)) + backward.square().sum(2)).mean() ** 0.5
        off = float(((left - right).square().mean() ** 0.5) / size)
        if off > DUALITY_LIMIT:
            bench.wrong(f"dv comes from another dropout mask than out (they disagree by {off:.2g})")


def _variance(inputs: Tensors, params: Params) -> torch.Tensor:
    """The variance of each output element under dropout: sum over keys of weight^2 v^2 p / (1 - p)."""
    import torch

    q, k, v = (inputs[name].float() for name in ("q", "k", "v"))
    eye = torch.eye(k.shape[1], device=k.device).expand(k.shape[0], k.shape[2], -1, -1).transpose(1, 2)
    weights, _ = attention.attend(q, k, eye, attention.Rule.of(dict(params)))
    spread = v.square().repeat_interleave(q.shape[2] // v.shape[2], dim=2)
    p = float(params["dropout"])
    return torch.einsum("bqhk,bkhd->bqhd", weights.square(), spread) * (p / (1 - p))


CONTRACTS = (FlashAttnDropout(),)
