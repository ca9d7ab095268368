"""Confidences are calibrated: of what is said to be right seven times in ten, so much is."""

import json
from pathlib import Path

import numpy as np
import pytest

from regard.documents.confidence import FILE, Confidence, calibration_error, fit, probability
from regard.errors import RegardError


def test_fit_finds_the_weights_that_made_the_data() -> None:
    luck = np.random.default_rng(1)
    features = luck.normal(size=(20_000, 2))
    truth = luck.random(20_000) < 1 / (1 + np.exp(-(0.5 + 2 * features[:, 0] - features[:, 1])))
    weights = fit(features, truth.astype(float))
    assert weights == pytest.approx((0.5, 2.0, -1.0), abs=0.1)
    chances = np.array([probability(weights, row) for row in features.tolist()])
    assert calibration_error(chances, truth.astype(float)) < 0.01


def test_a_truth_without_exception_still_has_an_answer() -> None:
    weights = fit(np.arange(10.0)[:, None], np.ones(10))
    assert all(np.isfinite(weights))
    assert probability(weights, [5.0]) > 0.9


def test_the_calibration_error_of_one_who_is_too_sure() -> None:
    truth = np.array([1.0, 0.0] * 500)
    assert calibration_error(np.full(1000, 0.9), truth) == pytest.approx(0.4)
    assert calibration_error(np.full(1000, 0.5), truth) == pytest.approx(0.0)


def test_without_fitted_weights_it_is_the_mean_probability(tmp_path: Path) -> None:
    plain = Confidence.load(tmp_path)
    assert not plain.sentence
    assert not plain.word
    assert plain.of_sentence([np.log(0.5), np.log(0.5)], 3) == pytest.approx(0.5)
    assert plain.of_word([np.log(0.5), np.log(0.25)], []) == pytest.approx(0.25)


def test_a_file_is_read_strictly(tmp_path: Path) -> None:
    weights = {"sentence": [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], "word": [0.0] * 6}
    (tmp_path / FILE).write_text(json.dumps(weights))
    fitted = Confidence.load(tmp_path)
    assert fitted.sentence
    assert fitted.word
    assert fitted.of_sentence([-1.0], 1) < fitted.of_sentence([-0.1], 1)
    assert fitted.of_word([-3.0], [-3.0]) == pytest.approx(0.5)
    (tmp_path / FILE).write_text(json.dumps(weights | {"sentense": []}))
    with pytest.raises(RegardError, match="sentense"):
        Confidence.load(tmp_path)


def test_surer_tokens_give_more() -> None:
    one = Confidence(sentence=(0.0, 1.0, 0.5, -1.0, 0.0, 0.0), word=(0.0, 1.0, 0.5, 0.5, 0.0, 0.0))
    assert one.of_sentence([-0.1, -0.1], 2) > one.of_sentence([-0.1, -3.0], 2)
    assert one.of_word([-0.1], [-0.1, -3.0]) > one.of_word([-3.0], [-0.1, -3.0])
    assert 0 <= one.of_sentence([-1e9], 1) <= 1
