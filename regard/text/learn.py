"""Texts -> a tokenizer that was learnt from them.

Both kinds cut any text at the borders of words, numbers and punctuation (GPT-2's rule) and then each word into
pieces. A space belongs to the word after it, and one is put before the first word, so that a word looks the same
everywhere. Nothing is normalised and nothing is unknown: what is encoded comes back exactly, whatever it is.

bpe       words as bytes, pairs of pieces merged in the order they were learnt
unigram   words as characters, the likeliest pieces; a character without a piece becomes its bytes

The same texts and settings give the same files, byte for byte. That is why `sentencepiece` learns the unigram
pieces: the trainer of `tokenizers` starts from a hash table in random order, and no two of its runs agree.
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

from regard.errors import ConfigError, InputError
from regard.text.dual_tokenizer import SOURCE_FILE, TARGET_FILE, DualTokenizer
from regard.text.files import one_line
from regard.text.hf_tokenizer import MAIN_FILE, HFTokenizer
from regard.text.tokenizer import tag_piece

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")  # ids 0 to 3; <unk> is there for formats that want one, and never comes out
END = "</s>"
# Letters, digits and the rest never share a word, so no text can be cut to "<s>", ">>de<<" or "<0x41>" by mistake.
WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TAG = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESERVED = set("\t\n\r\0▁")
"""What sentencepiece uses itself; words with them are cut by the pieces learnt from others."""
LEAST_COUNT = 2
"""A pair that occurs once teaches nothing."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How texts become tokens."""

    kind: Literal["bpe", "unigram"] = "bpe"
    vocab: int = 10_000
    """Pieces in all, special ones and bytes included; a small corpus may give fewer."""
    joint: bool = True
    """One vocabulary for both languages, or one for each."""
    dropout: float = 0.0
    """Training only: the chance that a merge (bpe) or a piece (unigram) is passed over, so that words vary."""
    tags: tuple[str, ...] = ()
    """Target languages of a model that has several: 'de' becomes the piece >>de<< in front of the source."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be at least 0 and below 1, not {self.dropout}")
        if len(set(self.tags)) < len(self.tags):
            raise ConfigError("a tag is there twice")
        for tag in self.tags:
            if not TAG.fullmatch(tag):
                raise ConfigError(f"the tag '{tag}' must be a letter, then letters, digits, _ and -")
        if self.vocab <= self.fixed:
            raise ConfigError(f"vocab must be above {self.fixed} (special pieces, tags and bytes), not {self.vocab}")

    @property
    def fixed(self) -> int:
        """Pieces that are there before anything is learnt."""
        return len(SPECIAL) + len(self.tags) + 256


def learn(settings: TokenizerSettings, source: Iterable[str], target: Iterable[str]) -> HFTokenizer | DualTokenizer:
    """The tokenizer of a translation model; its `save` puts it into the model's directory."""
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
    """tokenizer.json"""
    tokenizer = {"bpe": _bpe, "unigram": _unigram}[settings.kind](settings, texts)
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
        min_frequency=LEAST_COUNT,
        special_tokens=_special(settings),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() == settings.fixed:
        raise InputError("there is too little text to learn a tokenizer from")
    return tokenizer


def _unigram(settings: TokenizerSettings, texts: Iterable[str]) -> Tokenizer:
    normalizer, splitter = normalizers.Prepend(" "), pre_tokenizers.Split(Regex(WORDS), "isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    learnt = _sentencepiece(counts, settings.vocab - settings.fixed)
    fixed = [*_special(settings), *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = [*((piece, 0.0) for piece in fixed), *learnt]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=SPECIAL.index("<unk>"), byte_fallback=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(_special(settings))
    return tokenizer


def _sentencepiece(counts: Counter[str], vocab: int) -> list[tuple[str, float]]:
    """Pieces and their log-probabilities, learnt from words and how often they occur."""
    rows = [f"{word}\t{count}" for word, count in sorted(counts.items()) if not RESERVED & set(word)]
    if not rows:
        raise InputError("there is too little text to learn a tokenizer from")
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(rows),
            model_writer=written,
            input_format="tsv",
            model_type="unigram",
            vocab_size=vocab + 1,  # it insists on an <unk>, which is left out below
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
    except RuntimeError as error:  # a vocabulary that cannot hold the alphabet
        raise ConfigError(f"a unigram vocabulary of {vocab} learnt pieces cannot be made ({one_line(error)})") from None
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    return [(model.id_to_piece(i).replace("▁", " "), model.get_score(i)) for i in range(1, len(model))]
