"""Beam search, token for token and score for score, against `generate(num_beams=4, early_stopping="never")`.

Where the two differ on purpose:

- `early_stopping=False`, transformers' default, is a heuristic: it assumes that a hypothesis gains nothing by growing
  longer. `True` stops when `num_beams` hypotheses have finished. "never" is exact, like SearchSettings(patience=None).
- transformers' repetition penalty in beam search works on log-probabilities, in greedy search and sampling on logits.
  regard's always works on logits; given log-probabilities for logits, it does what theirs does.
- `num_beams=1` is greedy search in both.
- transformers' lengths count the end token, as regard's do; the start token counts in neither.
- transformers' rules count padding before a prompt as tokens; regard's do not. (Here it makes no difference, because
  padding is suppressed.)
- With several end tokens, transformers may give one text twice, ended by each. regard gives it once.
"""

from typing import Any

import pytest
import torch
from their_models import PAD, Both, Pair, ragged
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import search
from regard.decoding.search_protocol import Prompts
from regard.decoding.settings import SearchSettings
from regard.models.seq2seq import Memory

LENGTHS = [9, 3, 1, 14, 6, 6]
SEEDS = range(1, 4)
END, ROOM = 2, 14
MORE = 1.5
"""Added to the end token's logit, which random weights rarely prefer."""


class Translating:
    def __init__(self, pair: Pair, ids_BS: Tensor, present_BS: Tensor, *, as_log_probabilities: bool) -> None:
        self.network = pair.ours.network
        self.memory = self.network.encode(ids_BS, present_BS)
        self.ids_RL = torch.zeros(len(ids_BS), 0, dtype=torch.long)
        self.as_log_probabilities = as_log_probabilities

    def __call__(self, ids_RL: Tensor) -> Tensor:
        self.ids_RL = torch.cat((self.ids_RL, ids_RL), dim=1)
        logits_RV: Tensor = self.network.decode(self.ids_RL, self.memory)[:, -1]
        logits_RV = logits_RV + MORE * (torch.arange(logits_RV.shape[1]) == END)
        return logits_RV.log_softmax(-1) if self.as_log_probabilities else logits_RV

    def reorder(self, rows_R: Tensor) -> None:
        self.memory = Memory(*(part[rows_R] for part in self.memory))
        self.ids_RL = self.ids_RL[rows_R]


def theirs(pair: Pair, ids_BS: Tensor, present_BS: Tensor, **settings: Any) -> list[list[tuple[list[int], float]]]:
    """The n best of each sentence: tokens, end token included, and score."""
    n = settings.get("num_return_sequences", 1)
    model = pair.theirs
    kept = model.final_logits_bias.clone()
    model.final_logits_bias[:, END] += MORE
    try:
        out = model.generate(
            input_ids=ids_BS,
            attention_mask=present_BS.long(),
            do_sample=False,
            max_new_tokens=ROOM,
            max_length=None,
            eos_token_id=END,
            pad_token_id=PAD,
            bad_words_ids=[[PAD]],
            return_dict_in_generate=True,
            output_scores=True,
            **{"early_stopping": "never"} | settings,
        )
    finally:
        model.final_logits_bias.copy_(kept)
    found = []
    for row, score in zip(out.sequences.tolist(), out.sequences_scores.tolist(), strict=True):
        length = row.index(END) if END in row else len(row)  # what comes after is filled up
        found.append((row[1 : length + 1], score))
    return [found[i : i + n] for i in range(0, len(found), n)]


def ours(pair: Pair, ids_BS: Tensor, present_BS: Tensor, how: SearchSettings) -> list[list[Hypothesis]]:
    step = Translating(pair, ids_BS, present_BS, as_log_probabilities=how.repetition_penalty != 1.0)
    opening = Prompts(ids_BL=torch.full((len(ids_BS), 1), PAD), max_tokens=ROOM, end=[END], suppressed=[PAD])
    return search(step, opening, how)


def said(hypothesis: Hypothesis) -> list[int]:
    return hypothesis.tokens + ([] if hypothesis.end is None else [hypothesis.end])


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "no penalty": ({"length_penalty": 0.0}, {"length_penalty": 0.0}),
    "some penalty": ({"length_penalty": 0.6}, {"length_penalty": 0.6}),
    "longer, please": ({"length_penalty": 2.0}, {"length_penalty": 2.0}),
    "shorter, please": ({"length_penalty": -1.0}, {"length_penalty": -1.0}),
    "wider": ({"num_beams": 9, "num_return_sequences": 9}, {"beam": 9, "n_best": 9}),
    "narrow": ({"num_beams": 2, "num_return_sequences": 1}, {"beam": 2, "n_best": 1}),
    "no pair twice": ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram": 2}),
    "no token twice": ({"no_repeat_ngram_size": 1}, {"no_repeat_ngram": 1}),
    "at least": ({"min_new_tokens": 6}, {"min_tokens": 6}),
    "penalised": ({"repetition_penalty": 1.4}, {"repetition_penalty": 1.4}),
    "everything": (
        {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3, "min_new_tokens": 4, "length_penalty": 0.6},
        {"repetition_penalty": 1.2, "no_repeat_ngram": 3, "min_tokens": 4, "length_penalty": 0.6},
    ),
}


@torch.inference_mode()
@pytest.mark.parametrize("name", SETTINGS)
def test_translating(both: Both, name: str) -> None:
    for_them, for_us = SETTINGS[name]
    how = SearchSettings(**{"beam": 4, "n_best": 3} | for_us)
    lengths: set[int] = set()
    for seed in SEEDS:
        pair = both("marian", seed)
        ids_BS, present_BS = ragged(LENGTHS, seed=seed)
        expected = theirs(pair, ids_BS, present_BS, **{"num_beams": 4, "num_return_sequences": 3} | for_them)
        for found, other in zip(ours(pair, ids_BS, present_BS, how), expected, strict=True):
            assert [said(one) for one in found] == [tokens for tokens, _ in other]
            assert [one.score for one in found] == pytest.approx([score for _, score in other], abs=1e-4)
            lengths |= {len(tokens) for tokens, _ in other}
    assert len(lengths) > 1 or name == "longer, please", "some should end early, others late"


@torch.inference_mode()
def test_a_guess_is_sometimes_worse_and_never_better(both: Both) -> None:
    """Exact stopping finds better hypotheses than transformers' default, with a penalty that rewards length."""
    gains = []
    for seed in SEEDS:
        pair = both("marian", seed)
        ids_BS, present_BS = ragged(LENGTHS, seed=seed)
        guessed = theirs(pair, ids_BS, present_BS, num_beams=2, length_penalty=2.0, early_stopping=False)
        exact = ours(pair, ids_BS, present_BS, SearchSettings(beam=2, length_penalty=2.0))
        gains += [one.score - score for (one,), ((_, score),) in zip(exact, guessed, strict=True)]
    assert min(gains) > -1e-5
    assert max(gains) > 1e-3


class Continuing:
    def __init__(self, pair: Pair, present_BL: Tensor) -> None:
        self.network, self.present_BL = pair.ours.network, present_BL
        self.cache = self.network.new_cache()

    def __call__(self, ids_RL: Tensor) -> Tensor:
        present = self.present_BL if self.cache.length == 0 else torch.ones_like(ids_RL, dtype=torch.bool)
        logits_RV: Tensor = self.network(ids_RL, present, self.cache)[:, -1]
        return logits_RV

    def reorder(self, rows_R: Tensor) -> None:
        self.cache.reorder(rows_R)


@torch.inference_mode()
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_continuing(both: Both, name: str, beams: int) -> None:
    """The rules look at the prompt too: the repetition penalty (on logits: greedy search only) and the n-grams."""
    rules: dict[str, Any] = {"no_repeat_ngram_size": 2} | ({"repetition_penalty": 1.5} if beams == 1 else {})
    how = SearchSettings(beam=beams, no_repeat_ngram=2, repetition_penalty=1.5 if beams == 1 else 1.0)
    for seed in SEEDS:
        pair = both(name, seed)
        ids_BL, present_BL = ragged(LENGTHS, left=True, vocab=9, seed=seed)  # few words: they come again
        rows = pair.theirs.generate(
            input_ids=ids_BL,
            attention_mask=present_BL.long(),
            do_sample=False,
            num_beams=beams,
            early_stopping="never" if beams > 1 else None,
            max_new_tokens=ROOM,
            eos_token_id=END,
            pad_token_id=PAD,
            bad_words_ids=[[PAD]],
            **rules,
        ).tolist()
        new = [row[ids_BL.shape[1] :] for row in rows]
        opening = Prompts(ids_BL=ids_BL, present_BL=present_BL, max_tokens=ROOM, end=[END], suppressed=[PAD])
        found = search(Continuing(pair, present_BL), opening, how)
        assert [said(one) for (one,) in found] == [row[: row.index(END) + 1] if END in row else row for row in new]
