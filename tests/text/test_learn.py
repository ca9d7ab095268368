"""Tokenizers that are learnt: whatever goes in comes out, and the same texts give the same files."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizer_samples import ENGLISH, FRENCH, GERMAN, HOSTILE, SENTENCES, any_text

from regard.config import from_table
from regard.errors import ConfigError, InputError, TokenizerError
from regard.text.dual_tokenizer import DualTokenizer
from regard.text.hf_tokenizer import HFTokenizer
from regard.text.tokenizer import load, tag_piece
from regard.text.train_tokenizer import TokenizerSettings, learn

SOURCE = [*ENGLISH.splitlines(), *FRENCH.splitlines()] * 3
TARGET = GERMAN.splitlines() * 3
KINDS = [(kind, joint) for kind in ("bpe", "unigram") for joint in (True, False)]
LEARNT: dict[tuple[str, bool], HFTokenizer | DualTokenizer] = {}


def learnt(kind: Any, joint: bool) -> HFTokenizer | DualTokenizer:
    if (kind, joint) not in LEARNT:
        wanted = TokenizerSettings(kind=kind, vocab=420, joint=joint, tags=("de", "pt_BR"))
        LEARNT[kind, joint] = learn(wanted, SOURCE, TARGET)
    return LEARNT[kind, joint]


@pytest.mark.parametrize(("kind", "joint"), KINDS)
@settings(deadline=None, max_examples=150)
@given(text=any_text() | st.text())
@example("<s></s><unk><pad>>>de<<")
@example("<0x41> <0xC3><0xA4> ▁▁ Ġ")
@example(" \r\n\x00 \u2028\ufeff\U0010ffff ")
def test_any_text_comes_back(kind: str, joint: bool, text: str) -> None:
    tokenizer = learnt(kind, joint)
    ids = tokenizer.encode_target(text)
    assert tokenizer.decode(ids) == text
    assert ids.pop() == tokenizer.end
    assert all(number > 3 for number in ids)  # neither special nor unknown
    assert not set(ids) & {4, 5}  # nor a tag
    assert tokenizer.unknown not in tokenizer.encode(text)


@pytest.mark.parametrize(("kind", "joint"), KINDS)
def test_hard_sentences_come_back(kind: str, joint: bool) -> None:
    tokenizer = learnt(kind, joint)
    assert [tokenizer.decode(tokenizer.encode_target(text)) for text in SENTENCES] == SENTENCES


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("name", HOSTILE)
def test_long_texts_come_back_soon(kind: str, name: str) -> None:
    tokenizer, text = learnt(kind, True), HOSTILE[name][:200_000]
    started = time.process_time()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert time.process_time() - started < 15


@pytest.mark.parametrize(("kind", "joint"), KINDS)
def test_special_ids_are_where_they_belong(kind: str, joint: bool) -> None:
    tokenizer = learnt(kind, joint)
    assert (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.unknown) == (0, 1, 2, 3)
    assert [tokenizer.id_of(tag_piece(tag)) for tag in ("de", "pt_BR", "xx")] == [4, 5, None]
    assert tokenizer.decode([1, 4, *tokenizer.encode_target("Brot"), 0, 0]) == "Brot"
    assert tokenizer.pieces([4]) == tokenizer.pieces_target([4]) == [">>de<<"]


def test_case_is_kept_and_a_word_looks_the_same_everywhere() -> None:
    tokenizer = learnt("bpe", True)
    assert tokenizer.encode("fish") != tokenizer.encode("Fish")
    first, second = tokenizer.encode("fish"), tokenizer.encode("fish fish")
    assert second == [*first[:-1], *first]


@pytest.mark.parametrize(("kind", "joint"), KINDS)
def test_a_directory_gives_it_back(kind: str, joint: bool, tmp_path: Path) -> None:
    tokenizer = learnt(kind, joint)
    tokenizer.save(tmp_path)
    again = load(tmp_path)
    assert isinstance(again, HFTokenizer if joint else DualTokenizer)
    assert again.contents == tokenizer.contents
    assert (again.vocab, again.vocab_target) == (tokenizer.vocab, tokenizer.vocab_target)
    assert again.encode("The keeper <s>") == tokenizer.encode("The keeper <s>")
    assert again.encode_target("Das Brot") == tokenizer.encode_target("Das Brot")


def test_two_vocabularies_differ() -> None:
    tokenizer = learnt("bpe", False)
    assert tokenizer.encode("Bäckerin") != tokenizer.encode_target("Bäckerin")


SCRIPT = """
import hashlib, sys
from regard.text.train_tokenizer import TokenizerSettings, learn
texts = open(sys.argv[1], encoding="utf-8").read().split("\\n")
for kind in ("bpe", "unigram"):
    for content in learn(TokenizerSettings(kind=kind, vocab=400), texts, texts[:5]).contents.values():
        sys.stdout.write(hashlib.sha256(content).hexdigest())
"""


def test_the_same_texts_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("\n".join(SOURCE + TARGET), encoding="utf-8")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "texts")]
    runs = [subprocess.run(command, capture_output=True, check=True, timeout=60).stdout for _ in range(2)]
    assert runs[0] == runs[1] != b""


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_transformers_reads_the_same(kind: str, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    ours = learnt(kind, True)
    ours.save(tmp_path)
    theirs = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    for text in SENTENCES:
        assert theirs(text)["input_ids"] == ours.encode(text), text
        assert theirs.decode(ours.encode(text), skip_special_tokens=True) == text


@pytest.mark.parametrize("split", [True, False, None])
def test_split_special_tokens_is_honoured(split: bool | None, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    learnt("bpe", True).save(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    del config["split_special_tokens"]
    path.write_text(json.dumps(config if split is None else config | {"split_special_tokens": split}))
    ours = HFTokenizer.load(tmp_path)
    ids = ours.encode("a</s>>>de<<b")
    assert ids == PreTrainedTokenizerFast.from_pretrained(tmp_path)("a</s>>>de<<b")["input_ids"]
    assert (4 in ids) is not bool(split)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"kind": "words"}, "must be one of bpe, unigram"),
        ({"vocab": 260}, "vocab must be above 260"),
        ({"vocab": 261, "tags": ["de"]}, "vocab must be above 261"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1"),
        ({"tags": ["de", "de"]}, "appears twice"),
        ({"tags": [">>de<<"]}, "must start with a letter"),
        ({"tags": ["1"]}, "must start with a letter"),
        ({"vocabulary": 1000}, "did you mean 'vocab'"),
    ],
)
def test_settings_that_cannot_be(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^recipe: .*{message}"):
        from_table(TokenizerSettings, raw, "recipe")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_nothing_to_learn_from(kind: Any, texts: list[str]) -> None:
    with pytest.raises((InputError, ConfigError), match=r"^[^\n]+$"):
        learn(TokenizerSettings(kind=kind), texts, texts)


def test_a_unigram_vocabulary_without_room_for_the_alphabet() -> None:
    with pytest.raises(ConfigError, match=r"^cannot learn a unigram vocabulary of 3 pieces \([^\n]*\)$"):
        learn(TokenizerSettings(kind="unigram", vocab=263), SOURCE, TARGET)


def test_half_of_a_pair(tmp_path: Path) -> None:
    learnt("bpe", False).save(tmp_path)
    (tmp_path / "target_tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match=r"target_tokenizer\.json: is missing"):
        load(tmp_path)


def test_a_pair_that_does_not_agree(tmp_path: Path) -> None:
    learnt("bpe", False).save(tmp_path)
    raw = json.loads((tmp_path / "target_tokenizer.json").read_text())
    raw["model"]["vocab"]["<pad>"], raw["model"]["vocab"]["<s>"] = 1, 0
    for token in raw["added_tokens"][:2]:
        token["id"] = 1 - token["id"]
    (tmp_path / "target_tokenizer.json").write_text(json.dumps(raw))
    with pytest.raises(TokenizerError, match=r"target_tokenizer\.json: its pad token has the id 1, .* has 0$"):
        load(tmp_path)
    (tmp_path / "target_tokenizer.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"target_tokenizer\.json: cannot be used"):
        load(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("letter", ["\u200d", "\0", "x", "7", "\U0001f600"])
def test_an_endless_word_is_learned_in_parts(kind: Any, letter: str) -> None:
    """It took a minute, and all of it became one piece, which no tokenizer file may have."""
    texts = [*SOURCE, letter * 100_000]
    started = time.process_time()
    made = learn(TokenizerSettings(kind=kind, vocab=420), texts, [])
    assert time.process_time() - started < 20
    assert max(map(len, made.pieces(range(made.vocab)))) <= 4001
    assert made.decode(made.encode(texts[-1])) == texts[-1]
