"""Texts -> a tokenizer learned from them.

Both kinds split a text into words, numbers and punctuation (GPT-2's rule) and then each word into pieces. A space
belongs to the word after it, and the first word gets one too, so that a word looks the same everywhere. Nothing is
normalized and nothing is unknown: any text comes back exactly.

bpe       words as bytes; pairs of pieces are merged in the order in which they were learned
unigram   words as characters; the most likely pieces; a character without a piece becomes its bytes

The same texts and settings give the same files, byte for byte. That is why `sentencepiece` learns the unigram
pieces: the trainer of `tokenizers` starts from a hash table in random order, and its runs differ.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from regard.config import check_range
from regard.errors import ConfigError, InputError, one_line
from regard.text.dual_tokenizer import SOURCE_FILE, TARGET_FILE, DualTokenizer
from regard.text.hf_tokenizer import MAIN_FILE, HFTokenizer
from regard.text.tokenizer import tag_piece

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # ids 0 to 3; <unk> exists for formats that need one, and is never used
END = "</s>"
# Letters, digits and the rest never share a word, so no text can become "<s>", ">>de<<" or "<0x41>" by mistake.
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESERVED = set("\t\n\r\0▁")
"""Characters that sentencepiece uses itself; words with them use the pieces learned from other words."""
MAX_VOCAB = 1_000_000
"""`tokenizers` reserves memory for all of them at once, and aborts the process when there is too little."""
LONG_WORD = re.compile(r"\w{1000}|[^\w\s]{1000}|\s{1000}")
"""Is cut for learning: a word of 100,000 characters takes a minute, and all of it can become one piece."""
MIN_PAIR_COUNT = 2
"""A pair that occurs once teaches nothing."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """[tokenizer] of a recipe: how texts become tokens."""

    kind: Literal["bpe", "unigram"] = "bpe"
    vocab: int = 10_000
    """Total number of pieces, with special ones and bytes; a small corpus may give fewer."""
    joint: bool = True
    """One vocabulary for both languages, or one per language."""
    dropout: float = 0.0
    """Training only: the probability that a merge (bpe) or a piece (unigram) is skipped, so that segmentations vary."""
    tags: tuple[str, ...] = ()
    """Target languages of a model with several: 'de' becomes the piece >>de<< before the source."""

    def __post_init__(self) -> None:
        check_range("dropout", self.dropout, least=0, below=1)
        if len(set(self.tags)) < len(self.tags):
            raise ConfigError("a tag appears twice in tags")
        for tag in self.tags:
            if not TAG.fullmatch(tag):
                raise ConfigError(f"tag '{tag}': must start with a letter and have only letters, digits, _ and -")
        if self.vocab <= self.fixed_pieces:
            raise ConfigError(
                f"vocab must be above {self.fixed_pieces} (special pieces, tags and bytes), not {self.vocab}"
            )
        if self.vocab > MAX_VOCAB:
            raise ConfigError(f"vocab must be at most {MAX_VOCAB:,}, not {self.vocab:,}")

    @property
    def fixed_pieces(self) -> int:
        """Pieces that exist before anything is learned."""
        return len(SPECIAL) + len(self.tags) + 256


def learn(settings: TokenizerSettings, source: Iterable[str], target: Iterable[str]) -> HFTokenizer | DualTokenizer:
    """Learn the tokenizer of a translation model; its `save` writes it into the model's directory."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "<pad>",
        "bos_token": "<s>",
        "eos_token": END,
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
    }
    contents = {"tokenizer_config.json": (json.dumps(config, indent=2) + "\n").encode()}
    if settings.joint:
        return HFTokenizer(contents | {MAIN_FILE: _learn(settings, chain(source, target))}, Path())
    contents |= {SOURCE_FILE: _learn(settings, source), TARGET_FILE: _learn(settings, target)}
    return DualTokenizer(contents, Path())


def _learn(settings: TokenizerSettings, texts: Iterable[str]) -> bytes:
    """The content of a tokenizer.json."""
    cut = (LONG_WORD.sub(r"\g<0> ", text) for text in texts)
    tokenizer = {"bpe": _bpe, "unigram": _unigram}[settings.kind](settings, cut)
    tokenizer.post_processor = processors.TemplateProcessing(f"$A {END}", None, [(END, SPECIAL.index(END))])
    content: str = tokenizer.to_str(pretty=True)
    return (content + "\n").encode("utf-8")


def _special(settings: TokenizerSettings) -> list[str]:
    return [*SPECIAL, *map(tag_piece, settings.tags)]


def _bpe(settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab,
        min_frequency=MIN_PAIR_COUNT,
        special_tokens=_special(settings),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == settings.fixed_pieces:
        raise InputError("too little text to learn a tokenizer from")
    return tokenizer


def _unigram(settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    normalizer, splitter = normalizers.Prepend(" "), pre_tokenizers.Split(Regex(WORDS), "isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    learned = _sentencepiece(counts, settings.vocab - settings.fixed_pieces)
    fixed = [*_special(settings), *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [*((piece, 0.0) for piece in fixed), *learned]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL.index("<unk>"), byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(_special(settings))
    return tokenizer


def _sentencepiece(counts: Counter[str], vocab: int) -> list[tuple[str, float]]:
    """Pieces and their log-probabilities, learned from words and their counts."""
    rows = [f"{word}\t{count}" for word, count in sorted(counts.items()) if not RESERVED & set(word)]
    if not rows:
        raise InputError("too little text to learn a tokenizer from")
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(rows),
            model_writer=written,
            input_format="tsv",
            model_type="unigram",
            vocab_size=vocab + 1,  # it requires an <unk>, which is removed below
            hard_vocab_limit=False,
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:  # a vocabulary too small for the alphabet
        raise ConfigError(f"cannot learn a unigram vocabulary of {vocab} pieces ({one_line(error)})") from None
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [(model.id_to_piece(i).replace("▁", " "), model.get_score(i)) for i in range(1, len(model))]
