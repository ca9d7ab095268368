"""The native backend against the torch backend, and the native search against the reference search."""

from collections.abc import Sequence
from dataclasses import Field, fields, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.decoding.beam import beam
from regard.decoding.greedy import greedy_loop
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search_protocol import Prompts, run_search
from regard.decoding.settings import SearchSettings
from regard.errors import ModelError
from regard.inference.backend import Backend, SpecialTokens
from regard.inference.native import kernels
from regard.inference.native_backend import NativeBackend, NativeModel, is_native
from regard.inference.requests import Request
from regard.inference.scheduler import Scheduler
from regard.inference.torch_backend import Seq2SeqBackend, backend_for
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


def native(model: Seq2Seq) -> NativeBackend:
    found = NativeModel.of_network(model)
    assert found is not None
    return NativeBackend(found)


TOKENS = SpecialTokens(start=START, end=ENDS, pad=0, suppressed=(0, 5))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@torch.inference_mode()
def test_native_steps_are_torch_steps(kind: dict[str, object]) -> None:
    """The two backends behind the seam, with beams that are reordered at every step."""
    model, sources = make(**kind), sentences(5, 3)
    backends: list[Backend] = [Seq2SeqBackend(model), native(model)]
    states = [backend.encode(sources, TOKENS).state for backend in backends]
    ids = torch.full((5, 1), START)
    for step in range(6):
        (expected,), (found,) = (backend.step([state], [ids]) for backend, state in zip(backends, states, strict=True))
        assert_close(found, expected, atol=2e-4, rtol=1e-4)
        rows = torch.arange(5).repeat_interleave(2) if step == 0 else torch.tensor([0, 0, 3, 2, 5, 4, 6, 6, 9, 9])
        ids = expected.argmax(-1)[rows][:, None]
        for state in states:
            state.reorder(rows)


@torch.inference_mode()
def test_groups_of_different_lengths_step_together() -> None:
    backend, sources = native(make()), sentences(6, 4)
    old, young = (backend.encode(some, TOKENS).state for some in (sources[:2], sources[2:]))
    backend.step([old], [torch.full((2, 1), START)])
    new = torch.full((4, 1), START)
    _, together = backend.step([old, young], [torch.tensor([[7], [8]]), new])
    (alone,) = backend.step([backend.encode(sources[2:], TOKENS).state], [new])
    assert_close(together, alone, atol=0, rtol=0)


@pytest.mark.parametrize(
    "kind", [{"activation": "swiglu"}, {"norm": "rms"}, {"positions": "rotary"}, {"width": 40, "heads": 5}], ids=str
)
def test_what_the_native_code_lacks_runs_on_torch(kind: dict[str, object]) -> None:
    model = make(**kind)
    assert NativeModel.of_network(model) is None
    assert isinstance(backend_for(model), Seq2SeqBackend)


def test_another_dtype_runs_on_torch() -> None:
    assert NativeModel.of_network(make().to(torch.bfloat16)) is None


# ---- the search ----


def native_search(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    plan: SearchSettings,
    limits: Sequence[int],
    rows: int,
    ends: Sequence[int],
) -> list[list[Hypothesis]]:
    tokens = replace(TOKENS, end=ends)
    requests = [
        Request(ids=source, settings=plan, max_tokens=limit) for source, limit in zip(sources, limits, strict=True)
    ]
    return Scheduler(native(model), tokens, max_rows=rows).run(requests, workers=1)


def reference_search(
    model: Seq2Seq, sources: Sequence[Sequence[int]], plan: SearchSettings, limits: Sequence[int], ends: Sequence[int]
) -> list[list[Hypothesis]]:
    """beam.py and greedy.py on native steps: the same logits to the last bit, so the same tokens."""
    backend = native(model)
    state, ids_BL, _ = backend.encode(sources, TOKENS)

    class Step:
        def __call__(self, ids_RL: torch.Tensor, /) -> torch.Tensor:
            return backend.step([state], [ids_RL])[0]

        def reorder(self, rows_R: torch.Tensor, /) -> None:
            state.reorder(rows_R)

    prompts = Prompts(ids_BL=ids_BL, max_tokens=list(limits), end=ends, suppressed=(0, 5), topk=backend.topk)
    if plan.beam == 1:
        return run_search(greedy_loop(prompts, plan), Step())
    return beam(Step(), prompts, plan)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.data())
def test_the_native_search_is_the_reference_token_for_token(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**6))
    width = data.draw(st.integers(1, 8))
    plan = SearchSettings(
        beam=width,
        n_best=data.draw(st.integers(1, width)),
        length_penalty=data.draw(st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5])),
        length_form=data.draw(st.sampled_from(["plain", "paper"])),
        patience=data.draw(st.sampled_from([None, 0.5, 1.0, 2.0])),
        min_tokens=data.draw(st.sampled_from([0, 0, 3])),
    )
    ends = data.draw(st.sampled_from([(2,), (2, 7), (2, 7, 9)]))
    vocab = data.draw(st.sampled_from([12, 60]))  # with the smaller there are fewer words than the beam is wide
    model = make(seed, spread=data.draw(st.sampled_from([1.0, 4.0])), vocab=vocab)
    if data.draw(st.booleans()):
        quantize(model)
    sources = [[token % vocab for token in row] for row in sentences(data.draw(st.integers(1, 9)), seed)]
    limits = [data.draw(st.integers(1 if plan.min_tokens == 0 else 3, 14)) for _ in sources]
    rows = data.draw(st.sampled_from([width, 3 * width, 256]))
    with torch.inference_mode():
        expected = reference_search(model, sources, plan, limits, ends)
        found = native_search(model, sources, plan, limits, rows, ends)
    for found_one, expected_one in zip(found, expected, strict=True):
        assert [each.tokens for each in found_one] == [each.tokens for each in expected_one]
        assert [each.end for each in found_one] == [each.end for each in expected_one]
        for one, other in zip(found_one, expected_one, strict=True):
            assert one.log_probs == other.log_probs
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
        native_search(model, [source], plan, [limit], 4, ENDS)[0] for source, limit in zip(sources, limits, strict=True)
    ]
    random = torch.Generator().manual_seed(1)
    for _ in range(300):
        some = torch.randperm(40, generator=random)[: int(torch.randint(1, 13, (1,), generator=random))].tolist()
        rows = int(torch.randint(4, 60, (1,), generator=random))
        found = native_search(model, [sources[i] for i in some], plan, [limits[i] for i in some], rows, ENDS)
        assert found == [alone[i] for i in some]


@torch.inference_mode()
def test_no_room_says_nothing() -> None:
    found = native_search(make(), sentences(3, 1), SearchSettings(beam=2), [0, 4, -3], 256, ENDS)
    assert [[each.tokens for each in one] for one in (found[0], found[2])] == [[[]], [[]]]
    assert found[1][0].tokens


@torch.inference_mode()
def test_a_broken_model_is_an_error_and_not_a_text() -> None:
    model = make()
    model.decoder.blocks[0].feedforward.up.weight[0, 0] = float("nan")  # type: ignore[union-attr, index, operator]
    with pytest.raises(ModelError, match="not finite"):
        native_search(model, sentences(3, 1), SearchSettings(beam=2), [4, 4, 4], 256, ENDS)


NATIVE = {"beam", "n_best", "length_penalty", "length_form", "patience", "min_tokens", "max_tokens", "seed"}


@pytest.mark.parametrize("field", fields(SearchSettings), ids=lambda field: field.name)
def test_a_setting_that_the_native_search_lacks_is_never_ignored(field: Field[Any]) -> None:
    """Every field of SearchSettings is either done by the native search, or sends the search to the step loop."""
    others = {
        "temperature": SearchSettings(temperature=1.0),
        "top_k": SearchSettings(temperature=1.0, top_k=3),
        "top_p": SearchSettings(temperature=1.0, top_p=0.5),
        "min_p": SearchSettings(temperature=1.0, min_p=0.5),
        "repetition_penalty": SearchSettings(repetition_penalty=1.2),
        "frequency_penalty": SearchSettings(frequency_penalty=0.5),
        "presence_penalty": SearchSettings(presence_penalty=0.5),
        "no_repeat_ngram": SearchSettings(no_repeat_ngram=2),
        "boost": SearchSettings(boost=((3, 4),)),
    }
    if field.name in NATIVE:
        assert is_native(SearchSettings(beam=4, n_best=2, length_penalty=0.6, min_tokens=2, max_tokens=9, seed=1))
    else:
        assert not is_native(others[field.name])


def test_wide_beams_run_step_by_step() -> None:
    assert is_native(SearchSettings(beam=64))
    assert not is_native(SearchSettings(beam=65))
