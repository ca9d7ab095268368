"""Rewards of translations, against the BLEU that sacrebleu computes for the whole text."""

import pytest
from sacrebleu.metrics.bleu import BLEU

from regard.evaluation.rewards import rewards

TARGETS = [
    "The dog runs through the high grass near the house.",
    "Two men sit on a bench and read.",
    "A girl sings.",
] * 30
TAKEN = ["The dog runs through the grass by the house.", "Two men sit on a bench.", "A girl is singing."] * 30


def rewards_of(*others: str) -> list[float]:
    """Of what was taken for the second sentence, and of others."""
    metric = BLEU(effective_order=True)
    outputs = [[one] for one in TAKEN]
    outputs[1] += others
    rows = zip(outputs, TARGETS, strict=True)
    return rewards([[metric.sentence_score(one, [target]) for one in own] for own, target in rows])[1]


def corpus(second: str) -> float:
    outputs = [TAKEN[0], second, *TAKEN[2:]]
    return BLEU(smooth_method="add-k", smooth_value=1).corpus_score(outputs, [TARGETS]).score / 100


@pytest.mark.parametrize(
    "other", ["Two men sit on a bench and write.", "Two women sit on a bench and read books.", "Men."]
)
def test_it_is_what_the_text_gains(other: str) -> None:
    now, then = rewards_of(other)
    words, own = sum(len(BLEU().tokenizer(target).split()) for target in TARGETS), 9
    assert now == pytest.approx(corpus(TAKEN[1]), abs=1e-3)
    assert then - now == pytest.approx((corpus(other) - corpus(TAKEN[1])) * words / own, rel=0.02)


def test_length_counts_for_the_text_and_not_for_each_sentence() -> None:
    """A text that is too short gains by a sentence that is too long, where it is no less right by it."""
    taken, right, longer = rewards_of(TARGETS[1], TARGETS[1] + " Two men sit on a bench and read.")
    assert taken < right
    assert longer > taken


def test_a_sentence_without_words() -> None:
    taken, nothing = rewards_of("")
    assert nothing < taken
    ((alone,),) = rewards([[BLEU(effective_order=True).sentence_score("", [""])]])
    assert alone == pytest.approx(1.0)
