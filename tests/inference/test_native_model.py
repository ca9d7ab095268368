"""The compiled passes and the compiled search against the modules and the reference search."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.blocks.beam_cache import BeamCache
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy_loop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request import Prompts, run_search
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError
from regard.inference.native import kernels
from regard.inference.native_step import NativeStep, can_compile, compile_network
from regard.inference.native_worker import NativeWorker, is_plain
from regard.inference.scheduler import run
from regard.models.config import Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.weights.quantize import quantize

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no compiler, or a CPU that the loops are not for")
SIZES = {"vocab": 60, "width": 32, "heads": 4, "inner": 64, "encoder_layers": 2, "decoder_layers": 2, "context": 64}
START, ENDS = 1, (2,)


def make(seed: int = 1, *, spread: float = 3.0, **others: object) -> Seq2Seq:
    """A random model; `spread` makes it surer of what it says, so that searches end at different lengths."""
    model = Seq2Seq(Seq2SeqConfig(**SIZES | others)).eval()  # type: ignore[arg-type]
    initialize(model, seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        model.target.tokens.weight.mul_(spread)
    return model


def sentences(count: int, seed: int, longest: int = 12) -> list[list[int]]:
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (count,), generator=random).tolist()
    return [torch.randint(3, 60, (length,), generator=random).tolist() for length in lengths]


def padded(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    present = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])
    return ids, present


KINDS: list[dict[str, object]] = [
    {},
    {"norm_first": True},
    {"activation": "gelu"},
    {"activation": "gelu_tanh", "norm_first": True},
    {"activation": "silu", "positions": "learned"},
    {"kv_heads": 2, "head_width": 16, "output_bias": True},
    {"attention_bias": False, "attention_output_bias": False, "feedforward_bias": False, "positions": "none"},
    {"vocab": 61, "width": 96, "heads": 3, "inner": 160, "norm_eps": 1e-3},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.inference_mode()
def test_the_compiled_pass_is_the_modules(kind: dict[str, object]) -> None:
    model = make(**kind)
    assert can_compile(model)
    compiled, sources = NativeStep(compile_network(model)), sentences(5, 3)
    groups = {
        "modules": model.group(model.encode(*padded(sources))),
        "compiled": compiled.read(sources),
    }
    ids = torch.full((5,), START)
    for step in range(6):
        expected, found = model.next_logits(ids, [groups["modules"]]), compiled.next_logits(ids, [groups["compiled"]])
        assert_close(found, expected, atol=2e-4, rtol=1e-4)
        rows = torch.arange(5).repeat_interleave(2) if step == 0 else torch.tensor([0, 0, 3, 2, 5, 4, 6, 6, 9, 9])
        ids = expected.argmax(-1)[rows]
        for group in groups.values():
            group.reorder(rows)


@torch.inference_mode()
def test_groups_of_different_lengths_go_through_together() -> None:
    model = make()
    compiled, sources = NativeStep(compile_network(model)), sentences(6, 4)
    old, young = compiled.read(sources[:2]), compiled.read(sources[2:])
    compiled.next_logits(torch.full((2,), START), [old])
    ids = torch.tensor([7, 8, START, START, START, START])
    together = compiled.next_logits(ids, [young, old][::-1])
    assert_close(together[2:], compiled.next_logits(ids[2:], [compiled.read(sources[2:])]), atol=0, rtol=0)


@pytest.mark.parametrize(
    "kind", [{"activation": "swiglu"}, {"norm": "rms"}, {"positions": "rotary"}, {"width": 40, "heads": 5}], ids=str
)
def test_what_has_no_compiled_loop_is_not_compiled(kind: dict[str, object]) -> None:
    assert not can_compile(make(**kind))


def test_another_dtype_is_not_compiled() -> None:
    assert not can_compile(make().to(torch.bfloat16))


# ---- the search ----


def compiled_search(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    plan: SearchSettings,
    limits: Sequence[int],
    rows: int,
    ends: Sequence[int],
) -> list[list[Hypothesis]]:
    compiled = compile_network(model)

    def hire() -> NativeWorker:
        return NativeWorker(compiled, sources, limits, plan, start=START, ends=ends, never=(0, 5))

    return run(hire, [len(source) for source in sources], plan.beam, rows=rows, workers=1)


def reference_search(
    model: Seq2Seq, sources: Sequence[Sequence[int]], plan: SearchSettings, limits: Sequence[int], ends: Sequence[int]
) -> list[list[Hypothesis]]:
    """beam.py and greedy.py on the compiled pass: the same logits to the last bit, so the same tokens."""
    compiled = NativeStep(compile_network(model))

    class Step:
        def __init__(self, group: BeamCache) -> None:
            self.group = group

        def __call__(self, ids_RL: torch.Tensor, /) -> torch.Tensor:
            return compiled.next_logits(ids_RL[:, 0], [self.group])

        def reorder(self, rows_R: torch.Tensor, /) -> None:
            self.group.reorder(rows_R)

    opening = Prompts(first_BL=torch.full((len(sources), 1), START), room=list(limits), end=ends, never=(0, 5))
    step = Step(compiled.read(sources))
    if plan.beam == 1:
        return run_search(greedy_loop(opening, plan), step)
    return beam(step, opening, plan)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.data())
def test_the_compiled_search_is_the_reference_token_for_token(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**6))
    width = data.draw(st.integers(1, 8))
    plan = SearchSettings(
        beam=width,
        n_best=data.draw(st.integers(1, width)),
        length_penalty=data.draw(st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5])),
        length_form=data.draw(st.sampled_from(["plain", "paper"])),
        patience=data.draw(st.sampled_from([None, 0.5, 1.0, 2.0])),
        min_new=data.draw(st.sampled_from([0, 0, 3])),
    )
    ends = data.draw(st.sampled_from([(2,), (2, 7), (2, 7, 9)]))
    vocab = data.draw(st.sampled_from([12, 60]))  # with the smaller there are fewer words than the beam is wide
    model = make(seed, spread=data.draw(st.sampled_from([1.0, 4.0])), vocab=vocab)
    if data.draw(st.booleans()):
        quantize(model)
    sources = [[token % vocab for token in row] for row in sentences(data.draw(st.integers(1, 9)), seed)]
    limits = [data.draw(st.integers(1 if plan.min_new == 0 else 3, 14)) for _ in sources]
    rows = data.draw(st.sampled_from([width, 3 * width, 256]))
    with torch.inference_mode():
        expected = reference_search(model, sources, plan, limits, ends)
        found = compiled_search(model, sources, plan, limits, rows, ends)
    for found_one, expected_one in zip(found, expected, strict=True):
        assert [each.tokens for each in found_one] == [each.tokens for each in expected_one]
        assert [each.end for each in found_one] == [each.end for each in expected_one]
        for one, other in zip(found_one, expected_one, strict=True):
            assert one.token_log_probabilities == other.token_log_probabilities
            assert one.score == pytest.approx(other.score, rel=1e-6)


@pytest.mark.parametrize("int8", [False, True], ids=["float32", "int8"])
@torch.inference_mode()
def test_a_sentence_is_translated_alike_in_any_company(int8: bool) -> None:
    """300 mixes: any sentences, any order, any number at a time, bit for bit."""
    model = make()
    if int8:
        quantize(model)
    sources, plan = sentences(40, 9), SearchSettings(beam=4, n_best=2)
    limits = [len(source) + 8 for source in sources]
    alone = [
        compiled_search(model, [source], plan, [limit], 4, ENDS)[0]
        for source, limit in zip(sources, limits, strict=True)
    ]
    random = torch.Generator().manual_seed(1)
    for _ in range(300):
        some = torch.randperm(40, generator=random)[: int(torch.randint(1, 13, (1,), generator=random))].tolist()
        rows = int(torch.randint(4, 60, (1,), generator=random))
        found = compiled_search(model, [sources[i] for i in some], plan, [limits[i] for i in some], rows, ENDS)
        assert found == [alone[i] for i in some]


@torch.inference_mode()
def test_no_room_says_nothing() -> None:
    found = compiled_search(make(), sentences(3, 1), SearchSettings(beam=2), [0, 4, -3], 256, ENDS)
    assert [[each.tokens for each in one] for one in (found[0], found[2])] == [[[]], [[]]]
    assert found[1][0].tokens


@torch.inference_mode()
def test_a_broken_model_is_an_error_and_not_a_text() -> None:
    model = make()
    model.decoder.blocks[0].feedforward.up.weight[0, 0] = float("nan")  # type: ignore[union-attr, index, operator]
    with pytest.raises(ModelError, match="no finite numbers"):
        compiled_search(model, sentences(3, 1), SearchSettings(beam=2), [4, 4, 4], 256, ENDS)


def test_what_is_plain() -> None:
    assert is_plain(SearchSettings(beam=4, length_penalty=0.6, min_new=2))
    others = [
        SearchSettings(temperature=1.0),
        SearchSettings(no_repeat_ngram=2),
        SearchSettings(repetition_penalty=1.2),
        SearchSettings(beam=65),
    ]
    assert not any(map(is_plain, others))
