import pytest
import torch
from torch.testing import assert_close

from regard.blocks.attention import Attention
from regard.blocks.trace import Trace
from regard.errors import UsageError


def test_a_note_is_found_under_its_path_in_the_order_of_the_data() -> None:
    trace = Trace()
    trace.note("ids", torch.tensor(1))
    trace.inside("encoder").inside("blocks.0").note("weights", torch.tensor(2))
    trace.note("logits", torch.tensor(3))
    assert list(trace) == ["ids", "encoder.blocks.0.weights", "logits"]
    assert len(trace) == 3
    assert int(trace["encoder.blocks.0.weights"]) == 2


def test_a_part_sees_its_own_notes_only() -> None:
    trace = Trace()
    encoder = trace.inside("encoder")
    trace.note("logits", torch.tensor(1))
    encoder.note("output", torch.tensor(2))
    assert list(encoder) == ["output"]
    assert len(encoder) == 1
    assert int(encoder["output"]) == 2
    assert "output" in encoder
    assert "logits" not in encoder
    assert "encoder.output" in trace


def test_one_trace_is_for_one_forward_pass() -> None:
    trace = Trace()
    trace.note("logits", torch.tensor(1))
    with pytest.raises(AssertionError, match="logits was recorded twice"):
        trace.note("logits", torch.tensor(2))


def test_a_note_does_not_keep_the_graph() -> None:
    trace, weight = Trace(), torch.ones(2, requires_grad=True)
    trace.note("doubled", weight * 2)
    assert not trace["doubled"].requires_grad


def test_an_empty_trace_is_still_a_trace() -> None:
    assert Trace()  # although its length is 0
    assert Trace().inside("encoder")  # parts ask: trace and trace.inside(…)


def test_looking_does_not_change_the_output_of_attention() -> None:
    attention, x_BLD = Attention(8, 4, kv_heads=2), torch.randn(2, 5, 8)
    assert_close(attention(x_BLD, trace=Trace()), attention(x_BLD))


def test_looking_does_not_change_the_gradient() -> None:
    attention, x_BLD = Attention(8, 2), torch.randn(2, 5, 8)
    unseen = torch.autograd.grad(attention(x_BLD).square().sum(), attention.query.weight)[0]
    seen = torch.autograd.grad(attention(x_BLD, trace=Trace()).square().sum(), attention.query.weight)[0]
    assert_close(seen, unseen)


def test_it_is_a_mapping_that_helps_with_paths() -> None:
    trace = Trace()
    trace.note("encoder.blocks.0.attention.weights", torch.zeros(1, 2, 3))
    assert repr(trace) == "<Trace of 1 tensors: encoder.blocks.0.attention.weights (1, 2, 3)>"
    assert [*trace.keys()] == [*trace]
    assert trace.get("logits") is None
    with pytest.raises(UsageError, match=r"did you mean 'encoder.blocks.0.attention.weights'"):
        trace["encoder.block.0.attention.weights"]
