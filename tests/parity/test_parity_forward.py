"""The states of every layer and the logits equal those of transformers."""

from collections.abc import Iterator

import pytest
import torch
from their_models import VARIANTS, Both, Pair, ragged
from torch import Tensor

from regard.blocks.trace import Trace

TOLERANCE = 1e-5
LENGTHS = [23, 1, 9, 16]
BY_FAMILY = {
    family: [name for name, variant in VARIANTS.items() if variant.family == family]
    for family in ("marian", "bert", "roformer", "gpt2", "llama", "vit")
}


def agree(ours: Tensor, theirs: Tensor, present_BL: Tensor | None = None) -> None:
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    largest = difference.max() if present_BL is None else difference[present_BL].max()
    assert largest <= TOLERANCE, f"largest difference {largest:.2e}"
    assert theirs.std() > 0.05  # the same nothing twice would prove nothing


def states(trace: Trace, stack: str, embedding: str) -> Iterator[Tensor]:
    """States as transformers counts them: the input, then the output of each block."""
    yield trace[f"{embedding}.output"]
    blocks = sum(1 for path in trace if path.startswith(f"{stack}.blocks.") and path.endswith("after_feedforward"))
    for i in range(blocks):
        yield trace[f"{stack}.blocks.{i}.after_feedforward"]


def compare_states(seen: Trace, theirs: object, present_BL: Tensor | None, stack: str = "stack") -> None:
    embedding = {"stack": "embedding", "encoder": "source", "decoder": "target"}[stack]
    prefix = "" if stack == "stack" else f"{stack}_"
    hidden = getattr(theirs, f"{prefix}hidden_states")
    ours = list(states(seen, stack, embedding))
    assert len(ours) == len(hidden) == 1 + (2 if stack == "encoder" else 3)
    for mine, other in zip(ours[:-1], hidden[:-1], strict=True):
        agree(mine, other, present_BL)
    # the last of theirs is before or after the last norm, as the family has it; this one is always after
    last = theirs.encoder_last_hidden_state if stack == "encoder" else theirs.last_hidden_state  # type: ignore[attr-defined]
    agree(seen[f"{stack}.output"], last, present_BL)


def text_inputs(pair: Pair, ids_BL: Tensor, present_BL: Tensor) -> dict[str, Tensor]:
    inputs = {"input_ids": ids_BL, "attention_mask": present_BL.long()}
    if pair.family != "roformer":  # it takes none, and needs none: it sees distances only
        inputs["position_ids"] = (present_BL.long().cumsum(-1) - 1).clamp(min=0)
    return inputs


def check_text(pair: Pair, ids_BL: Tensor, present_BL: Tensor, segments_BL: Tensor | None = None) -> None:
    inputs = text_inputs(pair, ids_BL, present_BL)
    more = (present_BL,) if segments_BL is None else (present_BL, segments_BL)
    if segments_BL is not None:
        inputs["token_type_ids"] = segments_BL
    seen = Trace()
    ours = pair.ours.network(ids_BL, *more, trace=seen)
    agree(pair.ours.network(ids_BL, *more), ours)  # without looking inside: the fused kernel
    compare_states(seen, pair.theirs.base_model(**inputs, output_hidden_states=True), present_BL)
    out = pair.theirs(**inputs)
    logits = next((out[key] for key in ("logits", "prediction_logits") if key in out), None)
    if logits is None:
        return agree(ours, out.last_hidden_state, present_BL)
    if logits.dim() == 3:
        return agree(ours, logits, present_BL)
    # a classifier of theirs takes BERT's summary from the first column, be it padding or not
    readable = present_BL[:, 0] if pair.family in ("bert", "roformer") else torch.ones(len(ids_BL), dtype=torch.bool)
    agree(ours[readable], logits[readable])


@torch.inference_mode()
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", [*BY_FAMILY["bert"], *BY_FAMILY["roformer"], *BY_FAMILY["gpt2"], *BY_FAMILY["llama"]])
def test_one_stack_over_text(both: Both, name: str, side: str) -> None:
    check_text(both(name), *ragged(LENGTHS, left=side == "left"))


@torch.inference_mode()
@pytest.mark.parametrize("name", BY_FAMILY["bert"])
def test_segments(both: Both, name: str) -> None:
    ids_BL, present_BL = ragged(LENGTHS, seed=1)
    check_text(both(name), ids_BL, present_BL, torch.arange(ids_BL.numel()).view_as(ids_BL) % 3)


@torch.inference_mode()
@pytest.mark.parametrize("name", BY_FAMILY["llama"])
def test_far_positions(both: Both, name: str) -> None:
    """Long inputs, where scaled rotations differ."""
    check_text(both(name), *ragged([120, 77], seed=2))


@torch.inference_mode()
def test_bert_pooler(both: Both) -> None:
    pair = both("bert, bare")
    ids_BL, present_BL = ragged(LENGTHS)
    summary_BD = pair.theirs(**text_inputs(pair, ids_BL, present_BL)).pooler_output
    agree(pair.ours.network.pooler(pair.ours.network.states(ids_BL, present_BL)[:, 0]), summary_BD)


@torch.inference_mode()
@pytest.mark.parametrize("name", BY_FAMILY["marian"])
def test_translation(both: Both, name: str) -> None:
    pair = both(name)
    source_BS, source_present_BS = ragged(LENGTHS)
    target_BL, target_present_BL = ragged([5, 18, 11, 1], vocab=pair.ours.config.vocab, seed=1)
    inputs = {
        "input_ids": source_BS,
        "attention_mask": source_present_BS.long(),
        "decoder_input_ids": target_BL,
        "decoder_attention_mask": target_present_BL.long(),
    }
    seen = Trace()
    given = (source_BS, target_BL, source_present_BS, target_present_BL)
    ours = pair.ours.network(*given, trace=seen)
    agree(pair.ours.network(*given), ours)
    base = pair.theirs.model(**inputs, output_hidden_states=True)
    compare_states(seen, base, source_present_BS, "encoder")
    compare_states(seen, base, target_present_BL, "decoder")
    agree(ours, pair.theirs(**inputs).logits, target_present_BL)


@torch.inference_mode()
@pytest.mark.parametrize("name", BY_FAMILY["vit"])
def test_images(both: Both, name: str) -> None:
    pair = both(name)
    pixels_BCYX = torch.randn(3, 2, 12, 12, generator=torch.Generator().manual_seed(0))
    seen = Trace()
    ours = pair.ours.network(pixels_BCYX, trace=seen)
    agree(pair.ours.network(pixels_BCYX), ours)
    compare_states(seen, pair.theirs.base_model(pixels_BCYX, output_hidden_states=True), None)
    out = pair.theirs(pixels_BCYX)
    agree(ours, out.logits if "logits" in out else out.last_hidden_state)
    agree(pair.ours.logits(pixels_BCYX[1]), ours[1])


def test_every_variant_is_compared() -> None:
    assert sum(map(len, BY_FAMILY.values())) == len(VARIANTS)
