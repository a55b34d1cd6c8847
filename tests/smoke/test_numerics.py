"""What counts as wrong in one tensor, and what the message says about it."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from kerneldoctor.smoke import attention  # noqa: E402
from kerneldoctor.smoke.attention import Rule  # noqa: E402
from kerneldoctor.smoke.numerics import compare  # noqa: E402
from kerneldoctor.smoke.protocol import Result, event_line  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def sample() -> tuple[torch.Tensor, torch.Tensor]:
    """(reference, the same rounded to bf16) of (batch, tokens, heads, head_dim)."""
    reference = torch.randn(2, 40, 4, 64, generator=torch.Generator().manual_seed(0))
    return reference, reference.bfloat16()


def test_rounding_is_right_and_measured(sample: tuple[torch.Tensor, torch.Tensor]) -> None:
    reference, rounded = sample
    error, why = compare(rounded, reference, [rounded], position=1)
    assert why == ""
    assert error.relative == error.baseline == pytest.approx(0.0017, rel=0.1)
    assert error.ratio is not None
    assert 0 < error.ratio < 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_one_element_that_is_not_finite_is_wrong_and_named(
    sample: tuple[torch.Tensor, torch.Tensor], value: float
) -> None:
    reference, rounded = sample
    rounded[1, 7, 2, 3] = value
    error, why = compare(rounded, reference, [sample[1]], position=1)
    assert "1 of 20480 elements not finite, the first at (1, 7, 2, 3)" in why
    assert error.relative is None


def test_a_single_wrong_row_is_found_where_it_is(sample: tuple[torch.Tensor, torch.Tensor]) -> None:
    reference, rounded = sample
    wrong = rounded.clone()
    wrong[0, 39, 3] *= 1.05
    error, why = compare(wrong, reference, [rounded], position=1)
    assert why
    assert error.at[:3] == (0, 39, 3)
    assert f"at {error.at}" in why


def test_everything_a_little_off_is_found_although_no_row_stands_out(
    sample: tuple[torch.Tensor, torch.Tensor],
) -> None:
    reference, rounded = sample
    noisy = (reference * (1 + 0.006 * torch.randn(reference.shape))).bfloat16()
    assert compare(noisy, reference, [rounded], position=1)[1]


def test_another_shape_is_wrong(sample: tuple[torch.Tensor, torch.Tensor]) -> None:
    reference, rounded = sample
    assert "has shape (2, 40, 4, 32) instead of" in compare(rounded[..., :32], reference, [], position=1)[1]


def test_a_large_tensor_elsewhere_excuses_nothing_here(sample: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Early rows of a causal mask are larger and so are their errors; late rows are held to late rows."""
    reference = torch.randn(1, 200, 4, 64)
    reference[:, :20] *= 100
    rounded = reference.bfloat16()
    wrong = rounded.clone()
    wrong[0, 150, 0] *= 1.1
    assert compare(wrong, reference, [rounded], position=1)[1]


def test_zero_against_zero_is_right_and_against_something_is_not() -> None:
    zero = torch.zeros(1, 4, 2, 8)
    assert compare(zero.half(), zero, [zero.half()], position=1)[1] == ""
    off = zero.half()
    off[0, 1, 1, 1] = 0.5
    error, why = compare(off, zero, [zero.half()], position=1)
    assert why
    # An error that is infinitely over its tolerance still is JSON.
    result = Result("n", "i", "wrong", why, "compare", 0.1, errors={"out": error})
    json.loads(event_line(result), parse_constant=pytest.fail)


def test_an_empty_tensor_is_right() -> None:
    nothing = torch.zeros(0, 4, 8)
    assert compare(nothing.half(), nothing, [nothing.half()], position=0)[1] == ""


def test_a_single_number_can_be_compared() -> None:
    assert compare(torch.tensor([2.001]), torch.tensor([2.0]), [torch.tensor([2.01])])[1] == ""
    assert compare(torch.tensor([3.0]), torch.tensor([2.0]), [torch.tensor([2.01])])[1]


# The reference is held to PyTorch's own attention, which was written by somebody else.
@pytest.mark.parametrize(
    ("rule", "seqlen_q", "seqlen_k"),
    [
        (Rule(), 7, 12),
        (Rule(scale=0.3), 12, 7),
        (Rule(causal=True), 12, 12),
        (Rule(causal=True), 5, 12),
        (Rule(window=(2, 1)), 9, 9),
        (Rule(causal=True, window=(3, 0)), 4, 11),
    ],
)
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (3, 1)])
def test_the_reference_agrees_with_sdpa(rule: Rule, seqlen_q: int, seqlen_k: int, heads: tuple[int, int]) -> None:
    q, k, v = (torch.randn(2, n, h, 16) for n, h in ((seqlen_q, heads[0]), (seqlen_k, heads[1]), (seqlen_k, heads[1])))
    allowed = [
        [
            (rule.window[0] < 0 or j >= i + seqlen_k - seqlen_q - rule.window[0])
            and (rule.window[1] < 0 or j <= i + seqlen_k - seqlen_q + rule.window[1])
            and (not rule.causal or j <= i + seqlen_k - seqlen_q)
            for j in range(seqlen_k)
        ]
        for i in range(seqlen_q)
    ]
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=torch.tensor(allowed),
        scale=rule.scale,
        enable_gqa=True,
    ).transpose(1, 2)
    out, lse = attention.attend(q, k, v, rule)
    torch.testing.assert_close(out, expected)
    assert lse.shape == (2, heads[0], seqlen_q)


def test_a_query_without_a_key_gives_zero_and_a_clean_gradient() -> None:
    q, k, v = (torch.randn(1, n, 2, 8, requires_grad=True) for n in (5, 2, 2))
    out, lse = attention.attend(q, k, v, Rule(causal=True))
    assert bool((out[:, :3] == 0).all())
    assert bool(torch.isneginf(lse[..., :3]).all())
    out.sum().backward()
    for x in (q, k, v):
        assert x.grad is not None
        assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize(
    "rule", [Rule(), Rule(causal=True), Rule(softcap=2.0), Rule(causal=True, window=(5, 0), scale=0.2)]
)
def test_the_cost_of_tiling_is_a_cost_and_no_other_function(rule: Rule) -> None:
    """Its hand-written backward, in a dtype where rounding vanishes, is autograd's."""
    q, k, v = (torch.randn(2, n, h, 16, requires_grad=True) for n, h in ((21, 4), (37, 2), (37, 2)))
    dout = torch.randn(2, 21, 4, 16)
    out, _ = attention.attend(q, k, v, rule)
    expected = torch.autograd.grad(out, (q, k, v), dout)
    made = attention.tiled_cost(q.detach(), k.detach(), v.detach(), dout, rule)
    for name, gradient in zip(("dq", "dk", "dv"), expected, strict=True):
        torch.testing.assert_close(made[name], gradient, rtol=2e-3, atol=2e-4)
    torch.testing.assert_close(made["out"], out.detach(), rtol=1e-3, atol=1e-4)
