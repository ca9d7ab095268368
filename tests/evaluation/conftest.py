"""An untrained translation model: enough to compute probabilities."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.models.config import GenerationConfig, Seq2SeqConfig
from regard.models.initialize import initialize
from regard.models.seq2seq import Seq2Seq
from regard.tasks import TranslationModel
from regard.text.train_tokenizer import TokenizerSettings, learn

ENGLISH = ["The keeper counts the boats.", "He reads a book.", "The boats are old and the book is new.", "Fish!"]
GERMAN = ["Der Wärter zählt die Boote.", "Er liest ein Buch.", "Die Boote sind alt, und das Buch ist neu.", "Fisch!"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def toy() -> TranslationModel:
    tokenizer = learn(TokenizerSettings(vocab=300, tags=("de",)), ENGLISH, GERMAN)
    network = Seq2Seq(
        Seq2SeqConfig(vocab=304, width=32, heads=4, inner=64, encoder_layers=2, decoder_layers=2, context=40)
    )
    initialize(network, seed=3)
    with torch.no_grad():  # sharper: at first all tokens are about equally likely
        for parameter in network.parameters():
            parameter.mul_(2.0)
    assert tokenizer.start is not None
    assert tokenizer.end is not None
    assert tokenizer.pad is not None
    generation = GenerationConfig(start=tokenizer.start, end=(tokenizer.end,), pad=tokenizer.pad, max_tokens=12)
    return TranslationModel(network.eval(), generation, tokenizer, Path("toy"))


@pytest.fixture(scope="session")
def pairs() -> list[tuple[str, str]]:
    return list(zip(ENGLISH, GERMAN, strict=True))
