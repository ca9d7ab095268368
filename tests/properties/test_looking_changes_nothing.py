"""Two kernels, one answer: a trace shows the weights and leaves the output as it was."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import Batch, batches, close, decoders, encoders, seeds, translators
from torch import Tensor
from torch.testing import assert_close

from regard.blocks.attention import attend, causal_mask
from regard.blocks.trace import Trace
from regard.models import Decoder, Encoder, Seq2Seq


@given(
    sizes=st.tuples(*[st.integers(1, 4)] * 5),
    masking=st.sampled_from(["none", "random", "random for each head", "nothing visible"]),
    biased=st.booleans(),
    scale=st.sampled_from([None, 1.0, 0.1]),
    seed=seeds,
)
def test_fused_is_traced(sizes: tuple[int, ...], masking: str, biased: bool, scale: float | None, seed: int) -> None:
    batch, kv_heads, shared, queries, keys = sizes
    heads, random = kv_heads * shared, torch.Generator().manual_seed(seed)
    q = torch.randn(batch, heads, queries, 4, generator=random)
    k, v = torch.randn(2, batch, kv_heads, keys, 4, generator=random).unbind()
    bias = torch.randn(batch, heads, queries, keys, generator=random) if biased else None
    may_attend = None
    if masking != "none":
        masked_heads = heads if masking == "random for each head" else 1
        chance = 1.0 if masking == "nothing visible" else 0.5
        may_attend = torch.rand(batch, masked_heads, queries, keys, generator=random) >= chance
    trace = Trace()
    fused = attend(q, k, v, may_attend, bias=bias, scale=scale)
    close(attend(q, k, v, may_attend, bias=bias, scale=scale, trace=trace), fused)
    if may_attend is not None:
        blind = ~may_attend.any(-1).expand(batch, heads, queries)
        assert (fused[blind] == 0.0).all()
        assert (trace["weights"][~may_attend.expand_as(trace["weights"])] == 0.0).all()


def check_weights(trace: Trace, path: str, sighted_BQ: Tensor) -> None:
    """Rows sum to 1; those of queries that may look at nothing, to 0."""
    sums_BHQ = trace[path].sum(-1)
    assert_close(sums_BHQ, sighted_BQ[:, None].expand_as(sums_BHQ).float())


@given(decoders(), batches())
def test_looking_into_a_decoder(model: Decoder, batch: Batch) -> None:
    trace = Trace()
    close(model(batch.ids_BL, batch.present_BL, trace=trace), model(batch.ids_BL, batch.present_BL))
    sighted_BL = batch.present_BL.cumsum(-1) > 0  # with padding on the left the first queries see nothing
    for i in range(model.config.layers):
        check_weights(trace, f"stack.blocks.{i}.attention.weights", sighted_BL)
        ahead = ~causal_mask(batch.ids_BL.shape[1])
        weights = trace[f"stack.blocks.{i}.attention.weights"]
        assert (weights[ahead.expand_as(weights)] == 0.0).all()


@given(encoders(), batches())
def test_looking_into_an_encoder(model: Encoder, batch: Batch) -> None:
    trace = Trace()
    close(model(batch.ids_BL, batch.present_BL, trace=trace), model(batch.ids_BL, batch.present_BL))
    for i in range(model.config.layers):
        check_weights(trace, f"stack.blocks.{i}.attention.weights", torch.ones_like(batch.present_BL))
        weights = trace[f"stack.blocks.{i}.attention.weights"]
        assert (weights[~batch.present_BL[:, None, None].expand_as(weights)] == 0.0).all()


@given(translators(), batches(), batches(padded=False))
def test_looking_into_a_translator(model: Seq2Seq, source: Batch, target: Batch) -> None:
    rows = torch.arange(len(source.ids_BL)) % len(target.ids_BL)
    target_BL, trace = target.ids_BL[rows], Trace()
    looked_at = model(source.ids_BL, target_BL, source.present_BL, trace=trace)
    close(looked_at, model(source.ids_BL, target_BL, source.present_BL))
    weights = [path for path in trace if path.endswith(".weights")]
    assert len(weights) == model.config.encoder_layers + 2 * model.config.decoder_layers
    for path in weights:
        check_weights(trace, path, torch.ones(trace[path].shape[0], trace[path].shape[2], dtype=torch.bool))
        if "attention" not in path or path.startswith("encoder"):
            hidden = ~source.present_BL[:, None, None].expand_as(trace[path])
            assert (trace[path][hidden] == 0.0).all()


@given(decoders(), batches(padded=False, shortest=2))
def test_looking_at_a_cached_step(model: Decoder, batch: Batch) -> None:
    seen, unseen, trace = model.new_cache(), model.new_cache(), Trace()
    for cache in (seen, unseen):
        model(batch.ids_BL[:, :-1], cache=cache)
    close(model(batch.ids_BL[:, -1:], cache=seen, trace=trace), model(batch.ids_BL[:, -1:], cache=unseen))
    assert trace["stack.blocks.0.attention.weights"].shape[-2:] == (1, batch.ids_BL.shape[1])
