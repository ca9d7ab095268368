"""A translation and its attention as one HTML file: no network, no build, nothing but the file."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from regard.pipeline import Translator
from regard.pipeline.loaded import Translation
from regard.pipeline.rendering import Word
from regard.text.tokenizer import Tokenizer
from regard.text.words import SPACES

DIGITS = 3
SPACE = "·"


def translation_page(model: Translator, text: str, found: Translation, words: Sequence[Word], about: str) -> str:
    """The page of a translation that was made before: every head of every layer, read off a second pass over it."""
    seen = model.trace(found)
    config = model.network.config
    names = {
        "cross": [f"decoder.blocks.{i}.cross.weights" for i in range(config.decoder_layers)],
        "encoder": [f"encoder.blocks.{i}.attention.weights" for i in range(config.encoder_layers)],
        "decoder": [f"decoder.blocks.{i}.attention.weights" for i in range(config.decoder_layers)],
    }
    source, target = seen["source_ids"][0].tolist(), seen["target_ids"][0].tolist()
    data: dict[str, Any] = {
        "text": text,
        "words": [{"text": word.text, "confidence": round(word.confidence, DIGITS)} for word in words],
        "about": about,
        "source": _readable(model.tokenizer, source, model.tokenizer.pieces(source)),
        "target": _readable(model.tokenizer, target, model.tokenizer.pieces_target(target)),
        "attention": {kind: [_rounded(seen[name][0].tolist()) for name in part] for kind, part in names.items()},
    }
    # "</script>" in a text must not end the script that holds it
    held = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = files("regard.explorer").joinpath("static/attention.html").read_text(encoding="utf-8")
    return page.replace("@DATA@", held)


def _readable(tokenizer: Tokenizer, ids: Sequence[int], pieces: Sequence[str]) -> list[str]:
    """Byte-level pieces spell bytes as other characters, so each is decoded; a dot is the space before a word."""
    shown = []
    for token, piece in zip(ids, pieces, strict=True):
        text = tokenizer.decode([token]).strip()
        shown.append((SPACE if piece.startswith(SPACES) else "") + text if text else piece)
    return shown


def _rounded(values: Any) -> Any:
    return [_rounded(one) for one in values] if isinstance(values, list) else round(values, DIGITS)
