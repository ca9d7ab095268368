"""Texts that are too long are truncated where sentence-transformers truncates them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

import regard
from regard.errors import InputTooLong, TokenizerError

theirs = pytest.importorskip("sentence_transformers", reason="sentence-transformers is the second opinion here")

CONTEXT, LONGEST = 32, 12
WORDS = ["the", "ferry", "leaves", "at", "noon", "and", "nobody", "has", "brought", "an", "umbrella"]
TEXTS = [" ".join((WORDS * 9)[:count]) for count in (1, 9, 10, 11, 99)]
TEXTS.append("[SEP] the [CLS] " + " ".join(WORDS * 2) + " [SEP]")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """A BERT saved by transformers, without a maximum length."""
    directory = tmp_path / "bert"
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), max_position_embeddings=CONTEXT, initializer_range=0.5, **sizes
    )
    transformers.BertModel(config).save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture
def sentences(bert: Path, tmp_path: Path) -> Path:
    """The same as saved by sentence-transformers today: the maximum length is in the tokenizer's settings."""
    model = theirs.SentenceTransformer(str(bert), device="cpu")
    model.max_seq_length = LONGEST
    model.save(str(tmp_path / "sentences"))
    return tmp_path / "sentences"


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def same_vectors(directory: Path, longest: int) -> None:
    model = theirs.SentenceTransformer(str(directory), device="cpu")
    assert model.max_seq_length == longest
    expected = model.encode(TEXTS, convert_to_tensor=True)
    assert (regard.load(directory, device="cpu").embed(TEXTS) - expected).abs().max() <= 1e-5


def test_as_it_is_saved_today(sentences: Path) -> None:
    same_vectors(sentences, LONGEST)


def test_as_it_was_saved_before(sentences: Path) -> None:
    """all-MiniLM-L6-v2 and its contemporaries."""
    (sentences / "sentence_bert_config.json").write_text('{"max_seq_length": 9, "do_lower_case": false}')
    pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (sentences / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    same_vectors(sentences, 9)


def test_only_the_context_is_a_limit(sentences: Path) -> None:
    change(sentences / "tokenizer_config.json", model_max_length=int(1e30))
    same_vectors(sentences, CONTEXT)


def test_the_limit_travels(sentences: Path, tmp_path: Path) -> None:
    model = regard.load(sentences, device="cpu")
    for style in ("regard", "huggingface"):
        model.save(tmp_path / style, style)  # type: ignore[arg-type]
        assert torch.equal(regard.load(tmp_path / style, device="cpu").embed(TEXTS), model.embed(TEXTS))
    same_vectors(tmp_path / "huggingface", LONGEST)


def test_nothing_is_truncated_without_a_limit(bert: Path, sentences: Path) -> None:
    with pytest.raises(InputTooLong, match=f"at most {CONTEXT}") as caught:
        regard.load(bert, device="cpu").embed(TEXTS)
    assert caught.value.index == 4
    with pytest.raises(InputTooLong, match=f"at most {CONTEXT}"):
        regard.load(sentences, device="cpu").trace(TEXTS[4])


@pytest.mark.parametrize("limit", [0, -1, True, "12", [12]])
def test_an_invalid_limit(sentences: Path, limit: object) -> None:
    change(sentences / "sentence_bert_config.json", max_seq_length=limit)
    with pytest.raises(TokenizerError, match="'max_seq_length' must be a number of at least 1"):
        regard.load(sentences, device="cpu")
