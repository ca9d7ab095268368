"""Tiny models of every family and tokenizers of every kind, as the tests make them."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("weights", "text")]

TEXT = "w5 w6 w7 w8"
"""For the models of `models`, whose vocabularies have w0 to w29."""


def models(folder: Path) -> dict[str, str]:
    """Model directories of every family in both formats, and more; name -> the family of the model."""
    from weight_samples import EVERY, NAMES

    found: dict[str, str] = {}
    for name, (kind, config) in zip(NAMES, EVERY, strict=True):
        for style in ("regard", "huggingface"):
            _save(folder / f"{name} {style}", kind, config, style)
            found[f"{name} {style}"] = kind
    _add_int8(folder, found)
    translator(folder)
    _add_shards(folder / "llama-0 huggingface", folder / "sharded")
    _add_llama2c(folder / "llama2c")
    return found | {"translator": "marian", "sharded": "llama", "llama2c": "llama"}


def _save(directory: Path, kind: str, config: Any, style: str) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from weight_samples import saved

    from regard.models.config import GenerationConfig

    if kind == "vit":
        return Path(saved(directory, config, style))
    saved(directory, config, style, GenerationConfig(start=1, end=(2,), pad=0))
    pieces = getattr(config, "source_vocab", None) or config.vocab
    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(pieces)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text('{"mask_token": "w4", "pad_token": "w0", "unk_token": "w0"}')
    return directory


def _add_int8(folder: Path, found: dict[str, str]) -> None:
    import regard
    from regard.weights.quantize import quantize

    for name in ("marian-0", "bert-3", "llama-0"):
        model = regard.load(folder / f"{name} regard", device="cpu")
        quantize(model.network)
        model.save(folder / f"{name} int8")
        found[f"{name} int8"] = found[f"{name} regard"]


def translator(folder: Path) -> Path:
    """A translation model with a shortlist, a card, a confidence and languages."""
    from weight_samples import SAMPLES

    import regard
    from regard.tasks import TranslationModel
    from regard.weights.quantize import quantize

    plain = _save(folder / "plain", "marian", SAMPLES["marian"][0], "regard")
    model = regard.load(plain, device="cpu")
    shutil.rmtree(plain)
    assert isinstance(model, TranslationModel)
    quantize(model.network)
    model.learn_shortlist([(TEXT, TEXT)])
    directory = folder / "translator"
    model.save(directory)
    card = {"name": "tiny", "about": "nothing", "pairs": ["en-de"], "figures": [{"pair": "en-de", "BLEU": "1"}]}
    (directory / "card.json").write_text(json.dumps(card | {"data": ["none"], "limits": ["all"]}))
    weights = {"sentence": [0.5] * 6, "word": [0.5] * 6, "error": {"sentence": 0.1}}
    (directory / "confidence.json").write_text(json.dumps(weights))
    languages = json.loads((Path(regard.__file__).parent / "box" / "languages.json").read_text())
    (directory / "languages.json").write_text(json.dumps(_shortened(languages), ensure_ascii=False))
    return directory


def _shortened(value: Any) -> Any:
    """The same with at most 40 entries in each list and table."""
    if isinstance(value, dict):
        return {key: _shortened(inside) for key, inside in list(value.items())[:40]}
    return [_shortened(inside) for inside in value[:40]] if isinstance(value, list) else value


def _add_shards(source: Path, directory: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(source, directory)
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    places = {name: f"{'ab'[i % 2]}.safetensors" for i, name in enumerate(names)}
    for file in ("a.safetensors", "b.safetensors"):
        save_file({name: tensors[name].clone() for name in names if places[name] == file}, directory / file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def _add_llama2c(directory: Path) -> None:
    """stories.bin and tokenizer.bin of llama2.c."""
    import struct

    width, inner, layers, heads, kv_heads, vocab, context = numbers = (8, 12, 2, 4, 2, 262, 16)
    keys = kv_heads * width // heads
    per_layer = 2 * width + 2 * width * width + 2 * keys * width + 3 * width * inner
    count = vocab * width + layers * per_layer + width + context * width // heads
    directory.mkdir()
    floats = b"".join(struct.pack("<f", (i * 37 % 101 - 50) / 50) for i in range(count))
    (directory / "model.bin").write_bytes(struct.pack("<7i", *numbers) + floats)
    (directory / "tokenizer.bin").write_bytes(llama2c_tokenizer())


def llama2c_tokenizer() -> bytes:
    import struct

    words = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", "ab"]
    pieces = [word.encode() for word in words]
    longest = max(map(len, pieces))
    return struct.pack("<I", longest) + b"".join(
        struct.pack("<fI", float(-i), len(piece)) + piece for i, piece in enumerate(pieces)
    )


def tokenizers(folder: Path) -> list[str]:
    """Directories with the files of a tokenizer of each kind, without a model."""
    from tokenizer_samples import KINDS, SENTENCES

    for kind, (train, model_type, settings) in KINDS.items():
        directory = folder / kind
        directory.mkdir()
        train().save(str(directory / "tokenizer.json"))
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
        (directory / "config.json").write_text(json.dumps({"model_type": model_type}))
    for side in ("source", "target"):
        (folder / "dual").mkdir(exist_ok=True)
        (folder / "dual" / f"{side}_tokenizer.json").write_bytes((folder / "unigram" / "tokenizer.json").read_bytes())
    (folder / "llama2c").mkdir()
    (folder / "llama2c" / "tokenizer.bin").write_bytes(llama2c_tokenizer())
    _marian(folder / "marian", SENTENCES, separate=False)
    _marian(folder / "marian separate", SENTENCES, separate=True)
    return sorted(path.name for path in folder.iterdir())


def _marian(directory: Path, sentences: list[str], separate: bool) -> None:
    from tokenizer_samples import pieces_of, train_sentencepiece

    directory.mkdir()
    # identity: the usual normalization is a table of 240 kB
    model = train_sentencepiece(sentences, vocab_size=150, normalization_rule_name="identity")
    pieces = ["</s>", "<unk>", *pieces_of(model), "<pad>", ">>fra<<"]
    for name in ("source.spm", "target.spm"):
        (directory / name).write_bytes(model)
    for name in ("vocab.json", "target_vocab.json") if separate else ("vocab.json",):
        (directory / name).write_text(json.dumps({piece: i for i, piece in enumerate(dict.fromkeys(pieces))}))
    config = {"source_lang": "en", "target_lang": "fr", "separate_vocabs": separate}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    special = {"eos_token": "</s>", "unk_token": {"content": "<unk>", "lstrip": False}, "pad_token": "<pad>"}
    (directory / "special_tokens_map.json").write_text(json.dumps(special))
