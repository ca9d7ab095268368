"""Paragraphs written for these tests, texts that are hard on tokenizers, and how the small ones are trained."""

import io
import json
from collections.abc import Callable
from typing import Any

import sentencepiece
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ENGLISH = """The lighthouse keeper counted the ships every evening and wrote their names in a thick green book.
Nobody had asked him to do it, but after eleven years he couldn't stop; the book was his company.
When the fog came in, he wrote "nothing seen" and drew a small fish beside the words.
One winter a boat of 42 metres, the Marguerite, passed so close that he heard people laughing on the deck.
He waved his lantern three times, and someone waved back. It's the only page with two drawings on it!
His sister, who lived inland and didn't like the sea, asked what he would do with the book when it was full.
"Begin at the first page," he said, "and read it to the fish." She laughed; he was not joking."""

GERMAN = """Die Bäckerin stand jeden Morgen um drei Uhr auf, lange bevor die Straßenlaternen ausgingen.
Sie mochte die Stille, das Knistern des Ofens und den Geruch von Roggen und Kümmel.
Ihr Großvater hatte immer gesagt: „Ein Brot, das es eilig hat, schmeckt nach nichts.“
Also ließ sie den Teig ruhen, öffnete das Fenster und hörte den Amseln zu.
Um sechs kamen die ersten Kunden, müde und freundlich, und kauften 15 Brötchen für 4,50 Euro.
Über die Jahre lernte sie alle Namen, auch die der Hunde, die draußen warten mussten."""

FRENCH = """Le vieux facteur connaissait chaque chemin de la vallée, même ceux que la neige cachait en février.
Il disait qu'une lettre n'arrive jamais en retard : elle arrive quand on est prêt à la lire.
Un jour, il trouva au fond de son sac une enveloppe sans adresse, fermée d'un ruban bleu.
Où fallait-il la porter ? Il la garda près de la fenêtre, à côté du café et des clés.
L'été suivant, une fillette de huit ans s'arrêta devant sa porte et demanda : « C'est pour moi ? »
Il la lui donna sans un mot, et tous les deux éclatèrent de rire."""

LINES = [*ENGLISH.splitlines(), *GERMAN.splitlines(), *FRENCH.splitlines()]

SENTENCES = [
    *LINES,
    "",
    " ",
    "  two  spaces \t and a tab\n\nand two lines ",
    "The keeper's fish didn't laugh , did it ? I'm sure we've seen 'em !",
    "Zürich, naïve façade, coöperate; ﬁne ligatures, ½ and № 5, ＦＵＬＬ width",
    "שלום עולם, مرحبا بالعالم \u202e right to left \u202c",
    "你好，世界。日本語のテキスト 한국어",
    "👩‍👩‍👧‍👦 family, 🇫🇷 flag, e\u0301 combining, \u200b zero width, \ufeff mark",
    "NUL \x00 bell \x07 escape \x1b delete \x7f line separator \u2028",
    "▁ the mark itself ▁▁ <0x41><0x42> ## Ġ",
    "[CLS] a [MASK] b [SEP] <s> c </s> d <unk> <pad> <|endoftext|> e",
    "</s></s>x</s> <unk><pad",
    ">>fra<< The keeper. >>deu<<",
    ">>xyz<<unknown language",
    "</s>>>fra<< after an end, >>",
    ">> never closed",
    ">><<",
    "\U0010ffff\ue000\ufffe",
]

# any Unicode, but often enough something that a tokenizer treats in a way of its own
FRAGMENTS = [
    " ",
    "  ",
    "▁",
    "\n",
    "\x00",
    "the",
    " keeper",
    "ß",
    "é",
    "e\u0301",
    "😀",
    "[MASK]",
    "[SEP]",
    "</s>",
    "<s>",
]
FRAGMENTS += [
    "<unk>",
    "<pad>",
    "<|endoftext|>",
    ">>fra<<",
    ">>",
    "<<",
    "<0x0A>",
    "##",
    " .",
    " n't",
    "'s",
    "<",
    "aa",
    "a",
]

HOSTILE = {
    "one letter": "a" * 1_000_000,
    "spaces": " " * 1_000_000,
    "spaces, then a letter": " " * 1_000_000 + "a",
    "openings": ">>" * 500_000,
    "closings": ">>" + "<" * 1_000_000,
    "ends": "</s>" * 250_000,
    "half ends": "</s" * 333_333,
    "marks": "▁" * 333_333,
    "unknown": "\U0001f9ff" * 250_000,
}


def any_text() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map("".join)


# tokenizer.json


def wordpiece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=400, show_progress=False, special_tokens=special)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(16)  # as all-MiniLM's file does
    tokenizer.enable_padding(length=16)
    return tokenizer


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, show_progress=False, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Llama's: pieces learnt with "▁" for a space, then the 256 byte tokens put in between."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    learner.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=300, show_progress=False))
    learnt = json.loads(learner.to_str())["model"]
    fixed = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {piece: number for number, piece in enumerate([*fixed, *learnt["vocab"]])}
    merges = [(left, right) for left, right in learnt["merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(fixed[:3])
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    tokenizer.train_from_iterator(
        LINES, trainers.UnigramTrainer(vocab_size=300, show_progress=False, special_tokens=special, unk_token="<unk>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


# kind: how it is trained, config.json's model_type, tokenizer_config.json
BERT = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
END_OF_TEXT = dict.fromkeys(["bos_token", "eos_token", "unk_token"], "<|endoftext|>")
KINDS: dict[str, tuple[Callable[[], Tokenizer], str, dict[str, Any]]] = {
    "wordpiece": (wordpiece, "bert", {"tokenizer_class": "BertTokenizer", "do_lower_case": True} | BERT),
    "byte level": (
        byte_level,
        "gpt2",
        {"tokenizer_class": "GPT2Tokenizer", "clean_up_tokenization_spaces": True} | END_OF_TEXT,
    ),
    "byte fallback": (
        byte_fallback,
        "llama",
        {
            "tokenizer_class": "LlamaTokenizer",
            "legacy": False,
            "bos_token": {
                "__type": "AddedToken",
                "content": "<s>",
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            },
            "eos_token": "</s>",
            "unk_token": "<unk>",
        },
    ),
    "unigram": (
        unigram,
        "t5",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": True,
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
        },
    ),
}


# sentencepiece


def train_sentencepiece(lines: list[str], **settings: Any) -> bytes:
    model = io.BytesIO()
    quiet = {"minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **(quiet | settings))
    return model.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]
