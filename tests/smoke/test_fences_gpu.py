"""On a GPU: what a kernel allocates starts as NaN between fences, and a broken context is known for one."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from kerneldoctor.smoke.bench import run_case  # noqa: E402
from kerneldoctor.smoke.cases import choose  # noqa: E402
from kerneldoctor.smoke.contracts import contract  # noqa: E402
from kerneldoctor.smoke.device_memory import Fences, _Bytes, recorded_allocations  # noqa: E402
from kerneldoctor.smoke.fences import broken_for_good  # noqa: E402
from kerneldoctor.smoke.protocol import Selection  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU"),
]
DEVICE = "cuda:0"
# One from the small pool of the caching allocator, odd and even, and one from the large pool.
SIZES = (1000, 64 << 10, 3 << 20)


@pytest.mark.parametrize("size", SIZES)
def test_an_output_of_a_known_size_starts_as_nan_and_is_fenced(size: int) -> None:
    fences = Fences(DEVICE, [size])
    out = torch.empty(size // 2, dtype=torch.bfloat16, device=DEVICE)
    assert bool(out.isnan().all())
    out.fill_(1.0)
    assert fences.damage() == ""
    # The allocator rounds up to 512 bytes; what lies behind that is the fence.
    beyond = -(-size // 512) * 512
    torch.as_tensor(_Bytes(out.data_ptr() + beyond, 2), device=DEVICE).zero_()
    assert fences.damage() == "memory behind an output was written"


def allocate(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=DEVICE)


def test_a_write_just_behind_an_output_is_seen_to_the_byte() -> None:
    fences = Fences(DEVICE, [1000, 2 << 20, (3 << 20) + 8])
    with recorded_allocations(DEVICE) as allocated:
        outs = {str(size): allocate(size).zero_() for size in (1000, 2 << 20, (3 << 20) + 8)}
    assert fences.behind(outs) == {}
    torch.as_tensor(_Bytes(outs["1000"].data_ptr() + 1000, 3), device=DEVICE).zero_()
    torch.as_tensor(_Bytes(outs[str((3 << 20) + 8)].data_ptr() + (3 << 20) + 8 + 7, 1), device=DEVICE).zero_()
    assert fences.damage() == ""
    found = fences.behind(outs)
    assert {name: behind.last for name, behind in found.items()} == {"1000": 3, str((3 << 20) + 8): 8}
    assert all(behind.is_sure(allocated) for behind in found.values())


def test_what_lay_in_the_block_before_the_output_is_no_write_behind_it() -> None:
    fences = Fences(DEVICE, [1000])
    with recorded_allocations(DEVICE) as allocated:
        before = allocate(1010).zero_()
        place = before.data_ptr()
        del before
        out = allocate(1000)
    assert out.data_ptr() == place
    (behind,) = fences.behind({"out": out}).values()
    assert not behind.is_sure(allocated)


def test_several_outputs_each_have_their_own_fence() -> None:
    fences = Fences(DEVICE, [1 << 16, 1 << 16, 1 << 17])
    outs = [torch.empty(size, dtype=torch.uint8, device=DEVICE) for size in (1 << 16, 1 << 17, 1 << 16)]
    for out in outs:
        out.zero_()
    assert fences.damage() == ""


def test_pytorchs_own_attention_passes_every_quick_case_on_the_gpu() -> None:
    names = ("flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache")
    for case in choose(names, Selection("quick", seed=1), DEVICE):
        if case.contract != "flash_attn_func" or case.params["softcap"]:
            continue
        result = run_case(case, contract(case.contract), _Sdpa, DEVICE, lambda _: None, "n")
        assert (result.outcome, result.detail) == ("passed", "")


class _Sdpa:
    """sdpa's choice of backend, with a mask of our making."""

    @staticmethod
    def flash_attn_func(q, k, v, softmax_scale=None, causal=False, window_size=(-1, -1), deterministic=False):
        offset = k.shape[1] - q.shape[1]
        mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device)
        mask = mask.tril(offset) if causal else mask
        mask = mask.triu(offset - window_size[0]) if window_size[0] >= 0 else mask
        mask = mask.tril(offset + window_size[1]) if window_size[1] >= 0 else mask
        seen = mask.any(-1)
        group = q.shape[2] // k.shape[2]
        out = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.repeat_interleave(group, 2).transpose(1, 2),
            v.repeat_interleave(group, 2).transpose(1, 2),
            attn_mask=mask | ~seen[:, None],
            scale=softmax_scale,
        )
        return out.transpose(1, 2) * seen[None, :, None, None]


def test_a_healthy_context_is_not_called_broken() -> None:
    assert not broken_for_good(DEVICE)


def test_a_context_after_a_device_side_assertion_is_broken_for_good() -> None:
    code = (
        "import torch\n"
        "from kerneldoctor.smoke.fences import broken_for_good, synchronize\n"
        "torch.zeros(4, device='cuda:0')[torch.tensor([9], device='cuda:0')]\n"
        "try:\n    synchronize('cuda:0')\nexcept RuntimeError:\n    pass\n"
        "print(broken_for_good('cuda:0'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True"
